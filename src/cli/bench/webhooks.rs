//! `tollgate bench webhooks`: the path from the door to the log, stage by stage.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::super::Context;
use super::super::assemble::{Loaded, Running};
use super::super::failure::Failure;
use super::event::Events;
use super::load::{Load, Measured, Pace};
use super::report::Figures;
use crate::code;
use crate::config::{Environment, Flag, Inputs};
use crate::domain::{SourceName, Timestamp};
use crate::engine::clock::{Clock as _, SystemClock};
use crate::engine::upstream::HttpUpstream;
use crate::engine::{self, Engine};
use crate::http::keys::Ring;
use crate::http::yardstick::Yardsticks;
use crate::source::{Source, Verified};

/// How many entities the events are about, at most: the others are only stored.
const LIVE_MAX: u64 = 10_000;

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

Stages of one run, under the same load over loopback: a bare handler, the door without a store, acknowledged, decided. \
Read the ratios: the load takes its share of the same processors.";

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
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: u16,

    /// A data directory to keep and to use again [default: a temporary one]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// What a run needs.
struct Bench<'a> {
    args: &'a Args,
    context: &'a Context,
    running: Running,
    source: Arc<Source>,
    live: u64,
    refused: u64,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let temporary = tempfile::tempdir()?;
    let folder = args.data.as_deref().unwrap_or(temporary.path());
    actix_rt::System::new().block_on(measure(args, context, folder))
}

async fn measure(args: &Args, context: &Context, folder: &Path) -> Result<(), Failure> {
    let loaded = Loaded::load(&inputs(folder))?;
    let store = super::super::store::open(&loaded.config)?;
    let upstream = HttpUpstream::new().map_err(|error| Failure::new(code::ENGINE_STOPPED, error.to_string()))?;
    let running = loaded.start(store, Arc::new(upstream), Arc::new(SystemClock)).await?;
    let source = running.engine.source("stripe");
    let source = source.ok_or_else(|| Failure::new(code::INTERNAL, "the source of the measurement is not on"))?;
    let keys = Ring::open(folder, now())?;
    let yardsticks = Yardsticks::start(running.engine.clone(), keys, &loaded.config.server.settings())?;
    let live = args.entities.min(LIVE_MAX);
    let mut bench = Bench { args, context, running, source, live, refused: 0 };
    let mut figures = bench.stages(&yardsticks).await?;
    figures.reckon();
    yardsticks.stop().await;
    bench.running.stop(STOP_WITHIN).await?;
    figures.peak_rss_mb = peak_rss_mb()?;
    figures.tell(&context.out)
}

impl Bench<'_> {
    async fn stages(&mut self, yardsticks: &Yardsticks) -> Result<Figures, Failure> {
        self.fill().await?;
        let mut events = Events::of(self.live, now());
        let bare =
            self.load("bare handler", yardsticks.address(), "/bare", Pace::Closed, u64::MAX, &mut events).await?;
        let path = "/verified/stripe";
        let verified =
            self.load("verified only", yardsticks.address(), path, Pace::Closed, u64::MAX, &mut events).await?;
        let (door, path) = (self.running.address(), "/webhooks/stripe");
        let durable = self.load("durable", door, path, Pace::Closed, u64::MAX, &mut events).await?;
        self.settle().await?;
        let applied = self.load("applied", door, path, Pace::Closed, BACKLOG_MAX, &mut events).await?;
        self.settle().await?;
        let rate = durable.rate() / 2.0;
        let paced = self.load("latency", door, path, Pace::Open(rate), u64::MAX, &mut events).await?;
        self.settle().await?;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Ok(Figures {
            bare_rps: bare.rate(),
            verified_rps: verified.rate(),
            durable_rps: durable.rate(),
            applied_rps: applied.decided_rate(),
            ack_p50_ms: paced.latency_ms(500),
            ack_p99_ms: paced.latency_ms(990),
            ack_p999_ms: paced.latency_ms(999),
            ack_at_rps: rate,
            entities: self.running.engine.status().store.entities,
            live: self.live,
            seconds: self.args.seconds,
            connections: usize::from(self.args.connections),
            refused: self.refused,
            backlog_growth: signed(applied.backlog.1) - signed(applied.backlog.0),
            ..Figures::default()
        })
    }

    /// Writes what the store lacks of the entities that were asked for.
    async fn fill(&self) -> Result<(), Failure> {
        let stored = self.running.engine.status().store.entities;
        if stored >= self.args.entities {
            return Ok(());
        }
        self.context.out.note(&format!("storing {} entities ...", self.args.entities - stored));
        let mut events = Events::of(self.args.entities, now()).from(stored);
        let bodies = std::iter::from_fn(|| Some(events.body()));
        let missing = usize::try_from(self.args.entities - stored).unwrap_or(usize::MAX);
        let mut accepted = futures_util::stream::iter(bodies.take(missing))
            .map(|body| accept(&self.running.engine, &self.source, body))
            .buffer_unordered(FILL_AT_ONCE);
        while let Some(accepted) = accepted.next().await {
            accepted?;
        }
        drop(accepted);
        self.settle().await
    }

    /// Runs one stage on a thread of its own.
    async fn load(
        &mut self,
        what: &str,
        address: std::net::SocketAddr,
        path: &'static str,
        pace: Pace,
        backlog_max: u64,
        events: &mut Events,
    ) -> Result<Measured, Failure> {
        self.context.out.note(&format!("{what}: {} s ...", self.args.seconds));
        let (engine, source) = (self.running.engine.clone(), Arc::clone(&self.source));
        let (connections, measured) = (usize::from(self.args.connections), Duration::from_secs(self.args.seconds));
        let mut taken = std::mem::replace(events, Events::of(1, now()));
        let run = move || {
            let backlog = || engine.status().store.pending;
            let load = Load {
                address,
                path,
                source: &source,
                now: &now,
                connections,
                pace,
                measured,
                backlog: &backlog,
                backlog_max,
            };
            let measured = load.run(&mut taken);
            (measured, taken)
        };
        let ran = tokio::task::spawn_blocking(run).await;
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
    async fn settle(&self) -> Result<(), Failure> {
        while self.running.engine.status().store.pending > 0 {
            if let Some(why) = self.running.engine.status().failure {
                return Err(Failure::new(code::ENGINE_STOPPED, why));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }
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
    let variables = [
        ("STRIPE_WEBHOOK_SECRET", format!("whsec_{}", SourceName::new("measurement"))),
        ("TOLLGATE__ENGINE__ACTORS_MAX", "65536".to_owned()),
    ];
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
