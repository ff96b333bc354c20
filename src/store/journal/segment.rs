//! What the owner and the readers share: the segments, where in them reading can begin, and their open files.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::domain::Lsn;
use crate::store::lock::unpoisoned;

use super::super::Error;
use super::super::disk::{Disk, File, failed, wide};
use super::format::{self, IndexEntry, SEGMENT_HEADER_LEN, SegmentHeader, Trailer};
use super::{SegmentMeta, StoreId};

/// The index has one entry for about so many bytes: 28 bytes of memory for 64 KiB on disk.
pub(super) const INDEX_STRIDE: u64 = 64 << 10;

/// How many files of sealed segments readers keep open.
const FILES_OPEN_MAX: usize = 32;

/// The offset of a segment's first group.
pub(super) const GROUPS_BEGIN: u64 = 48;

/// What all holders of a journal share.
pub(super) struct Shared {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) store_id: StoreId,
    /// By LSN; never empty once opened.
    segments: RwLock<Vec<Arc<Segment>>>,
    synced: AtomicU64,
    files: Mutex<Vec<OpenFile>>,
    /// One pruning at a time.
    pub(super) pruning: Mutex<()>,
}

/// One segment. A pruned copy is another one, with a higher generation.
pub(super) struct Segment {
    pub(super) header: SegmentHeader,
    extent: RwLock<Extent>,
}

/// How far a segment goes, as far as it is synced.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    /// Where the last group ends.
    pub(super) end: u64,
    pub(super) last: Lsn,
    /// That of the last group.
    pub(super) incarnation: u64,
    pub(super) sealed: bool,
    /// Bytes in use, with index and trailer.
    pub(super) bytes: u64,
    pub(super) index: Vec<IndexEntry>,
}

struct OpenFile {
    first: Lsn,
    generation: u32,
    file: Arc<dyn File>,
}

/// The name of a segment's file.
pub(super) fn file_name(first: Lsn) -> String {
    format!("{:020}.segment", first.0)
}

/// The first LSN of a segment, told by its file's name.
pub(super) fn first_of(name: &str) -> Option<Lsn> {
    let digits = name.strip_suffix(".segment").filter(|digits| digits.len() == 20)?;
    digits.parse().ok().map(Lsn)
}

/// The place of a segment's first group.
pub(super) fn begin(header: &SegmentHeader) -> IndexEntry {
    IndexEntry { lsn: header.first, offset: GROUPS_BEGIN, incarnation: header.incarnation, left: 0 }
}

impl Extent {
    /// An empty segment's.
    pub(super) fn empty(header: &SegmentHeader) -> Self {
        let last = Lsn(header.first.0.saturating_sub(1));
        let (incarnation, index) = (header.incarnation, vec![begin(header)]);
        Self { end: GROUPS_BEGIN, last, incarnation, sealed: false, bytes: GROUPS_BEGIN, index }
    }

    /// Takes a place into the index if the last one lies far enough before it.
    pub(super) fn note(&mut self, place: IndexEntry) {
        let before = self.index.last().map_or(0, |entry| entry.offset);
        if place.offset.saturating_sub(before) >= INDEX_STRIDE {
            self.index.push(place);
        }
    }

    /// Takes over where a walk has come to.
    pub(super) fn reach(&mut self, place: IndexEntry) {
        self.end = place.offset;
        self.last = Lsn(place.lsn.0.saturating_sub(1));
        self.incarnation = place.incarnation;
    }
}

impl Segment {
    pub(super) fn new(header: SegmentHeader, extent: Extent) -> Self {
        Self { header, extent: RwLock::new(extent) }
    }

    pub(super) fn name(&self) -> String {
        file_name(self.header.first)
    }

    pub(super) fn extent(&self) -> RwLockReadGuard<'_, Extent> {
        unpoisoned(self.extent.read())
    }

    pub(super) fn extent_mut(&self) -> RwLockWriteGuard<'_, Extent> {
        unpoisoned(self.extent.write())
    }

    /// The last place at or before an LSN, and the end of what may be read.
    pub(super) fn place_of(&self, lsn: Lsn) -> (IndexEntry, u64) {
        let extent = self.extent();
        let after = extent.index.partition_point(|entry| entry.lsn <= lsn);
        let place = after.checked_sub(1).and_then(|at| extent.index.get(at)).copied();
        (place.unwrap_or_else(|| begin(&self.header)), extent.end)
    }

    pub(super) fn meta(&self) -> SegmentMeta {
        let extent = self.extent();
        SegmentMeta {
            first: self.header.first,
            last: extent.last,
            bytes: extent.bytes,
            sealed: extent.sealed,
            pruned: self.header.generation > 0,
        }
    }
}

impl Shared {
    pub(super) fn new(disk: Arc<dyn Disk>, store_id: StoreId, segments: Vec<Arc<Segment>>, synced: Lsn) -> Self {
        Self {
            disk,
            store_id,
            segments: RwLock::new(segments),
            synced: AtomicU64::new(synced.0),
            files: Mutex::new(Vec::new()),
            pruning: Mutex::new(()),
        }
    }

    pub(super) fn synced(&self) -> Lsn {
        Lsn(self.synced.load(Ordering::Acquire))
    }

    pub(super) fn set_synced(&self, lsn: Lsn) {
        self.synced.store(lsn.0, Ordering::Release);
    }

    pub(super) fn segments(&self) -> RwLockReadGuard<'_, Vec<Arc<Segment>>> {
        unpoisoned(self.segments.read())
    }

    pub(super) fn segments_mut(&self) -> RwLockWriteGuard<'_, Vec<Arc<Segment>>> {
        unpoisoned(self.segments.write())
    }

    pub(super) fn metas(&self) -> Vec<SegmentMeta> {
        self.segments().iter().map(|segment| segment.meta()).collect()
    }

    /// The segment that an LSN lies in, if it is not before the first one.
    pub(super) fn segment_of(&self, lsn: Lsn) -> Option<Arc<Segment>> {
        let segments = self.segments();
        let after = segments.partition_point(|segment| segment.header.first <= lsn);
        segments.get(after.checked_sub(1)?).cloned()
    }

    /// The file of a segment; none if it was replaced by a pruned copy meanwhile.
    pub(super) fn file_of(&self, segment: &Segment) -> Result<Option<Arc<dyn File>>, Error> {
        let header = &segment.header;
        let is_it = |open: &OpenFile| (open.first, open.generation) == (header.first, header.generation);
        let mut files = self.files();
        if let Some(at) = files.iter().position(is_it) {
            let open = files.remove(at);
            let file = open.file.clone();
            files.push(open);
            return Ok(Some(file));
        }
        drop(files);
        let name = segment.name();
        let file = self.disk.open(&name).map_err(|error| self.failed("opening", &name, &error))?;
        let found = read_header(&*file).map_err(|error| self.failed("reading", &name, &error))?;
        let found = found.map_err(|detail| self.corrupt(&name, 0, detail))?;
        if found.generation != header.generation {
            return Ok(None);
        }
        self.keep_open(segment, file.clone());
        Ok(Some(file))
    }

    /// Keeps a file open for readers; an older copy of it, or else the one not used for longest makes room.
    pub(super) fn keep_open(&self, segment: &Segment, file: Arc<dyn File>) {
        let mut files = self.files();
        files.retain(|open| open.first != segment.header.first);
        if files.len() >= FILES_OPEN_MAX {
            files.remove(0);
        }
        files.push(OpenFile { first: segment.header.first, generation: segment.header.generation, file });
    }

    fn files(&self) -> MutexGuard<'_, Vec<OpenFile>> {
        unpoisoned(self.files.lock())
    }

    pub(super) fn corrupt(&self, name: &str, offset: u64, detail: impl Into<String>) -> Error {
        corrupt(&*self.disk, name, offset, detail)
    }

    pub(super) fn failed(&self, doing: &str, name: &str, error: &io::Error) -> Error {
        failed(format!("{doing} `{}`", self.disk.place(name)), error)
    }
}

/// A contradiction in a segment's file.
pub(super) fn corrupt(disk: &dyn Disk, name: &str, offset: u64, detail: impl Into<String>) -> Error {
    Error::Corrupt { place: format!("`{}` at byte {offset}", disk.place(name)), detail: detail.into() }
}

/// Reads a segment's header; the inner error says what is wrong with it.
pub(super) fn read_header(file: &dyn File) -> io::Result<Result<SegmentHeader, String>> {
    let mut bytes = [0; SEGMENT_HEADER_LEN];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(SegmentHeader::decode(bytes.get(..read).unwrap_or_default()))
}

/// Reads index and trailer; none if the segment is not sealed, or if anything in them is wrong.
pub(super) fn read_footer(file: &dyn File, header: &SegmentHeader) -> io::Result<Option<Extent>> {
    let size = file.size()?;
    let mut tail = [0; format::TRAILER_LEN];
    let Some(from) = size.checked_sub(tail.len().try_into().unwrap_or(u64::MAX)) else { return Ok(None) };
    file.read_at(&mut tail, from)?;
    let Some(len) = format::footer_len(&tail) else { return Ok(None) };
    let len_u64 = wide(len);
    let Some(begin) = size.checked_sub(len_u64) else { return Ok(None) };
    let mut bytes = vec![0; len];
    file.read_at(&mut bytes, begin)?;
    let fits = |(_, trailer): &(Vec<IndexEntry>, Trailer)| trailer.store_id == header.store_id && trailer.end == begin;
    Ok(format::decode_footer(&bytes).filter(fits).map(|(index, trailer)| Extent {
        end: trailer.end,
        last: trailer.last,
        incarnation: trailer.incarnation,
        sealed: true,
        bytes: size,
        index,
    }))
}

/// Writes index and trailer behind the last group, cuts the file there and syncs it. Answers the file's size.
pub(super) fn write_footer(file: &dyn File, header: &SegmentHeader, extent: &Extent) -> io::Result<u64> {
    let Extent { end, last, incarnation, .. } = *extent;
    let trailer = Trailer { store_id: header.store_id, incarnation, last, end };
    let footer = format::encode_footer(&extent.index, &trailer);
    file.write_at(&footer, extent.end)?;
    let size = extent.end + wide(footer.len());
    file.set_size(size)?;
    file.sync()?;
    Ok(size)
}
