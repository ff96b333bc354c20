//! Plays a story: one memory store, a manual clock, a scripted upstream, and turns until nothing is left to do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tollgate::domain::{Admission, Entity, EntityKey, MachineName, Position, Shard, SourceName, Timestamp};
use tollgate::engine::clock::{Clock, ManualClock};
use tollgate::engine::decider::Ladder;
use tollgate::engine::metrics::Metrics;
use tollgate::engine::reconciler::Reconciler;
use tollgate::engine::room::Room;
use tollgate::engine::settings::Settings;
use tollgate::engine::turn::{Core, Next, TURNS_MAX};
use tollgate::engine::upstream::Upstream;
use tollgate::machine::{self, Registry, Schedule};
use tollgate::source::{SHIPPED, Secrets, SigningSecret, Source, spec::SourceSpec};
use tollgate::store::memory::MemoryStore;
use tollgate::store::{Action, Command, Epoch, Store};

use super::render::Text;
use super::story::{MachineFile, Step, Story};
use super::upstream::{self, Script};

/// A secret that every shipped scheme takes.
const SECRET: &str = "whsec_dG9sbGdhdGUtc3RvcnktdGVzdC1zZWNyZXQtMDAwMQ==";

/// What came of a story.
pub(crate) struct Played {
    /// The text of it.
    pub(crate) text: String,
    /// The states in the end, by entity.
    pub(crate) ends: BTreeMap<String, String>,
    /// The fields in the end, by entity.
    pub(crate) fields: BTreeMap<String, String>,
}

/// Plays a story, with each delivery made `repeats` times more than it says.
pub(crate) fn play(story: &Story, repeats: u32) -> Played {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut stage = Stage::set(story, repeats).await;
        if story.step.first().is_some_and(|step| step.note.is_none()) {
            stage.text.gap();
        }
        for step in &story.step {
            stage.play(step).await;
        }
        stage.end().await
    })
}

struct Stage<'a> {
    story: &'a Story,
    repeats: u32,
    core: Core,
    clock: ManualClock,
    script: Arc<Script>,
    epoch: Epoch,
    held: BTreeMap<EntityKey, Option<Entity>>,
    shown: Position,
    events: usize,
    questions: usize,
    text: Text,
}

/// Settings as they are shipped, but for the breaker: a story has no rests.
pub(crate) fn settings() -> Settings {
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

/// The shipped sources that a story speaks of.
fn sources(story: &Story) -> BTreeMap<SourceName, Arc<Source>> {
    let other = story.step.iter().filter_map(|step| step.from.as_ref());
    let names: BTreeSet<&String> = other.chain([&story.source]).collect();
    let compile = |name: &String| {
        let file = SHIPPED.iter().find(|(shipped, _)| shipped == name).unwrap_or_else(|| panic!("no source {name}")).1;
        let spec: SourceSpec = toml::from_str(file).unwrap();
        let keys = if story.upstream { upstream::keys() } else { Secrets::default() };
        let secrets = Secrets { signing: vec![SigningSecret::new(SECRET)], ..keys };
        (SourceName::new(name), Arc::new(Source::compile(&spec, &secrets).unwrap()))
    };
    names.into_iter().map(compile).collect()
}

impl<'a> Stage<'a> {
    async fn set(story: &'a Story, repeats: u32) -> Self {
        let clock = ManualClock::new(Timestamp::parse_rfc3339(&story.start).unwrap());
        let sources = sources(story);
        let memory: Arc<dyn Store> = Arc::new(MemoryStore::new(1));
        let epoch = memory.adopt(Shard(0)).await.unwrap();
        let script = Arc::new(Script::new(clock.clone(), Arc::clone(&memory)));
        let metrics = Arc::new(Metrics::default());
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let upstream: Arc<dyn Upstream> = script.clone();
        let reconciler = Reconciler::new(upstream, Arc::clone(&shared), Arc::clone(&metrics), &sources, &settings());
        let core = Core {
            store: memory,
            decider: Arc::new(Ladder(Registry::shipped())),
            sources,
            reconciler,
            clock: shared,
            settings: settings(),
            metrics,
            jitter: Arc::new(|delay| delay),
            turns: Semaphore::new(TURNS_MAX),
            room: Room::default(),
        };
        Self {
            story,
            repeats,
            core,
            clock,
            script,
            epoch,
            held: BTreeMap::new(),
            shown: Position::default(),
            events: 0,
            questions: 0,
            text: Text::titled(&story.title, &story.about),
        }
    }

    async fn play(&mut self, step: &Step) {
        if let Some(note) = &step.note {
            self.text.note(note);
        }
        if let Some(seconds) = step.pass_s {
            self.pass(seconds).await;
        }
        if let Some(answer) = &step.answer {
            self.script.answer(answer);
            self.text.upstream(answer);
        }
        if let Some(file) = &step.machine {
            self.load(file);
        }
        if let Some(body) = &step.deliver {
            for _ in 0..step.times.unwrap_or(1) + self.repeats {
                self.deliver(step, body).await;
            }
        }
        if step.replay {
            self.replay().await;
        }
        if step.busy {
            self.text.busy();
        } else {
            self.run().await;
        }
    }

    /// Lets time pass: what falls due meanwhile is done when it is due.
    async fn pass(&mut self, seconds: f64) {
        self.text.passed(seconds);
        let end = self.clock.now().plus(Duration::from_secs_f64(seconds));
        while let Some(next) = self.next_due().await.filter(|next| *next <= end) {
            self.clock.set(next);
            self.run().await;
        }
        self.clock.set(end);
    }

    async fn next_due(&self) -> Option<Timestamp> {
        self.core.store.due(self.clock.now(), 100).await.unwrap().next
    }

    fn load(&mut self, file: &MachineFile) {
        let name = MachineName::new(&file.name);
        let read = machine::MachineFile { shown: file.name.clone(), name: name.clone(), text: file.text.clone() };
        let machines = Registry::load([read]).unwrap_or_else(|problems| panic!("{problems:?}"));
        self.text.loaded(machines.get(&name).unwrap());
        self.core.decider = Arc::new(Ladder(machines));
    }

    async fn deliver(&mut self, step: &Step, body: &str) {
        let now = self.clock.now();
        let name = step.from.as_ref().unwrap_or(&self.story.source);
        let source = Arc::clone(&self.core.sources[name.as_str()]);
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
            if !matches!(admission, Admission::Accepted(_)) {
                continue;
            }
            self.events += 1;
            if let Some(key) = &item.event.entity {
                self.held.entry(key.clone()).or_default();
            }
        }
    }

    /// Replays every dead letter that has an entity to be judged for.
    async fn replay(&mut self) {
        let letters = self.core.store.dead_letters(None, 100).await.unwrap();
        for letter in letters.items.into_iter().filter(|letter| letter.event.entity.is_some()) {
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
        self.show().await;
    }

    /// What was asked and decided since the last time, in order.
    async fn show(&mut self) {
        let asked = self.script.asked();
        self.questions += asked.len();
        let retries = self.core.store.status().retries;
        let waits = !asked.is_empty() && retries > 0;
        let now = self.clock.now();
        let mut asked = asked.into_iter().peekable();
        let entries = self.core.store.entries(None, Some(self.shown), 1000).await.unwrap().items;
        for recorded in &entries {
            while let Some(asked) = asked.next_if(|asked| asked.after < recorded.position.lsn) {
                self.text.asked(now, &asked);
            }
            self.text.decided(recorded);
            self.shown = recorded.position;
        }
        asked.for_each(|asked| self.text.asked(now, &asked));
        if waits {
            self.text.waits(now, retries, self.next_due().await);
        }
    }

    async fn end(mut self) -> Played {
        self.text.end(self.events, self.questions);
        let (mut ends, mut fields) = (BTreeMap::new(), BTreeMap::new());
        for key in self.held.keys() {
            let stored = self.core.store.load(key).await.unwrap();
            let entries = self.core.store.entries(Some(key), None, 1000).await.unwrap();
            let mut folded = Entity::unknown(key.clone());
            entries.items.iter().for_each(|recorded| recorded.entry.apply(&mut folded));
            assert_eq!(stored.as_ref().unwrap_or(&Entity::unknown(key.clone())), &folded, "the fold of the entries");
            self.text.entity(&folded);
            let states = folded.ladder().machines.values().map(|held| held.state.to_string());
            ends.insert(key.to_string(), states.collect::<Vec<_>>().join(", "));
            fields.insert(key.to_string(), format!("{:?}", folded.ladder().fields));
        }
        for letter in &self.core.store.dead_letters(None, 100).await.unwrap().items {
            self.text.dead_letter(letter);
        }
        Played { text: self.text.finish(), ends, fields }
    }
}
