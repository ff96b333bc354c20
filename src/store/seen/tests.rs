//! What the seen ids promise, on a simulated disk.

mod damage;
mod model;

use crate::domain::{EventId, Position, SourceName};
use crate::store::disk::sim::{Dice, SimDisk};

use super::*;

const STORE: StoreId = StoreId([7; 16]);
const DAY: Duration = Duration::from_hours(24);

/// The key of the n-th id: spread like a hash.
fn key(n: u64) -> SeenKey {
    let mut dice = Dice(n);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&dice.roll(u64::MAX).to_be_bytes());
    bytes[8..].copy_from_slice(&dice.roll(u64::MAX).to_be_bytes());
    SeenKey(bytes)
}

/// What is known of the n-th id: it stands at LSN n.
fn entry(n: u64) -> SeenEntry {
    SeenEntry { position: Position { lsn: Lsn(n), item: 3 }, digest: [u8::try_from(n % 256).unwrap(); 16] }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(i64::try_from(seconds).unwrap())
}

fn open(disk: &SimDisk, last: u64) -> (Seen, Opened) {
    Seen::open_on(Arc::new(disk.clone()), STORE, Lsn(last), DAY).unwrap()
}

/// Ids up to n, sealed every `step` of them.
fn filled(disk: &SimDisk, until: u64, step: u64) -> Seen {
    let (mut seen, _) = open(disk, until);
    for n in 1..=until {
        assert!(seen.insert(key(n), entry(n)));
        if n % step == 0 {
            seen.seal(Lsn(n), at(n));
            seen.settle().unwrap();
        }
    }
    seen
}

impl Seen {
    /// One piece of work.
    fn settle_once(&mut self) {
        let work = self.work().unwrap();
        self.worked(work.run()).unwrap();
    }
}

fn assert_knows(seen: &mut Seen, ids: impl Iterator<Item = u64>) {
    for n in ids {
        assert_eq!(seen.get(&key(n)).unwrap(), Some(entry(n)), "{n}");
    }
}

fn buckets_of(disk: &SimDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.ends_with(bucket::ENDING)).collect()
}

#[test]
fn keys_of_different_pairs_differ() {
    let of = |source: &str, id: &str| SeenKey::of(&SourceName::new(source), &EventId(id.into()));
    assert_ne!(of("ab", "c"), of("a", "bc"));
    assert_ne!(of("a", "b"), of("a", "b "));
    assert_eq!(of("stripe", "evt_1"), of("stripe", "evt_1"));
    // SHA-256 of 0000000000000001 61 0000000000000001 62: the key of an id never changes.
    assert_eq!(format!("{:?}", of("a", "b")), GOLDEN_KEY);
}

const GOLDEN_KEY: &str = "3c9d591045bc8876f9d0399bbfb05c6a";

#[test]
fn ids_are_found_in_memory_in_files_and_after_opening() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 1000, 300);
    assert_eq!(seen.sealed(), Lsn(900));
    assert_knows(&mut seen, 1..=1000);
    assert_eq!(seen.get(&key(1001)).unwrap(), None);
    let (mut seen, opened) = open(&disk, 1000);
    assert_eq!(opened, Opened { gaps: vec![], replay_from: Lsn(901), garbled: vec![] });
    assert_knows(&mut seen, 1..=900);
    assert_eq!(seen.get(&key(950)).unwrap(), None);
}

#[test]
fn an_id_keeps_its_first_entry_and_can_be_unmarked() {
    let (mut seen, _) = open(&SimDisk::default(), 0);
    assert!(seen.insert(key(1), entry(1)));
    assert!(!seen.insert(key(1), entry(2)));
    assert_knows(&mut seen, 1..=1);
    seen.remove(&key(1));
    assert_eq!(seen.get(&key(1)).unwrap(), None);
    assert!(seen.insert(key(1), entry(1)));
}

#[test]
fn sealing_leaves_ids_beyond_the_segment_where_they_can_be_unmarked() {
    let (mut seen, _) = open(&SimDisk::default(), 0);
    for n in 1..=10 {
        seen.insert(key(n), entry(n));
    }
    seen.seal(Lsn(6), at(0));
    seen.remove(&key(3));
    seen.remove(&key(8));
    assert_knows(&mut seen, (1..=7).chain(9..=10));
    assert_eq!(seen.get(&key(8)).unwrap(), None);
    seen.seal(Lsn(6), at(0));
    assert_eq!(seen.buckets.len(), 1, "sealing twice is sealing once");
}

#[test]
fn new_ids_almost_never_touch_the_disk_and_known_ones_once() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 20_000, 5_000);
    let before = disk.reads();
    for n in 30_000..50_000 {
        assert_eq!(seen.get(&key(n)).unwrap(), None);
    }
    let in_vain = disk.reads() - before;
    assert!(in_vain < 120, "{in_vain} reads for 20,000 new ids in 4 buckets");
    let before = disk.reads();
    assert_knows(&mut seen, 1..=20_000);
    let reads = disk.reads() - before;
    assert!(reads < 20_120, "{reads} reads for 20,000 known ids");
}

#[test]
fn small_buckets_are_merged_and_their_files_removed() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 6000, 20);
    assert!(seen.buckets.len() < 30, "{} buckets of 300", seen.buckets.len());
    assert_eq!(buckets_of(&disk).len(), seen.buckets.len());
    assert_knows(&mut seen, 1..=6000);
    let (mut seen, opened) = open(&disk, 6000);
    assert_eq!((opened.gaps, opened.replay_from), (vec![], Lsn(6001)));
    assert_knows(&mut seen, 1..=6000);
}

#[test]
fn files_that_a_crash_left_behind_after_a_merge_are_removed() {
    let (disk, before) = (SimDisk::default(), SimDisk::default());
    filled(&disk, 800, 100);
    filled(&before, 700, 100);
    for name in before.names() {
        disk.put(&name, &before.content(&name));
    }
    let (mut seen, opened) = open(&disk, 800);
    assert_eq!(opened, Opened { gaps: vec![], replay_from: Lsn(801), garbled: vec![] });
    assert_eq!(disk.names(), ["00000000000000000001-00000000000000000800.seen"]);
    assert_knows(&mut seen, 1..=800);
}

#[test]
fn of_an_id_that_stands_twice_the_first_is_kept() {
    let disk = SimDisk::default();
    let (mut seen, _) = open(&disk, 0);
    for n in 1..=80 {
        seen.insert(key(n % 20), entry(n));
        if n % 10 == 0 {
            seen.seal(Lsn(n), at(n));
        }
    }
    let check = |seen: &mut Seen| (1..20).for_each(|n| assert_eq!(seen.get(&key(n)).unwrap(), Some(entry(n))));
    check(&mut seen);
    seen.settle().unwrap();
    assert_eq!((seen.buckets.len(), seen.buckets[0].count()), (1, 20));
    check(&mut seen);
}

#[test]
fn buckets_far_apart_in_time_are_not_merged() {
    let disk = SimDisk::default();
    let (mut seen, _) = open(&disk, 0);
    for n in 1..=20 {
        seen.insert(key(n), entry(n));
        seen.seal(Lsn(n), at(n * 3600));
        seen.settle().unwrap();
    }
    assert!(seen.buckets.iter().all(|bucket| bucket.span().newest.since(bucket.span().oldest) <= DAY / 4));
}

#[test]
fn old_buckets_are_forgotten_and_stay_so() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 1000, 300);
    seen.expire(at(601)).unwrap();
    assert_eq!(seen.get(&key(600)).unwrap(), None);
    assert_knows(&mut seen, 601..=1000);
    assert_eq!(buckets_of(&disk).len(), 1);
    let (mut seen, opened) = open(&disk, 1000);
    assert_eq!((opened.gaps, opened.replay_from), (vec![], Lsn(901)), "what is forgotten is no gap");
    assert_knows(&mut seen, 601..=900);
    seen.expire(at(10_000)).unwrap();
    let (_, opened) = open(&disk, 1000);
    assert_eq!((opened.gaps, opened.replay_from), (vec![], Lsn(901)));
}

#[test]
fn work_may_come_back_after_other_things_happened() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 700, 100);
    for n in 701..=900 {
        seen.insert(key(n), entry(n));
    }
    seen.seal(Lsn(800), at(800));
    seen.settle_once();
    let merge = seen.work().unwrap();
    assert!(seen.work().is_none(), "one at a time");
    seen.seal(Lsn(900), at(900));
    seen.expire(at(10_000)).unwrap();
    let worked = merge.run();
    assert_knows(&mut seen, 1..=900);
    seen.worked(worked).unwrap();
    assert_knows(&mut seen, 1..=900);
    seen.settle().unwrap();
    seen.expire(at(10_000)).unwrap();
    assert_eq!(buckets_of(&disk), Vec::<String>::new());
}

#[test]
fn the_files_are_as_the_format_says() {
    let disk = SimDisk::default();
    let (mut seen, _) = open(&disk, 0);
    seen.insert(SeenKey([0xbb; 16]), SeenEntry { position: Position { lsn: Lsn(8), item: 0 }, digest: [0xcc; 16] });
    seen.insert(SeenKey([0xaa; 16]), SeenEntry { position: Position { lsn: Lsn(9), item: 1 }, digest: [0xdd; 16] });
    seen.seal(Lsn(10), Timestamp::from_nanos(0x0102_0304));
    seen.settle().unwrap();
    let content = disk.content("00000000000000000001-00000000000000000010.seen");
    let filter_words = 1;
    assert_eq!(content.len(), 2 * 4096 + 16 + filter_words * 8 + 4);
    let hex = |from: usize, to: usize| hex::encode(&content[from..to]);
    assert_eq!(hex(0, 8), "5453454e01000000");
    assert_eq!(hex(8, 24), "07".repeat(16));
    assert_eq!(hex(24, 40), "0000000000000001000000000000000a");
    assert_eq!(hex(40, 56), "00000000010203040000000001020304");
    assert_eq!(hex(56, 76), "000000000000000200000000000000010000000b");
    assert!(content[76..4092].iter().all(|byte| *byte == 0));
    assert_eq!(content[4092..4096], crc32fast::hash(&content[..4092]).to_be_bytes());
    assert_eq!(hex(4096, 4140), format!("{}000000000000000900000001{}", "aa".repeat(16), "dd".repeat(16)));
    assert_eq!(hex(4140, 4184), format!("{}000000000000000800000000{}", "bb".repeat(16), "cc".repeat(16)));
    assert!(content[4184..8188].iter().all(|byte| *byte == 0));
    let sealed = [&[7; 16][..], &1_u64.to_be_bytes(), &0_u64.to_be_bytes(), &content[4096..8188]].concat();
    assert_eq!(content[8188..8192], crc32fast::hash(&sealed).to_be_bytes());
    assert_eq!(hex(8192, 8208), "aa".repeat(16));
    assert_eq!(content[8216..], crc32fast::hash(&content[8192..8216]).to_be_bytes());
    seen.expire(Timestamp::MAX).unwrap();
    let forgotten = disk.content("forgotten");
    assert_eq!(hex::encode(&forgotten[..32]), format!("5453464f01000000{}000000000000000a", "07".repeat(16)));
    assert_eq!(forgotten[32..], crc32fast::hash(&forgotten[..32]).to_be_bytes());
}
