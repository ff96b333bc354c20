//! What must hold of the files of seen ids, whatever became of them.

use std::sync::LazyLock;

use super::bucket::Span;
use super::*;
use crate::domain::Position;
use crate::fuzz::Input;
use crate::store::disk::sim::{Dice, SimDisk};
use crate::store::fuzz::{Files, damage, damages};

const STORE: StoreId = StoreId([7; 16]);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// How many ids there are, and up to which they are forgotten.
const LAST: u64 = 300;
const FORGOTTEN: u64 = 60;

/// Some buckets, and the note of what is forgotten.
static FILES: LazyLock<Files> = LazyLock::new(|| {
    let disk = SimDisk::default();
    let (mut seen, _) = open(&disk).unwrap();
    for n in 1..=LAST {
        seen.insert(key(n), entry(n));
        if n % FORGOTTEN == 0 {
            seen.seal(Lsn(n), at(n));
            let work = seen.work().unwrap();
            seen.worked(work.run()).unwrap();
        }
    }
    seen.expire(at(FORGOTTEN + 1)).unwrap();
    disk.names().into_iter().map(|name| (name.clone(), disk.content(&name))).collect()
});

fn key(n: u64) -> SeenKey {
    let mut dice = Dice(n);
    let mut half = || dice.roll(u64::MAX).to_be_bytes();
    SeenKey(*[half(), half()].concat().first_chunk().unwrap())
}

fn entry(n: u64) -> SeenEntry {
    SeenEntry { position: Position { lsn: Lsn(n), item: 3 }, digest: [u8::try_from(n % 256).unwrap(); 16] }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(i64::try_from(seconds).unwrap())
}

fn open(disk: &SimDisk) -> Result<(Seen, Opened), Error> {
    Seen::open_on(Arc::new(disk.clone()), STORE, Lsn(LAST), DAY)
}

/// An id that was seen is never new, except where the answer is an error or a gap that its owner fills; and whatever
/// stands in the files, nothing panics.
pub fn seen_files(data: &[u8]) {
    let mut input = Input::new(data);
    let mut files = FILES.clone();
    let is_forged = input.byte() & 1 == 1;
    if is_forged {
        forge(&mut files, input);
    } else {
        damage(&mut files, input);
    }
    let disk = SimDisk::default();
    for (name, content) in &files {
        disk.put(name, content);
    }
    let Ok((mut seen, opened)) = open(&disk) else { return };
    for n in 1..=LAST {
        let Ok(found) = seen.get(&key(n)) else { continue };
        if is_forged {
            continue;
        }
        let is_told =
            Lsn(n) >= opened.replay_from || opened.gaps.iter().any(|gap| (gap.first..=gap.last).contains(&Lsn(n)));
        match found {
            Some(found) => assert_eq!(found, entry(n), "{n}"),
            None => assert!(is_told || n <= FORGOTTEN, "{n} is taken for new"),
        }
    }
    assert!(is_forged || seen.get(&key(LAST + 1)).is_ok_and(|found| found.is_none()) || !seen.gaps().is_empty());
    let _ = seen.settle();
    let _ = seen.expire(at(LAST));
}

/// A file in which every checksum is right and nothing else needs to be.
fn forge(files: &mut Files, mut input: Input<'_>) {
    let (first, len) = (u64::from(input.byte()), u64::from(input.byte()));
    let span = Span { first: Lsn(first), last: Lsn(first + len), oldest: at(0), newest: at(first) };
    let mut content = vec![0; 4096];
    content[..8].copy_from_slice(b"TSEN\x01\0\0\0");
    content[8..24].copy_from_slice(&STORE.0);
    content[24..32].copy_from_slice(&first.to_be_bytes());
    content[32..40].copy_from_slice(&(first + len).to_be_bytes());
    content[40..56].copy_from_slice(&input.array::<16>());
    // How many ids, and how many words of the filter: what fits the size, or anything.
    let (count, words) = (u64::from(input.byte()), u64::from(input.byte() % 16));
    let (count, words) = if input.byte() == 0 { (input.long(), input.long()) } else { (count, words) };
    content[56..64].copy_from_slice(&count.to_be_bytes());
    content[64..72].copy_from_slice(&words.to_be_bytes());
    content[72..76].copy_from_slice(&11_u32.to_be_bytes());
    seal(&mut content, 0, &[]);
    let blocks = usize::try_from(count.min(300).div_ceil(93)).unwrap();
    for block in 0..blocks {
        let from = content.len();
        content.resize(from + 4096, 0);
        let taken = input.take(44 * 4);
        content[from..from + taken.len()].copy_from_slice(taken);
        let place = u64::try_from(block).unwrap().to_be_bytes();
        seal(&mut content, from, &[&STORE.0[..], &first.to_be_bytes(), &place].concat());
    }
    let from = content.len();
    let tail = blocks * 16 + usize::try_from(words.min(64)).unwrap() * 8 + 4;
    content.resize(from + tail, if input.byte() == 0 { 0 } else { 0xff });
    let taken = input.take(tail);
    content[from..from + taken.len()].copy_from_slice(taken);
    seal(&mut content, from, &[]);
    files.insert(span.file_name(), content);
}

/// Puts the checksum of `before` and what stands from `from` on into the last four bytes.
fn seal(content: &mut [u8], from: usize, before: &[u8]) {
    let end = content.len() - 4;
    let sum = crc32fast::hash(&[before, &content[from..end]].concat());
    content[end..].copy_from_slice(&sum.to_be_bytes());
}

/// Each kind of damage, and some forged buckets.
pub(crate) fn seen_seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds: Vec<_> =
        damages().into_iter().map(|(name, bytes)| (name, [&[0][..], &bytes[1..]].concat())).collect();
    let forged = |first: u8, len: u8, count: u8, words: u8, rest: &[u8]| {
        [&[1, first, len][..], &[0; 16], &[count, words, 1], rest].concat()
    };
    seeds.push(("forged-empty".to_owned(), forged(61, 59, 0, 0, &[])));
    seeds.push(("forged-full".to_owned(), forged(61, 59, 93, 4, &[9; 200])));
    seeds.push(("forged-two".to_owned(), forged(1, 200, 94, 1, &[0; 400])));
    seeds
}
