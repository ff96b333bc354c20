//! The demo's server, its upstream, and the sender.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use bytes::Bytes;
use tokio::signal::unix::{SignalKind, signal};

use super::super::assemble::{Loaded, Running};
use super::super::client::{Client, ServerArgs};
use super::super::failure::Failure;
use super::account::Account;
use super::stories::{Act, End, Message, Story};
use crate::code;
use crate::config::{Environment, Flag, Inputs};
use crate::domain::query::EntityFilter;
use crate::domain::{Entity, EntityKey, Kind, Partition, Position, SourceName, Timestamp};
use crate::engine::clock::SystemClock;
use crate::engine::upstream::HttpUpstream;
use crate::http::demo_upstream::DemoUpstream;

/// How long a story may take to settle.
const SETTLE_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked whether it has.
const SETTLE_POLL: Duration = Duration::from_millis(5);
/// The longest that the end takes.
const STOP_WITHIN: Duration = Duration::from_secs(5);
/// How many entities and entries the stories leave at the most.
const ALL: usize = 1000;

/// A running demo.
pub(super) struct Stage {
    running: Running,
    loaded: Loaded,
    upstream: DemoUpstream,
    client: Client,
}

impl Stage {
    /// Starts the upstream and the server.
    pub(super) async fn set(folder: &Path, listen: SocketAddr) -> Result<Self, Failure> {
        let upstream = DemoUpstream::start()?;
        let loaded = Loaded::load(&inputs(folder, listen, upstream.address())?)?;
        let store = super::super::store::open(&loaded.config)?;
        let http = HttpUpstream::new().map_err(|error| Failure::new(code::ENGINE_STOPPED, error.to_string()))?;
        let running = loaded.start(store, Arc::new(http), Arc::new(SystemClock)).await?;
        let client = ServerArgs::here(running.address())?.connect()?;
        Ok(Self { running, loaded, upstream, client })
    }

    pub(super) fn address(&self) -> String {
        format!("http://{}", self.running.address())
    }

    pub(super) fn operator_key(&self) -> Option<PathBuf> {
        self.running.operator_key.clone()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.running.engine.now()
    }

    pub(super) fn fetches(&self) -> usize {
        self.upstream.asked()
    }

    /// Plays a story to its end. Answers what ended otherwise than it must.
    pub(super) async fn play(&self, story: &Story, account: &mut Account<'_>) -> Result<Vec<String>, Failure> {
        let mut wrong = Vec::new();
        for act in &story.acts {
            match act {
                Act::Send(message, expected) => {
                    let said = self.send(message).await?;
                    account.sent(message, &said)?;
                    if said.word != *expected {
                        wrong.push(format!("{}: answered {}, not {expected}", message.what, said.word));
                    }
                }
                Act::SendAtOnce(message, count) => wrong.extend(self.send_at_once(message, *count, account).await?),
                Act::Upstream(path, body) => {
                    self.upstream.has(path, body);
                    account.upstream_has(path, body)?;
                }
                Act::Down => {
                    self.upstream.set_down(true);
                    account.upstream_is("down: it answers 503")?;
                }
                Act::Up => {
                    self.upstream.set_down(false);
                    account.upstream_is("up again")?;
                }
            }
            self.until(|status| status.pending == 0).await?;
            account.decided(&self.entries(account.shown()).await?)?;
            if let retries @ 1.. = self.running.engine.status().store.retries {
                account.waiting(retries)?;
            }
        }
        self.until(|status| status.pending == 0 && status.retries == 0 && status.checks == 0).await?;
        account.decided(&self.entries(account.shown()).await?)?;
        for end in &story.ends {
            wrong.extend(self.compare(end).await?);
        }
        Ok(wrong)
    }

    /// All entities, for the last table.
    pub(super) async fn entities(&self) -> Result<Vec<Entity>, Failure> {
        Ok(self.running.engine.entities(&EntityFilter::default(), None, ALL).await?.items)
    }

    /// Goes on serving until a signal asks for the end.
    pub(super) async fn serve(&self) -> Result<(), Failure> {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            why = self.running.engine.stopped() => {
                return Err(Failure::new(code::ENGINE_STOPPED, why.unwrap_or_default()));
            }
        }
        Ok(())
    }

    pub(super) async fn stop(self) -> Result<(), Failure> {
        self.upstream.stop().await;
        self.running.stop(STOP_WITHIN).await
    }

    async fn send(&self, message: &Message) -> Result<Said, Failure> {
        let name = SourceName::new(message.source);
        let source = self.loaded.sources.on.get(&name);
        let at = self.now().minus(Duration::from_secs(message.signed_ago_s));
        let headers = source.map(|source| source.sign(0, &message.id, message.body.as_bytes(), at)).unwrap_or_default();
        // One more blank: the same JSON, and other bytes.
        let body = if message.forged { format!("{} ", message.body) } else { message.body.clone() };
        let reply = self.client.deliver(message.source, &headers, Bytes::from(body)).await?;
        let word = match &reply.outcome {
            Ok(admitted) => admitted.all().first().map(|admission| admission.outcome.clone()).unwrap_or_default(),
            Err(problem) => problem.code.clone(),
        };
        Ok(Said { status: reply.status, word })
    }

    async fn send_at_once(
        &self,
        message: &Message,
        count: usize,
        account: &mut Account<'_>,
    ) -> Result<Vec<String>, Failure> {
        let sends = (0..count).map(|_| self.send(message));
        let mut words: Vec<String> = Vec::with_capacity(count);
        for said in futures_util::future::join_all(sends).await {
            words.push(said?.word);
        }
        let accepted = words.iter().filter(|word| *word == "accepted").count();
        let duplicates = words.iter().filter(|word| *word == "duplicate").count();
        account.sent_at_once(message, count, accepted, duplicates)?;
        let right = accepted == 1 && duplicates == count - 1;
        Ok(if right { Vec::new() } else { vec![format!("{}: answered {}", message.what, words.join(", "))] })
    }

    async fn until(&self, settled: impl Fn(&crate::store::Status) -> bool) -> Result<(), Failure> {
        let began = Instant::now();
        while !settled(&self.running.engine.status().store) {
            if began.elapsed() > SETTLE_WITHIN {
                return Err(Failure::new(code::DEMO_FAILED, "a story did not settle in time"));
            }
            tokio::time::sleep(SETTLE_POLL).await;
        }
        Ok(())
    }

    async fn entries(&self, after: Option<Position>) -> Result<Vec<crate::domain::Recorded>, Failure> {
        let mut out = Vec::new();
        let mut after = after;
        loop {
            let page = self.running.engine.entries(None, after, ALL).await?;
            out.extend(page.items);
            match page.next {
                Some(next) if Some(next) != after => after = Some(next),
                Some(_) | None => return Ok(out),
            }
        }
    }

    /// What is otherwise than the end says.
    async fn compare(&self, end: &End) -> Result<Option<String>, Failure> {
        let engine = &self.running.engine;
        Ok(match end {
            End::State(entity, state) => {
                let found = engine.entities(&filter(entity), None, 1).await?.items;
                let states: Vec<String> = found.iter().flat_map(states).collect();
                (states != [*state]).then(|| format!("{entity} is {states:?}, not {state}"))
            }
            End::Nothing(entity) => {
                let found = engine.entities(&filter(entity), None, 1).await?.items;
                found.iter().any(Entity::is_known).then(|| format!("{entity} was made"))
            }
            End::Dead(id, reason) => {
                let letters = engine.dead_letters(None, ALL).await?.items;
                let is = |letter: &&crate::domain::query::DeadLetter| letter.event.id.as_str() == *id;
                let last = letters.iter().find(is).and_then(|letter| letter.attempts.last());
                let code = last.map(|attempt| attempt.reason.code());
                (code != Some(*reason)).then(|| format!("{id} is no dead letter for {reason}, but {code:?}"))
            }
        })
    }
}

/// What the door answered: the status, and the outcome or error code.
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) word: String,
}

/// The states of an entity's machines.
fn states(entity: &Entity) -> Vec<String> {
    entity.ladder().machines.values().map(|held| held.state.to_string()).collect()
}

/// The one entity with this `source/kind/id`.
fn filter(text: &str) -> EntityFilter {
    let mut parts = text.splitn(3, '/').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    let key = EntityKey {
        partition: Partition::LIVE,
        source: SourceName::new(&next()),
        kind: Kind::new(&next()),
        id: Arc::from(next()),
    };
    EntityFilter {
        source: Some(key.source),
        kind: Some(key.kind),
        id: Some(key.id.to_string()),
        partition: Some(key.partition),
        state: None,
    }
}

/// The demo's configuration: as shipped, with secrets of the moment, its own upstream, and short times.
fn inputs(folder: &Path, listen: SocketAddr, upstream: SocketAddr) -> Result<Inputs, Failure> {
    let mut variables = vec![
        ("STRIPE_WEBHOOK_SECRET".to_owned(), format!("whsec_{}", random()?)),
        ("PADDLE_WEBHOOK_SECRET".to_owned(), format!("pdl_ntfset_{}", random()?)),
        ("STANDARD_WEBHOOK_SECRET".to_owned(), format!("whsec_{}", random()?)),
        ("STRIPE_API_KEY".to_owned(), "demo".to_owned()),
        ("PADDLE_API_KEY".to_owned(), "demo".to_owned()),
        ("TOLLGATE__ENGINE__CONFIRM_AFTER".to_owned(), "200ms".to_owned()),
        ("TOLLGATE__ENGINE__TICK".to_owned(), "20ms".to_owned()),
        ("TOLLGATE__ENGINE__BREAKER_OPEN".to_owned(), "200ms".to_owned()),
        ("TOLLGATE__ENGINE__RETRY__FIRST".to_owned(), "200ms".to_owned()),
        ("TOLLGATE__ENGINE__RETRY__MAX".to_owned(), "200ms".to_owned()),
    ];
    for source in ["STRIPE", "PADDLE"] {
        let name = format!("TOLLGATE__SOURCES__{source}__UPSTREAM__BASE_URL");
        variables.push((name, format!("http://{upstream}")));
    }
    let flag = |name, key, value| Flag { name, key, value };
    let flags = vec![
        flag("--listen", "server.listen", listen.to_string()),
        flag("--data", "paths.data", folder.display().to_string()),
    ];
    Ok(Inputs { file: None, environment: Environment::of(variables), flags })
}

/// 32 random bytes in base64.
fn random() -> Result<String, Failure> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| Failure::new(code::INTERNAL, error.to_string()))?;
    Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
}
