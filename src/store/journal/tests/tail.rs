//! Torn ends, flipped bits, leftovers: what is cut, what is fatal, what is never believed.

use super::super::format::{FrameSum, GroupHeader, GroupKind};
use super::*;

const FIRST: &str = "00000000000000000001.segment";

/// The last LSN of [`three_segments`].
const LAST: u64 = 23;

/// Segments of a few groups.
const TINY: Options = Options { segment_bytes: 700, frame_bytes_max: 10_000, reserve_bytes: 0 };

/// Opens with an LSN that is vouched for.
fn open_vouched(disk: &SimDisk, vouched: u64) -> Result<(Journal, Recovery), Error> {
    Journal::open_on(Arc::new(disk.clone()), TINY, Lsn(vouched))
}

/// The ends of the frames in a file, by walking over its bytes as the form says.
fn ends_of_frames(content: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 48;
    while content[at..].starts_with(b"TGRP") {
        let count = u32::from_be_bytes(content[at + 48..at + 52].try_into().unwrap());
        at += 56;
        for _ in 0..count {
            at += 8 + usize::try_from(u32::from_be_bytes(content[at..at + 4].try_into().unwrap())).unwrap();
            ends.push(at);
        }
    }
    ends
}

#[test]
fn truncated_at_any_byte_of_the_last_three_records_it_opens_with_everything_before() {
    for groups in [vec![1, 1, 1, 1, 1], vec![2, 3], vec![1, 4], vec![5]] {
        let disk = SimDisk::default();
        let (mut journal, _) = open(&disk);
        let mut next = 1;
        for size in groups {
            journal.append(&(next..next + size).map(frame).collect::<Vec<_>>()).unwrap();
            next += size;
        }
        drop(journal);
        let content = disk.content(FIRST);
        let ends = ends_of_frames(&content);
        for len in ends[1]..=ends[4] {
            let whole = wide(ends.iter().filter(|end| **end <= len).count());
            for vouched in [0, whole, 5] {
                let copy = disk.copy();
                copy.put(FIRST, &content[..len]);
                if vouched > whole {
                    let refused = open_vouched(&copy, vouched).map(|(_, found)| found);
                    assert!(matches!(refused, Err(Error::Corrupt { .. })), "at {len}: {refused:?}");
                    assert_eq!(copy.content(FIRST), content[..len], "at {len}: it was changed");
                    continue;
                }
                let (mut journal, found) = open_vouched(&copy, vouched).unwrap();
                assert_eq!(found.last, Lsn(whole), "at {len}");
                assert_eq!(all(&journal).unwrap(), expected(whole));
                fill(&mut journal, 40);
                drop(journal);
                let (journal, found) = open(&copy);
                assert_eq!(found.cut, None);
                assert_eq!(all(&journal).unwrap(), expected(40));
            }
        }
    }
}

/// A journal of two sealed segments and an open one, whose last group has LSN [`LAST`].
fn three_segments(close: bool) -> SimDisk {
    let disk = SimDisk::default();
    let (mut journal, _) = open_vouched(&disk, 0).unwrap();
    fill(&mut journal, 13);
    drop(journal);
    let (mut journal, _) = open_vouched(&disk, 0).unwrap();
    fill(&mut journal, LAST - 1);
    journal.append(&[frame(LAST)]).unwrap();
    assert_eq!(journal.segments().len(), 3);
    if close {
        journal.close().unwrap();
    }
    disk
}

/// What a damaged copy gives: all that can be read, or the error. Never a wrong frame.
fn read_damaged(disk: &SimDisk, vouched: u64) -> Result<u64, Error> {
    let (journal, found) = open_vouched(disk, vouched)?;
    assert_eq!(all(&journal)?, expected(found.last.0));
    Ok(found.last.0)
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    for (close, vouched) in [(true, 0), (false, 0), (false, LAST)] {
        let disk = three_segments(close);
        for name in disk.names() {
            let content = disk.content(&name);
            let used = content.iter().rposition(|byte| *byte != 0).unwrap() + 30;
            let ends = if name == FIRST { Vec::new() } else { ends_of_frames(&content) };
            let last_begins = ends.iter().rev().nth(1).map_or(usize::MAX, |end| *end);
            for at in 0..used.min(content.len()) {
                let bit = 1 << (at % 8);
                let mut damaged = content.clone();
                damaged[at] ^= bit;
                let copy = disk.copy();
                copy.put(&name, &damaged);
                match read_damaged(&copy, vouched) {
                    Ok(LAST) | Err(Error::Corrupt { .. }) => {}
                    Ok(found) if found == LAST - 1 => {
                        let nobody_vouches = !close && vouched == 0 && at >= last_begins;
                        assert!(nobody_vouches, "{name} at {at}: a synced frame was cut");
                    }
                    other => panic!("{name} at {at}: {other:?}"),
                }
            }
        }
    }
}

#[test]
fn damage_before_the_last_group_is_fatal_and_names_the_place() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 6);
    drop(journal);
    let mut content = disk.content(FIRST);
    let ends = ends_of_frames(&content);
    content[ends[2] - 1] ^= 1;
    disk.put(FIRST, &content);
    let error = open_vouched(&disk, 0).unwrap_err();
    let Error::Corrupt { place, detail } = error else { panic!("{error:?}") };
    assert_eq!(place, format!("`sim/{FIRST}` at byte {}", ends[1]));
    assert!(detail.starts_with("the checksum of a frame is wrong; the group at byte"), "{detail}");
}

#[test]
fn a_wiped_group_is_fatal_where_somebody_saw_it_synced_and_torn_where_nobody_did() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    for n in 1..=6 {
        journal.append(&[frame(n)]).unwrap();
    }
    drop(journal);
    let mut content = disk.content(FIRST);
    let end = ends_of_frames(&content)[4];
    content[end..].fill(0);
    disk.put(FIRST, &content);
    let error = open_vouched(&disk.copy(), 6).unwrap_err();
    let Error::Corrupt { place, detail } = error else { panic!("{error:?}") };
    assert_eq!(place, format!("`sim/{FIRST}` at byte {end}"));
    assert!(detail.starts_with("the journal ends here, at LSN 5, but it was longer: "), "{detail}");
    assert_eq!(open_vouched(&disk, 0).unwrap().1.last, Lsn(5));
}

#[test]
fn the_group_that_proves_is_found_wherever_it_stands() {
    // Around the places where one piece of what is searched ends and the next begins.
    let piece = 256 << 10;
    for distance in [piece - 60, piece - 56, piece - 55, piece - 20, piece - 1, piece, piece + 1, 2 * piece - 60] {
        let disk = SimDisk::default();
        let options = Options { segment_bytes: 1 << 20, frame_bytes_max: 1 << 20, reserve_bytes: 0 };
        let open = || Journal::open_on(Arc::new(disk.clone()), options, Lsn(0));
        let (mut journal, _) = open().unwrap();
        journal.append(&[vec![0; distance - 64]]).unwrap();
        journal.append(&["proof"]).unwrap();
        drop(journal);
        let mut content = disk.content(FIRST);
        content[50] ^= 1;
        disk.put(FIRST, &content);
        let Err(Error::Corrupt { detail, .. }) = open() else { panic!("{distance}") };
        assert!(detail.contains(&format!("the group at byte {} proves", 48 + distance)), "{detail}");
    }
}

#[test]
fn damage_in_a_sealed_segment_is_found_when_it_is_read() {
    let disk = three_segments(true);
    let mut content = disk.content(FIRST);
    content[200] ^= 4;
    disk.put(FIRST, &content);
    let (journal, _) = open(&disk);
    let reader = journal.reader();
    let mut scan = reader.scan(Lsn(1));
    let error = scan.find_map(Result::err).unwrap();
    assert!(matches!(error, Error::Corrupt { .. }));
    assert!(scan.next().is_none(), "it ends there");
    assert_eq!(reader.read(Lsn(LAST)).unwrap(), Some(frame(LAST)));
}

#[test]
fn damage_in_the_last_group_is_fatal_only_if_somebody_vouches() {
    let disk = three_segments(false);
    let name = disk.names().pop().unwrap();
    let content = disk.content(&name);
    let last = *ends_of_frames(&content).last().unwrap();
    let mut damaged = content.clone();
    damaged[last - 1] ^= 1;
    disk.put(&name, &damaged);
    assert!(matches!(open_vouched(&disk, LAST), Err(Error::Corrupt { .. })));
    assert_eq!(disk.content(&name), damaged, "nothing was cut");
    let (_, found) = open_vouched(&disk, LAST - 1).unwrap();
    let cut = found.cut.unwrap();
    assert_eq!((found.last, cut.lsn), (Lsn(LAST - 1), Lsn(LAST)));
    assert!(cut.why.contains(&name) && cut.why.ends_with("the checksum of a frame is wrong"), "{}", cut.why);
}

#[test]
fn what_was_cut_is_gone_from_the_disk() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    journal.append(&["kept"]).unwrap();
    journal.append(&[vec![b'x'; 500]]).unwrap();
    drop(journal);
    let mut content = disk.content(FIRST);
    content[400] ^= 1;
    disk.put(FIRST, &content);
    let (_, found) = open(&disk);
    assert_eq!(found.cut.unwrap().bytes, 508);
    assert!(!disk.content(FIRST).windows(9).any(|bytes| bytes == b"xxxxxxxxx"));
    assert_eq!(open(&disk).1.cut, None);
}

#[test]
fn a_missing_segment_is_fatal() {
    for missing in [0, 1] {
        let disk = three_segments(true);
        let name = disk.names()[missing].clone();
        disk.remove(&name).unwrap();
        assert!(matches!(open_vouched(&disk, 0), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn a_segment_of_another_store_is_fatal() {
    let (disk, other) = (three_segments(true), three_segments(true));
    let name = &disk.names()[1];
    disk.put(name, &other.content(name));
    assert!(matches!(open_vouched(&disk, 0), Err(Error::Corrupt { .. })));
}

#[test]
fn a_newer_form_is_refused_by_its_version() {
    let disk = three_segments(true);
    let mut content = disk.content(FIRST);
    content[4] = 2;
    disk.put(FIRST, &content);
    let Err(Error::Corrupt { detail, .. }) = open_vouched(&disk, 0) else { panic!() };
    assert_eq!(detail, "its form has version 2, this program reads version 1");
}

#[test]
fn a_lost_index_is_made_anew() {
    let disk = three_segments(true);
    for cut in [1, 52, 60] {
        let copy = disk.copy();
        let mut content = disk.content(FIRST);
        content.truncate(content.len() - cut);
        copy.put(FIRST, &content);
        assert_eq!(read_damaged(&copy, LAST).unwrap(), LAST);
    }
}

#[test]
fn a_copy_that_ends_early_opens_where_nobody_knows_of_more() {
    let disk = three_segments(true);
    let last = disk.names().pop().unwrap();
    disk.remove(&last).unwrap();
    let Err(Error::Corrupt { detail, .. }) = open_vouched(&disk, LAST) else { panic!("it opened") };
    assert!(detail.starts_with("the journal ends here, at LSN "), "{detail}");
    let (journal, found) = open_vouched(&disk, 0).unwrap();
    assert!(found.last < Lsn(LAST) && found.cut.is_none());
    assert_eq!(all(&journal).unwrap(), expected(found.last.0));
}

/// Leftovers of an older incarnation behind a newer one's groups, as recycled space would show them.
#[test]
fn leftovers_of_an_older_incarnation_never_revive() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    for lsn in 1..=4 {
        journal.append(&[b"0123456789"]).unwrap();
        assert_eq!(journal.synced(), Lsn(lsn));
    }
    drop(journal);
    let old = disk.content(FIRST);
    let ends = ends_of_frames(&old);
    // The end is torn behind the first group; what follows is cut.
    let mut torn = old.clone();
    torn[ends[0]..].fill(0);
    disk.put(FIRST, &torn);
    let (mut journal, found) = open(&disk);
    assert_eq!((found.last, found.incarnation), (Lsn(1), 2));
    journal.append(&[&[b'n'; 10 + 48][..]]).unwrap();
    drop(journal);
    // The old groups 3 and 4 show up exactly behind the new group 2: same place, LSN and store.
    let mut content = disk.content(FIRST);
    let end = *ends_of_frames(&content).last().unwrap();
    let third = ends[1];
    let shift = end - third;
    content[end..ends[3] + shift].copy_from_slice(&old[third..ends[3]]);
    disk.put(FIRST, &content);
    let (journal, found) = open(&disk);
    let cut = found.cut.unwrap();
    assert_eq!((found.last, cut.lsn, found.incarnation), (Lsn(2), Lsn(3), 3));
    assert!(cut.why.ends_with("a leftover of an older incarnation stands here"), "{}", cut.why);
    assert_eq!(all(&journal).unwrap(), [b"0123456789".to_vec(), vec![b'n'; 58]]);
    drop(journal);
    // Nor do they prove that a torn group before them was synced.
    content[end - 1] ^= 1;
    disk.put(FIRST, &content);
    let (_, found) = open(&disk);
    assert_eq!((found.last, found.cut.unwrap().lsn), (Lsn(1), Lsn(2)));
}

#[test]
fn a_frame_of_another_incarnation_or_lsn_is_not_taken() {
    let (store, bytes) = (StoreId([1; 16]), b"bytes");
    let mut encoded = Vec::new();
    FrameSum::new(store, 1).encode(Lsn(5), bytes, &mut encoded);
    let header = *encoded.first_chunk().unwrap();
    assert!(FrameSum::new(store, 1).fits(Lsn(5), header, bytes));
    assert!(!FrameSum::new(store, 1).fits(Lsn(6), header, bytes));
    assert!(!FrameSum::new(store, 2).fits(Lsn(5), header, bytes));
    assert!(!FrameSum::new(StoreId([2; 16]), 1).fits(Lsn(5), header, bytes));
}

#[test]
fn a_mark_with_frames_or_a_group_without_is_none() {
    let header = |kind, count| GroupHeader {
        kind,
        store_id: StoreId([1; 16]),
        incarnation: 1,
        first: Lsn(1),
        synced: 48,
        count,
    };
    for (kind, count, good) in [
        (GroupKind::Frames, 1, true),
        (GroupKind::Frames, 0, false),
        (GroupKind::Opened, 0, true),
        (GroupKind::Closed, 0, true),
        (GroupKind::Closed, 1, false),
    ] {
        let header = header(kind, count);
        assert_eq!(GroupHeader::decode(&header.encode()), good.then_some(header));
    }
}
