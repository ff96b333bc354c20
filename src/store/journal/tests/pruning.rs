//! Pruned copies: same LSNs, smaller frames.

use crate::store::disk::sim::Dice;

use super::*;

/// Keeps the first five bytes of every frame whose LSN is even.
fn shorten(lsn: Lsn, bytes: &[u8]) -> Option<Vec<u8>> {
    lsn.0.is_multiple_of(2).then(|| bytes[..5].to_vec())
}

fn shortened(pruned: impl Fn(u64) -> bool, until: u64) -> Vec<Vec<u8>> {
    let one = |lsn| if pruned(lsn) { shorten(Lsn(lsn), &frame(lsn)).unwrap_or_else(|| frame(lsn)) } else { frame(lsn) };
    (1..=until).map(one).collect()
}

#[test]
fn a_sealed_segment_is_replaced_by_its_pruned_copy() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 150);
    let before = journal.segments();
    let pruner = journal.pruner();
    let mut until = 0;
    for segment in &before {
        let copy = pruner.prune(segment.first, shorten).unwrap();
        assert_eq!(copy.is_some(), segment.sealed);
        if let Some(copy) = copy {
            assert_eq!((copy.first, copy.last), (segment.first, segment.last));
            assert!(copy.pruned && copy.bytes < segment.bytes);
            until = copy.last.0;
        }
    }
    assert!(until > 100);
    assert!(pruner.prune(Lsn(2), shorten).unwrap().is_none(), "no segment begins there");
    drop(pruner);
    let expected = shortened(|lsn| lsn <= until, 150);
    assert_eq!(all(&journal).unwrap(), expected);
    let after = journal.segments();
    drop(journal);
    let (mut journal, _) = open(&disk);
    assert_eq!(journal.segments().iter().filter(|segment| segment.pruned).count(), after.len() - 1);
    assert_eq!(all(&journal).unwrap(), expected);
    fill(&mut journal, 200);
    // Again: a pruned copy can be pruned.
    journal.pruner().prune(Lsn(1), |_, _| Some(Vec::new())).unwrap();
    assert_eq!(journal.reader().read(Lsn(1)).unwrap(), Some(Vec::new()));
    assert_eq!(open(&disk.copy()).0.reader().read(Lsn(1)).unwrap(), Some(Vec::new()));
}

#[test]
fn a_group_that_was_cut_is_whole_in_the_copy() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    journal.append(&(1..=5).map(frame).collect::<Vec<_>>()).unwrap();
    drop(journal);
    let name = disk.names().pop().unwrap();
    let mut content = disk.content(&name);
    let end = content.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    content.truncate(end - 1);
    disk.put(&name, &content);
    let (mut journal, found) = open(&disk);
    assert_eq!(found.last, Lsn(4));
    fill(&mut journal, 150);
    journal.pruner().prune(Lsn(1), shorten).unwrap().unwrap();
    let until = journal.segments()[0].last.0;
    assert_eq!(all(&journal).unwrap(), shortened(|lsn| lsn <= until, 150));
    drop(journal);
    assert_eq!(all(&open(&disk).0).unwrap(), shortened(|lsn| lsn <= until, 150));
}

#[test]
fn a_reader_that_began_before_the_copy_goes_on_in_the_old_one() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 150);
    let mut scan = journal.reader().scan(Lsn(1));
    assert_eq!(scan.next().unwrap().unwrap(), (Lsn(1), frame(1)));
    journal.pruner().prune(Lsn(1), shorten).unwrap().unwrap();
    assert_eq!(scan.next().unwrap().unwrap(), (Lsn(2), frame(2)));
    assert!(scan.all(|found| found.is_ok()));
    assert_eq!(journal.reader().read(Lsn(2)).unwrap(), shorten(Lsn(2), &frame(2)));
}

#[test]
fn without_space_or_in_a_damaged_segment_nothing_is_changed() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 150);
    disk.limit_space(Some(10));
    assert!(matches!(journal.pruner().prune(Lsn(1), shorten), Err(Error::Full)));
    disk.limit_space(None);
    assert_eq!(all(&journal).unwrap(), expected(150));
    let name = disk.names()[0].clone();
    let file = disk.open(&name).unwrap();
    file.write_at(b"damage", 300).unwrap();
    assert!(matches!(journal.pruner().prune(Lsn(1), shorten), Err(Error::Corrupt { .. })));
    assert!(disk.names().iter().all(|name| name.ends_with(".segment")));
    let huge = journal.pruner().prune(journal.segments()[1].first, |_, _| Some(vec![0; (1 << 30) + 1]));
    assert!(matches!(huge, Err(Error::TooLarge { .. })));
}

#[test]
fn what_is_pruned_is_pruned_after_a_crash() {
    for seed in 0..30 {
        let disk = SimDisk::default();
        let (mut journal, _) = open(&disk);
        fill(&mut journal, 100);
        journal.pruner().prune(Lsn(1), shorten).unwrap().unwrap();
        drop(journal);
        disk.crash(&mut Dice(seed));
        assert_eq!(open(&disk).0.reader().read(Lsn(2)).unwrap(), shorten(Lsn(2), &frame(2)));
    }
}

#[test]
fn a_copy_is_not_read_by_the_index_of_what_it_replaced() {
    let disk = SimDisk::default();
    let (mut journal, _) = open(&disk);
    fill(&mut journal, 100);
    let old = journal.shared.segment_of(Lsn(1)).unwrap();
    journal.pruner().prune(Lsn(1), shorten).unwrap().unwrap();
    // A reader that looked the segment up before and opens the file now.
    let late = Shared::new(Arc::new(disk), journal.store_id(), vec![old.clone()], Lsn(100));
    assert!(late.file_of(&old).unwrap().is_none());
}
