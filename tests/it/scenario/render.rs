//! The words of a story. Everything of an entity is shown: a new field cannot be forgotten, since it is taken apart
//! in full.

use std::fmt::Write as _;

use tollgate::domain::query::DeadLetter;
use tollgate::domain::{
    Admission, Admit, Answer as Seen, Body, Cause, Check, CheckChange, Entity, Entry, Event, FlagChange, Item,
    LadderBody, MachineRef, MachineState, Outcome, Position, Recorded, Timestamp,
};
use tollgate::machine::Machine;

use super::story::Answer;
use super::upstream::{Asked, Question};

pub(crate) struct Text(String);

impl Text {
    pub(crate) fn titled(title: &str, about: &str) -> Self {
        Self(format!("{title}\n\n{}\n", about.trim()))
    }

    pub(crate) fn gap(&mut self) {
        self.line("");
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.gap();
        self.line(text);
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.heading(text);
    }

    pub(crate) fn passed(&mut self, seconds: f64) {
        self.line(&format!("  ... {seconds} s pass"));
    }

    pub(crate) fn upstream(&mut self, answer: &Answer) {
        let question = Question::of(answer);
        let body = answer.body.split_whitespace().collect::<Vec<_>>().join(" ");
        let what = match (answer.status, body.as_str()) {
            (0, _) => "is not answered".to_owned(),
            (status, "") => format!("is answered {status}"),
            (status, body) => format!("is answered {status} {body}"),
        };
        self.line(&format!("  From now on GET {question} {what}"));
    }

    pub(crate) fn loaded(&mut self, machine: &Machine) {
        self.line(&format!("  From now on the machine {} has version {}", machine.name(), machine.version()));
    }

    pub(crate) fn busy(&mut self) {
        self.detail("it waits in the queue");
    }

    pub(crate) fn refused(&mut self, now: Timestamp, why: &str) {
        self.line(&format!("  {} refused    {why}", clock(now)));
    }

    pub(crate) fn received(&mut self, now: Timestamp, item: &Item, admission: &Admission) {
        let event = &item.event;
        let claims: Vec<String> = event.claims.iter().map(|(machine, claim)| format!("{machine} {claim}")).collect();
        let about = event.entity.as_ref().map_or("no entity".to_owned(), ToString::to_string);
        let answer = match admission {
            Admission::Accepted(position) => format!("accepted at {position}"),
            Admission::Duplicate(first) => format!("duplicate of {first}"),
            Admission::Conflict { first, dead } => format!("conflict with {first}, dead letter {dead}"),
        };
        self.line(&format!("  {} received   {}: {about}; {answer}", clock(now), named(event)));
        let order = format!("ordered by {}", event.order_key);
        match &item.admit {
            Admit::Queue => self.detail(&format!("claims {}; {order}", claims.join(", "))),
            Admit::Record => self.detail("recorded only"),
            Admit::DeadLetter(reason) => self.detail(&format!("dead letter: {reason}")),
        }
    }

    pub(crate) fn replayed(&mut self, now: Timestamp, dead: Position, position: Position) {
        self.line(&format!("  {} replayed   dead letter {dead} by anna, as {position}", clock(now)));
    }

    pub(crate) fn asked(&mut self, now: Timestamp, asked: &Asked) {
        let Asked { after: _, question, came } = asked;
        self.line(&format!("  {} asked      GET {question}: {came}", clock(now)));
    }

    pub(crate) fn waits(&mut self, now: Timestamp, events: u64, next: Option<Timestamp>) {
        let what = if events == 1 { "1 event waits".to_owned() } else { format!("{events} events wait") };
        let next = next.map_or("never".to_owned(), clock);
        self.line(&format!("  {} waits      {what} for another try; the next one is at {next}", clock(now)));
    }

    pub(crate) fn decided(&mut self, recorded: &Recorded) {
        let entry = &recorded.entry;
        let why = format!("{} (rule {}, {})", entry.outcome.as_str(), entry.rule.as_str(), cause(entry));
        self.line(&format!("  {} decided    {}: {why}", clock(entry.decided_at), what(recorded)));
        if let Some(reason) = &entry.reason {
            self.detail(&reason.to_string());
        }
        if let Some(change) = entry.fields.as_ref().filter(|change| !change.set.is_empty()) {
            let set: Vec<String> = change.set.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            self.detail(&format!("fields {}", set.join(", ")));
        }
        match &entry.check {
            Some(CheckChange::Set(check)) => {
                self.detail(&format!("looks again at {} ({})", clock(check.due), check.reason.as_str()));
            }
            Some(CheckChange::Cleared) => self.detail("needs no further look"),
            None => {}
        }
        for flag in &entry.flags {
            match flag {
                FlagChange::Set(flag) => self.detail(&format!("flagged {}", flag.as_str())),
                FlagChange::Cleared(flag) => self.detail(&format!("no longer flagged {}", flag.as_str())),
            }
        }
    }

    pub(crate) fn entity(&mut self, entity: &Entity) {
        let Entity { key, version, decided_at, flags, check, body: Body::Ladder(body) } = entity;
        let LadderBody { machines, fields, fields_key, fields_event, fetched } = body;
        self.line(&format!("  {key}: version {version}, last decided {}", clock(*decided_at)));
        for (name, MachineState { state, key, machine_version, since }) in machines {
            self.detail(&format!("{name} (version {machine_version}) is {state} since {}, as of {key}", clock(*since)));
        }
        if !fields.is_empty() {
            let all: Vec<String> = fields.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let from = fields_event.as_ref().map_or("a fetch".to_owned(), ToString::to_string);
            let key = fields_key.map(|key| key.to_string()).unwrap_or_default();
            self.detail(&format!("fields of {from} as of {key}: {}", all.join(", ")));
        }
        if *fetched {
            self.detail("the upstream has answered for it");
        }
        for flag in flags {
            self.detail(&format!("flagged {}", flag.as_str()));
        }
        if let Some(Check { due, reason, answer, answers, failures, positions }) = check {
            let seen = match answer {
                Some(Seen::States(states)) => {
                    states.iter().map(|(name, state)| format!("{name} {state}")).collect::<Vec<_>>().join(", ")
                }
                Some(Seen::NotFound) => "not found".to_owned(),
                None => "nothing".to_owned(),
            };
            let of = positions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            self.detail(&format!(
                "looks again at {} ({}, answers {answers}, failures {failures}, last answer {seen}, for {of})",
                clock(*due),
                reason.as_str()
            ));
        }
    }

    pub(crate) fn dead_letter(&mut self, letter: &DeadLetter) {
        let DeadLetter { position, event, received_at, body_sha256: _, attempts } = letter;
        self.line(&format!("  dead letter {position}: {}, received {}", named(event), clock(*received_at)));
        for attempt in attempts {
            self.detail(&format!("{} {}: {}", clock(attempt.at), attempt.reason.code(), attempt.reason));
        }
    }

    pub(crate) fn end(&mut self, events: usize, questions: usize) {
        let times = |n: usize| if n == 1 { "once".to_owned() } else { format!("{n} times") };
        let asked = if questions == 0 { "was not asked".to_owned() } else { format!("was asked {}", times(questions)) };
        let events = if events == 1 { "1 event was".to_owned() } else { format!("{events} events were") };
        self.heading(&format!("In the end {events} accepted, and the upstream {asked}"));
    }

    pub(crate) fn finish(self) -> String {
        self.0
    }

    fn line(&mut self, text: &str) {
        writeln!(self.0, "{text}").unwrap();
    }

    fn detail(&mut self, text: &str) {
        self.line(&format!("                      {text}"));
    }
}

/// What an entry says of its machine, or of the event or entity as a whole.
fn what(recorded: &Recorded) -> String {
    let entry = &recorded.entry;
    let Some(MachineRef { name, version: _ }) = &entry.machine else {
        let event = entry.event_id.as_ref().filter(|_| entry.outcome == Outcome::DeadLettered);
        let event = event.map_or(String::new(), |event| format!("{event} comes to nothing, "));
        return format!("{event}{} stays as it is", recorded.entity);
    };
    match (&entry.states.from, &entry.states.to) {
        (None, Some(to)) => format!("{name} begins as {to}"),
        (Some(from), Some(to)) if from != to => format!("{name} goes from {from} to {to}"),
        (_, Some(to)) => format!("{name} stays {to}"),
        (_, None) => format!("{name} has no state yet"),
    }
}

/// What made us decide, and what it is about.
fn cause(entry: &Entry) -> String {
    let of = entry.positions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    match &entry.cause {
        Cause::Webhook => format!("webhook {of}"),
        Cause::Fetch => format!("fetch for {of}"),
        Cause::Check => format!("check for {of}"),
        Cause::Command(by) => format!("replay {of} by {by}"),
    }
}

/// The type of an event; one that could not be read has none.
fn named(event: &Event) -> String {
    let Event { event_type, id, .. } = event;
    if event_type.is_empty() { format!("an event without a type, {id}") } else { format!("{event_type} {id}") }
}

/// The time of day; stories are of one day.
fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    text.split_once('T').map_or(text.clone(), |(_, time)| time.trim_end_matches('Z').to_owned())
}
