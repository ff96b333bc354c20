//! The steps of the path from the door to the view, each alone: `cargo bench --bench path`.
//!
//! `tollgate bench webhooks` measures the whole path under load; these tell where a change of it comes from.
#![allow(missing_docs, reason = "criterion's macros make public functions")]
#![allow(clippy::unwrap_used, reason = "a bench that can't go on must stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tempfile::TempDir;
use tollgate::domain::{Delivery, Entity, EntityKey, Pending, Position, Timestamp};
use tollgate::machine::{Context, Registry, Schedule, decide};
use tollgate::source::spec::SourceSpec;
use tollgate::source::{SHIPPED, Secrets, SigningSecret, Source, Verified};
use tollgate::store::embedded::EmbeddedStore;
use tollgate::store::journal::{self, Journal};
use tollgate::store::{Commit, Epoch, Options, Scope, Store};

/// 2026-11-30T10:00:00Z.
const NOW: i64 = 1_796_032_800;

/// How many entities become durable and visible together.
const MANY: usize = 1000;

fn source() -> Source {
    let shipped = SHIPPED.iter().find(|(name, _)| *name == "stripe").unwrap().1;
    let spec: SourceSpec = toml::from_str(shipped).unwrap();
    let secrets = Secrets { signing: vec![SigningSecret::new("whsec_bench_secret_0001")], ..Secrets::default() };
    Source::compile(&spec, &secrets).unwrap()
}

/// An event of about 1.2 KB: this subscription was in this state, so many seconds from now.
fn body(event: usize, entity: usize, status: &str, after: i64) -> Vec<u8> {
    let text = include_str!("event.json")
        .replace("{event}", &format!("{event:020}"))
        .replace("{created}", &(NOW + after).to_string())
        .replace("{entity}", &format!("{entity:012}"))
        .replace("{status}", status);
    text.into_bytes()
}

fn delivery(source: &Source, event: usize, entity: usize, status: &str, after: i64) -> Delivery {
    let verified = Verified { secret: 0, id: None, signed_at: None };
    source.deliver(&verified, &[], Bytes::from(body(event, entity, status, after)), Timestamp::from_secs(NOW))
}

fn context() -> Context {
    let schedule = Schedule { first: Duration::from_secs(5), max: Duration::from_secs(3600), attempts: 12 };
    Context {
        now: Timestamp::from_secs(NOW),
        clock_skew: Duration::from_secs(5),
        confirm_after: Duration::from_secs(15),
        schedule,
        upstream: true,
    }
}

fn pending(delivery: &Delivery, lsn: u64) -> Pending {
    Pending {
        position: Position { lsn: tollgate::domain::Lsn(lsn), item: 0 },
        event: Arc::clone(&delivery.items.first().unwrap().event),
        received_at: delivery.received_at,
        body_sha256: delivery.body_sha256,
        attempts: Vec::new(),
        replayed_by: None,
    }
}

/// A subscription that is active, and the event that it is past due.
fn case(source: &Source, machines: &Registry) -> (Entity, Pending) {
    let first = pending(&delivery(source, 1, 1, "active", 0), 1);
    let mut entity = Entity::unknown(first.event.entity.clone().unwrap());
    for entry in decide(machines, &entity, std::slice::from_ref(&first), &context()).entries {
        entry.apply(&mut entity);
    }
    (entity, pending(&delivery(source, 2, 1, "past_due", 60), 2))
}

fn pure(criterion: &mut Criterion) {
    let (source, machines) = (source(), Registry::shipped());
    let now = Timestamp::from_secs(NOW);
    let body = body(1, 1, "active", 0);
    let headers = source.sign(0, "", &body, now);
    let bytes = Bytes::from(body.clone());
    let verified = source.verify(&headers, &body, now).unwrap();
    criterion
        .bench_function("verify", |b| b.iter(|| source.verify(black_box(&headers), black_box(&body), now).unwrap()));
    criterion.bench_function("parse", |b| {
        b.iter(|| source.deliver(&verified, black_box(&headers), bytes.clone(), now));
    });
    let (entity, event) = case(&source, &machines);
    let context = context();
    let run = std::slice::from_ref(&event);
    assert!(decide(&machines, &entity, run, &context).entries.first().unwrap().is_move());
    criterion.bench_function("decide", |b| b.iter(|| decide(&machines, black_box(&entity), black_box(run), &context)));
}

fn append(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("journal append, synced");
    for count in [1, 64] {
        let dir = TempDir::new().unwrap();
        let (mut journal, _) =
            Journal::open(dir.path(), journal::Options::default(), tollgate::domain::Lsn(0)).unwrap();
        let frames: Vec<Vec<u8>> = (0..count).map(|n: usize| body(n, n, "active", 0)).collect();
        group.throughput(Throughput::Elements(u64::try_from(count).unwrap()));
        group.bench_function(format!("{count} frames"), |b| b.iter(|| journal.append(&frames).unwrap()));
    }
}

/// Commits that move many entities, until the view shows all of them.
fn apply(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (source, machines) = (source(), Registry::shipped());
    let mut group = criterion.benchmark_group("view apply");
    group.sample_size(10).throughput(Throughput::Elements(u64::try_from(MANY).unwrap()));
    group.bench_function(format!("{MANY} entities"), |b| {
        b.iter_batched(
            || runtime.block_on(decided(&source, &machines)),
            |(_dir, store, commits)| {
                runtime.block_on(async {
                    futures_util::future::try_join_all(commits.into_iter().map(|commit| store.commit(commit)))
                        .await
                        .unwrap();
                    // A store that closes brings its view to where the journal ends.
                    store.close().await.unwrap();
                });
            },
            BatchSize::PerIteration,
        );
    });
}

/// A store with an event of each of many entities, and what was decided of them.
async fn decided(source: &Source, machines: &Registry) -> (TempDir, EmbeddedStore, Vec<Commit>) {
    let dir = TempDir::new().unwrap();
    let store = EmbeddedStore::open(dir.path(), Options::default()).unwrap();
    let appends = (0..MANY).map(|n| store.append(delivery(source, n, n, "active", 0)));
    futures_util::future::try_join_all(appends).await.unwrap();
    let mut commits = Vec::with_capacity(MANY);
    for n in 0..MANY {
        let key: EntityKey =
            delivery(source, n, n, "active", 0).items.first().and_then(|item| item.event.entity.clone()).unwrap();
        let run = store.pending(Scope::Entity(&key), Timestamp::MAX, 10).await.unwrap();
        let decision = decide(machines, &Entity::unknown(key.clone()), &run, &context());
        let entries = decision.entries.into();
        commits.push(Commit {
            entity: key,
            epoch: Epoch(0),
            version: 0,
            entries,
            judged: decision.judged,
            fetched: None,
        });
    }
    for shard in 0..store.shards() {
        let epoch = store.adopt(tollgate::domain::Shard(shard)).await.unwrap();
        let owned = commits.iter_mut().filter(|commit| commit.entity.shard(store.shards()).0 == shard);
        owned.for_each(|commit| commit.epoch = epoch);
    }
    (dir, store, commits)
}

criterion_group!(path, pure, append, apply);
criterion_main!(path);
