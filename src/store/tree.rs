//! The seam to what keeps the view: the few calls that it makes of an ordered map, so that tests can put one in memory
//! under it that forgets, lies and breaks.

#[cfg(test)]
pub(crate) mod sim;

use super::Error;
use super::keys::Key;

/// The pairs of a tree.
pub(crate) type Pairs = Vec<(Key, Vec<u8>)>;

/// Looks at a pair; answers whether it wants the next.
pub(crate) type See<'a> = dyn FnMut(&[u8], &[u8]) -> bool + 'a;

/// An ordered map of bytes. Any thread may call it.
pub(crate) trait Tree: Send + Sync {
    /// Where it lies, in words for people.
    fn place(&self) -> String;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// The first `limit` pairs from `from` on and, unless there is none, before `end`.
    fn range(&self, from: &[u8], end: Option<&[u8]>, limit: usize) -> Result<Pairs, Error>;

    /// Shows the pairs from `from` on and, unless there is none, before `end`, in order and without a copy, until `see`
    /// answers false.
    fn visit(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error>;

    /// The same from the last pair to the first.
    fn visit_back(&self, from: &[u8], end: Option<&[u8]>, see: &mut See<'_>) -> Result<(), Error>;

    /// Writes and deletes (what has no value), all or nothing. A crash may lose it: it keeps all batches up to some point
    /// in their order, and that point is not before the last [`Tree::flush`].
    fn apply(&self, batch: Vec<(Key, Option<Vec<u8>>)>) -> Result<(), Error>;

    /// Writes pairs, each by itself: a crash may keep some and lose some.
    fn fill(&self, pairs: &[(Key, Vec<u8>)]) -> Result<(), Error>;

    /// Whether it holds nothing.
    fn is_empty(&self) -> Result<bool, Error>;

    /// Makes what was applied durable.
    fn flush(&self) -> Result<(), Error>;

    /// Gives its place free; what goes wrong on the way is of no interest any more.
    fn close(self: Box<Self>);
}

/// The place of one tree.
pub(crate) trait Trees: Send + Sync {
    /// Whether a tree lies there.
    fn exists(&self) -> bool;

    /// Opens the tree, or creates it. It may take about `cache_bytes` of memory.
    fn open(&self, cache_bytes: u64) -> Result<Box<dyn Tree>, Error>;

    /// Moves the tree out of the way, in place of one that was moved before.
    fn set_aside(&self) -> Result<(), Error>;
}
