//! What is folded in parts is what is folded at once.

use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::domain::{Disposition, Position};
use crate::store::contract::facts::{at, commit, dead, entry, judged, queued, retry, sub};
use crate::store::embedded::EmbeddedStore;
use crate::store::journal::Journal;
use crate::store::{Action, Command, Store};

/// Many entities, each with an event that is decided, one that waits for a retry, one that was given up and one that is
/// pending, and one with a hundred; some of the dead letters were discarded.
async fn furnish(dir: &std::path::Path) {
    let options = Options { shards: Some(4), ..Options::default() };
    let store = EmbeddedStore::open(dir, options).unwrap();
    let mut positions = (1..).map(|lsn| Position { lsn: Lsn(lsn), item: 0 });
    for number in 0..100 {
        store.append(queued(&format!("evt_{number}"), &sub("sub_hot"), "active")).await.unwrap();
        positions.next();
    }
    for number in 0..60 {
        let entity = sub(&format!("sub_{number}"));
        let epoch = store.adopt(entity.shard(4)).await.unwrap();
        for n in 0..4 {
            store.append(queued(&format!("evt_{number}_{n}"), &entity, "active")).await.unwrap();
        }
        let mut decided = commit(&entity, None, epoch);
        decided.entries = [entry(None, "active", vec![])].into();
        let dispositions = [Disposition::Done, retry(at(10)), dead()];
        let of_entity: Vec<_> = positions.by_ref().take(4).collect();
        decided.judged = of_entity.iter().zip(dispositions).map(|(at, what)| judged(*at, what)).collect();
        store.commit(decided).await.unwrap();
        positions.next();
        if number % 3 == 0 {
            let action = Action::Discard { dead: of_entity[2] };
            store.command(Command { by: Arc::from("test"), at: at(20), action }).await.unwrap();
            positions.next();
        }
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_partition_over_the_limit_is_folded_part_by_part_to_the_same() {
    let dir = TempDir::new().unwrap();
    furnish(dir.path()).await;
    let (layout, options) = (Layout::new(dir.path()), Options::default());
    let (journal, _) = Journal::open(&layout.journal(), options.journal, Lsn(0)).unwrap();
    let folded = |partitions, limit| {
        let folded = fold_over(&layout, &options, &journal.reader(), None, partitions, limit).unwrap();
        let pairs: Vec<_> = folded.pairs().unwrap().map(Result::unwrap).collect();
        (pairs, folded.sum.counts, folded.sum.waits, folded.sum.largest)
    };
    let (pairs, counts, waits, largest) = folded(1, u64::MAX);
    assert!(largest > 16_000 && counts.dead_letters == 40 && counts.retries == 60, "{largest} {counts:?}");
    for (partitions, limit) in [(1, 4000), (1, 1), (3, 1000), (50, 500), (512, 1)] {
        let (in_parts, also_counts, also_waits, largest) = folded(partitions, limit);
        assert_eq!((also_counts, also_waits), (counts, waits), "{partitions}, {limit}");
        assert!(in_parts == pairs, "{partitions}, {limit}: {} pairs of {}", in_parts.len(), pairs.len());
        // What is about the one entity with a hundred events is folded at once in any case.
        assert!(largest <= limit.max(3000), "{partitions}, {limit}: {largest} at once");
    }
}
