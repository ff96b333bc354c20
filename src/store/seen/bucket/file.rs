//! A bucket's file as it is read.

use std::io;
use std::sync::Arc;

use fastbloom::BloomFilter;

use crate::domain::{Lsn, Timestamp};
use crate::store::disk::{Disk, File, wide};
use crate::store::journal::StoreId;

use super::super::key::{PAIR_LEN, SeenEntry, SeenKey, decode};
use super::{Span, Trouble};

pub(super) const MAGIC: [u8; 4] = *b"TSEN";
pub(super) const VERSION: u8 = 1;

/// Header and blocks have this size: what a disk reads at once.
pub(super) const BLOCK_LEN: usize = 4096;

/// As many ids fit in a block with its checksum, to the byte.
pub(super) const PAIRS_A_BLOCK: usize = 93;

/// Bits set for each id: with 16 bits an id one lookup in 2,000 is in vain.
pub(super) const HASHES: u32 = 11;
pub(super) const BITS_AN_ID: usize = 16;

/// How many blocks are read at once when all are read.
const BLOCKS_AT_ONCE: u64 = 32;

/// A bucket's file, open.
pub(in super::super) struct BucketFile {
    file: Arc<dyn File>,
    store_id: StoreId,
    span: Span,
    count: u64,
    /// The first key of each block.
    firsts: Vec<SeenKey>,
    filter: BloomFilter,
}

/// The head of the file.
pub(super) struct Header {
    pub(super) store_id: StoreId,
    pub(super) span: Span,
    pub(super) count: u64,
    /// How many 64-bit words the filter has.
    pub(super) words: u64,
}

/// All ids of a file in order.
pub(in super::super) struct Pairs {
    file: Arc<BucketFile>,
    block: u64,
    blocks: u64,
    /// Read and not given yet, last first.
    ready: Vec<(SeenKey, SeenEntry)>,
}

impl Header {
    /// Without the checksum, which is the last four bytes of the block.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(BLOCK_LEN);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[VERSION, 0, 0, 0]);
        out.extend_from_slice(&self.store_id.0);
        out.extend_from_slice(&self.span.first.0.to_be_bytes());
        out.extend_from_slice(&self.span.last.0.to_be_bytes());
        out.extend_from_slice(&self.span.oldest.nanos().to_be_bytes());
        out.extend_from_slice(&self.span.newest.nanos().to_be_bytes());
        out.extend_from_slice(&self.count.to_be_bytes());
        out.extend_from_slice(&self.words.to_be_bytes());
        out.extend_from_slice(&HASHES.to_be_bytes());
        out.resize(BLOCK_LEN - 4, 0);
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let (magic, rest) = take::<4>(bytes);
        let ([version, ..], rest) = take::<4>(rest);
        if magic != MAGIC {
            return Err("the file does not begin as a bucket of seen ids".to_owned());
        }
        if version != VERSION {
            return Err(format!("its form has version {version}, this program reads version {VERSION}"));
        }
        let (body, sum) = bytes.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
        if bytes.len() != BLOCK_LEN || crc32fast::hash(body) != u32::from_be_bytes(*sum) {
            return Err("the checksum of its header is wrong".to_owned());
        }
        let (store_id, rest) = take(rest);
        let (first, rest) = take(rest);
        let (last, rest) = take(rest);
        let (oldest, rest) = take(rest);
        let (newest, rest) = take(rest);
        let (count, rest) = take(rest);
        let (words, rest) = take(rest);
        let (hashes, _) = take(rest);
        if u32::from_be_bytes(hashes) != HASHES {
            return Err("its filter was made another way".to_owned());
        }
        let span = Span {
            first: Lsn(u64::from_be_bytes(first)),
            last: Lsn(u64::from_be_bytes(last)),
            oldest: Timestamp::from_nanos(i64::from_be_bytes(oldest)),
            newest: Timestamp::from_nanos(i64::from_be_bytes(newest)),
        };
        let (count, words) = (u64::from_be_bytes(count), u64::from_be_bytes(words));
        Ok(Self { store_id: StoreId(store_id), span, count, words })
    }

    fn blocks(&self) -> u64 {
        self.count.div_ceil(wide(PAIRS_A_BLOCK))
    }

    /// The offset and the length of what stands behind the blocks.
    fn tail(&self) -> Option<(u64, usize)> {
        let len = self.blocks().checked_mul(16)?.checked_add(self.words.checked_mul(8)?)?.checked_add(4)?;
        Some((block_offset(self.blocks()), usize::try_from(len).ok()?))
    }
}

/// Takes a fixed number of bytes off the front; zeros if there are too few.
fn take<const N: usize>(bytes: &[u8]) -> ([u8; N], &[u8]) {
    bytes.split_first_chunk::<N>().map_or(([0; N], &[]), |(taken, rest)| (*taken, rest))
}

/// Where a block stands; the header is before the first.
pub(super) fn block_offset(block: u64) -> u64 {
    block.saturating_add(1).saturating_mul(wide(BLOCK_LEN))
}

/// The checksum of a block: it is right only in its place in its file.
pub(super) fn block_sum(store_id: StoreId, first: Lsn, block: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&store_id.0);
    hasher.update(&first.0.to_be_bytes());
    hasher.update(&block.to_be_bytes());
    hasher.update(body);
    hasher.finalize()
}

impl BucketFile {
    pub(super) fn new(file: Arc<dyn File>, header: &Header, firsts: Vec<SeenKey>, filter: BloomFilter) -> Self {
        Self { file, store_id: header.store_id, span: header.span, count: header.count, firsts, filter }
    }

    /// Opens a file; the inner error says why it can't be used.
    pub(in super::super) fn open(disk: &dyn Disk, name: &str, store_id: StoreId) -> io::Result<Result<Self, String>> {
        let file = disk.open(name)?;
        let mut bytes = vec![0; BLOCK_LEN];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        let header = match Header::decode(&bytes) {
            Ok(header) => header,
            Err(why) => return Ok(Err(why)),
        };
        if header.store_id != store_id {
            return Ok(Err("it belongs to another store".to_owned()));
        }
        if Span::of_name(name) != Some((header.span.first, header.span.last)) {
            return Ok(Err("its header and its name differ".to_owned()));
        }
        if header.words == 0 {
            return Ok(Err("its header tells of no filter".to_owned()));
        }
        let size = file.size()?;
        let tail = header.tail().filter(|(at, len)| at.checked_add(wide(*len)) == Some(size));
        let Some((at, len)) = tail else { return Ok(Err("its size is not what its header says".to_owned())) };
        let mut bytes = vec![0; len];
        file.read_at(&mut bytes, at)?;
        let (body, sum) = bytes.split_last_chunk::<4>().unwrap_or((&[], &[0; 4]));
        if crc32fast::hash(body) != u32::from_be_bytes(*sum) {
            return Ok(Err("the checksum of its filter is wrong".to_owned()));
        }
        let (firsts, words) = body.split_at(usize::try_from(header.blocks()).unwrap_or(0) * 16);
        let firsts = firsts.as_chunks().0.iter().map(|key| SeenKey(*key)).collect();
        let words = words.as_chunks().0.iter().map(|word| u64::from_be_bytes(*word)).collect();
        let found = Self::new(file, &header, firsts, filter(words));
        // The crate that made the filter may place its bits differently one day: then it doesn't know these.
        let fits = found.firsts.iter().all(|key| found.filter.contains_hash(key.half()));
        Ok(if fits { Ok(found) } else { Err("its filter doesn't know its own ids".to_owned()) })
    }

    pub(in super::super) fn span(&self) -> Span {
        self.span
    }

    pub(in super::super) fn count(&self) -> u64 {
        self.count
    }

    /// Looks an id up: mostly the filter answers alone; else one block is read.
    pub(in super::super) fn find(&self, key: &SeenKey) -> Result<Option<SeenEntry>, Trouble> {
        if !self.filter.contains_hash(key.half()) {
            return Ok(None);
        }
        let after = self.firsts.partition_point(|first| first <= key);
        let Some(block) = after.checked_sub(1) else { return Ok(None) };
        let block = wide(block);
        let mut bytes = [0; BLOCK_LEN];
        self.file.read_at(&mut bytes, block_offset(block)).map_err(Trouble::Io)?;
        let pairs = self.check(block, &bytes).ok_or(Trouble::Garbled)?;
        let at = pairs.binary_search_by_key(key, |pair| decode(pair).0).ok();
        Ok(at.and_then(|at| pairs.get(at)).map(|pair| decode(pair).1))
    }

    /// The ids in a block; none if its checksum is wrong.
    fn check<'a>(&self, block: u64, bytes: &'a [u8]) -> Option<&'a [[u8; PAIR_LEN]]> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        (block_sum(self.store_id, self.span.first, block, body) == u32::from_be_bytes(*sum)).then_some(())?;
        let before = block.checked_mul(u64::try_from(PAIRS_A_BLOCK).ok()?)?;
        let left = usize::try_from(self.count.checked_sub(before)?).unwrap_or(usize::MAX);
        body.as_chunks().0.get(..left.min(PAIRS_A_BLOCK))
    }
}

/// A filter of these bits. Its own hashing is not used: keys are hashes already.
pub(super) fn filter(words: Vec<u64>) -> BloomFilter {
    BloomFilter::from_vec(words).seed(&0).hashes(HASHES)
}

impl Pairs {
    pub(in super::super) fn new(file: Arc<BucketFile>) -> Self {
        let blocks = wide(file.firsts.len());
        Self { file, block: 0, blocks, ready: Vec::new() }
    }

    /// The next id.
    pub(in super::super) fn next(&mut self) -> Result<Option<(SeenKey, SeenEntry)>, Trouble> {
        if self.ready.is_empty() && self.block < self.blocks {
            let n = BLOCKS_AT_ONCE.min(self.blocks - self.block);
            let mut bytes = vec![0; usize::try_from(n).unwrap_or(1) * BLOCK_LEN];
            self.file.file.read_at(&mut bytes, block_offset(self.block)).map_err(Trouble::Io)?;
            for block in bytes.chunks_exact(BLOCK_LEN) {
                let pairs = self.file.check(self.block, block).ok_or(Trouble::Garbled)?;
                self.ready.extend(pairs.iter().map(decode));
                self.block += 1;
            }
            self.ready.reverse();
        }
        Ok(self.ready.pop())
    }

    pub(in super::super) fn span(&self) -> Span {
        self.file.span
    }
}
