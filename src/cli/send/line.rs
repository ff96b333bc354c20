//! What is told of a delivery, and of all of them.

use std::collections::BTreeMap;
use std::time::Duration;

use owo_colors::OwoColorize as _;
use serde::Serialize;

use crate::cli::client::Reply;
use crate::cli::failure::Failure;
use crate::cli::out::printable;
use crate::http::dto;

/// What became of one delivery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct Line {
    file: String,
    /// The HTTP status; none if no answer came.
    status: Option<u16>,
    /// What became of its events; empty if it was turned away.
    events: Vec<dto::Admission>,
    /// Why it was turned away, or could not be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

/// Why a delivery was turned away.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Problem {
    code: String,
    detail: String,
    fix: String,
}

/// Counts over all deliveries.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    deliveries: usize,
    /// Events by what became of them.
    outcomes: BTreeMap<String, usize>,
    /// Refusals by status and code.
    refused: BTreeMap<(u16, String), usize>,
    not_sent: usize,
}

impl Line {
    /// What a server answered.
    pub(super) fn of(file: String, reply: Reply) -> Self {
        let (events, problem) = match reply.outcome {
            Ok(admitted) => (admitted.all().to_vec(), None),
            Err(problem) => {
                let dto::Problem { code, detail, fix, .. } = problem;
                (Vec::new(), Some(Problem { code, detail, fix }))
            }
        };
        Self { file, status: Some(reply.status), events, problem }
    }

    /// No answer came.
    pub(super) fn not_sent(file: String, failure: &Failure) -> Self {
        let (code, detail, fix) = failure.parts();
        Self { file, status: None, events: Vec::new(), problem: Some(Problem { code, detail, fix }) }
    }

    /// For people: one line, or one for each event.
    pub(super) fn text(&self) -> String {
        let status = self.status.map_or_else(|| "---".to_owned(), |status| status.to_string());
        if let Some(Problem { code, detail, fix: _ }) = &self.problem {
            let told = format!("{status} {code}");
            return format!("{}  {}", told.red(), printable(&format!("{}: {detail}", self.file)));
        }
        let event = |event: &dto::Admission| {
            let outcome = format!("{:9}", event.outcome);
            let outcome = match event.outcome.as_str() {
                "accepted" => outcome.green().to_string(),
                "conflict" => outcome.yellow().to_string(),
                _ => outcome,
            };
            let dead = event.dead_letter.as_ref().map(|dead| format!("  dead letter {dead}")).unwrap_or_default();
            let what = format!("{:>6}  {}  {}{dead}", event.position, event.event_id, self.file);
            format!("{status} {outcome}  {}", printable(&what))
        };
        self.events.iter().map(event).collect::<Vec<_>>().join("\n")
    }
}

impl Tally {
    /// Counts one more.
    pub(super) fn count(&mut self, line: &Line) {
        self.deliveries += 1;
        for event in &line.events {
            *self.outcomes.entry(event.outcome.clone()).or_default() += 1;
        }
        match (&line.problem, line.status) {
            (Some(problem), Some(status)) => {
                *self.refused.entry((status, problem.code.clone())).or_default() += 1;
            }
            (Some(_), None) => self.not_sent += 1,
            (None, _) => {}
        }
    }

    /// Whether the command failed.
    pub(super) fn is_failed(&self, allow_refused: bool) -> bool {
        let refused = self.refused.keys().any(|(status, _)| !allow_refused || !(400..500).contains(status));
        self.not_sent > 0 || refused
    }

    /// All of it in one line.
    pub(super) fn summary(&self, took: Duration) -> String {
        let outcomes = self.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}"));
        let refused = self.refused.iter().map(|((status, code), count)| format!("{count} refused ({status} {code})"));
        let not_sent = (self.not_sent > 0).then(|| format!("{} not sent", self.not_sent));
        let parts: Vec<_> = outcomes.chain(refused).chain(not_sent).collect();
        let noun = if self.deliveries == 1 { "delivery" } else { "deliveries" };
        format!("{} {noun} in {} ms: {}", self.deliveries, took.as_millis(), parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code;

    fn admission(outcome: &str) -> dto::Admission {
        let (event_id, position) = ("evt_1".to_owned(), "7.0".to_owned());
        dto::Admission { outcome: outcome.to_owned(), event_id, position, dead_letter: None }
    }

    fn refused(status: u16, code: &str) -> Reply {
        let problem = dto::Problem {
            kind: String::new(),
            title: String::new(),
            status,
            detail: "it fits none".to_owned(),
            code: code.to_owned(),
            fix: "Check it.".to_owned(),
            instance: None,
            partitions: Vec::new(),
        };
        Reply { status, outcome: Err(problem) }
    }

    fn lines() -> Vec<Line> {
        let one = |outcome| Reply { status: 200, outcome: Ok(dto::Admitted::One(admission(outcome))) };
        let several = dto::Admitted::Several(vec![admission("accepted"), admission("accepted")]);
        vec![
            Line::of("a.json".to_owned(), one("accepted")),
            Line::of("b.json".to_owned(), one("duplicate")),
            Line::of("c.json".to_owned(), Reply { status: 200, outcome: Ok(several) }),
            Line::of("d.json".to_owned(), refused(401, "signature_mismatch")),
            Line::not_sent("e.json".to_owned(), &Failure::new(code::SERVER_UNREACHABLE, "refused")),
        ]
    }

    #[test]
    fn each_delivery_is_told_in_a_line() {
        let text: Vec<_> = lines().iter().map(|line| anstream::adapter::strip_str(&line.text()).to_string()).collect();
        assert_eq!(
            text,
            [
                "200 accepted      7.0  evt_1  a.json",
                "200 duplicate     7.0  evt_1  b.json",
                "200 accepted      7.0  evt_1  c.json\n200 accepted      7.0  evt_1  c.json",
                "401 signature_mismatch  d.json: it fits none",
                "--- server_unreachable  e.json: refused",
            ]
        );
    }

    #[test]
    fn a_line_is_one_json_document_too() {
        let json: Vec<_> = lines().iter().map(|line| serde_json::to_string(line).unwrap()).collect();
        let event = r#"{"outcome":"accepted","event_id":"evt_1","position":"7.0"}"#;
        assert_eq!(json[0], format!(r#"{{"file":"a.json","status":200,"events":[{event}]}}"#));
        assert_eq!(
            json[3],
            r#"{"file":"d.json","status":401,"events":[],"problem":{"code":"signature_mismatch","detail":"it fits none","fix":"Check it."}}"#
        );
        assert!(json[4].contains(r#""status":null"#), "{}", json[4]);
    }

    #[test]
    fn the_summary_counts_events_refusals_and_what_was_not_sent() {
        let mut tally = Tally::default();
        for line in &lines() {
            tally.count(line);
        }
        assert_eq!(
            tally.summary(Duration::from_millis(12)),
            "5 deliveries in 12 ms: 3 accepted, 1 duplicate, 1 refused (401 signature_mismatch), 1 not sent"
        );
    }

    #[test]
    fn it_fails_by_what_was_refused() {
        let check = |status: u16, allow_refused: bool, failed: bool| {
            let mut tally = Tally::default();
            tally.count(&Line::of("a".to_owned(), refused(status, "x")));
            assert_eq!(tally.is_failed(allow_refused), failed, "{status} {allow_refused}");
        };
        check(401, false, true);
        check(401, true, false);
        check(503, true, true);
        check(301, true, true);
        let mut tally = Tally::default();
        for line in lines().iter().take(3) {
            tally.count(line);
        }
        assert!(!tally.is_failed(false));
    }
}
