//! How much one call does.

use futures_util::future::join_all;

use crate::store::Options;
use crate::store::change::{Held, decode};
use crate::store::contract::Rig;
use crate::store::contract::facts::{entry, field_entry, queued, sub};
use crate::store::keys::{self, Table};
use crate::store::view::{Meta, View};

/// A feed read of a long stretch without a move looks so far, and then answers where to go on.
#[tokio::test]
async fn a_long_stretch_is_read_in_steps() {
    let rig = Rig::embedded_with(Options { shards: Some(4), ..Options::default() });
    let entity = sub("sub_a");
    for chunk in 0..11 {
        let sent = (0..1000).map(|n| rig.accept(queued(&format!("evt_{chunk}_{n}"), &entity, "active")));
        join_all(sent).await;
    }
    rig.commit(&entity, vec![entry(None, "active", vec![])], vec![]).await.unwrap();
    for feed in [true, false] {
        let page = async |after| {
            if feed { rig.store().feed(after, 10).await } else { rig.store().entries(None, after, 10).await }
        };
        let first = page(None).await.unwrap();
        assert!(first.items.is_empty() && first.next.is_some(), "{first:?}");
        let second = page(first.next).await.unwrap();
        assert_eq!(second.items.len(), 1);
        assert_eq!(second.next.is_some(), feed, "entries end there, a follower of the feed goes on");
    }
}

/// An entity's own value lists only its newest commits, however many there are.
#[tokio::test]
async fn an_entitys_value_does_not_grow_with_its_history() {
    let mut rig = Rig::embedded();
    let entity = sub("sub_a");
    for n in 0..100 {
        rig.commit(&entity, vec![field_entry("n", &n.to_string())], vec![]).await.unwrap();
    }
    rig.meddle(|_, path| {
        let view = View::open_at(path, 1 << 20, Meta::default()).unwrap();
        let key = keys::entity(&entity);
        let held: Held = decode(&key, &view.get(&key).unwrap().unwrap()).unwrap();
        let older = view.range(&Table::Commits.all(), 100).unwrap();
        assert_eq!((held.recent.len(), older.len()), (4, 3), "32 in each");
        view.close();
    })
    .await
    .unwrap();
    assert_eq!(rig.store().entries(Some(&entity), None, 1000).await.unwrap().items.len(), 100);
}
