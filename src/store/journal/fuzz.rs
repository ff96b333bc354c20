//! What must hold of a journal's files, whatever became of them.

use std::sync::LazyLock;

use super::format::{
    FrameSum, GroupHeader, GroupKind, IndexEntry, SegmentHeader, Trailer, decode_footer, encode_footer, footer_len,
};
use super::segment::file_name;
use super::*;
use crate::fuzz::Input;
use crate::store::disk::sim::SimDisk;
use crate::store::disk::wide;
use crate::store::fuzz::{Files, damage, damages};

/// Segments of a few groups.
const TINY: Options = Options { segment_bytes: 700, frame_bytes_max: 10_000, reserve_bytes: 0 };

/// The last LSN of the journal that is damaged.
const LAST: u64 = 23;

const STORE: StoreId = StoreId([7; 16]);

/// Two sealed segments and an open one: closed in order, and killed.
static JOURNALS: LazyLock<[Files; 2]> = LazyLock::new(|| [true, false].map(journal));

fn frame(lsn: u64) -> Vec<u8> {
    format!("frame {lsn} {}", "x".repeat(usize::try_from(lsn * 7 % 50).unwrap())).into_bytes()
}

fn open(disk: &SimDisk, vouched: u64) -> Result<(Journal, Recovery), Error> {
    Journal::open_on(Arc::new(disk.clone()), TINY, Lsn(vouched))
}

fn append_to(journal: &mut Journal, until: u64) {
    for (size, lsn) in [1, 2, 3].into_iter().cycle().zip(0..) {
        let first = journal.synced().0 + 1;
        let frames: Vec<_> = (first..=until.min(first + size - 1)).map(frame).collect();
        if lsn > until || frames.is_empty() {
            return;
        }
        journal.append(&frames).unwrap();
    }
}

fn journal(close: bool) -> Files {
    let disk = SimDisk::default();
    append_to(&mut open(&disk, 0).unwrap().0, 13);
    let (mut journal, _) = open(&disk, 0).unwrap();
    append_to(&mut journal, LAST);
    if close {
        journal.close().unwrap();
    }
    disk.names().into_iter().map(|name| (name.clone(), disk.content(&name))).collect()
}

fn on_disk(files: &Files) -> SimDisk {
    let disk = SimDisk::default();
    for (name, content) in files {
        disk.put(name, content);
    }
    disk
}

/// What is read of a damaged journal is what was written, at its place; or there is an error. It can be written on
/// from there, and what was lost does not come back.
pub fn journal_damage(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.byte();
    let mut files = JOURNALS[usize::from(how & 1)].clone();
    damage(&mut files, input);
    let disk = on_disk(&files);
    let vouched = if how & 2 == 0 { 0 } else { LAST };
    let Ok((mut journal, found)) = open(&disk, vouched) else { return };
    assert!(found.last.0 <= LAST, "more is there than was written");
    let whole = read(&journal, found.last, |lsn| frame(lsn.0));
    let Ok(first) = journal.append(&["new"]) else { return };
    assert_eq!(first, Lsn(found.last.0 + 1));
    journal.append(&["newer", "newest"]).unwrap();
    drop(journal);
    let (journal, again) = open(&disk, 0).expect("it does not open any more");
    assert_eq!((again.last, again.cut), (Lsn(first.0 + 2), None));
    let expected = |lsn: Lsn| match lsn.0.checked_sub(first.0) {
        None => frame(lsn.0),
        Some(0) => b"new".to_vec(),
        Some(1) => b"newer".to_vec(),
        Some(_) => b"newest".to_vec(),
    };
    assert_eq!(read(&journal, again.last, expected), whole, "it reads otherwise after an append");
}

/// Reads all frames both ways; answers whether all could be read.
fn read(journal: &Journal, last: Lsn, expected: impl Fn(Lsn) -> Vec<u8>) -> bool {
    let reader = journal.reader();
    let mut count = 0;
    for (lsn, found) in (1..).map(Lsn).zip(reader.scan(Lsn(1))) {
        let Ok((at, bytes)) = found else { break };
        assert_eq!((at, &bytes), (lsn, &expected(lsn)), "a wrong frame");
        count += 1;
    }
    for lsn in (1..=last.0).map(Lsn) {
        match reader.read(lsn) {
            Ok(bytes) => assert_eq!(bytes, Some(expected(lsn)), "a wrong frame at {lsn:?}"),
            Err(_) => assert!(count < last.0, "a scan reads what a single look does not"),
        }
    }
    count == last.0
}

/// Any bytes are read as what they are, or refused: a header, an index, and files in which every checksum is right
/// and nothing else needs to be.
pub fn journal_frames(data: &[u8]) {
    if let Ok(header) = SegmentHeader::decode(data) {
        assert_eq!(SegmentHeader::decode(&header.encode()), Ok(header));
    }
    if let Some(header) = GroupHeader::decode(data) {
        assert_eq!(GroupHeader::decode(&header.encode()), Some(header));
    }
    footer_len(data);
    if let Some((index, trailer)) = decode_footer(data) {
        assert_eq!(decode_footer(&encode_footer(&index, &trailer)), Some((index, trailer)));
    }
    let mut input = Input::new(data);
    let vouched = number(&mut input);
    let disk = on_disk(&files(input));
    let Ok((mut journal, found)) = open(&disk, vouched) else { return };
    let read: Vec<_> = journal.reader().scan(Lsn(1)).map_while(Result::ok).collect();
    assert!(read.iter().zip(1..).all(|((lsn, _), expected)| lsn.0 == expected));
    for lsn in [0, 1, found.last.0, found.last.0.saturating_add(1), vouched] {
        let _ = journal.reader().read(Lsn(lsn));
    }
    let _ = journal.append(&["new"]);
    let _ = journal.close();
}

/// A small number, or one at the edge of what there is.
fn number(input: &mut Input<'_>) -> u64 {
    match input.byte() {
        255 => u64::MAX,
        254 => u64::MAX - 1,
        253 => u64::MAX / 2,
        252 => u64::from(u32::MAX),
        251 => input.long(),
        250 => u64::from(input.short()),
        small => u64::from(small),
    }
}

/// Files made of right pieces in any order.
fn files(mut input: Input<'_>) -> Files {
    let mut files = Files::new();
    let (mut name, mut content) = (file_name(Lsn(1)), Vec::new());
    let (mut incarnation, mut lsn) = (1, 1);
    while !input.is_empty() {
        match input.byte() % 8 {
            0 => {
                let (first, generation) = (Lsn(number(&mut input)), u32::from(input.byte()));
                content.extend(SegmentHeader { store_id: STORE, incarnation, first, generation }.encode());
            }
            1 => {
                let kind = *input.pick(&[GroupKind::Frames, GroupKind::Opened, GroupKind::Closed]);
                let (synced, count) = (number(&mut input), u32::try_from(number(&mut input)).unwrap_or(u32::MAX));
                let header = GroupHeader { kind, store_id: STORE, incarnation, first: Lsn(lsn), synced, count };
                content.extend(header.encode());
            }
            2 => {
                let len = usize::from(input.byte());
                FrameSum::new(STORE, incarnation).encode(Lsn(lsn), input.take(len), &mut content);
                lsn = lsn.saturating_add(1);
            }
            3 => {
                let entries = usize::from(input.byte() % 4);
                let index: Vec<_> = (0..entries).map(|_| entry(&mut input)).collect();
                let end = if input.byte() == 0 { number(&mut input) } else { wide(content.len()) };
                let trailer = Trailer { store_id: STORE, incarnation, last: Lsn(number(&mut input)), end };
                content.extend(encode_footer(&index, &trailer));
            }
            4 => content.extend(vec![0; usize::from(input.byte())]),
            5 => (incarnation, lsn) = (number(&mut input), number(&mut input)),
            6 => {
                files.insert(
                    std::mem::replace(&mut name, file_name(Lsn(number(&mut input)))),
                    std::mem::take(&mut content),
                );
            }
            _ => {
                let len = usize::from(input.byte());
                content.extend(input.take(len));
            }
        }
    }
    files.insert(name, content);
    files
}

fn entry(input: &mut Input<'_>) -> IndexEntry {
    let (lsn, offset) = (Lsn(number(input)), number(input));
    IndexEntry { lsn, offset, incarnation: number(input), left: u32::from(input.byte()) }
}

/// A journal in pieces: whole, sealed, with a mark, with an index that lies.
pub(crate) fn frame_seeds() -> Vec<(String, Vec<u8>)> {
    let header = [0, 1, 0];
    let frames = [1, 0, 48, 2, 2, 3, b'a', b'b', b'c', 2, 1, b'd'];
    let (opened, closed) = ([1, 1, 0, 0], [1, 2, 0, 0]);
    let zeros = [4, 200];
    let sealed = |last: u8| [3, 1, 1, 48, 1, 0, 1, last];
    let next = [6, 3, 0, 3, 0];
    let seed = |name: &str, pieces: &[&[u8]]| (name.to_owned(), [&[0_u8][..], &pieces.concat()].concat());
    vec![
        seed("open", &[&header, &frames, &zeros]),
        seed("marked", &[&header, &opened, &frames, &closed, &zeros]),
        seed("sealed", &[&header, &frames, &sealed(2), &next, &frames, &zeros]),
        seed("lying", &[&header, &frames, &sealed(255)]),
        seed("far", &[&[5, 255, 255], &header, &frames, &zeros]),
        (
            "raw".to_owned(),
            SegmentHeader { store_id: STORE, incarnation: 1, first: Lsn(1), generation: 0 }.encode().to_vec(),
        ),
    ]
}

/// Each kind of damage.
pub(crate) fn damage_seeds() -> Vec<(String, Vec<u8>)> {
    damages()
}
