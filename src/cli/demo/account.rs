//! The account: what came, what was decided, and why, for a reader or a program.

use std::time::Instant;

use owo_colors::OwoColorize as _;
use serde::Serialize;

use super::super::failure::Failure;
use super::super::out::Out;
use super::stage::Said;
use super::stories::{Message, Story};
use crate::domain::{Cause, Entity, Entry, Position, Recorded};

/// What is told, line by line, or as one document at the end.
pub(super) struct Account<'a> {
    out: &'a Out,
    began: Instant,
    shown: Option<Position>,
    stories: Vec<Told>,
}

/// A story as it went.
#[derive(Serialize)]
struct Told {
    title: &'static str,
    why: &'static str,
    lines: Vec<Line>,
    wrong: Vec<String>,
}

/// One line of a story.
#[derive(Serialize)]
#[serde(tag = "line", rename_all = "snake_case")]
enum Line {
    Sent {
        source: String,
        what: String,
        event_id: String,
        status: u16,
        answer: String,
    },
    SentAtOnce {
        source: String,
        what: String,
        event_id: String,
        count: usize,
        accepted: usize,
        duplicates: usize,
    },
    Upstream {
        is: String,
    },
    Waiting {
        events: u64,
    },
    Decided {
        entity: String,
        from: Option<String>,
        to: Option<String>,
        outcome: &'static str,
        rule: &'static str,
        why: String,
    },
}

/// The whole account as JSON.
#[derive(Serialize)]
struct Document<'a> {
    address: &'a str,
    ok: bool,
    seconds: f64,
    fetches: usize,
    stories: &'a [Told],
    entities: Vec<Ended>,
}

/// One entity at the end.
#[derive(Serialize)]
struct Ended {
    entity: String,
    state: String,
    entries: u64,
}

impl<'a> Account<'a> {
    pub(super) fn begin(out: &'a Out, address: &str) -> Result<Self, Failure> {
        if !out.is_json() {
            out.line(&format!(
                "{} takes webhooks on {address}\n\nSigned Stripe, Paddle and Standard Webhooks deliveries, the wrong way \
                 round, twice, forged and too late.\nAn upstream API on loopback is asked when no webhook can decide. \
                 For the demo, confirm_after and the retry\ntimes are 200 ms (15 s and 5 s to 1 h as shipped).",
                "Tollgate".bold()
            ))?;
        }
        Ok(Self { out, began: Instant::now(), shown: None, stories: Vec::new() })
    }

    /// The position of the last entry that was told.
    pub(super) fn shown(&self) -> Option<Position> {
        self.shown
    }

    pub(super) fn story(&mut self, story: &Story) -> Result<(), Failure> {
        let Story { title, why, acts: _, ends: _ } = story;
        self.stories.push(Told { title, why, lines: Vec::new(), wrong: Vec::new() });
        self.say(&format!("\n{:>2}. {}\n    {}", self.stories.len(), title.bold(), why.dimmed()))
    }

    pub(super) fn sent(&mut self, message: &Message, said: &Said) -> Result<(), Failure> {
        let good = said.status == 200;
        let answer = format!("{} {}", said.status, said.word);
        let shown = if good { answer.green().to_string() } else { answer.yellow().to_string() };
        self.say(&format!("    came     {:<9} {:<46} -> {shown}", message.source, named(message)))?;
        self.keep(Line::Sent {
            source: message.source.to_owned(),
            what: message.what.clone(),
            event_id: message.id.clone(),
            status: said.status,
            answer: said.word.clone(),
        });
        Ok(())
    }

    pub(super) fn sent_at_once(
        &mut self,
        message: &Message,
        count: usize,
        accepted: usize,
        duplicates: usize,
    ) -> Result<(), Failure> {
        let answer = format!("{accepted} accepted, {duplicates} duplicate");
        let what = format!("{count} times {}", named(message));
        self.say(&format!("    came     {:<9} {what:<46} -> {}", message.source, answer.green()))?;
        let (source, event_id) = (message.source.to_owned(), message.id.clone());
        self.keep(Line::SentAtOnce { source, what: message.what.clone(), event_id, count, accepted, duplicates });
        Ok(())
    }

    pub(super) fn upstream_has(&mut self, path: &str, body: &str) -> Result<(), Failure> {
        let state = body.split("\"status\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        self.upstream_is(&format!("at {path}: {state}"))
    }

    pub(super) fn upstream_is(&mut self, what: &str) -> Result<(), Failure> {
        self.say(&format!("    upstream {}", what.cyan()))?;
        self.keep(Line::Upstream { is: what.to_owned() });
        Ok(())
    }

    pub(super) fn decided(&mut self, entries: &[Recorded]) -> Result<(), Failure> {
        for Recorded { position, entity, entry } in entries {
            self.shown = Some(*position);
            let state = |state: &Option<crate::domain::StateName>| state.as_ref().map(ToString::to_string);
            let (from, to) = (state(&entry.states.from), state(&entry.states.to));
            let dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
            let moved = if entry.is_move() {
                format!("{} -> {}", dash(&from), dash(&to)).bold().to_string()
            } else {
                format!("stays {}", dash(&to))
            };
            let (outcome, rule) = (entry.outcome.as_str(), entry.rule.as_str());
            let why = why(entry);
            self.say(&format!("    decided  {moved}, {outcome} by rule {rule}: {why}"))?;
            self.keep(Line::Decided { entity: entity.to_string(), from, to, outcome, rule, why });
        }
        Ok(())
    }

    /// Says that events wait for their next try.
    pub(super) fn waiting(&mut self, retries: u64) -> Result<(), Failure> {
        self.say(&format!("    waits    {} can't be decided now, and is tried again", counted(retries, "event")))?;
        self.keep(Line::Waiting { events: retries });
        Ok(())
    }

    pub(super) fn ended(&mut self, story: &Story, wrong: &[String]) -> Result<(), Failure> {
        for what in wrong {
            self.say(&format!("    {} {what}", "WRONG".red().bold()))?;
        }
        if wrong.is_empty() {
            let ends: Vec<String> = story.ends.iter().map(ToString::to_string).collect();
            self.say(&format!("    {}       {}", "ok".green().bold(), ends.join("; ")))?;
        }
        if let Some(told) = self.stories.last_mut() {
            wrong.clone_into(&mut told.wrong);
        }
        Ok(())
    }

    /// The final states. Answers how many stories ended wrongly.
    pub(super) fn close(&mut self, entities: &[Entity], fetches: usize, address: &str) -> Result<usize, Failure> {
        let wrong = self.stories.iter().filter(|told| !told.wrong.is_empty()).count();
        let ended: Vec<Ended> = entities.iter().filter(|entity| entity.is_known()).map(ended).collect();
        let seconds = self.began.elapsed().as_secs_f64();
        if self.out.is_json() {
            let (stories, ok) = (self.stories.as_slice(), wrong == 0);
            self.out.document(&Document { address, ok, seconds, fetches, stories, entities: ended })?;
            return Ok(wrong);
        }
        self.say(&format!("\n{}", "In the end".bold()))?;
        let rows: Vec<Vec<String>> =
            ended.into_iter().map(|end| vec![end.entity, end.state, end.entries.to_string()]).collect();
        self.out.table(&["entity", "state", "entries"], &rows, "nothing")?;
        let total = self.stories.len();
        let verdict = format!("{} of {total} stories ended as they must", total - wrong);
        let verdict = if wrong == 0 { verdict.green().to_string() } else { verdict.red().to_string() };
        self.say(&format!("\n{verdict}, in {seconds:.1} s; the upstream was asked {fetches} times."))?;
        Ok(wrong)
    }

    /// How to go on.
    pub(super) fn serving(&self, address: &str, key: Option<&std::path::Path>) -> Result<(), Failure> {
        let key = key.map(|key| key.display().to_string()).unwrap_or_default();
        self.say(&format!(
            "\nStill serving on {address}. In another terminal:\n  \
             tollgate entity list --server {address} --key-file {key}\n  \
             tollgate log list --server {address} --key-file {key}\n  \
             tollgate dead-letter list --server {address} --key-file {key}\nCtrl-C ends it."
        ))
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        if self.out.is_json() { Ok(()) } else { self.out.line(text) }
    }

    fn keep(&mut self, line: Line) {
        if let Some(told) = self.stories.last_mut() {
            told.lines.push(line);
        }
    }
}

/// `1 event`, `2 events`.
fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// What came, in a few words.
fn named(message: &Message) -> String {
    let mut text = format!("{} {}", message.what, message.id);
    if message.forged {
        text.push_str(", forged");
    }
    if message.signed_ago_s > 0 {
        text = format!("{text}, {} min old", message.signed_ago_s / 60);
    }
    text
}

/// Why it was decided so: what went wrong, or the rule's meaning and whether that made us ask.
fn why(entry: &Entry) -> String {
    match (&entry.reason, &entry.cause) {
        (Some(reason), _) => reason.to_string(),
        (None, Cause::Fetch) => format!("{}, so the upstream was asked", entry.rule.meaning()),
        (None, Cause::Webhook | Cause::Check | Cause::Command(_)) => entry.rule.meaning().to_owned(),
    }
}

fn ended(entity: &Entity) -> Ended {
    let states: Vec<String> = entity.ladder().machines.values().map(|held| held.state.to_string()).collect();
    Ended { entity: entity.key.to_string(), state: states.join(", "), entries: entity.version }
}
