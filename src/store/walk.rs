//! The walk that proves a view whole: every pair is counted and hashed, while the tree changes.
//!
//! It goes from both ends at once, each on a thread of its own, until the two meet: nothing is decided before it is done.

use std::thread;

use super::Error;
use super::keys::{Key, Table};
use super::tree::{See, Tree};
use super::view::hash;

/// How far a walk has come: `seen` is of the pairs below `upto` and of those from `downto` on.
#[derive(Default)]
pub(super) struct Walk {
    upto: Key,
    /// Nothing was walked from above yet if there is none.
    downto: Option<Key>,
    seen: Seen,
    done: bool,
}

/// Pairs that were walked: how many, and the sum of their hashes.
#[derive(Clone, Copy, Default)]
struct Seen {
    pairs: u64,
    sum: u64,
}

/// One piece of a walk.
struct Piece {
    seen: Seen,
    /// How many may still be walked.
    left: usize,
    last: Key,
}

impl Walk {
    /// Whether it has proved the tree whole.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    /// How many pairs it has found, and the sum of their hashes.
    pub(super) fn found(&self) -> (u64, u64) {
        (self.seen.pairs, self.seen.sum)
    }

    /// The tree is whole.
    pub(super) fn end(&mut self) {
        // Nothing is walked any more, so writes leave it alone.
        *self = Self { done: true, ..Self::default() };
    }

    /// A pair was written or deleted.
    pub(super) fn changed(&mut self, key: &[u8], pairs: i64, sum: u64) {
        if key < self.upto.as_slice() || self.downto.as_ref().is_some_and(|downto| key >= downto.as_slice()) {
            self.seen.pairs = self.seen.pairs.wrapping_add_signed(pairs);
            self.seen.sum = self.seen.sum.wrapping_add(sum);
        }
    }

    /// Walks on by about `limit` pairs of a tree that should have `all`; answers whether it has met its end.
    pub(super) fn step(&mut self, tree: &dyn Tree, limit: usize, all: u64) -> Result<bool, Error> {
        let left = usize::try_from(all.saturating_sub(self.seen.pairs)).unwrap_or(usize::MAX);
        let (upto, downto) = (self.upto.clone(), self.downto.clone());
        let up = || Piece::walk(limit, |see| tree.visit(&upto, downto.as_deref(), see));
        let down = || Piece::walk(limit, |see| tree.visit_back(&upto, downto.as_deref(), see));
        // Not from above where the two could meet in one step.
        let (up, down) = if left > limit.saturating_mul(3) {
            thread::scope(|scope| {
                let down = scope.spawn(down);
                (up(), down.join().ok())
            })
        } else {
            (up(), None)
        };
        let up = up?;
        let mut next = self.upto.clone();
        if up.left == 0 {
            next = [up.last.as_slice(), &[0]].concat();
        }
        // A tree with fewer pairs than it should have: they met all the same, and what is above was walked from below.
        if let Some(down) = down.transpose()?.filter(|down| down.left == 0 && down.last >= next && up.left == 0) {
            self.downto = Some(down.last);
            self.seen.add(down.seen);
        }
        self.upto = next;
        self.seen.add(up.seen);
        Ok(up.left > 0)
    }
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.pairs += other.pairs;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

impl Piece {
    /// Walks `limit` pairs, or as many as there are.
    fn walk(limit: usize, visit: impl FnOnce(&mut See<'_>) -> Result<(), Error>) -> Result<Self, Error> {
        let mut piece = Self { seen: Seen::default(), left: limit, last: Key::new() };
        visit(&mut |key, raw| piece.see(key, raw))?;
        Ok(piece)
    }

    fn see(&mut self, key: &[u8], raw: &[u8]) -> bool {
        if key != [Table::Meta.code()] {
            self.seen.add(Seen { pairs: 1, sum: hash(key, Some(raw)) });
        }
        self.left -= 1;
        if self.left == 0 {
            self.last = key.to_vec();
        }
        self.left > 0
    }
}
