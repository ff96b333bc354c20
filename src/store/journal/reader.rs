//! The readers' side: one frame by its LSN, or all from there on.

use std::fmt;
use std::sync::Arc;

use crate::domain::Lsn;

use super::super::Error;
use super::segment::{Segment, Shared};
use super::walk::{Step, Walk};
use super::{SegmentMeta, StoreId};

/// How much is read at once to find one frame.
const READ_CHUNK: usize = 16 << 10;

/// How much is read at once to read on.
const SCAN_CHUNK: usize = 256 << 10;

/// Reads what is synced; cheap to clone, used from any thread while the owner appends.
#[derive(Clone)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// Frames in order, from a [`Reader::scan`].
pub struct Scan {
    shared: Arc<Shared>,
    next: Lsn,
    until: Lsn,
    at: Option<(Arc<Segment>, Walk)>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The last durable LSN.
    pub fn synced(&self) -> Lsn {
        self.shared.synced()
    }

    /// The store's id.
    pub fn store_id(&self) -> StoreId {
        self.shared.store_id
    }

    /// All segments in order.
    pub fn segments(&self) -> Vec<SegmentMeta> {
        self.shared.metas()
    }

    /// The frame at an LSN; none if there is none or it is not synced yet. For frames that follow each other
    /// [`Reader::scan`] is much cheaper.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::Io`].
    pub fn read(&self, lsn: Lsn) -> Result<Option<Vec<u8>>, Error> {
        if lsn == Lsn(0) || lsn > self.synced() {
            return Ok(None);
        }
        let (segment, mut walk) = walk_from(&self.shared, lsn, READ_CHUNK)?;
        loop {
            if let Some((found, bytes)) = frame(&self.shared, &segment, &mut walk)?
                && found == lsn
            {
                return Ok(Some(bytes.to_vec()));
            }
        }
    }

    /// The frames from an LSN up to what is synced now. Ends after the first error.
    pub fn scan(&self, from: Lsn) -> Scan {
        Scan { shared: self.shared.clone(), next: from.max(Lsn(1)), until: self.synced(), at: None }
    }
}

/// A walk that comes to an LSN, which is synced.
fn walk_from(shared: &Shared, lsn: Lsn, chunk: usize) -> Result<(Arc<Segment>, Walk), Error> {
    loop {
        let Some(segment) = shared.segment_of(lsn) else {
            let detail = format!("no segment holds LSN {}", lsn.0);
            return Err(Error::Corrupt { place: shared.disk.place(""), detail });
        };
        // If the segment is replaced by its pruned copy just now, the copy is what is looked for next.
        if let Some(file) = shared.file_of(&segment)? {
            let (place, end) = segment.place_of(lsn);
            let walk = Walk::new(file, shared.store_id, place, end, chunk);
            return Ok((segment, walk));
        }
    }
}

/// Takes one step: a frame, or none where a group begins.
fn frame<'a>(shared: &Shared, segment: &Segment, walk: &'a mut Walk) -> Result<Option<(Lsn, &'a [u8])>, Error> {
    let offset = walk.place().offset;
    let corrupt = |why: &str| Err(shared.corrupt(&segment.name(), offset, why));
    match walk.step().map_err(|error| shared.failed("reading", &segment.name(), &error))? {
        Step::Frame { lsn, bytes } => Ok(Some((lsn, bytes))),
        Step::Group(_) => Ok(None),
        Step::End => corrupt("frames are missing that were synced"),
        Step::Bad(why) => corrupt(why),
    }
}

impl Scan {
    fn step(&mut self) -> Result<(Lsn, Vec<u8>), Error> {
        let Self { shared, next, at, .. } = self;
        loop {
            let (segment, walk) = match &mut *at {
                Some(at) if *next <= at.0.extent().last => at,
                at => at.insert(walk_from(shared, *next, SCAN_CHUNK)?),
            };
            if let Some((lsn, bytes)) = frame(shared, segment, walk)?
                && lsn == *next
            {
                *next = Lsn(lsn.0 + 1);
                return Ok((lsn, bytes.to_vec()));
            }
        }
    }
}

impl Iterator for Scan {
    type Item = Result<(Lsn, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next > self.until {
            return None;
        }
        let step = self.step();
        if step.is_err() {
            self.until = Lsn(0);
        }
        Some(step)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").field("synced", &self.synced()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("next", &self.next).field("until", &self.until).finish_non_exhaustive()
    }
}
