//! A small journal as literal bytes, made by hand from `docs/format.md`: reading and writing must agree with them.

use super::*;

/// A sealed segment.
const FIRST: &[&str] = &[
    // segment header: incarnation 1, first LSN 1
    "5453454701000000000102030405060708090a0b0c0d0e0f00000000000000010000000000000001000000007bcddb3a",
    // mark: opened, incarnation 2, next LSN 1, synced to 48
    "5447525002000000000102030405060708090a0b0c0d0e0f000000000000000200000000000000010000000000000030",
    "000000006a13396d",
    // group: first LSN 1, synced to 104, 2 frames
    "5447525001000000000102030405060708090a0b0c0d0e0f000000000000000200000000000000010000000000000068",
    "00000002caace92f",
    // LSN 1: `tollgate`
    "00000008ca8f4bc6746f6c6c67617465",
    // LSN 2: empty
    "00000000cd6f7d47",
    // group: first LSN 3, synced to 184, 1 frame
    "5447525001000000000102030405060708090a0b0c0d0e0f0000000000000002000000000000000300000000000000b8",
    "00000001ba0c7287",
    // LSN 3: `three`
    "00000005b793fb7e7468726565",
    // index: 1 entry: LSN 1 at 48, incarnation 1, at a group
    "544944580000000100000000000000010000000000000030000000000000000100000000",
    // trailer: 1 entry, incarnation 2, last LSN 3, groups end at 253
    "54454e4400000001000102030405060708090a0b0c0d0e0f0000000000000002000000000000000300000000000000fd",
    "3a4849ec",
];

/// The open segment behind it, as far as it is used.
const SECOND: &[&str] = &[
    // segment header: incarnation 2, first LSN 4
    "5453454701000000000102030405060708090a0b0c0d0e0f00000000000000020000000000000004000000000ee73884",
    // group: first LSN 4, synced to 48, 1 frame
    "5447525001000000000102030405060708090a0b0c0d0e0f000000000000000200000000000000040000000000000030",
    "0000000146e98f8c",
    // LSN 4: 100 bytes 0x2a
    "00000064a95d61c22a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a",
    "2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a",
    "2a2a2a2a2a2a2a2a2a2a2a2a",
    // mark: closed, incarnation 2, next LSN 5, synced to 212
    "5447525003000000000102030405060708090a0b0c0d0e0f0000000000000002000000000000000500000000000000d4",
    "000000004a4fde38",
];

const FIRST_NAME: &str = "00000000000000000001.segment";
const SECOND_NAME: &str = "00000000000000000004.segment";

/// Segments end at 300 bytes, so that LSN 4 begins a new one.
const OPTIONS: Options = Options { segment_bytes: 300, frame_bytes_max: 1000, reserve_bytes: 0 };

fn bytes(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| hex::decode(line).unwrap()).collect()
}

fn frames() -> [Vec<u8>; 4] {
    [b"tollgate".to_vec(), Vec::new(), b"three".to_vec(), vec![b'*'; 100]]
}

fn open(disk: &SimDisk) -> (Journal, Recovery) {
    Journal::open_on(Arc::new(disk.clone()), OPTIONS, Lsn(0)).unwrap()
}

#[test]
fn the_literal_bytes_are_read_as_the_format_says() {
    let disk = SimDisk::default();
    disk.put(FIRST_NAME, &bytes(FIRST));
    disk.put(SECOND_NAME, &bytes(SECOND));
    let (journal, found) = open(&disk);
    let store_id = StoreId(std::array::from_fn(|n| u8::try_from(n).unwrap()));
    assert_eq!(found, Recovery { store_id, incarnation: 3, last: Lsn(4), clean: true, cut: None });
    assert_eq!(all(&journal).unwrap(), frames());
    let segments: Vec<_> = journal.segments().iter().map(|meta| (meta.first.0, meta.last.0, meta.sealed)).collect();
    assert_eq!(segments, [(1, 3, true), (4, 4, false)]);
}

#[test]
fn the_literal_bytes_are_what_is_written() {
    let disk = SimDisk::default();
    disk.put(FIRST_NAME, &bytes(FIRST)[..48]);
    let (mut journal, found) = open(&disk);
    assert_eq!((found.incarnation, found.last, found.clean), (2, Lsn(0), false));
    let [one, two, three, four] = frames();
    journal.append(&[one, two]).unwrap();
    journal.append(&[three]).unwrap();
    journal.append(&[four]).unwrap();
    journal.close().unwrap();
    assert_eq!(hex::encode(disk.content(FIRST_NAME)), FIRST.concat());
    let second = disk.content(SECOND_NAME);
    let (used, rest) = second.split_at(bytes(SECOND).len());
    assert_eq!(hex::encode(used), SECOND.concat());
    assert!(rest.iter().all(|byte| *byte == 0));
}

#[test]
fn a_right_checksum_over_numbers_that_nobody_reaches_is_refused() {
    for field in [24..32, 32..40] {
        let mut header = bytes(FIRST)[..48].to_vec();
        header[field].fill(0xff);
        let sum = crc32fast::hash(&header[..44]);
        header[44..].copy_from_slice(&sum.to_be_bytes());
        let disk = SimDisk::default();
        disk.put(FIRST_NAME, &header);
        let error = Journal::open_on(Arc::new(disk), OPTIONS, Lsn(0)).unwrap_err().to_string();
        assert!(error.contains("numbers beyond any bound"), "{error}");
    }
    // Within a file such a group is none: what nobody vouches for is cut.
    let mut first = bytes(FIRST)[..48].to_vec();
    let mut mark = bytes(FIRST)[48..104].to_vec();
    mark[24..32].fill(0xff);
    let sum = crc32fast::hash(&mark[..52]);
    mark[52..].copy_from_slice(&sum.to_be_bytes());
    first.extend(mark);
    let disk = SimDisk::default();
    disk.put(FIRST_NAME, &first);
    let (_, found) = open(&disk);
    assert_eq!((found.last, found.incarnation, found.cut.is_some()), (Lsn(0), 2, true));
}
