//! The words of a story. Everything of an entity is shown: a new field cannot be forgotten, since it is taken apart
//! in full.

use std::fmt::Write as _;

use tollgate::domain::query::DeadLetter;
use tollgate::domain::{
    Admission, Admit, Answer as Seen, Body, Check, CheckChange, Entity, FlagChange, Item, LadderBody, MachineState,
    Position, Recorded, Timestamp,
};

use super::story::Answer;

pub(crate) struct Text(String);

impl Text {
    pub(crate) fn titled(title: &str, about: &str) -> Self {
        Self(format!("{title}\n\n{}\n", about.trim()))
    }

    pub(crate) fn heading(&mut self, text: &str) {
        self.line("");
        self.line(text);
    }

    pub(crate) fn note(&mut self, text: &str) {
        self.heading(text);
    }

    pub(crate) fn passed(&mut self, seconds: f64) {
        self.line(&format!("  ... {seconds} s pass"));
    }

    pub(crate) fn upstream(&mut self, answer: &Answer) {
        let what = match answer.status {
            0 => "cannot be reached".to_owned(),
            status => format!("answers {status} {}", answer.body.split_whitespace().collect::<Vec<_>>().join(" ")),
        };
        self.line(&format!("  From now on the upstream {what} to {}", answer.path));
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
        self.line(&format!("  {} received   {} {}: {about}; {answer}", clock(now), event.event_type, event.id));
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

    pub(crate) fn asked(&mut self, now: Timestamp, what: &str) {
        self.line(&format!("  {} asked      {what}", clock(now)));
    }

    pub(crate) fn decided(&mut self, recorded: &Recorded) {
        let entry = &recorded.entry;
        let state =
            |state: &Option<tollgate::domain::StateName>| state.as_ref().map_or("-".to_owned(), ToString::to_string);
        let machine = entry.machine.as_ref().map_or("entity".to_owned(), |machine| machine.name.to_string());
        let what = if entry.is_move() {
            format!("{machine} {} -> {}", state(&entry.states.from), state(&entry.states.to))
        } else {
            format!("{machine} stays {}", state(&entry.states.to))
        };
        let of = entry.positions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        let why = format!("{} by {}, {}, for {of}", entry.outcome.as_str(), entry.rule.as_str(), entry.cause.as_str());
        self.line(&format!("  {} decided    {what} ({why})", clock(entry.decided_at)));
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
        if let Some(Check { due, reason, answer, tries, positions }) = check {
            let seen = match answer {
                Some(Seen::States(states)) => {
                    states.iter().map(|(name, state)| format!("{name} {state}")).collect::<Vec<_>>().join(", ")
                }
                Some(Seen::NotFound) => "not found".to_owned(),
                None => "nothing".to_owned(),
            };
            let of = positions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            self.detail(&format!(
                "looks again at {} ({}, try {tries}, last answer {seen}, for {of})",
                clock(*due),
                reason.as_str()
            ));
        }
    }

    pub(crate) fn dead_letter(&mut self, letter: &DeadLetter) {
        let DeadLetter { position, event, received_at, body_sha256: _, attempts } = letter;
        self.line(&format!(
            "  dead letter {position}: {} {}, received {}",
            event.event_type,
            event.id,
            clock(*received_at)
        ));
        for attempt in attempts {
            self.detail(&format!("{} {}: {}", clock(attempt.at), attempt.reason.code(), attempt.reason));
        }
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

/// The time of day; stories are of one day.
fn clock(at: Timestamp) -> String {
    let text = at.to_string();
    text.split_once('T').map_or(text.clone(), |(_, time)| time.trim_end_matches('Z').to_owned())
}
