//! What a measurement tells.

use serde::Serialize;

use super::super::failure::Failure;
use super::super::out::Out;

/// The figures of one run. Rates are a second; times are milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Figures {
    /// A bare handler that reads the same body.
    pub(super) bare_rps: f64,
    /// A plain handler that verifies the signature and parses the body.
    pub(super) plain_rps: f64,
    /// The door up to where a delivery would be handed on: verified and mapped.
    pub(super) verified_rps: f64,
    /// Acknowledged, so durable; nothing is decided meanwhile.
    pub(super) durable_rps: f64,
    /// Decided and committed, while the backlog does not grow.
    pub(super) applied_rps: f64,
    /// At half of the rate that is sustained with everything decided, `applied_rps`; measured from when each request was
    /// due.
    pub(super) ack_p50_ms: f64,
    pub(super) ack_p99_ms: f64,
    pub(super) ack_p999_ms: f64,
    /// The rate at which those were measured.
    pub(super) ack_at_rps: f64,
    /// The same at half of `durable_rps`, which is more than can be sustained for long where that is much higher.
    pub(super) rush_p99_ms: f64,
    /// The most memory of this process, load and all.
    pub(super) peak_rss_mb: f64,
    /// Entities in the store, and those that the events are about.
    pub(super) entities: u64,
    pub(super) live: u64,
    pub(super) durable_ratio: f64,
    pub(super) applied_ratio: f64,
    pub(super) seconds: u64,
    pub(super) connections: usize,
    /// Answers other than 200, over all stages.
    pub(super) refused: u64,
    /// Decisions a second while nothing comes in: what was acknowledged before is worked off.
    pub(super) drained_rps: f64,
    /// How long opening the store took that a measurement had left.
    pub(super) ready_ms: u64,
    /// How much the backlog grew while decisions were measured, in events.
    pub(super) backlog_growth: i64,
}

impl Figures {
    /// Takes ratios.
    pub(super) fn reckon(&mut self) {
        let to = |rate: f64, of: f64| if of > 0.0 { rate / of } else { 0.0 };
        self.durable_ratio = to(self.durable_rps, self.verified_rps);
        self.applied_ratio = to(self.applied_rps, self.verified_rps);
    }

    pub(super) fn tell(&self, out: &Out) -> Result<(), Failure> {
        if out.is_json() {
            return out.document(self);
        }
        let row = |what: &str, rate: f64| {
            let of = |base: f64| if base > 0.0 { format!("{:.2}", rate / base) } else { String::new() };
            vec![what.to_owned(), format!("{rate:.0}"), of(self.verified_rps), of(self.bare_rps)]
        };
        let rows = [
            row("bare handler", self.bare_rps),
            row("plain: verified, parsed", self.plain_rps),
            row("the door, nothing stored", self.verified_rps),
            row("durable (acknowledged)", self.durable_rps),
            row("applied (decided, committed)", self.applied_rps),
        ];
        out.table(&["stage", "events/s", "of verified", "of bare"], &rows, "")?;
        out.pairs(&[
            (
                "acknowledged within",
                format!(
                    "p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms at {:.0} events/s",
                    self.ack_p50_ms, self.ack_p99_ms, self.ack_p999_ms, self.ack_at_rps
                ),
            ),
            ("in a rush", format!("p99 {:.2} ms at {:.0} events/s", self.rush_p99_ms, self.durable_rps / 2.0)),
            ("worked off", format!("{:.0} events/s while nothing comes in", self.drained_rps)),
            ("ready again", format!("within {} ms", self.ready_ms)),
            ("entities", format!("{} stored, {} live", self.entities, self.live)),
            ("peak memory", format!("{:.0} MB", self.peak_rss_mb)),
            ("refused", self.refused.to_string()),
        ])
    }
}
