//! The owner's side: how a group gets to the disk, where a segment begins and ends, and when the journal stops.

use std::io;
use std::sync::Arc;

use crate::domain::Lsn;

use super::super::Error;
use super::super::disk::{Disk, File, Lock, is_full, wide};
use super::format::{
    FRAME_HEADER_LEN, FRAME_LEN_MAX, FrameSum, GROUP_HEADER_LEN, GroupHeader, GroupKind, IndexEntry, SegmentHeader,
};
use super::recover::{Found, UNFINISHED, ZEROS_MIN};
use super::segment::{Extent, GROUPS_BEGIN, INDEX_STRIDE, Segment, Shared, file_name, write_footer};
use super::{Frame, Journal, Options, Recovery, StoreId};

/// Reserved behind what frames may use, so that marks find room and that an open file ends in zeros.
const RESERVE: u64 = 4096;

/// The largest group: a bound on memory; its caller's bound is far lower.
const GROUP_LEN_MAX: usize = 1 << 30;

/// More than this is not kept of the buffer between groups.
const BUFFER_LEN_MAX: usize = 8 << 20;

/// The segment that is written.
pub(super) struct Active {
    segment: Arc<Segment>,
    file: Arc<dyn File>,
    /// How far space is reserved; 0 if that is not known.
    reserved: u64,
}

/// What a group adds to a segment's extent.
#[derive(Default)]
struct Growth {
    /// Where it begins.
    end: u64,
    /// The last place in the index before `places`.
    noted: u64,
    /// Places within it that go into the index.
    places: Vec<IndexEntry>,
}

/// Why nothing is written any more.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    reason: String,
    /// Whether it was for want of space.
    full: bool,
}

impl Growth {
    fn of(extent: &Extent) -> Self {
        let noted = extent.index.last().map_or(0, |entry| entry.offset);
        Self { end: extent.end, noted, places: Vec::new() }
    }

    fn note(&mut self, place: IndexEntry) {
        if place.offset - self.noted >= INDEX_STRIDE {
            self.noted = place.offset;
            self.places.push(place);
        }
    }
}

impl Journal {
    pub(super) fn create(disk: Arc<dyn Disk>, lock: Lock, options: Options) -> Result<(Self, Recovery), Error> {
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| Error::Io {
            action: "asking the system for a random store id".to_owned(),
            detail: error.to_string(),
        })?;
        let shared = Shared::new(disk, StoreId(id), Vec::new(), Lsn(0));
        let mut journal = Self::assemble(shared, lock, options, 1);
        journal.create_segment(0)?;
        let (store_id, incarnation) = (StoreId(id), journal.incarnation);
        Ok((journal, Recovery { store_id, incarnation, last: Lsn(0), clean: true, cut: None }))
    }

    pub(super) fn resume(
        disk: Arc<dyn Disk>,
        lock: Lock,
        options: Options,
        found: Found,
    ) -> Result<(Self, Recovery), Error> {
        let Found { segments, last, open, clean, cut } = found;
        let (store_id, reached) = (last.header.store_id, last.extent().clone());
        let shared = Shared::new(disk, store_id, segments, reached.last);
        let incarnation = reached.incarnation + 1;
        let mut journal = Self::assemble(shared, lock, options, incarnation);
        journal.active = open.map(|file| Active { segment: last, file, reserved: 0 });
        match journal.begin() {
            // Without space it can still be read, and goes on when space returns.
            Ok(()) | Err(Error::Full) => {}
            // A disk that takes no write where it has reserved space for it: nothing was answered yet, it may be tried anew.
            Err(_) if journal.stopped.as_ref().is_some_and(|stop| stop.full) => return Err(Error::Full),
            Err(error) => return Err(error),
        }
        Ok((journal, Recovery { store_id, incarnation, last: reached.last, clean, cut }))
    }

    fn assemble(shared: Shared, lock: Lock, options: Options, incarnation: u64) -> Self {
        let sum = FrameSum::new(shared.store_id, incarnation);
        Self {
            shared: Arc::new(shared),
            options,
            incarnation,
            sum,
            active: None,
            begun: false,
            stopped: None,
            buffer: Vec::new(),
            lock,
        }
    }

    /// Refuses everything once the outcome of a write is unknown.
    pub(super) fn running(&self) -> Result<(), Error> {
        match &self.stopped {
            None => Ok(()),
            Some(stop) => Err(Error::Stopped { reason: stop.reason.clone() }),
        }
    }

    /// How many bytes a group of these frames has.
    pub(super) fn measure(&self, frames: &[impl Frame]) -> Result<u64, Error> {
        let limit = self.options.frame_bytes_max.min(FRAME_LEN_MAX);
        let mut len = GROUP_HEADER_LEN;
        for frame in frames {
            let bytes = frame.parts().iter().map(|part| part.len()).sum();
            if bytes > limit {
                return Err(Error::TooLarge { bytes, limit });
            }
            len += FRAME_HEADER_LEN + bytes;
            if len > GROUP_LEN_MAX {
                return Err(Error::TooLarge { bytes: len, limit: GROUP_LEN_MAX });
            }
        }
        Ok(wide(len))
    }

    /// Writes this incarnation's mark before its first group. A segment that begins with it needs none.
    pub(super) fn begin(&mut self) -> Result<(), Error> {
        if !self.begun && self.active.is_some() {
            self.write_mark(GroupKind::Opened)?;
            self.begun = true;
        }
        Ok(())
    }

    /// Writes the last mark, unless there is nothing to vouch for or no space for it.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        if !self.begun || self.active.is_none() {
            return Ok(());
        }
        match self.write_mark(GroupKind::Closed) {
            Err(Error::Full) => Ok(()),
            done => done,
        }
    }

    /// Sees to it that `len` bytes fit behind what is written: in this segment, or else in a new one.
    pub(super) fn make_room(&mut self, len: u64) -> Result<(), Error> {
        if let Some(active) = &self.active {
            let extent = active.segment.extent();
            let is_empty = extent.last < active.segment.header.first;
            let fits = extent.end + len <= self.options.segment_bytes;
            drop(extent);
            if fits || is_empty {
                return self.reserve(len);
            }
            self.seal()?;
        }
        self.create_segment(len)
    }

    /// Writes frames as one group; there is room.
    pub(super) fn write_group(&mut self, first: Lsn, frames: &[impl Frame]) -> Result<(), Error> {
        let count = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        let mut growth = self.begin_group(GroupKind::Frames, first, count);
        let (base, incarnation) = (growth.end, self.incarnation);
        let (mut lsn, mut left) = (first, count);
        for frame in frames {
            let offset = base + wide(self.buffer.len());
            growth.note(IndexEntry { lsn, offset, incarnation, left });
            self.sum.encode(lsn, frame, &mut self.buffer);
            lsn = Lsn(lsn.0 + 1);
            left -= 1;
        }
        self.write(lsn, growth)
    }

    fn write_mark(&mut self, kind: GroupKind) -> Result<(), Error> {
        self.reserve(wide(GROUP_HEADER_LEN))?;
        let next = Lsn(self.synced().0 + 1);
        let growth = self.begin_group(kind, next, 0);
        self.write(next, growth)
    }

    /// Begins a group in the buffer. Answers what the segment's extent grows from.
    fn begin_group(&mut self, kind: GroupKind, first: Lsn, count: u32) -> Growth {
        let growth = self.active.as_ref().map(|active| Growth::of(&active.segment.extent())).unwrap_or_default();
        let (store_id, incarnation, synced) = (self.shared.store_id, self.incarnation, growth.end);
        let header = GroupHeader { kind, store_id, incarnation, first, synced, count };
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_LEN_MAX);
        self.buffer.extend_from_slice(&header.encode());
        growth
    }

    /// Writes the buffer, syncs it, and shows it to readers. `next` is the LSN behind it.
    fn write(&mut self, next: Lsn, growth: Growth) -> Result<(), Error> {
        let Some(active) = &self.active else { return Err(self.stop("no segment is open", None)) };
        let written = active.file.write_at(&self.buffer, growth.end).and_then(|()| active.file.sync());
        if let Err(error) = written {
            let doing = format!("writing `{}`", self.shared.disk.place(&active.segment.name()));
            return Err(self.stop(&doing, Some(&error)));
        }
        let mut extent = active.segment.extent_mut();
        extent.index.extend(growth.places);
        let offset = growth.end + wide(self.buffer.len());
        extent.reach(IndexEntry { lsn: next, offset, incarnation: self.incarnation, left: 0 });
        extent.bytes = offset;
        drop(extent);
        self.shared.set_synced(Lsn(next.0 - 1));
        Ok(())
    }

    /// Reserves space for `len` bytes in the segment that is written.
    fn reserve(&mut self, len: u64) -> Result<(), Error> {
        let Some(active) = &mut self.active else { return Ok(()) };
        let need = active.segment.extent().end + len + ZEROS_MIN;
        if active.reserved < need {
            let size = need.max(self.options.segment_bytes) + RESERVE;
            let reserved = active.file.allocate(size);
            reserved.map_err(|error| self.shared.failed("reserving space for", &active.segment.name(), &error))?;
            active.reserved = size;
        }
        Ok(())
    }

    /// Ends the segment that is written: its index goes behind its groups.
    fn seal(&mut self) -> Result<(), Error> {
        let Some(active) = self.active.take() else { return Ok(()) };
        let Active { segment, file, .. } = active;
        let mut extent = segment.extent().clone();
        let sealed = write_footer(&*file, &segment.header, &extent).or_else(|error| {
            if !is_full(&error) {
                return Err(error);
            }
            // It does without an index, which is made anew when it is missing.
            file.set_size(extent.end)?;
            file.sync()?;
            Ok(extent.end)
        });
        match sealed {
            Err(error) => {
                let doing = format!("sealing `{}`", self.shared.disk.place(&segment.name()));
                Err(self.stop(&doing, Some(&error)))
            }
            Ok(bytes) => {
                extent.sealed = true;
                extent.bytes = bytes;
                *segment.extent_mut() = extent;
                Ok(())
            }
        }
    }

    /// Begins a segment with room for a group of `len` bytes. It gets its name when it is whole.
    fn create_segment(&mut self, len: u64) -> Result<(), Error> {
        let first = Lsn(self.synced().0 + 1);
        let (store_id, incarnation) = (self.shared.store_id, self.incarnation);
        let header = SegmentHeader { store_id, incarnation, first, generation: 0 };
        let (name, unfinished) = (file_name(first), format!("{}{UNFINISHED}", file_name(first)));
        let size = (GROUPS_BEGIN + len + ZEROS_MIN).max(self.options.segment_bytes) + RESERVE;
        let disk = &self.shared.disk;
        let made = disk.create(&unfinished).and_then(|file| {
            file.allocate(size)?;
            file.write_at(&header.encode(), 0)?;
            file.sync()?;
            disk.rename(&unfinished, &name)?;
            Ok(file)
        });
        let file = made.map_err(|error| {
            // What can't be removed now is removed when the journal is opened the next time.
            let _ = disk.remove(&unfinished);
            self.shared.failed("creating", &name, &error)
        })?;
        if let Err(error) = disk.sync() {
            return Err(self.stop("syncing the journal's folder", Some(&error)));
        }
        let segment = Arc::new(Segment::new(header, Extent::empty(&header)));
        self.shared.keep_open(&segment, file.clone());
        self.shared.segments_mut().push(segment.clone());
        self.active = Some(Active { segment, file, reserved: size });
        self.begun = true;
        Ok(())
    }

    /// Nothing is written any more: what is on the disk is not known.
    fn stop(&mut self, doing: &str, error: Option<&io::Error>) -> Error {
        let reason = match error {
            Some(error) => format!("{doing}: {error}"),
            None => doing.to_owned(),
        };
        self.stopped = Some(Stop { reason: reason.clone(), full: error.is_some_and(is_full) });
        Error::Stopped { reason }
    }
}
