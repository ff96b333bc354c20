//! `tollgate bench webhooks`: the path from the door to the log, stage by stage.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::super::Context;
use super::super::assemble::Loaded;
use super::super::failure::Failure;
use super::event::Events;
use super::load::{Load, Measured, PATIENCE, Pace};
use super::report::Figures;
use crate::code;
use crate::config::{Environment, Flag, Inputs};
use crate::domain::Timestamp;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::engine::upstream::HttpUpstream;
use crate::engine::{self, Engine};
use crate::http::keys::Ring;
use crate::http::yardstick::Yardsticks;
use crate::http::{self, Server};
use crate::source::{Source, Verified};

/// How many entities the events are about, at most: the others are only stored.
const LIVE_MAX: u64 = 10_000;

/// In how many parts, each in its turn, what is compared is measured: a slow moment of the machine then meets all alike.
const ROUNDS: u32 = 4;

/// The door's address.
const DOOR: &str = "/webhooks/stripe";

/// The door with nothing behind it.
const VERIFIED: &str = "/verified/stripe";

/// How many events may be undecided while decisions are measured.
const BACKLOG_MAX: u64 = 4000;

/// How many entities are written at once before the measurement.
const FILL_AT_ONCE: usize = 1024;

/// How often it is looked whether the backlog is decided.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The longest that the end takes.
const STOP_WITHIN: Duration = Duration::from_secs(30);

const EXAMPLES: &str = "\
Examples:
  tollgate bench webhooks
  tollgate bench webhooks --seconds 60 --json
  # a store of a million entities, kept for the next run
  tollgate bench webhooks --entities 1000000 --data bench-data

Stages of one run, under the same load over loopback: a bare handler; a plain one that verifies and parses; the door \
with nothing behind it; acknowledged, with nothing decided; decided. Read the ratios: the load takes its share of the same processors.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Args {
    /// How long each stage is measured
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,

    /// How many entities are stored; the events are about at most 10,000 of them
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    entities: u64,

    /// How many connections send, each one request at a time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,

    /// A data directory to keep and to use again [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What a run needs.
struct Bench<'a> {
    args: &'a Args,
    context: &'a Context,
    loaded: Loaded,
    live: u64,
    refused: u64,
}

/// An open store with an engine and a server before it.
struct Stage {
    engine: Engine,
    server: Server,
    source: Arc<Source>,
    ready_ms: u64,
}

/// One stretch of load.
#[derive(Clone, Copy)]
struct Run {
    what: &'static str,
    address: SocketAddr,
    path: &'static str,
    pace: Pace,
    backlog_max: u64,
    measured: Duration,
}

/// As much as goes, to this address.
const fn at(address: SocketAddr, measured: Duration) -> Run {
    Run { what: "", address, path: "/", pace: Pace::Closed, backlog_max: u64::MAX, measured }
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let temporary = tempfile::tempdir()?;
    let folder = args.data.as_deref().unwrap_or(temporary.path());
    let loaded = Loaded::load(&inputs(folder))?;
    let live = args.entities.min(LIVE_MAX);
    let mut bench = Bench { args, context, loaded, live, refused: 0 };
    let mut figures = actix_rt::System::new().block_on(bench.measure())?;
    figures.reckon();
    figures.peak_rss_mb = peak_rss_mb()?;
    figures.tell(&context.out)
}

impl Bench<'_> {
    async fn measure(&mut self) -> Result<Figures, Failure> {
        let mut figures = Figures {
            live: self.live,
            seconds: self.args.seconds,
            connections: usize::from(self.args.connections),
            ..Figures::default()
        };
        let stage = self.open(true).await?;
        self.fill(&stage).await?;
        stage.close().await?;
        let mut events = Events::of(self.live, now());
        let verified = self.take(&mut events, &mut figures).await?;
        self.decide(verified, &mut events, &mut figures).await?;
        figures.refused = self.refused;
        Ok(figures)
    }

    /// What is taken while nothing is decided, and what that is compared to.
    async fn take(&mut self, events: &mut Events, figures: &mut Figures) -> Result<Measured, Failure> {
        let stage = self.open(false).await?;
        let yardsticks = self.yardsticks(&stage)?;
        let (beside, door) = (yardsticks.address(), stage.server.address());
        let part = self.measured() / ROUNDS;
        let runs = [
            Run { what: "bare handler", path: "/bare", ..at(beside, part) },
            Run { what: "plain handler", path: "/plain/stripe", ..at(beside, part) },
            Run { what: "verified", path: VERIFIED, ..at(beside, part) },
            Run { what: "durable", path: DOOR, ..at(door, part) },
        ];
        let mut sums = runs.map(|_| Measured::default());
        for _ in 0..ROUNDS {
            for (run, sum) in runs.iter().zip(&mut sums) {
                sum.join(&self.load(run, &stage, events).await?);
            }
        }
        let [bare, plain, verified, durable] = sums;
        yardsticks.stop().await;
        (figures.bare_rps, figures.plain_rps, figures.durable_rps) = (bare.rate(), plain.rate(), durable.rate());
        stage.close().await?;
        Ok(verified)
    }

    /// What is decided. `verified` is what was measured before to compare with; another part comes afterwards.
    async fn decide(
        &mut self,
        mut verified: Measured,
        events: &mut Events,
        figures: &mut Figures,
    ) -> Result<(), Failure> {
        let stage = self.open(true).await?;
        figures.ready_ms = stage.ready_ms;
        let (left, began) = (stage.engine.status().store.pending, Instant::now());
        self.context.out.note(&format!("working off {left} events ..."));
        self.settle(&stage).await?;
        figures.drained_rps = per_second(left, began.elapsed());
        let door = Run { path: DOOR, ..at(stage.server.address(), self.measured()) };
        let applied = self.load(&Run { what: "applied", backlog_max: BACKLOG_MAX, ..door }, &stage, events).await?;
        figures.applied_rps = applied.decided_rate();
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        figures.backlog_growth = signed(applied.backlog.1) - signed(applied.backlog.0);
        self.settle(&stage).await?;
        let yardsticks = self.yardsticks(&stage)?;
        let part = at(yardsticks.address(), self.measured() / ROUNDS);
        verified.join(&self.load(&Run { what: "verified", path: VERIFIED, ..part }, &stage, events).await?);
        yardsticks.stop().await;
        figures.verified_rps = verified.rate();
        figures.ack_at_rps = figures.applied_rps / 2.0;
        let pace = half_of(figures.applied_rps, "decided", self.refused)?;
        let paced = self.load(&Run { what: "latency", pace, ..door }, &stage, events).await?;
        self.settle(&stage).await?;
        let pace = half_of(figures.durable_rps, "acknowledged", self.refused)?;
        let rushed = self.load(&Run { what: "latency in a rush", pace, ..door }, &stage, events).await?;
        figures.rush_p99_ms = rushed.latency_ms(990);
        figures.ack_p50_ms = paced.latency_ms(500);
        figures.ack_p99_ms = paced.latency_ms(990);
        figures.ack_p999_ms = paced.latency_ms(999);
        self.settle(&stage).await?;
        figures.entities = stage.engine.status().store.entities;
        stage.close().await
    }

    /// How long a stage is measured.
    fn measured(&self) -> Duration {
        Duration::from_secs(self.args.seconds)
    }

    fn yardsticks(&self, stage: &Stage) -> Result<Yardsticks, Failure> {
        let keys = Ring::open(&self.loaded.config.paths.data, now())?;
        Ok(Yardsticks::start(stage.engine.clone(), keys, &self.loaded.config.server.settings())?)
    }

    /// Opens the store, with or without anybody to decide.
    async fn open(&self, deciding: bool) -> Result<Stage, Failure> {
        let began = Instant::now();
        let store = super::super::store::open(&self.loaded.config)?;
        let upstream = HttpUpstream::new().map_err(|error| Failure::new(code::ENGINE_STOPPED, error.to_string()))?;
        let parts = self.loaded.parts(store, Arc::new(upstream), Arc::new(SystemClock));
        let engine = if deciding { Engine::start(parts).await? } else { Engine::start_undecided(parts).await? };
        let keys = Ring::open(&self.loaded.config.paths.data, now())?;
        let server = http::serve(engine.clone(), keys, &self.loaded.config.server.settings())?;
        let source = engine.source("stripe");
        let source = source.ok_or_else(|| Failure::new(code::INTERNAL, "the source of the measurement is not on"))?;
        let ready_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Stage { engine, server, source, ready_ms })
    }

    /// Writes what the store lacks of the entities that were asked for.
    async fn fill(&self, stage: &Stage) -> Result<(), Failure> {
        let stored = stage.engine.status().store.entities;
        if stored >= self.args.entities {
            return Ok(());
        }
        self.context.out.note(&format!("storing {} entities ...", self.args.entities - stored));
        let mut events = Events::of(self.args.entities, now()).from(stored);
        let bodies = std::iter::from_fn(|| Some(events.body()));
        let missing = usize::try_from(self.args.entities - stored).unwrap_or(usize::MAX);
        let mut accepted = futures_util::stream::iter(bodies.take(missing))
            .map(|body| accept(&stage.engine, &stage.source, body))
            .buffer_unordered(FILL_AT_ONCE);
        while let Some(accepted) = accepted.next().await {
            accepted?;
        }
        drop(accepted);
        self.settle(stage).await
    }

    /// Runs one stage on a thread of its own.
    async fn load(&mut self, run: &Run, stage: &Stage, events: &mut Events) -> Result<Measured, Failure> {
        let Run { what, address, path, pace, backlog_max, measured } = *run;
        self.context.out.note(&format!("{what}: {} s ...", measured.as_secs_f64()));
        let (engine, source) = (stage.engine.clone(), Arc::clone(&stage.source));
        let connections = usize::from(self.args.connections);
        let mut taken = std::mem::replace(events, Events::of(1, now()));
        let work = move || {
            let backlog = || engine.status().store.pending;
            let load = Load {
                address,
                path,
                source: &source,
                now: &now,
                connections,
                pace,
                measured,
                patience: PATIENCE,
                backlog: &backlog,
                backlog_max,
            };
            let measured = load.run(&mut taken);
            (measured, taken)
        };
        let ran = tokio::task::spawn_blocking(work).await;
        let (measured, taken) = ran.map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
        *events = taken;
        let measured = measured?;
        self.refused += measured.refused.values().sum::<u64>();
        if !measured.refused.is_empty() {
            self.context.out.note(&format!("{what}: answers other than 200, by status: {:?}", measured.refused));
        }
        Ok(measured)
    }

    /// Waits until everything is decided.
    async fn settle(&self, stage: &Stage) -> Result<(), Failure> {
        while stage.engine.status().store.pending > 0 {
            if let Some(why) = stage.engine.status().failure {
                return Err(Failure::new(code::ENGINE_STOPPED, why));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
}

impl Stage {
    async fn close(self) -> Result<(), Failure> {
        self.server.stop().await;
        Ok(self.engine.drain(STOP_WITHIN).await?)
    }
}

/// The pace at which latencies are measured. There is none if nothing got through before.
fn half_of(rate: f64, what: &str, refused: u64) -> Result<Pace, Failure> {
    if rate > 0.0 {
        return Ok(Pace::Open(rate / 2.0));
    }
    let text = format!("no event was {what}; {refused} answers were other than 200, so there is no latency to measure");
    Err(Failure::new(code::INTERNAL, text))
}

/// So many in this time, a second.
#[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "counts of a few minutes")]
fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Takes an event as if it had been verified.
async fn accept(engine: &Engine, source: &Source, body: Vec<u8>) -> Result<(), engine::Error> {
    let verified = Verified { secret: 0, id: None, signed_at: None };
    let delivery = source.deliver(&verified, &[], Bytes::from(body), now());
    engine.accept(delivery).await.map(drop)
}

fn now() -> Timestamp {
    SystemClock.now()
}

/// The configuration as shipped, with a secret of the moment and nobody to ask.
fn inputs(folder: &Path) -> Inputs {
    let variables = [("STRIPE_WEBHOOK_SECRET", "whsec_of_the_measurement")];
    let flag = |name, key, value| Flag { name, key, value };
    let flags = vec![
        flag("--listen", "server.listen", "127.0.0.1:0".to_owned()),
        flag("--data", "paths.data", folder.display().to_string()),
    ];
    Inputs { file: None, environment: Environment::of(variables), flags }
}

/// The most memory that this process had.
fn peak_rss_mb() -> Result<f64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u32>().ok()).unwrap_or(0);
    Ok(f64::from(kib) / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_rate_there_is_no_pace_and_the_failure_says_how_many_were_refused() {
        assert!(matches!(half_of(8.0, "decided", 3), Ok(Pace::Open(4.0))));
        let failure = half_of(0.0, "decided", 3).unwrap_err();
        assert!(format!("{failure:?}").contains("no event was decided; 3 answers were other than 200"), "{failure:?}");
    }
}
