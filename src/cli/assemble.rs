//! From a configuration to a running server: what `serve`, the demo and tests have in common.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::failure::Failure;
use crate::code;
use crate::config::{Config, Environment, Inputs, Problem, Sources, machines};
use crate::engine::clock::Clock;
use crate::engine::upstream::Upstream;
use crate::engine::{Engine, Parts};
use crate::http::keys::{self, Ring};
use crate::http::{self, Server};
use crate::machine::{self, Registry};
use crate::store::Store;

/// The least that is left for the last sync when a server stops.
const SYNC_WITHIN: Duration = Duration::from_secs(2);

/// A configuration with what it names, loaded and checked.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// The sources, on and off.
    pub sources: Sources,
    /// The machines.
    pub machines: Registry,
}

/// A running server.
pub struct Running {
    /// The engine behind it.
    pub engine: Engine,
    /// The file that the first start wrote the operator's key to; none if there were keys.
    pub operator_key: Option<PathBuf>,
    server: Server,
}

/// The sources and machines of a configuration as far as they can be used, and everything that is wrong with them.
pub(super) fn parts(config: &Config, environment: &Environment) -> (Option<Sources>, Option<Registry>, Vec<Problem>) {
    let mut problems = Vec::new();
    let sources = config.sources(environment).map_err(|found| problems.extend(found)).ok();
    let machines = machines::load(config.paths.machines().as_deref());
    let machines = machines.map_err(|found| problems.extend(found.into_iter().map(of_machine))).ok();
    problems.extend(machines.iter().flat_map(|machines| config.check_rules(machines)));
    (sources, machines, problems)
}

fn of_machine(problem: machine::spec::Problem) -> Problem {
    let machine::spec::Problem { file, line, column, message } = problem;
    let origin = if line == 0 { file } else { format!("{file}:{line}:{column}") };
    Problem { origin, key: String::new(), message, code: &code::MACHINE_INVALID }
}

impl Loaded {
    /// Loads a configuration, its secrets, sources and machines, and checks that they fit together.
    ///
    /// # Errors
    /// Every problem of all of them.
    pub fn load(inputs: &Inputs) -> Result<Self, Vec<Problem>> {
        let config = Config::load(inputs)?;
        match parts(&config, &inputs.environment) {
            (Some(sources), Some(machines), problems) if problems.is_empty() => Ok(Self { config, sources, machines }),
            (_, _, problems) => Err(problems),
        }
    }

    /// What an engine is made of.
    pub(super) fn parts(&self, store: Arc<dyn Store>, upstream: Arc<dyn Upstream>, clock: Arc<dyn Clock>) -> Parts {
        Parts {
            store,
            machines: self.machines.clone(),
            sources: self.sources.on.clone(),
            upstream,
            clock,
            jitter: Arc::new(spread),
            settings: self.config.engine.settings(&self.config.sources),
            workers: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Starts the engine over a store and the server before it, on the actix system that this is called in. The
    /// first start in a data directory makes the operator's key.
    ///
    /// # Errors
    /// The keys can't be read or written, the store doesn't answer, or the address can't be had.
    pub async fn start(
        &self,
        store: Arc<dyn Store>,
        upstream: Arc<dyn Upstream>,
        clock: Arc<dyn Clock>,
    ) -> Result<Running, Failure> {
        let data = &self.config.paths.data;
        let operator_key = keys::first_start(data, clock.now())?;
        let ring = Ring::open(data, clock.now())?;
        let engine = Engine::start(self.parts(store, upstream, clock)).await?;
        match http::serve(engine.clone(), ring, &self.config.server.settings()) {
            Ok(server) => Ok(Running { engine, operator_key, server }),
            Err(error) => {
                engine.drain(SYNC_WITHIN).await?;
                Err(error.into())
            }
        }
    }
}

impl Running {
    /// The address that is listened on, with the port that was found.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Resolves when the engine or the server ends although nobody told it to; says why.
    pub async fn ended(&mut self) -> Failure {
        let why = tokio::select! {
            why = self.engine.stopped() => why.unwrap_or_else(|| "the engine ended".to_owned()),
            error = self.server.ended() => error.to_string(),
        };
        Failure::new(code::ENGINE_STOPPED, format!("stopped by itself: {why}"))
    }

    /// Stops within this time: takes no new connection, finishes the answers in flight, lets the turns under way end,
    /// syncs and closes the store. What is pending waits there.
    ///
    /// # Errors
    /// The last sync failed or did not end in time; what was acknowledged was durable before.
    pub async fn stop(self, within: Duration) -> Result<(), Failure> {
        let deadline = tokio::time::Instant::now() + within;
        // Answers that take longer are cut off; their senders try again.
        let _ = tokio::time::timeout_at(deadline - SYNC_WITHIN.min(within), self.server.stop()).await;
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        let drained = tokio::time::timeout_at(deadline, self.engine.drain(left / 2)).await;
        let late = |_| Failure::new(code::ENGINE_STOPPED, format!("the store did not close within {within:?}"));
        Ok(drained.map_err(late)??)
    }
}

/// Spreads a delay over its second half, so that what failed together does not come back together.
fn spread(delay: Duration) -> Duration {
    let mut bytes = [0_u8; 4];
    // Without random bytes there is no spread, and nothing worse.
    let _ = getrandom::fill(&mut bytes);
    let (half, part) = (delay / 2, u32::from_le_bytes(bytes));
    let nanos = u128::from(part) * half.as_nanos() / u128::from(u32::MAX);
    delay.saturating_sub(Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flag;
    use crate::engine::clock::SystemClock;
    use crate::engine::upstream::HttpUpstream;
    use crate::store::memory::MemoryStore;

    #[test]
    fn a_delay_is_spread_over_its_second_half() {
        let delay = Duration::from_secs(10);
        let delays: Vec<_> = (0..1000).map(|_| spread(delay)).collect();
        assert!(delays.iter().all(|spread| (delay / 2..=delay).contains(spread)));
        assert!(delays.iter().any(|spread| *spread < delay * 6 / 10) && delays.iter().any(|s| *s > delay * 9 / 10));
        assert_eq!(spread(Duration::ZERO), Duration::ZERO);
    }

    /// A server on a free port, with a store that is kept by the caller too.
    async fn started(data: &std::path::Path, store: &Arc<MemoryStore>) -> Running {
        let listen = Flag { name: "--listen", key: "server.listen", value: "127.0.0.1:0".to_owned() };
        let data = Flag { name: "--data", key: "paths.data", value: data.display().to_string() };
        let loaded = Loaded::load(&Inputs { flags: vec![listen, data], ..Inputs::default() }).unwrap();
        let upstream = Arc::new(HttpUpstream::new().unwrap());
        let store: Arc<dyn Store> = store.clone();
        loaded.start(store, upstream, Arc::new(SystemClock)).await.unwrap()
    }

    #[test]
    fn a_store_that_stops_ends_the_server_with_the_reason() {
        let data = tempfile::tempdir().unwrap();
        actix_rt::System::new().block_on(async {
            let store = Arc::new(MemoryStore::new(1));
            let mut running = started(data.path(), &store).await;
            store.close().await.unwrap();
            let failure = running.ended().await;
            assert_eq!(failure.exit(), 1);
            assert!(failure.to_string().contains("stopped by itself: "), "{failure}");
        });
    }

    #[test]
    fn a_stop_closes_the_door_and_then_the_store() {
        let data = tempfile::tempdir().unwrap();
        actix_rt::System::new().block_on(async {
            let store = Arc::new(MemoryStore::new(1));
            let running = started(data.path(), &store).await;
            assert_eq!(running.operator_key, Some(data.path().join("operator.key")));
            let address = running.address();
            assert!(std::net::TcpStream::connect(address).is_ok());
            running.stop(Duration::from_secs(10)).await.unwrap();
            assert!(std::net::TcpStream::connect(address).is_err());
            assert!(matches!(store.machines().await, Err(crate::store::Error::Stopped { .. })));
            // The keys are there now.
            assert_eq!(started(data.path(), &Arc::new(MemoryStore::new(1))).await.operator_key, None);
        });
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let machines = tempfile::tempdir().unwrap();
        std::fs::write(machines.path().join("broken.toml"), "name = \"broken\"\n").unwrap();
        let variables =
            [("STRIPE_WEBHOOK_SECRET", " padded "), ("TOLLGATE__PATHS__MACHINES", machines.path().to_str().unwrap())];
        let inputs = Inputs { environment: Environment::of(variables), ..Inputs::default() };
        let problems = Loaded::load(&inputs).unwrap_err();
        let codes: Vec<_> = problems.iter().map(|problem| problem.code.id).collect();
        assert!(codes.contains(&"secret_invalid") && codes.contains(&"machine_invalid"), "{problems:?}");
    }
}
