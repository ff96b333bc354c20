//! Replacing a sealed segment by its pruned copy: the same LSNs, smaller frames.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::domain::Lsn;
use crate::store::lock::unpoisoned;

use super::super::Error;
use super::super::disk::{File, Lock, wide};
use super::SegmentMeta;
use super::format::{FRAME_LEN_MAX, FrameSum, GROUP_HEADER_LEN, GroupHeader, GroupKind, IndexEntry, SegmentHeader};
use super::recover::UNFINISHED;
use super::segment::{Extent, INDEX_STRIDE, Segment, Shared, begin, file_name, write_footer};
use super::walk::{Step, Walk};

/// How much is read and written at once.
const CHUNK: usize = 1 << 20;

/// Prunes sealed segments, from any thread while the owner appends. As long as it lives, the folder stays locked.
pub struct Pruner {
    shared: Arc<Shared>,
    _lock: Lock,
}

/// What becomes of a frame; none if it stays.
type Prune<'a> = dyn FnMut(Lsn, &[u8]) -> Option<Vec<u8>> + 'a;

/// The copy while it is written.
struct Copy {
    file: Arc<dyn File>,
    extent: Extent,
    /// Whole groups that are not written yet; they go behind `extent.end`.
    waiting: Vec<u8>,
    group: Option<GroupHeader>,
    sum: FrameSum,
    /// The frames of the group.
    frames: Vec<u8>,
    /// Where in the frames reading can begin.
    places: Vec<(Lsn, usize)>,
    next: Lsn,
}

impl Pruner {
    pub(super) fn new(shared: Arc<Shared>, lock: Lock) -> Self {
        Self { shared, _lock: lock }
    }

    /// Replaces the sealed segment that begins at `first` by a copy in which each frame for which `pruned` answers
    /// some is that, and the others are as they were. A crash leaves the one or the other. Answers the copy; none if
    /// no sealed segment begins there.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::TooLarge`], [`Error::Corrupt`]: nothing was changed. [`Error::Io`].
    pub fn prune(
        &self,
        first: Lsn,
        mut pruned: impl FnMut(Lsn, &[u8]) -> Option<Vec<u8>>,
    ) -> Result<Option<SegmentMeta>, Error> {
        let shared = &*self.shared;
        let _one = unpoisoned(shared.pruning.lock());
        let Some(segment) = shared.segment_of(first).filter(|found| found.header.first == first) else {
            return Ok(None);
        };
        if !segment.meta().sealed {
            return Ok(None);
        }
        let unfinished = format!("{}{UNFINISHED}", file_name(first));
        let header = SegmentHeader { generation: segment.header.generation + 1, ..segment.header };
        let written = self.write(&segment, &header, &unfinished, &mut pruned);
        let (copy, file) = written.inspect_err(|_| {
            // What can't be removed now is removed when the journal is opened the next time.
            let _ = shared.disk.remove(&unfinished);
        })?;
        let meta = copy.meta();
        self.replace(copy, file, &unfinished)?;
        Ok(Some(meta))
    }

    /// Writes and syncs the copy under another name.
    fn write(
        &self,
        segment: &Segment,
        header: &SegmentHeader,
        unfinished: &str,
        pruned: &mut Prune<'_>,
    ) -> Result<(Segment, Arc<dyn File>), Error> {
        let shared = &*self.shared;
        let writing = |error: io::Error| shared.failed("writing", unfinished, &error);
        let from = shared
            .file_of(segment)?
            .ok_or_else(|| shared.corrupt(&segment.name(), 0, "the segment was replaced, but not by this process"))?;
        let file = shared.disk.create(unfinished).map_err(writing)?;
        file.write_at(&header.encode(), 0).map_err(writing)?;
        let mut copy = Copy::new(file.clone(), header);
        let mut walk = Walk::new(from, shared.store_id, begin(&segment.header), segment.extent().end, CHUNK);
        loop {
            let offset = walk.place().offset;
            match walk.step().map_err(|error| shared.failed("reading", &segment.name(), &error))? {
                Step::Group(group) => copy.group(Some(group)).map_err(writing)?,
                Step::Frame { lsn, bytes } => match pruned(lsn, bytes) {
                    Some(bytes) if bytes.len() > FRAME_LEN_MAX => {
                        return Err(Error::TooLarge { bytes: bytes.len(), limit: FRAME_LEN_MAX });
                    }
                    Some(bytes) => copy.frame(lsn, &bytes),
                    None => copy.frame(lsn, bytes),
                },
                Step::End => break,
                Step::Bad(why) => return Err(shared.corrupt(&segment.name(), offset, why)),
            }
        }
        let mut extent = copy.finish().map_err(writing)?;
        if extent.last != segment.extent().last {
            return Err(shared.corrupt(&segment.name(), walk.place().offset, "frames are missing that were synced"));
        }
        // The marks are gone, but the next opening's incarnation must still be higher than theirs.
        extent.incarnation = segment.extent().incarnation;
        extent.bytes = write_footer(&*file, header, &extent).map_err(writing)?;
        extent.sealed = true;
        Ok((Segment::new(*header, extent), file))
    }

    /// Puts the copy in the segment's place.
    fn replace(&self, copy: Segment, file: Arc<dyn File>, unfinished: &str) -> Result<(), Error> {
        let shared = &*self.shared;
        let (name, copy) = (copy.name(), Arc::new(copy));
        // Readers that look for the segment wait here: they find either all of the old one or all of the copy.
        let mut segments = shared.segments_mut();
        let renamed = shared.disk.rename(unfinished, &name);
        renamed.map_err(|error| shared.failed("replacing", &name, &error))?;
        shared.keep_open(&copy, file);
        if let Some(place) = segments.iter_mut().find(|segment| segment.header.first == copy.header.first) {
            *place = copy;
        }
        drop(segments);
        shared.disk.sync().map_err(|error| shared.failed("syncing the folder of", &name, &error))
    }
}

impl Copy {
    fn new(file: Arc<dyn File>, header: &SegmentHeader) -> Self {
        Self {
            file,
            extent: Extent::empty(header),
            waiting: Vec::new(),
            group: None,
            sum: FrameSum::new(header.store_id, header.incarnation),
            frames: Vec::new(),
            places: Vec::new(),
            next: header.first,
        }
    }

    /// A group begins, or all of them end: the one before it is complete. Marks are left out; a sealed segment needs
    /// none.
    fn group(&mut self, next: Option<GroupHeader>) -> io::Result<()> {
        if let Some(group) = self.group.take() {
            self.emit(group);
        }
        if self.waiting.len() >= CHUNK || next.is_none() {
            self.flush()?;
        }
        if let Some(group) = next.filter(|group| group.kind == GroupKind::Frames) {
            self.sum = FrameSum::new(group.store_id, group.incarnation);
            self.group = Some(group);
        }
        Ok(())
    }

    fn frame(&mut self, lsn: Lsn, bytes: &[u8]) {
        let noted = self.places.last().map_or(0, |(_, at)| *at);
        let stride = usize::try_from(INDEX_STRIDE).unwrap_or(usize::MAX);
        if self.frames.len() - noted >= stride {
            self.places.push((lsn, self.frames.len()));
        }
        self.sum.encode(lsn, bytes, &mut self.frames);
        self.next = Lsn(lsn.0 + 1);
    }

    /// Puts a group among those that wait. Its count is what was found: a group that was cut has fewer frames than
    /// its header said.
    fn emit(&mut self, group: GroupHeader) {
        let offset = self.offset();
        let count = u32::try_from(self.next.0 - group.first.0).unwrap_or(u32::MAX);
        let places = std::mem::take(&mut self.places);
        if count > 0 {
            let incarnation = group.incarnation;
            self.extent.note(IndexEntry { lsn: group.first, offset, incarnation, left: 0 });
            self.waiting.extend_from_slice(&GroupHeader { synced: offset, count, ..group }.encode());
            for (lsn, at) in places {
                let left = u32::try_from(self.next.0 - lsn.0).unwrap_or(u32::MAX);
                let offset = offset + wide(GROUP_HEADER_LEN + at);
                self.extent.note(IndexEntry { lsn, offset, incarnation, left });
            }
            self.waiting.append(&mut self.frames);
        }
        self.extent.last = Lsn(self.next.0 - 1);
        self.extent.incarnation = group.incarnation;
    }

    /// Where what comes next goes.
    fn offset(&self) -> u64 {
        self.extent.end + wide(self.waiting.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.waiting, self.extent.end)?;
        self.extent.end = self.offset();
        self.waiting.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<Extent> {
        self.group(None)?;
        Ok(self.extent)
    }
}

impl fmt::Debug for Pruner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pruner").finish_non_exhaustive()
    }
}
