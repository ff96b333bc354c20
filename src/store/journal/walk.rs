//! Walks a segment item by item: groups, marks and frames, each checked as it comes.

use std::io;
use std::sync::Arc;

use crate::domain::Lsn;

use super::super::disk::{File, wide};
use super::StoreId;
use super::format::{
    FRAME_HEADER_LEN, FRAME_LEN_MAX, FrameSum, GROUP_HEADER_LEN, GROUP_MAGIC, GroupHeader, GroupKind, INDEX_MAGIC,
    IndexEntry, frame_len,
};

/// Reads forward through one segment.
pub(super) struct Walk {
    file: Arc<dyn File>,
    /// Nothing at or beyond this offset is looked at.
    end: u64,
    /// How much is read at once.
    chunk: usize,
    buffer: Vec<u8>,
    /// How many bytes of the buffer are filled.
    filled: usize,
    /// Where in the buffer the next item begins.
    at: usize,
    /// The offset of the next item in the file.
    offset: u64,
    store_id: StoreId,
    next: Lsn,
    incarnation: u64,
    sum: FrameSum,
    left: u32,
}

/// One item.
pub(super) enum Step<'a> {
    /// A group begins, or a mark stands here.
    Group(GroupHeader),
    /// A frame.
    Frame {
        /// Its LSN.
        lsn: Lsn,
        /// Its bytes.
        bytes: &'a [u8],
    },
    /// Nothing more: zeros, the index of a sealed segment, or the end.
    End,
    /// What stands here is no item; says why.
    Bad(&'static str),
}

impl Walk {
    /// Begins at a place of the index. `chunk` bytes are read at once, none beyond `end`.
    pub(super) fn new(file: Arc<dyn File>, store_id: StoreId, from: IndexEntry, end: u64, chunk: usize) -> Self {
        Self {
            file,
            end,
            chunk,
            buffer: Vec::new(),
            filled: 0,
            at: 0,
            offset: from.offset,
            store_id,
            next: from.lsn,
            incarnation: from.incarnation,
            sum: FrameSum::new(store_id, from.incarnation),
            left: from.left,
        }
    }

    /// The place of the next item.
    pub(super) fn place(&self) -> IndexEntry {
        IndexEntry { lsn: self.next, offset: self.offset, incarnation: self.incarnation, left: self.left }
    }

    /// The next item. After [`Step::End`] and [`Step::Bad`] it stays where it is.
    pub(super) fn step(&mut self) -> io::Result<Step<'_>> {
        let head = *self.peek::<4>()?.unwrap_or(&[0; 4]);
        if head == GROUP_MAGIC {
            return self.group();
        }
        if self.left > 0 {
            return self.frame();
        }
        let is_end = head == [0; 4] || head == INDEX_MAGIC;
        Ok(if is_end { Step::End } else { Step::Bad("neither a group nor zeros stand here") })
    }

    fn group(&mut self) -> io::Result<Step<'_>> {
        let Some(bytes) = self.peek::<GROUP_HEADER_LEN>()? else {
            return Ok(Step::Bad("the file ends within a group's header"));
        };
        let Some(header) = GroupHeader::decode(bytes) else {
            return Ok(Step::Bad("the checksum of a group's header is wrong"));
        };
        if header.store_id != self.store_id {
            return Ok(Step::Bad("a group of another store stands here"));
        }
        if header.incarnation < self.incarnation {
            return Ok(Step::Bad("a leftover of an older incarnation stands here"));
        }
        if header.first != self.next {
            return Ok(Step::Bad("a group stands here whose LSN does not follow"));
        }
        // A group ends early only where a torn end was cut, and then the next opening's mark follows.
        let cut = header.kind == GroupKind::Opened && header.incarnation > self.incarnation;
        if self.left > 0 && !cut {
            return Ok(Step::Bad("a group stands here before the last one has all its frames"));
        }
        self.left = header.count;
        if header.incarnation != self.incarnation {
            self.incarnation = header.incarnation;
            self.sum = FrameSum::new(self.store_id, self.incarnation);
        }
        self.advance(GROUP_HEADER_LEN);
        Ok(Step::Group(header))
    }

    fn frame(&mut self) -> io::Result<Step<'_>> {
        let Some(header) = self.peek::<FRAME_HEADER_LEN>()?.copied() else {
            return Ok(Step::Bad("the file ends within a frame's header"));
        };
        let len = frame_len(header);
        if len > FRAME_LEN_MAX {
            return Ok(Step::Bad("a frame's length is beyond any bound"));
        }
        let lsn = self.next;
        if !self.fill(FRAME_HEADER_LEN + len)? {
            return Ok(Step::Bad("the file ends within a frame"));
        }
        let from = self.at + FRAME_HEADER_LEN;
        let bytes = self.buffer.get(from..from + len).unwrap_or_default();
        if !self.sum.fits(lsn, header, bytes) {
            return Ok(Step::Bad("the checksum of a frame is wrong"));
        }
        self.left -= 1;
        self.next = Lsn(lsn.0 + 1);
        self.advance(FRAME_HEADER_LEN + len);
        Ok(Step::Frame { lsn, bytes: self.buffer.get(from..from + len).unwrap_or_default() })
    }

    fn advance(&mut self, len: usize) {
        self.at += len;
        self.offset += wide(len);
    }

    /// The next bytes; none if the end comes before.
    fn peek<const N: usize>(&mut self) -> io::Result<Option<&[u8; N]>> {
        let there = self.fill(N)?;
        Ok(self.buffer.get(self.at..).and_then(<[u8]>::first_chunk).filter(|_| there))
    }

    /// Sees to it that `len` bytes stand in the buffer behind `at`; answers false if the end comes before.
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        if self.filled - self.at >= len {
            return Ok(true);
        }
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        if left < len {
            return Ok(false);
        }
        self.buffer.copy_within(self.at..self.filled, 0);
        self.filled -= self.at;
        self.at = 0;
        let want = len.max(self.chunk).min(left);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        let from = self.offset + wide(self.filled);
        let rest = self.buffer.get_mut(self.filled..want).unwrap_or_default();
        self.filled += self.file.read_at(rest, from)?;
        Ok(self.filled >= len)
    }
}
