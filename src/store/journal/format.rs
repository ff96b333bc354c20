//! The bytes of a segment file, big endian throughout. `docs/format.md` is the contract; a golden test holds both.
//!
//! ```text
//! segment header | group header, frame, frame ... | group header, frame ... | mark | index | trailer
//! ```
//!
//! Index and trailer are there once a segment is sealed. What is reserved for an open segment and not yet written
//! reads as zeros.

use crc32fast::Hasher;

use crate::domain::Lsn;

use super::{Frame, StoreId};

/// The version of the form; in every segment header.
pub(super) const VERSION: u8 = 1;

pub(super) const SEGMENT_HEADER_LEN: usize = 48;
pub(super) const GROUP_HEADER_LEN: usize = 56;
pub(super) const FRAME_HEADER_LEN: usize = 8;
pub(super) const INDEX_HEADER_LEN: usize = 8;
pub(super) const INDEX_ENTRY_LEN: usize = 28;
pub(super) const TRAILER_LEN: usize = 52;

const SEGMENT_MAGIC: [u8; 4] = *b"TSEG";
pub(super) const GROUP_MAGIC: [u8; 4] = *b"TGRP";
pub(super) const INDEX_MAGIC: [u8; 4] = *b"TIDX";
const TRAILER_MAGIC: [u8; 4] = *b"TEND";

/// The largest frame that the form can hold. A length never looks like a magic word: those begin with 0x54.
pub(super) const FRAME_LEN_MAX: usize = 1 << 30;

/// The highest LSN and incarnation that are taken for one: nobody ever comes so far, and what follows them can be
/// counted without an overflow.
const NUMBER_MAX: u64 = 1 << 62;

/// The head of a segment file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SegmentHeader {
    pub(super) store_id: StoreId,
    /// The opening that created it.
    pub(super) incarnation: u64,
    /// Its first LSN; the file is named for it.
    pub(super) first: Lsn,
    /// How many times it was replaced by a pruned copy.
    pub(super) generation: u32,
}

/// What a group is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum GroupKind {
    /// Frames that were appended together.
    Frames,
    /// A mark without frames: a new incarnation begins here, and everything before it is synced.
    Opened,
    /// A mark without frames: closed in order, and everything before it is synced.
    Closed,
}

/// The head of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupHeader {
    pub(super) kind: GroupKind,
    pub(super) store_id: StoreId,
    pub(super) incarnation: u64,
    /// The LSN of its first frame; a mark has that of the next one.
    pub(super) first: Lsn,
    /// The file was known synced up to this offset when this was written.
    pub(super) synced: u64,
    /// How many frames follow.
    pub(super) count: u32,
}

/// A place in a segment where reading can begin: at a group or at a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct IndexEntry {
    /// The LSN that is next there.
    pub(super) lsn: Lsn,
    pub(super) offset: u64,
    /// That of the group that is read there.
    pub(super) incarnation: u64,
    /// How many frames of a group follow; 0 at a group.
    pub(super) left: u32,
}

/// The end of a sealed segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Trailer {
    pub(super) store_id: StoreId,
    /// That of its last group.
    pub(super) incarnation: u64,
    pub(super) last: Lsn,
    /// Where its groups end and the index begins.
    pub(super) end: u64,
}

/// Takes numbers off the front of bytes.
struct Fields<'a>(&'a [u8]);

/// Numbers, one behind the other.
struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl SegmentHeader {
    pub(super) fn encode(&self) -> [u8; SEGMENT_HEADER_LEN] {
        let mut out = Writer::new();
        out.put(&SEGMENT_MAGIC);
        out.put(&[VERSION, 0, 0, 0]);
        out.put(&self.store_id.0);
        out.put(&self.incarnation.to_be_bytes());
        out.put(&self.first.0.to_be_bytes());
        out.put(&self.generation.to_be_bytes());
        out.seal()
    }

    /// Reads a header; the error says what is wrong with it.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut fields = Fields(bytes);
        let magic = fields.take::<4>();
        let version = fields.take::<4>();
        if magic != Some(SEGMENT_MAGIC) {
            return Err("the file does not begin as a segment".to_owned());
        }
        if let Some([version, ..]) = version.filter(|[version, ..]| *version != VERSION) {
            return Err(format!("its form has version {version}, this program reads version {VERSION}"));
        }
        let header = || {
            let store_id = StoreId(fields.take()?);
            let (incarnation, first) = (fields.u64()?, Lsn(fields.u64()?));
            Some(Self { store_id, incarnation, first, generation: fields.u32()? })
        };
        let sealed = is_sealed(bytes, SEGMENT_HEADER_LEN).then(header).flatten();
        let header = sealed.ok_or_else(|| "the checksum of the segment's header is wrong".to_owned())?;
        if header.incarnation > NUMBER_MAX || header.first.0 > NUMBER_MAX {
            return Err("the segment's header has numbers beyond any bound".to_owned());
        }
        Ok(header)
    }
}

impl GroupHeader {
    pub(super) fn encode(&self) -> [u8; GROUP_HEADER_LEN] {
        let mut out = Writer::new();
        out.put(&GROUP_MAGIC);
        out.put(&[self.kind.byte(), 0, 0, 0]);
        out.put(&self.store_id.0);
        out.put(&self.incarnation.to_be_bytes());
        out.put(&self.first.0.to_be_bytes());
        out.put(&self.synced.to_be_bytes());
        out.put(&self.count.to_be_bytes());
        out.seal()
    }

    /// Reads a header; none if its checksum is wrong or it contradicts itself.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if !is_sealed(bytes, GROUP_HEADER_LEN) {
            return None;
        }
        let mut fields = Fields(bytes);
        fields.take().filter(|magic| *magic == GROUP_MAGIC)?;
        let [kind, ..] = fields.take::<4>()?;
        let header = Self {
            kind: GroupKind::from_byte(kind)?,
            store_id: StoreId(fields.take()?),
            incarnation: fields.u64()?,
            first: Lsn(fields.u64()?),
            synced: fields.u64()?,
            count: fields.u32()?,
        };
        let is_bounded = header.incarnation <= NUMBER_MAX && header.first.0 <= NUMBER_MAX;
        (is_bounded && (header.kind == GroupKind::Frames) == (header.count > 0)).then_some(header)
    }
}

impl GroupKind {
    const fn byte(self) -> u8 {
        match self {
            Self::Frames => 1,
            Self::Opened => 2,
            Self::Closed => 3,
        }
    }

    const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Frames),
            2 => Some(Self::Opened),
            3 => Some(Self::Closed),
            _ => None,
        }
    }
}

/// The checksums of the frames of one incarnation of one store: a frame is valid only at its own LSN.
#[derive(Clone)]
pub(super) struct FrameSum(Hasher);

impl FrameSum {
    pub(super) fn new(store_id: StoreId, incarnation: u64) -> Self {
        let mut hasher = Hasher::new();
        hasher.update(&store_id.0);
        hasher.update(&incarnation.to_be_bytes());
        Self(hasher)
    }

    fn of(&self, lsn: Lsn, len: [u8; 4], parts: [&[u8]; 2]) -> u32 {
        let mut head = [0; 12];
        let (left, right) = head.split_at_mut(8);
        left.copy_from_slice(&lsn.0.to_be_bytes());
        right.copy_from_slice(&len);
        let mut hasher = self.0.clone();
        hasher.update(&head);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }

    /// Adds a frame to `out`.
    pub(super) fn encode(&self, lsn: Lsn, frame: &(impl Frame + ?Sized), out: &mut Vec<u8>) {
        let parts = frame.parts();
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let len = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
        out.extend_from_slice(&len);
        out.extend_from_slice(&self.of(lsn, len, parts).to_be_bytes());
        for part in parts {
            out.extend_from_slice(part);
        }
    }

    /// Whether `bytes` is the frame at `lsn` that the header before it tells of.
    pub(super) fn fits(&self, lsn: Lsn, header: [u8; FRAME_HEADER_LEN], bytes: &[u8]) -> bool {
        let [a, b, c, d, sum @ ..] = header;
        self.of(lsn, [a, b, c, d], [bytes, &[]]) == u32::from_be_bytes(sum)
    }
}

/// The length that a frame's header tells.
pub(super) fn frame_len(header: [u8; FRAME_HEADER_LEN]) -> usize {
    let [a, b, c, d, ..] = header;
    usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX)
}

/// Index and trailer of a sealed segment.
pub(super) fn encode_footer(index: &[IndexEntry], trailer: &Trailer) -> Vec<u8> {
    let mut out = Vec::with_capacity(INDEX_HEADER_LEN + index.len() * INDEX_ENTRY_LEN + TRAILER_LEN);
    let count = u32::try_from(index.len()).unwrap_or(u32::MAX).to_be_bytes();
    out.extend_from_slice(&INDEX_MAGIC);
    out.extend_from_slice(&count);
    for entry in index {
        out.extend_from_slice(&entry.lsn.0.to_be_bytes());
        out.extend_from_slice(&entry.offset.to_be_bytes());
        out.extend_from_slice(&entry.incarnation.to_be_bytes());
        out.extend_from_slice(&entry.left.to_be_bytes());
    }
    out.extend_from_slice(&TRAILER_MAGIC);
    out.extend_from_slice(&count);
    out.extend_from_slice(&trailer.store_id.0);
    out.extend_from_slice(&trailer.incarnation.to_be_bytes());
    out.extend_from_slice(&trailer.last.0.to_be_bytes());
    out.extend_from_slice(&trailer.end.to_be_bytes());
    out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
    out
}

/// How many bytes index and trailer have, told by the last bytes of a file; none if that is no trailer.
pub(super) fn footer_len(trailer: &[u8]) -> Option<usize> {
    let mut fields = Fields(trailer);
    fields.take().filter(|magic| *magic == TRAILER_MAGIC)?;
    let count = usize::try_from(fields.u32()?).ok()?;
    count.checked_mul(INDEX_ENTRY_LEN)?.checked_add(INDEX_HEADER_LEN + TRAILER_LEN)
}

/// Reads index and trailer; none if anything in them is wrong.
pub(super) fn decode_footer(bytes: &[u8]) -> Option<(Vec<IndexEntry>, Trailer)> {
    if !is_sealed(bytes, bytes.len()) {
        return None;
    }
    let mut fields = Fields(bytes);
    fields.take().filter(|magic| *magic == INDEX_MAGIC)?;
    let count = fields.u32()?;
    let mut index = Vec::new();
    for _ in 0..count {
        let (lsn, offset, incarnation) = (Lsn(fields.u64()?), fields.u64()?, fields.u64()?);
        index.push(IndexEntry { lsn, offset, incarnation, left: fields.u32()? });
    }
    fields.take().filter(|magic| *magic == TRAILER_MAGIC)?;
    (fields.u32()? == count).then_some(())?;
    let store_id = StoreId(fields.take()?);
    let (incarnation, last, end) = (fields.u64()?, Lsn(fields.u64()?), fields.u64()?);
    let numbers = index.iter().flat_map(|entry| [entry.lsn.0, entry.incarnation]).chain([last.0, incarnation]);
    let is_bounded = numbers.max().is_none_or(|number| number <= NUMBER_MAX);
    is_bounded.then_some((index, Trailer { store_id, incarnation, last, end }))
}

/// Whether the first `len` bytes end in the checksum of those before it.
fn is_sealed(bytes: &[u8], len: usize) -> bool {
    bytes
        .get(..len)
        .and_then(<[u8]>::split_last_chunk::<4>)
        .is_some_and(|(body, sum)| crc32fast::hash(body) == u32::from_be_bytes(*sum))
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

impl<const N: usize> Writer<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    fn put(&mut self, part: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.at).zip(part) {
            *place = *byte;
        }
        self.at += part.len();
    }

    /// Ends it with the checksum of what stands before the last four bytes.
    fn seal(mut self) -> [u8; N] {
        if let Some((body, sum)) = self.bytes.split_last_chunk_mut::<4>() {
            *sum = crc32fast::hash(body).to_be_bytes();
        }
        self.bytes
    }
}
