//! The sections as types, and what must hold between their keys.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Config, Declared, Problem, Size, Span};
use crate::domain::SourceName;
use crate::engine::settings;
use crate::http;
use crate::machine::Schedule;
use crate::store::{self, journal};

/// The HTTP server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Threads that answer; 0 takes one a processor.
    pub workers: usize,
    /// The largest body of a webhook.
    pub body_limit: Size,
    /// The most that all bodies may take at once.
    pub bodies_max: Size,
    /// How long a request's head may take to arrive.
    pub head_timeout: Span,
    /// How long a request's body may take to arrive.
    pub body_timeout: Span,
    /// How long a connection without a request is kept.
    pub keep_alive: Span,
    /// How long closing a connection may take.
    pub disconnect_timeout: Span,
    /// The most connections at once.
    pub connections_max: usize,
    /// How long answers in flight are waited for when the server stops.
    pub stop_timeout: Span,
}

/// Where things lie on the disk. Relative paths start at the working directory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paths {
    /// The data directory.
    pub data: PathBuf,
    /// A folder of machine files over the shipped ones; empty for none.
    machines: PathBuf,
    /// A folder of source files over the shipped ones; empty for none.
    sources: PathBuf,
}

/// The store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// The count of shards of a new store; an old one keeps its own.
    pub shards: u16,
    /// How large a segment of the journal grows.
    pub segment_size: Size,
    /// The largest frame of the journal.
    pub frame_max: Size,
    /// How much room stays free on the disk.
    pub reserve: Size,
    /// How many requests may wait to be written.
    pub waiting: usize,
    /// About how much becomes durable with one sync.
    pub group_size: Size,
    /// How many pending events are indexed in memory.
    pub window_events: usize,
    /// How much of those is kept decoded.
    pub window_decoded: Size,
    /// How much of the entities is kept decoded.
    pub entities_at_hand: Size,
    /// How much may wait for the view.
    pub overlay_size: Size,
    /// Memory for the view's cache.
    pub view_cache: Size,
    /// How long event ids are remembered.
    pub seen_for: Span,
}

/// The engine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// How far two clocks may be apart.
    pub clock_skew: Span,
    /// How long after an answer a check looks again.
    pub confirm_after: Span,
    /// When to try again what failed.
    pub retry: Retry,
    /// How many events of one entity are decided in one turn.
    pub turn_events_max: usize,
    /// How many entities may have an actor at once.
    pub actors_max: usize,
    /// How long an actor without work is kept.
    pub idle_after: Span,
    /// How often due retries and checks are looked for.
    pub tick: Span,
    /// How many fetches of one source may be under way at once, in live and in test mode each.
    pub fetches_max: usize,
    /// How many failures in a row make a source's upstream rest.
    pub breaker_failures: u32,
    /// How long it rests: each further time in a row twice as long, up to eight times.
    pub breaker_open: Span,
}

/// A retry schedule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The delay after the first try; it doubles with each.
    pub first: Span,
    /// The longest delay.
    pub max: Span,
    /// How many tries before giving up.
    pub attempts: u32,
}

/// A source's own retry times; what it doesn't say is the engine's.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetryOverride {
    /// The delay after the first try.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Span>,
    /// The longest delay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Span>,
    /// How many tries before giving up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
}

impl Server {
    /// The same for the server.
    #[must_use]
    pub fn settings(&self) -> http::Settings {
        http::Settings {
            listen: self.listen,
            workers: self.workers,
            body_limit: self.body_limit.to_usize(),
            bodies_max: self.bodies_max.to_usize(),
            head_timeout: self.head_timeout.0,
            body_timeout: self.body_timeout.0,
            keep_alive: self.keep_alive.0,
            disconnect_timeout: self.disconnect_timeout.0,
            connections_max: self.connections_max,
            stop_timeout: self.stop_timeout.0,
        }
    }
}

impl Paths {
    /// The folder of machine files, if one is named.
    #[must_use]
    pub fn machines(&self) -> Option<PathBuf> {
        Some(&self.machines).filter(|path| !path.as_os_str().is_empty()).cloned()
    }

    /// The folder of source files, if one is named.
    #[must_use]
    pub fn sources(&self) -> Option<PathBuf> {
        Some(&self.sources).filter(|path| !path.as_os_str().is_empty()).cloned()
    }
}

impl Store {
    /// The same for the embedded store.
    #[must_use]
    pub fn options(&self) -> store::Options {
        store::Options {
            shards: Some(self.shards),
            journal: journal::Options {
                segment_bytes: self.segment_size.0,
                frame_bytes_max: self.frame_max.to_usize(),
                reserve_bytes: self.reserve.0,
            },
            waiting: self.waiting,
            group_bytes: self.group_size.to_usize(),
            window_events: self.window_events,
            window_decoded_bytes: self.window_decoded.to_usize(),
            entities_bytes: self.entities_at_hand.to_usize(),
            overlay_bytes: self.overlay_size.to_usize(),
            view_cache_bytes: self.view_cache.0,
            seen_for: self.seen_for.0,
            ..store::Options::default()
        }
    }
}

impl Engine {
    /// The same for the engine, with the retry times that sources have of their own.
    #[must_use]
    pub fn settings(&self, sources: &BTreeMap<SourceName, Declared>) -> settings::Settings {
        let own = sources.iter().filter(|(_, declared)| declared.retry != RetryOverride::default());
        settings::Settings {
            clock_skew: self.clock_skew.0,
            confirm_after: self.confirm_after.0,
            retry: self.retry.schedule(),
            retry_by_source: own
                .map(|(name, declared)| (name.clone(), self.retry.with(&declared.retry).schedule()))
                .collect(),
            turn_events_max: self.turn_events_max,
            actors_max: self.actors_max,
            idle_after: self.idle_after.0,
            tick: self.tick.0,
            fetches_max: self.fetches_max,
            breaker_failures: self.breaker_failures,
            breaker_open: self.breaker_open.0,
        }
    }
}

impl Retry {
    /// This schedule with what a source says of its own.
    #[must_use]
    pub fn with(&self, own: &RetryOverride) -> Self {
        Self {
            first: own.first.unwrap_or(self.first),
            max: own.max.unwrap_or(self.max),
            attempts: own.attempts.unwrap_or(self.attempts),
        }
    }

    fn schedule(&self) -> Schedule {
        Schedule { first: self.first.0, max: self.max.0, attempts: self.attempts }
    }
}

/// What must hold beyond the type of each key.
pub(super) fn check(config: &Config, origin: &dyn Fn(&[&str]) -> String) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut must = |holds: bool, path: &[&str], message: &str| {
        if !holds {
            problems.push(Problem::new(&origin(path), &path.join("."), message));
        }
    };
    let Config { server, paths, store, engine, telemetry: _, sources } = config;
    must((1..=512).contains(&store.shards), &["store", "shards"], "it must be 1 to 512");
    must(!paths.data.as_os_str().is_empty(), &["paths", "data"], "it must name a directory");
    must(server.body_limit.0 > 0, &["server", "body_limit"], "it must be above 0");
    let fits = server.body_limit.0 <= store.frame_max.0 / 2;
    must(
        fits,
        &["server", "body_limit"],
        "it must be at most half of `store.frame_max`: a body is kept with its events",
    );
    must(
        server.bodies_max >= server.body_limit,
        &["server", "bodies_max"],
        "it must be at least `server.body_limit`, or no body of that size could come in",
    );
    let frame = (1 << 20)..=(1 << 30);
    must(frame.contains(&store.frame_max.0), &["store", "frame_max"], "it must be `1MiB` to `1GiB`");
    let cache = (1 << 20)..=(1 << 40);
    must(cache.contains(&store.view_cache.0), &["store", "view_cache"], "it must be `1MiB` to `1024GiB`");
    for (count, least, most, path) in counts(config) {
        must((least..=most).contains(&count), &path, &format!("it must be {least} to {most}"));
    }
    let ten = Span(std::time::Duration::from_secs(10));
    must(server.stop_timeout <= ten, &["server", "stop_timeout"], "it must be at most `10s`");
    must(engine.breaker_failures > 0, &["engine", "breaker_failures"], "it must be above 0");
    for (span, path) in [(server.body_timeout, ["server", "body_timeout"]), (engine.tick, ["engine", "tick"])] {
        must(!span.0.is_zero(), &path, "it must be above `0s`");
    }
    // The server measures these with a clock that ticks twice a second.
    let coarse = [
        (server.head_timeout, ["server", "head_timeout"]),
        (server.keep_alive, ["server", "keep_alive"]),
        (server.disconnect_timeout, ["server", "disconnect_timeout"]),
    ];
    for (span, path) in coarse {
        must(span.0.as_secs() >= 1, &path, "it must be at least `1s`");
    }
    let mut retry = |retry: &Retry, path: &[&str]| {
        must(retry.first <= retry.max, path, "`first` must be at most `max`");
        must(!retry.first.0.is_zero(), path, "`first` must be above `0s`");
        must(retry.attempts > 0, path, "`attempts` must be above 0");
    };
    retry(&engine.retry, &["engine", "retry"]);
    for (name, declared) in sources {
        if declared.retry != RetryOverride::default() {
            retry(&engine.retry.with(&declared.retry), &["sources", name.as_str(), "retry"]);
        }
    }
    problems.extend(replays(config, origin));
    problems
}

/// Counts with their least and their most. What is over it is a slip: no machine has so much, and what reserves it
/// would fail in ways that say nothing.
fn counts(config: &Config) -> [(usize, usize, usize, [&'static str; 2]); 7] {
    let Config { server, paths: _, store, engine, telemetry: _, sources: _ } = config;
    [
        (server.workers, 0, 1024, ["server", "workers"]),
        (server.connections_max, 1, 1_000_000, ["server", "connections_max"]),
        (store.waiting, 1, 1_000_000, ["store", "waiting"]),
        (store.window_events, 1000, 100_000_000, ["store", "window_events"]),
        (engine.turn_events_max, 1, 100_000, ["engine", "turn_events_max"]),
        (engine.actors_max, 1, 10_000_000, ["engine", "actors_max"]),
        (engine.fetches_max, 1, 10_000, ["engine", "fetches_max"]),
    ]
}

/// A request can be replayed for as long as its timestamp counts as fresh, on both sides of now: its id must be
/// remembered for longer.
fn replays(config: &Config, origin: &dyn Fn(&[&str]) -> String) -> Vec<Problem> {
    let retention = config.store.seen_for;
    let problem = |(name, declared): (&SourceName, &Declared)| {
        let tolerance = declared.spec.signature.tolerance_s?;
        if retention.0.as_secs() > tolerance.saturating_mul(2) {
            return None;
        }
        let path = ["sources", name.as_str(), "signature", "tolerance_s"];
        let message =
            format!("twice {tolerance} s is not below `store.seen_for`, {retention}; lower one, raise the other");
        Some(Problem::new(&origin(&path), &path.join("."), &message))
    };
    config.sources.iter().filter_map(problem).collect()
}
