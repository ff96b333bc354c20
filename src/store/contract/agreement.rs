//! Memory and embedded agree on any sequence of calls, whatever restarts, crashes and rebuilds come between.

use std::fmt::Write as _;
use std::path::Path;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::Rig;
use super::facts::{
    at, check_entry, commit, delivery, entry, event, field_entry, item, judged, machine, sub, unavailable,
};
use super::rig::{Bench, SHARDS};
use crate::domain::query::EntityFilter;
use crate::domain::{
    Admit, Attempt, Delivery, Disposition, EntityKey, Kind, Lsn, Position, Reason, Shard, StateName, Timestamp,
};
use crate::store::keys;
use crate::store::tree::Pairs;
use crate::store::view::{Meta, View};
use crate::store::{Action, Command, Commit, Epoch, Error, Scope, Store};

const STATES: [&str; 3] = ["active", "past_due", "canceled"];

/// One call, or one thing that happens to the store.
#[derive(Clone, Debug)]
enum Step {
    /// Items: id, entity, state, where it goes.
    Append(Vec<(u8, u8, u8, u8)>),
    /// Entity, what becomes of its first events, the entries, and whether the version or the epoch is a wrong one.
    Commit {
        entity: u8,
        judge: Vec<u8>,
        entries: Vec<u8>,
        wrong: u8,
    },
    /// The dead letter of that number is replayed as an event of that entity.
    Replay(u8, u8),
    Discard(u8),
    Machine(u32),
    Adopt(u16),
    Reopen,
    Crash,
    Rebuild,
}

fn step() -> impl Strategy<Value = Step> {
    let items = prop::collection::vec((0..12_u8, 0..4_u8, 0..3_u8, 0..8_u8), 1..4);
    let commit = (0..4_u8, prop::collection::vec(0..7_u8, 0..4), prop::collection::vec(0..6_u8, 0..3), 0..12_u8);
    prop_oneof![
        6 => items.prop_map(Step::Append),
        8 => commit.prop_map(|(entity, judge, entries, wrong)| Step::Commit { entity, judge, entries, wrong }),
        2 => (0..4_u8, 0..4_u8).prop_map(|(dead, entity)| Step::Replay(dead, entity)),
        1 => (0..4_u8).prop_map(Step::Discard),
        1 => (0..3_u32).prop_map(Step::Machine),
        2 => (0..SHARDS).prop_map(Step::Adopt),
        1 => Just(Step::Reopen),
        1 => Just(Step::Crash),
        1 => Just(Step::Rebuild),
    ]
}

fn key(entity: u8) -> EntityKey {
    sub(&format!("sub_{entity}"))
}

fn sent(items: &[(u8, u8, u8, u8)]) -> Delivery {
    let item = |(id, entity, state, admit): &(u8, u8, u8, u8)| {
        let event = event(&format!("evt_{id}"), &key(*entity), STATES[usize::from(*state)]);
        let admit = match admit {
            0 => Admit::Record,
            1 => Admit::DeadLetter(Reason::MappingFailed { detail: "no id".to_owned() }),
            _ => Admit::Queue,
        };
        item(event, admit)
    };
    delivery(items.iter().map(item).collect())
}

/// Makes a commit of what the store itself shows, so that both stores are asked the same if they agree.
async fn decision(store: &dyn Store, entity: u8, judge: &[u8], entries: &[u8], wrong: u8) -> Commit {
    let key = key(entity);
    let epoch = store.adopt(key.shard(SHARDS)).await.unwrap();
    let before = store.load(&key).await.unwrap();
    let pending = store.pending(Scope::Entity(&key), Timestamp::MAX, 100).await.unwrap();
    let mut commit = commit(&key, before.as_ref(), epoch);
    for (choice, pending) in judge.iter().zip(&pending) {
        let disposition = match choice {
            0 => Disposition::Dead { attempt: Attempt { at: at(3), reason: Reason::UpstreamNotFound } },
            1 | 2 => Disposition::Retry { at: at(i64::from(*choice) * 10), attempt: unavailable(at(2)) },
            3 => Disposition::Wait { at: at(15) },
            _ => Disposition::Done,
        };
        commit.judged.push(judged(pending.position, disposition));
    }
    let made = entries.iter().map(|choice| match choice {
        0 => check_entry(Some(at(25))),
        1 => check_entry(None),
        2 => field_entry("notes", &"long ".repeat(1000)),
        state => entry(None, STATES[usize::from(*state) - 3], vec![]),
    });
    commit.entries = made.collect();
    match wrong {
        0 => commit.epoch = Epoch(epoch.0.wrapping_sub(1)),
        1 => commit.version += 1,
        2 => commit.judged.push(judged(Position { lsn: Lsn(1), item: 0 }, Disposition::Done)),
        _ => {}
    }
    commit
}

async fn take(rig: &mut Rig, step: &Step) -> String {
    let store = rig.store();
    let command = |action| Command { by: "ops".into(), at: at(9), action };
    let nth = async |n: u8| {
        let dead = store.dead_letters(None, 100).await.unwrap().items;
        dead.get(usize::from(n)).map_or(Position { lsn: Lsn(1), item: 9 }, |dead| dead.position)
    };
    let told = |outcome: Result<String, Error>| outcome.unwrap_or_else(|error| error.to_string());
    match step {
        Step::Append(items) => told(store.append(sent(items)).await.map(|a| format!("{a:?}"))),
        Step::Commit { entity, judge, entries, wrong } => {
            let decided = decision(store, *entity, judge, entries, *wrong).await;
            told(store.commit(decided).await.map(|committed| format!("{committed:?}")))
        }
        Step::Replay(dead, entity) => {
            let replay =
                Action::Replay { dead: nth(*dead).await, event: event("evt_r", &key(*entity), "active").into() };
            told(store.command(command(replay)).await.map(|p| p.to_string()))
        }
        Step::Discard(dead) => {
            let discard = Action::Discard { dead: nth(*dead).await };
            told(store.command(command(discard)).await.map(|p| p.to_string()))
        }
        Step::Machine(version) => {
            let changed = Action::MachineChanged { machine: machine(), version: *version, sha256: [7; 32] };
            told(store.command(command(changed)).await.map(|p| p.to_string()))
        }
        Step::Adopt(shard) => store.adopt(Shard(*shard)).await.map(|_| String::new()).unwrap(),
        Step::Reopen => {
            rig.reopen().await;
            String::new()
        }
        Step::Crash => {
            rig.crash();
            String::new()
        }
        Step::Rebuild => {
            rig.meddle(|_, view| std::fs::remove_dir_all(view).unwrap()).await.unwrap();
            String::new()
        }
    }
}

/// Everything that can be read of a store, as text.
async fn everything(store: &dyn Store) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").unwrap();
    let status = store.status();
    line(format!("{:?}", (status.synced, status.pending, status.retries, status.checks)));
    line(format!("{:?}", (status.dead_letters, status.entities)));
    for now in [0, 10, 20, 99] {
        for limit in [1, 100] {
            for entity in (0..4).map(key) {
                line(format!("{:?}", store.pending(Scope::Entity(&entity), at(now), limit).await.unwrap()));
            }
            for shard in (0..SHARDS).map(Shard) {
                line(format!("{:?}", store.pending(Scope::Shard(shard), at(now), limit).await.unwrap()));
            }
            line(format!("{:?}", store.due(at(now), limit).await.unwrap()));
        }
    }
    let in_states = [None, Some(StateName::new("active")), Some(StateName::new("canceled"))];
    for state in in_states {
        let filter = EntityFilter { state, kind: Some(Kind::new("subscription")), ..EntityFilter::default() };
        line(format!("{:?}", store.entities(&filter, None, 100).await.unwrap().items));
    }
    for entity in (0..4).map(key) {
        line(format!("{:?}", store.load(&entity).await.unwrap()));
        line(format!("{:?}", store.entries(Some(&entity), None, 1000).await.unwrap()));
    }
    line(format!("{:?}", store.entries(None, None, 1000).await.unwrap()));
    line(format!("{:?}", store.feed(None, 1000).await.unwrap()));
    line(format!("{:?}", store.dead_letters(None, 100).await.unwrap()));
    line(format!("{:?}", store.machines().await.unwrap()));
    for (lsn, item) in (0..=status.synced.0 + 1).flat_map(|lsn| (0..3).map(move |item| (Lsn(lsn), item))) {
        line(format!("{:?}", store.delivery(Position { lsn, item }).await.unwrap()));
        line(format!("{:?}", store.dead_letter(Position { lsn, item }).await.unwrap()));
    }
    out
}

/// What is announced at once, of each shard.
fn announced(store: &dyn Store) -> String {
    let mut out = String::new();
    for shard in (0..SHARDS).map(Shard) {
        let arrivals = store.arrivals(&[shard]).now_or_never().map(Result::unwrap);
        writeln!(out, "{arrivals:?}").unwrap();
    }
    out
}

/// Starts announcing anew, as every owner does after a restart.
async fn adopt_all(rig: &Rig) {
    for shard in (0..SHARDS).map(Shard) {
        rig.store().adopt(shard).await.unwrap();
    }
}

async fn agree(steps: Vec<Step>) {
    let (mut memory, mut embedded) = (Rig::memory(), Rig::embedded());
    for step in &steps {
        let (said, meant) = (take(&mut embedded, step).await, take(&mut memory, step).await);
        assert_eq!(said, meant, "answers to {step:?}");
        if matches!(step, Step::Reopen | Step::Crash | Step::Rebuild) {
            adopt_all(&memory).await;
            adopt_all(&embedded).await;
        }
        assert_eq!(announced(embedded.store()), announced(memory.store()), "announced after {step:?}");
        let (shown, meant) = (everything(embedded.store()).await, everything(memory.store()).await);
        similar(&shown, &meant, step);
    }
}

/// Fails with the first line that differs: the whole is too long to read.
fn similar(shown: &str, meant: &str, step: &Step) {
    if shown != meant {
        let differs = shown.lines().zip(meant.lines()).find(|(shown, meant)| shown != meant);
        panic!("after {step:?}\nembedded: {}\nmemory:   {}", differs.unwrap().0, differs.unwrap().1);
    }
}

/// What a closed view says of itself, and all that is in it.
fn kept(view: &Path) -> (Meta, Pairs) {
    let view = View::open_at(view, 1 << 20, Meta::default()).unwrap();
    view.prove().unwrap();
    let kept = (view.meta(), view.range(&keys::everything(), usize::MAX).unwrap());
    view.close();
    kept
}

/// Takes each step so many times, and compares the view that grew with one that is built anew.
async fn build_anew(steps: Vec<(Step, u8)>) {
    let mut rig = Rig::embedded();
    for (step, times) in &steps {
        for _ in 0..*times {
            take(&mut rig, step).await;
        }
    }
    let (mut grown, mut built) = (None, None);
    let take_away = |_: &Bench, view: &Path| {
        grown = Some(kept(view));
        std::fs::remove_dir_all(view).unwrap();
    };
    rig.meddle(take_away).await.unwrap();
    rig.meddle(|_, view| built = Some(kept(view))).await.unwrap();
    let ((was, grown), (is, built)) = (grown.unwrap(), built.unwrap());
    if grown != built {
        let differs = grown.iter().zip(&built).find(|(grown, built)| grown != built);
        panic!("{} pairs grew, {} were built; the first that differ: {differs:?}", grown.len(), built.len());
    }
    // A view that grows may know less well from where on the journal holds undecided events.
    assert!(is.scan_from >= was.scan_from, "{was:?}, {is:?}");
    assert_eq!(is, Meta { scan_from: is.scan_from, ..was });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_embedded_agree_on_any_sequence_of_calls(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(agree(steps));
    }

    #[test]
    fn a_view_that_is_built_anew_is_the_one_that_grew_with_the_journal(
        steps in prop::collection::vec((step(), prop_oneof![6 => Just(1), 1 => Just(40_u8)]), 1..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(build_anew(steps));
    }
}
