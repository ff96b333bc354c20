//! `tollgate serve`: takes webhooks, and answers what is known.

mod room;

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Context;
use super::args::{ConfigArgs, DataArgs, flag};
use super::assemble::{Loaded, Running};
use super::failure::Failure;
use crate::code;
use crate::config::Sources;
use crate::engine::clock::SystemClock;
use crate::engine::upstream::{HttpUpstream, Upstream};
use crate::telemetry;

/// The longest that a stop takes: whoever sent the signal will not wait much longer.
const STOP_WITHIN: Duration = Duration::from_secs(10);

const EXAMPLES: &str = "\
Examples:
  STRIPE_WEBHOOK_SECRET=whsec_0123456789abcdef tollgate serve
  tollgate serve --listen 0.0.0.0:8080 --data /var/lib/tollgate
  TOLLGATE__TELEMETRY__FORMAT=json tollgate serve --config tollgate.toml

A source is on when it has its secret: STRIPE_WEBHOOK_SECRET, PADDLE_WEBHOOK_SECRET, \
FLEXPRICE_WEBHOOK_SECRET, STANDARD_WEBHOOK_SECRET. With its API key (STRIPE_API_KEY, PADDLE_API_KEY, \
FLEXPRICE_API_KEY) it can be asked when an event alone can't decide.

The first start writes a key to operator.key in the data directory. SIGTERM and SIGINT stop the server \
within 10 s: what was acknowledged is kept, and what is undecided is decided after the next start. With a \
full disk it answers 503, and goes on when there is room. Exit code 1 if the store can't be written for any other \
reason.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The address to listen on; port 0 takes a free one [default: `server.listen`, which is 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    #[command(flatten)]
    data: DataArgs,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Where a server is, as JSON.
#[derive(Serialize)]
struct Serving<'a> {
    address: String,
    data: String,
    sources: Vec<&'a str>,
    /// The file that the first start wrote the operator's key to.
    operator_key: Option<String>,
}

/// The signals that ask for a stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    actix_rt::System::new().block_on(serve(args, context))
}

/// Loads what is configured, and begins to log.
fn load(args: &Args, context: &Context) -> Result<Loaded, Failure> {
    let listen = flag("--listen", "server.listen", args.listen.clone());
    let flags = listen.into_iter().chain(args.data.flags()).collect();
    let mut loaded = Loaded::load(&args.config.inputs(context, flags))?;
    let color = context.environment.allows_color() && std::io::stderr().is_terminal();
    telemetry::init(&loaded.config.telemetry, color);
    let server = &mut loaded.config.server;
    server.connections_max = super::files::connections_within(server.connections_max);
    for slip in context.environment.slips() {
        tracing::warn!("{slip}");
    }
    log_sources(&loaded.sources);
    Ok(loaded)
}

async fn serve(args: &Args, context: &Context) -> Result<(), Failure> {
    // Before anything else: a signal that comes while it still begins asks for a stop in order too.
    let mut signals = Signals::listen()?;
    let mut loaded = load(args, context)?;
    let upstream = HttpUpstream::new();
    let upstream =
        upstream.map_err(|error| Failure::new(code::ENGINE_STOPPED, format!("upstreams can't be asked: {error}")))?;
    let upstream: Arc<dyn Upstream> = Arc::new(upstream);
    let Some(mut running) = start(&loaded, &upstream, None, &mut signals).await? else { return Ok(()) };
    if let Err(failure) = greet(&running, &loaded, context) {
        // A server is not ended by nobody's reading its first words.
        tracing::warn!(%failure, "the standard output can't be written");
    }
    // The port that was found is kept if it has to begin anew.
    loaded.config.server.listen = running.address();
    loop {
        let Some(failure) = run_once(running, &mut signals).await? else { return Ok(()) };
        let Some(again) = start(&loaded, &upstream, Some(failure), &mut signals).await? else { return Ok(()) };
        running = again;
    }
}

/// Opens the store and starts. `ended` is why it ran before and does no more. Whatever finds no room on the disk on the
/// way, it is waited for, and then everything begins anew. None if a signal came before: then there is nothing left to
/// stop.
async fn start(
    loaded: &Loaded,
    upstream: &Arc<dyn Upstream>,
    ended: Option<Failure>,
    signals: &mut Signals,
) -> Result<Option<Running>, Failure> {
    let mut ended = ended;
    loop {
        let waited = ended.is_some();
        let store = match ended.take() {
            None => room::opened(loaded, signals).await,
            Some(failure) => room::reopened(loaded, failure, signals).await,
        };
        let started = match store {
            Ok(Some(store)) => loaded.start(store, Arc::clone(upstream), Arc::new(SystemClock)).await,
            Ok(None) => return Ok(None),
            Err(failure) => Err(failure),
        };
        match started {
            Err(failure) if room::is_lacking(&failure) => ended = Some(failure),
            Err(failure) => return Err(failure),
            Ok(running) => {
                if waited {
                    tracing::info!("there is room again: serving");
                }
                return Ok(Some(running));
            }
        }
    }
}

/// Serves until a signal comes or it ends by itself; answers why it did that.
async fn run_once(mut running: Running, signals: &mut Signals) -> Result<Option<Failure>, Failure> {
    let ended = tokio::select! {
        failure = running.ended() => Some(failure),
        signal = signals.next() => {
            tracing::info!(signal, "stopping");
            None
        }
    };
    let stopped = tokio::select! {
        stopped = running.stop(STOP_WITHIN) => stopped,
        signal = signals.next() => {
            Err(Failure::new(code::ENGINE_STOPPED, format!("{signal} came a second time: not all answers were finished")))
        }
    };
    tracing::info!("stopped");
    match ended {
        Some(failure) => Ok(Some(failure)),
        None => stopped.map(|()| None),
    }
}

/// Says where the server is.
fn greet(running: &Running, loaded: &Loaded, context: &Context) -> Result<(), Failure> {
    let address = format!("http://{}", running.address());
    let data = loaded.config.paths.data.display().to_string();
    let operator_key = running.operator_key.as_ref().map(|path| path.display().to_string());
    tracing::info!(address, data, "serving");
    if context.out.is_json() {
        let sources = loaded.sources.on.keys().map(crate::domain::SourceName::as_str).collect();
        return context.out.document(&Serving { address, data, sources, operator_key });
    }
    context.out.line(&format!("tollgate serves on {address}, with its data in {data}"))?;
    for source in loaded.sources.on.keys() {
        context.out.line(&format!("  {source}: POST {address}/webhooks/{source}"))?;
    }
    if loaded.sources.on.is_empty() {
        context.out.line("  no source is on, since none has its secret: see `tollgate serve --help`")?;
    }
    if let Some(path) = operator_key {
        context.out.line(&format!("the key to read and operate is in {path}: TOLLGATE_KEY=$(cat {path})"))?;
    }
    Ok(())
}

fn log_sources(sources: &Sources) {
    for (source, compiled) in &sources.on {
        let upstream = if compiled.upstream().is_some() { "on" } else { "off: it has no API key, or declares none" };
        tracing::info!(%source, upstream, "source is on");
    }
    for off in &sources.off {
        tracing::info!(source = %off.source, why = off.why, "source is off");
    }
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::new(code::ENGINE_STOPPED, format!("can't listen for signals: {error}"));
        let terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        Ok(Self { terminate, interrupt })
    }

    /// The next signal's name.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
