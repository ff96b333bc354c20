//! A bucket's file as it is written.

use std::io;
use std::sync::Arc;

use fastbloom::BloomFilter;

use crate::store::courtesy;
use crate::store::disk::{Disk, File, wide};
use crate::store::journal::StoreId;

use super::super::key::{SeenEntry, SeenKey, encode};
use super::Span;
use super::file::{BITS_AN_ID, BLOCK_LEN, BucketFile, Header, PAIRS_A_BLOCK, block_offset, block_sum, filter};

/// How many bytes of whole blocks are written at once.
const WRITE_LEN: usize = 64 * BLOCK_LEN;

/// Takes ids in order of their keys.
pub(in super::super) struct Writer {
    file: Arc<dyn File>,
    store_id: StoreId,
    span: Span,
    count: u64,
    /// Whole blocks, and the one that is filled.
    buffer: Vec<u8>,
    /// How many blocks are written.
    written: u64,
    /// How many ids the block that is filled has.
    in_block: usize,
    firsts: Vec<SeenKey>,
    filter: BloomFilter,
}

impl Writer {
    /// Begins a file under a name. There will be at most `most` ids.
    pub(in super::super) fn new(
        disk: &dyn Disk,
        name: &str,
        store_id: StoreId,
        span: Span,
        most: u64,
    ) -> io::Result<Self> {
        let bits = usize::try_from(most).unwrap_or(usize::MAX).saturating_mul(BITS_AN_ID);
        Ok(Self {
            file: disk.create(name)?,
            store_id,
            span,
            count: 0,
            buffer: Vec::new(),
            written: 0,
            in_block: 0,
            firsts: Vec::new(),
            filter: filter(vec![0; bits.div_ceil(64).max(1)]),
        })
    }

    /// Adds an id; its key is greater than those before.
    pub(in super::super) fn push(&mut self, key: &SeenKey, entry: &SeenEntry) -> io::Result<()> {
        if self.in_block == 0 {
            self.firsts.push(*key);
        }
        encode(key, entry, &mut self.buffer);
        self.filter.insert_hash(key.half());
        self.count += 1;
        self.in_block += 1;
        if self.in_block == PAIRS_A_BLOCK {
            self.end_block();
            if self.buffer.len() >= WRITE_LEN {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Ends the file and syncs it.
    pub(in super::super) fn finish(mut self) -> io::Result<BucketFile> {
        if self.in_block > 0 {
            self.end_block();
        }
        self.flush()?;
        let mut tail = Vec::with_capacity(self.firsts.len() * 16 + self.filter.num_bits() / 8 + 4);
        for key in &self.firsts {
            tail.extend_from_slice(&key.0);
        }
        for word in self.filter.as_slice() {
            tail.extend_from_slice(&word.to_be_bytes());
        }
        tail.extend_from_slice(&crc32fast::hash(&tail).to_be_bytes());
        self.file.write_at(&tail, block_offset(self.written))?;
        let words = wide(self.filter.as_slice().len());
        let header = Header { store_id: self.store_id, span: self.span, count: self.count, words };
        self.file.write_at(&header.encode(), 0)?;
        self.file.sync()?;
        Ok(BucketFile::new(self.file, &header, self.firsts, self.filter))
    }

    /// Fills the block up with zeros and puts its checksum behind it.
    fn end_block(&mut self) {
        let begin = self.buffer.len() / BLOCK_LEN * BLOCK_LEN;
        self.buffer.resize(begin + BLOCK_LEN - 4, 0);
        let block = self.written + wide(begin / BLOCK_LEN);
        let body = self.buffer.get(begin..).unwrap_or_default();
        let sum = block_sum(self.store_id, self.span.first, block, body);
        self.buffer.extend_from_slice(&sum.to_be_bytes());
        self.in_block = 0;
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, block_offset(self.written))?;
        self.written += wide(self.buffer.len() / BLOCK_LEN);
        self.buffer.clear();
        courtesy::pause();
        Ok(())
    }
}
