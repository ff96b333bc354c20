//! What the journal promises, on a simulated disk.

mod crash;
mod golden;
mod pruning;
mod tail;

use crate::store::disk::sim::SimDisk;
pub(super) use crate::store::disk::wide;

use super::*;

/// Segments of 4 KiB: a few dozen small groups.
const SMALL: Options = Options { segment_bytes: 4096, frame_bytes_max: 10_000, reserve_bytes: 0 };

fn open(disk: &SimDisk) -> (Journal, Recovery) {
    Journal::open_on(Arc::new(disk.clone()), SMALL, Lsn(0)).unwrap()
}

fn frame(lsn: u64) -> Vec<u8> {
    format!("frame {lsn} {}", "x".repeat(usize::try_from(lsn * 7 % 50).unwrap())).into_bytes()
}

/// Appends frames up to an LSN, in groups of 1, 2, 3, 1, 2, 3 ...
fn fill(journal: &mut Journal, until: u64) {
    let mut size = 1;
    while journal.synced().0 < until {
        let first = journal.synced().0 + 1;
        let frames: Vec<_> = (first..=until.min(first + size - 1)).map(frame).collect();
        assert_eq!(journal.append(&frames).unwrap(), Lsn(first));
        size = size % 3 + 1;
    }
}

/// All frames, by scanning; and each must be what reading it alone gives.
fn all(journal: &Journal) -> Result<Vec<Vec<u8>>, Error> {
    let reader = journal.reader();
    let mut frames = Vec::new();
    for (expected, found) in (1..).zip(reader.scan(Lsn(1))) {
        let (lsn, bytes) = found?;
        assert_eq!(lsn, Lsn(expected));
        assert_eq!(reader.read(lsn)?.as_ref(), Some(&bytes));
        frames.push(bytes);
    }
    assert_eq!(wide(frames.len()), journal.synced().0);
    Ok(frames)
}

fn expected(until: u64) -> Vec<Vec<u8>> {
    (1..=until).map(frame).collect()
}

#[test]
fn what_was_appended_is_there_after_each_opening() {
    let disk = SimDisk::default();
    for (round, until) in [(1, 1), (2, 20), (3, 20), (4, 200), (5, 201)] {
        let (mut journal, found) = open(&disk);
        assert_eq!((found.incarnation, found.clean, found.cut), (round, true, None));
        fill(&mut journal, until);
        assert_eq!(all(&journal).unwrap(), expected(until));
        journal.close().unwrap();
    }
    let (journal, found) = open(&disk);
    assert_eq!((found.last, journal.synced()), (Lsn(201), Lsn(201)));
    assert_eq!(all(&journal).unwrap(), expected(201));
}

#[test]
fn a_journal_that_was_not_closed_has_all_that_was_acknowledged() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 150);
    drop(journal);
    let (journal, found) = open(&disk);
    assert_eq!((found.clean, found.cut), (false, None));
    assert_eq!(all(&journal).unwrap(), expected(150));
}

#[test]
fn reading_beyond_what_is_synced_gives_nothing() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    let reader = journal.reader();
    assert_eq!((reader.read(Lsn(0)).unwrap(), reader.read(Lsn(1)).unwrap()), (None, None));
    assert_eq!(reader.scan(Lsn(1)).count(), 0);
    assert_eq!(journal.append::<&[u8]>(&[]).unwrap(), Lsn(1));
    journal.append(&["a", ""]).unwrap();
    assert_eq!(reader.read(Lsn(1)).unwrap(), Some(b"a".to_vec()));
    assert_eq!(reader.read(Lsn(2)).unwrap(), Some(Vec::new()));
    assert_eq!(reader.read(Lsn(3)).unwrap(), None);
    let scanned: Vec<_> = reader.scan(Lsn(2)).map(Result::unwrap).collect();
    assert_eq!(scanned, [(Lsn(2), Vec::new())]);
}

#[test]
fn segments_roll_and_are_sealed() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 300);
    let segments = journal.segments();
    assert!(segments.len() > 3);
    let (open_one, sealed) = segments.split_last().unwrap();
    assert!(!open_one.sealed && sealed.iter().all(|segment| segment.sealed));
    assert_eq!(journal.sealed(), sealed.last().unwrap().last);
    let mut next = 1;
    for segment in &segments {
        assert_eq!(segment.first, Lsn(next));
        assert!(segment.bytes <= SMALL.segment_bytes + 500, "groups, index and trailer");
        next = segment.last.0 + 1;
    }
    drop(journal);
    let (journal, _) = open(&disk);
    let names = |metas: &[SegmentMeta]| metas.iter().map(|meta| (meta.first, meta.last)).collect::<Vec<_>>();
    assert_eq!(names(&journal.segments()), names(&segments));
    assert_eq!(all(&journal).unwrap(), expected(300));
}

#[test]
fn a_group_larger_than_a_segment_gets_one_of_its_own() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    let large = vec![7; 9000];
    journal.append(&[&large]).unwrap();
    journal.append(&["small"]).unwrap();
    journal.append(&[&large, &large]).unwrap();
    assert_eq!(journal.segments().len(), 3);
    drop(journal);
    let (journal, _) = open(&disk);
    assert_eq!(all(&journal).unwrap(), [large.clone(), b"small".to_vec(), large.clone(), large]);
}

#[test]
fn a_frame_over_the_bound_is_refused_and_nothing_is_written() {
    let (mut journal, _) = open(&SimDisk::default());
    let refused = journal.append(&[vec![0; 1], vec![0; 10_001]]);
    assert!(matches!(refused, Err(Error::TooLarge { bytes: 10_001, limit: 10_000 })));
    assert_eq!(journal.append(&["next"]).unwrap(), Lsn(1));
}

#[test]
fn a_folder_is_open_only_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Journal::open(folder.path(), SMALL, Lsn(0));
    let (journal, _) = open().unwrap();
    assert!(matches!(open(), Err(Error::Locked { .. })));
    let pruner = journal.pruner();
    journal.close().unwrap();
    assert!(matches!(open(), Err(Error::Locked { .. })), "somebody may still prune");
    drop(pruner);
    open().unwrap();
}

#[test]
fn it_works_on_a_real_folder() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("data").join("journal");
    for until in [100, 250] {
        let (mut journal, _) = Journal::open(&dir, SMALL, Lsn(0)).unwrap();
        fill(&mut journal, until);
        assert_eq!(all(&journal).unwrap(), expected(until));
    }
}

#[test]
fn a_large_index_leads_to_every_frame() {
    let disk = SimDisk::default();
    let options = Options { segment_bytes: 1 << 20, frame_bytes_max: 1 << 20, reserve_bytes: 0 };
    let open = |disk: &SimDisk| Journal::open_on(Arc::new(disk.clone()), options, Lsn(0)).unwrap().0;
    let mut journal = open(&disk);
    // One group far larger than the index's stride, then many small ones.
    let many: Vec<_> = (1..=400).map(|n| vec![u8::try_from(n % 251).unwrap(); 1000]).collect();
    journal.append(&many).unwrap();
    for n in 401..=800 {
        journal.append(&[vec![u8::try_from(n % 251).unwrap(); 2000]]).unwrap();
    }
    for journal in [journal, open(&disk.copy())] {
        for lsn in 1..=800_u64 {
            let frame = journal.reader().read(Lsn(lsn)).unwrap().unwrap();
            assert!(frame.iter().all(|byte| u64::from(*byte) == lsn % 251), "{lsn}");
        }
        let from: Vec<_> = journal.reader().scan(Lsn(390)).take(20).map(|found| found.unwrap().0.0).collect();
        assert_eq!(from, (390..410).collect::<Vec<_>>());
    }
}

#[test]
fn many_segments_need_few_open_files() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 6000);
    assert!(journal.segments().len() > 100);
    drop(journal);
    let (journal, _) = open(&disk);
    assert_eq!(journal.reader().scan(Lsn(1)).count(), 6000);
    assert!(disk.open_most() < 40, "{} files were open", disk.open_most());
}

/// A frame without what copies have put behind it.
fn without_marks(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte != b'!').map_or(0, |at| at + 1);
    &bytes[..end]
}

#[test]
fn readers_see_only_whole_frames_while_the_owner_appends() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    let (reader, pruner) = (journal.reader(), journal.pruner());
    std::thread::scope(|scope| {
        for from in 0..3 {
            let reader = reader.clone();
            scope.spawn(move || {
                while reader.synced() < Lsn(600) {
                    let synced = reader.synced();
                    for found in reader.scan(Lsn(1 + from * 50)) {
                        let (lsn, bytes) = found.unwrap();
                        assert_eq!(without_marks(&bytes), frame(lsn.0));
                    }
                    if synced > Lsn(0) {
                        let bytes = reader.read(synced).unwrap().unwrap();
                        assert_eq!(without_marks(&bytes), frame(synced.0));
                    }
                }
            });
        }
        scope.spawn(move || {
            while reader.synced() < Lsn(600) {
                for segment in reader.segments() {
                    // Each copy has its frames elsewhere.
                    let longer = |_, bytes: &[u8]| (bytes.len() < 90).then(|| [bytes, b"!"].concat());
                    pruner.prune(segment.first, longer).unwrap();
                }
            }
        });
        fill(&mut journal, 600);
    });
    let frames = all(&journal).unwrap();
    assert!(frames.iter().map(|bytes| without_marks(bytes)).eq(expected(600)));
}

#[test]
fn a_full_disk_refuses_and_goes_on_when_space_returns() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    disk.limit_space(Some(20_000));
    let mut full = None;
    while full.is_none() {
        let next = journal.synced().0 + 1;
        full = journal.append(&[frame(next)]).err();
    }
    assert!(matches!(full, Some(Error::Full)));
    let until = journal.synced().0;
    assert!(matches!(journal.append(&["no"]), Err(Error::Full)));
    assert_eq!(all(&journal).unwrap(), expected(until));

    // A start without space: it is read, and refuses.
    drop(journal);
    let (mut journal, found) = open(&disk);
    assert_eq!(found.last, Lsn(until));
    assert!(matches!(journal.append(&["no"]), Err(Error::Full)));
    disk.limit_space(None);
    fill(&mut journal, until + 100);
    journal.close().unwrap();
    assert_eq!(all(&open(&disk).0).unwrap(), expected(until + 100));
}

#[test]
fn a_failed_sync_or_write_stops_it() {
    for (sync, write) in [(Some(0), None), (Some(3), None), (None, Some(0)), (None, Some(2))] {
        let disk = SimDisk::default();
        let (mut journal, _) = open(&disk);
        fill(&mut journal, 5);
        disk.fail_sync_after(sync);
        disk.fail_write_after(write);
        let mut answer = Ok(Lsn(0));
        while answer.is_ok() {
            answer = journal.append(&[frame(journal.synced().0 + 1)]);
        }
        assert!(matches!(answer, Err(Error::Stopped { .. })));
        let until = journal.synced().0;
        disk.fail_sync_after(None);
        disk.fail_write_after(None);
        assert!(matches!(journal.append(&["no"]), Err(Error::Stopped { .. })), "it doesn't try again");
        assert_eq!(all(&journal).unwrap(), expected(until), "it is still read");
        assert!(matches!(journal.close(), Err(Error::Stopped { .. })));
        let (journal, found) = open(&disk);
        assert!(found.last.0 == until || found.last.0 == until + 1);
        assert_eq!(all(&journal).unwrap(), expected(found.last.0));
    }
}
