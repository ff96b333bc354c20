//! Plays a story: one memory store, a manual clock, a scripted upstream, and turns until nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tollgate::domain::{Admission, Entity, EntityKey, Position, SourceName, Timestamp};
use tollgate::engine::clock::{Clock, ManualClock};
use tollgate::engine::decider::Ladder;
use tollgate::engine::metrics::Metrics;
use tollgate::engine::reconciler::Reconciler;
use tollgate::engine::settings::Settings;
use tollgate::engine::turn::{Core, Next};
use tollgate::engine::upstream::{Answered, Unanswered, Upstream};
use tollgate::machine::{Registry, Schedule};
use tollgate::source::{Request, SHIPPED, Secrets, SigningSecret, Source, spec::SourceSpec};
use tollgate::store::memory::MemoryStore;
use tollgate::store::{Action, Command, Epoch, Store};

use super::render::Text;
use super::story::{Answer, Step, Story};

/// A secret that every shipped scheme takes.
const SECRET: &str = "whsec_dG9sbGdhdGUtc3RvcnktdGVzdC1zZWNyZXQtMDAwMQ==";

/// What the upstream answers by path.
#[derive(Default)]
struct Script {
    answers: Mutex<BTreeMap<String, Answer>>,
    asked: Mutex<Vec<String>>,
    clock: Mutex<Option<ManualClock>>,
}

#[async_trait]
impl Upstream for Script {
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered> {
        let path = request.url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap();
        let answer = self.answers.lock().unwrap().get(&path).cloned();
        let now = self.clock.lock().unwrap().as_ref().unwrap().now();
        let said = match &answer {
            None | Some(Answer { status: 0, .. }) => "no answer".to_owned(),
            Some(answer) => format!("status {}", answer.status),
        };
        self.asked.lock().unwrap().push(format!("GET {path}: {said}"));
        match answer {
            None | Some(Answer { status: 0, .. }) => Err(Unanswered("could not connect".to_owned())),
            Some(answer) => Ok(Answered {
                status: answer.status,
                body: Bytes::from(answer.body),
                date: Some(Timestamp::from_secs(now.secs())),
                to_headers: Duration::ZERO,
                retry_after: None,
            }),
        }
    }
}

struct Stage {
    core: Core,
    clock: ManualClock,
    script: Arc<Script>,
    epoch: Epoch,
    held: BTreeMap<EntityKey, Option<Entity>>,
    shown: Position,
    text: Text,
}

pub(crate) fn play(story: &Story) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut stage = Stage::set(story).await;
        for step in &story.step {
            stage.play(story, step).await;
        }
        stage.end().await
    })
}

fn settings() -> Settings {
    let seconds = Duration::from_secs;
    Settings {
        clock_skew: seconds(5),
        confirm_after: seconds(15),
        retry: Schedule { first: seconds(5), max: seconds(3600), attempts: 12 },
        retry_by_source: BTreeMap::new(),
        turn_events_max: 64,
        actors_max: 64,
        idle_after: seconds(1),
        tick: seconds(1),
        fetches_max: 4,
        breaker_failures: 100,
        breaker_open: seconds(30),
    }
}

impl Stage {
    async fn set(story: &Story) -> Self {
        let clock = ManualClock::new(Timestamp::parse_rfc3339(&story.start).unwrap());
        let spec: SourceSpec = toml::from_str(shipped(&story.source)).unwrap();
        let secrets = Secrets {
            signing: vec![SigningSecret::new(SECRET)],
            api_key: story.upstream.then(|| "sk_story".to_owned().into()),
            ..Secrets::default()
        };
        let source = Arc::new(Source::compile(&spec, &secrets).unwrap());
        let sources = BTreeMap::from([(SourceName::new(&story.source), source)]);
        let script = Arc::new(Script::default());
        *script.clock.lock().unwrap() = Some(clock.clone());
        let metrics = Arc::new(Metrics::default());
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let upstream: Arc<dyn Upstream> = Arc::clone(&script) as _;
        let reconciler = Reconciler::new(upstream, Arc::clone(&shared), Arc::clone(&metrics), &sources, &settings());
        let store = MemoryStore::new(1);
        let epoch = store.adopt(tollgate::domain::Shard(0)).await.unwrap();
        let core = Core {
            store: Arc::new(store),
            decider: Arc::new(Ladder(Registry::shipped())),
            sources,
            reconciler,
            clock: shared,
            settings: settings(),
            metrics,
            jitter: Arc::new(|delay| delay),
        };
        let text = Text::titled(&story.title, &story.about);
        Self { core, clock, script, epoch, held: BTreeMap::new(), shown: Position::default(), text }
    }

    async fn play(&mut self, story: &Story, step: &Step) {
        if let Some(note) = &step.note {
            self.text.note(note);
        }
        if let Some(seconds) = step.pass_s {
            self.clock.advance(Duration::from_secs_f64(seconds));
            self.text.passed(seconds);
        }
        if let Some(answer) = &step.answer {
            self.script.answers.lock().unwrap().insert(answer.path.clone(), answer.clone());
            self.text.upstream(answer);
        }
        if let Some(body) = &step.deliver {
            for _ in 0..step.times.unwrap_or(1) {
                self.deliver(story, step, body).await;
            }
        }
        if step.replay {
            self.replay().await;
        }
        self.run().await;
        self.show_entries().await;
    }

    async fn deliver(&mut self, story: &Story, step: &Step, body: &str) {
        let now = self.clock.now();
        let source = Arc::clone(&self.core.sources[story.source.as_str()]);
        let signed_at = Timestamp::from_secs(now.secs() - step.signed_ago_s.unwrap_or(0));
        let headers = source.sign(0, step.id.as_deref().unwrap_or("msg_1"), body.as_bytes(), signed_at);
        let mut bytes = body.as_bytes().to_vec();
        if step.forged {
            let at = bytes.iter().rposition(|byte| *byte == b'}').unwrap();
            bytes.insert(at, b' ');
        }
        let verified = match source.verify(&headers, &bytes, now) {
            Ok(verified) => verified,
            Err(rejection) => return self.text.refused(now, &rejection.to_string()),
        };
        let delivery = source.deliver(&verified, &headers, Bytes::from(bytes), now);
        let items = delivery.items.clone();
        let admissions = self.core.store.append(delivery).await.unwrap();
        for (item, admission) in items.iter().zip(&admissions) {
            self.text.received(now, item, admission);
            if let (Some(key), Admission::Accepted(_)) = (&item.event.entity, admission) {
                self.held.entry(key.clone()).or_default();
            }
        }
    }

    async fn replay(&mut self) {
        let letters = self.core.store.dead_letters(None, 100).await.unwrap();
        for letter in letters.items {
            let action = Action::Replay { dead: letter.position, event: letter.event.clone() };
            let command = Command { by: Arc::from("anna"), at: self.clock.now(), action };
            let position = self.core.store.command(command).await.unwrap();
            self.text.replayed(self.clock.now(), letter.position, position);
        }
    }

    /// Turns of every entity until nothing is left to do now.
    async fn run(&mut self) {
        let keys: BTreeSet<EntityKey> = self.held.keys().cloned().collect();
        for key in keys {
            let held = self.held.get_mut(&key).unwrap();
            while self.core.turn(&key, self.epoch, held).await.unwrap() != Next::Idle {}
        }
        for asked in self.script.asked.lock().unwrap().drain(..) {
            self.text.asked(self.clock.now(), &asked);
        }
    }

    async fn show_entries(&mut self) {
        let page = self.core.store.entries(None, Some(self.shown), 1000).await.unwrap();
        for recorded in &page.items {
            self.text.decided(recorded);
            self.shown = recorded.position;
        }
    }

    async fn end(mut self) -> String {
        self.text.heading("In the end");
        for key in self.held.keys() {
            let stored = self.core.store.load(key).await.unwrap();
            let entries = self.core.store.entries(Some(key), None, 1000).await.unwrap();
            let mut folded = Entity::unknown(key.clone());
            entries.items.iter().for_each(|recorded| recorded.entry.apply(&mut folded));
            assert_eq!(stored.as_ref().unwrap_or(&Entity::unknown(key.clone())), &folded, "the fold of the entries");
            self.text.entity(&folded);
        }
        for letter in &self.core.store.dead_letters(None, 100).await.unwrap().items {
            self.text.dead_letter(letter);
        }
        self.text.finish()
    }
}

/// The file of a shipped source.
fn shipped(name: &str) -> &'static str {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap().1
}
