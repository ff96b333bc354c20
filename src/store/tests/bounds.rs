//! How much one call does.

use futures_util::future::join_all;

use crate::store::Options;
use crate::store::contract::Rig;
use crate::store::contract::facts::{entry, queued, sub};

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
