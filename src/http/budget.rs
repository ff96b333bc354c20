//! The bytes that all bodies may take at once.
//!
//! A body waits in memory until its signature is checked and, behind that, until it is durable. Each is bounded, and so
//! are connections, but their product is more than a machine has: so all bodies share one budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Bytes, BytesMut};

/// Bytes that are left for bodies.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicUsize>);

/// Room that one body has taken; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    budget: Budget,
    taken: usize,
}

/// A body and its room.
struct Held {
    body: BytesMut,
    _room: Room,
}

impl Budget {
    /// So many bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// No room yet, for a body that is about to come.
    pub(crate) fn room(&self) -> Room {
        Room { budget: self.clone(), taken: 0 }
    }
}

impl Room {
    /// Takes so many bytes more; false, and nothing taken, if they aren't left.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let take = |left: usize| left.checked_sub(bytes);
        let grown = self.budget.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if grown {
            self.taken += bytes;
        }
        grown
    }

    /// The body, with its room: given back when the last of its bytes is dropped, whoever holds them then.
    pub(crate) fn held_by(self, body: BytesMut) -> Bytes {
        Bytes::from_owner(Held { body, _room: self })
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.budget.0.fetch_add(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_share_what_there_is_and_give_it_back() {
        let budget = Budget::of(10);
        let (mut one, mut other) = (budget.room(), budget.room());
        assert!(one.grow(6) && !other.grow(5) && other.grow(4) && !one.grow(1));
        drop(one);
        assert!(other.grow(6) && !other.grow(1));
        drop(other);
        assert!(budget.room().grow(10));
    }

    #[test]
    fn a_body_keeps_its_room_until_the_last_of_its_bytes_is_gone() {
        let budget = Budget::of(10);
        let mut room = budget.room();
        assert!(room.grow(6));
        let body = room.held_by(BytesMut::from("123456".as_bytes()));
        let part = body.slice(2..4);
        drop(body);
        assert!(!budget.room().grow(5) && part == "34");
        drop(part);
        assert!(budget.room().grow(10));
    }
}
