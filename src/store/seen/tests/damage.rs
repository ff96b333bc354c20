//! Lost and garbled files, full disks, and journals that were replaced.

use super::*;

#[test]
fn a_missing_or_garbled_bucket_is_a_gap_until_it_is_rebuilt() {
    for garble in [false, true] {
        let disk = SimDisk::default();
        filled(&disk, 900, 300);
        let name = buckets_of(&disk)[1].clone();
        if garble {
            let mut content = disk.content(&name);
            content[30] ^= 1;
            disk.put(&name, &content);
        } else {
            disk.remove(&name).unwrap();
        }
        let (mut seen, opened) = open(&disk, 900);
        let gap = Gap { first: Lsn(301), last: Lsn(600) };
        assert_eq!(
            (&*opened.gaps, opened.replay_from, opened.garbled.len()),
            (&[gap][..], Lsn(901), usize::from(garble))
        );
        assert_knows(&mut seen, (1..=300).chain(601..=900));
        assert!(matches!(seen.get(&key(1)), Ok(Some(_))));
        assert!(matches!(seen.get(&key(400)), Err(Error::Corrupt { .. })), "it may be in the gap");
        let ids = (301..=600).rev().map(|n| (key(n), entry(n)));
        seen.rebuild(gap, at(600), ids).unwrap();
        assert!(seen.gaps().is_empty());
        assert_knows(&mut seen, 1..=900);
        let (mut seen, opened) = open(&disk, 900);
        assert!(opened.gaps.is_empty());
        assert_knows(&mut seen, 1..=900);
    }
}

#[test]
fn everything_missing_is_replayed_from_the_start() {
    let disk = SimDisk::default();
    filled(&disk, 900, 300);
    for name in buckets_of(&disk) {
        disk.remove(&name).unwrap();
    }
    assert_eq!(open(&disk, 900).1, Opened { gaps: vec![], replay_from: Lsn(1), garbled: vec![] });
}

#[test]
fn a_flipped_bit_never_gives_a_wrong_answer() {
    let disk = SimDisk::default();
    filled(&disk, 200, 200);
    let name = buckets_of(&disk)[0].clone();
    let content = disk.content(&name);
    for place in (0..content.len()).step_by(3) {
        let mut damaged = content.clone();
        damaged[place] ^= 1 << (place % 8);
        let copy = SimDisk::default();
        copy.put(&name, &damaged);
        let (mut seen, opened) = open(&copy, 200);
        if opened.garbled.is_empty() {
            for n in 1..=210 {
                match seen.get(&key(n)) {
                    Ok(found) => assert_eq!(found, (n <= 200).then(|| entry(n)), "{n} with a flip at {place}"),
                    Err(error) => assert!(matches!(error, Error::Corrupt { .. })),
                }
            }
            assert!(!seen.gaps().is_empty(), "the flip at {place} was not found");
        }
    }
}

#[test]
fn a_garbled_block_is_found_by_the_look_up_or_by_the_merge() {
    for merged in [false, true] {
        let disk = SimDisk::default();
        let mut seen = filled(&disk, 700, 100);
        let name = buckets_of(&disk)[2].clone();
        disk.open(&name).unwrap().write_at(b"damage", 5000).unwrap();
        for n in 701..=800 {
            seen.insert(key(n), entry(n));
        }
        seen.seal(Lsn(800), at(800));
        let error = if merged {
            seen.settle().unwrap_err()
        } else {
            (201..=300).find_map(|n| seen.get(&key(n)).err()).unwrap()
        };
        assert!(matches!(error, Error::Corrupt { .. }));
        let gap = Gap { first: Lsn(201), last: Lsn(300) };
        assert_eq!(seen.gaps(), [gap]);
        seen.rebuild(gap, at(300), (201..=300).map(|n| (key(n), entry(n)))).unwrap();
        seen.settle().unwrap();
        assert_knows(&mut seen, 1..=800);
        assert_eq!(seen.get(&key(801)).unwrap(), None);
    }
}

#[test]
fn a_merge_makes_good_what_turned_out_garbled_meanwhile() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 700, 100);
    let name = buckets_of(&disk)[2].clone();
    seen.seal(Lsn(800), at(800));
    seen.settle_once();
    let merged = seen.work().unwrap().run();
    disk.open(&name).unwrap().write_at(b"damage", 5000).unwrap();
    assert!((201..=300).any(|n| seen.get(&key(n)).is_err()));
    assert_eq!(seen.gaps(), [Gap { first: Lsn(201), last: Lsn(300) }]);
    seen.worked(merged).unwrap();
    assert_eq!(seen.gaps(), []);
    assert_knows(&mut seen, 1..=700);
}

#[test]
fn without_space_ids_stay_in_memory_until_it_returns() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 300, 300);
    for n in 301..=400 {
        seen.insert(key(n), entry(n));
    }
    seen.seal(Lsn(400), at(400));
    disk.limit_space(Some(0));
    assert!(matches!(seen.settle(), Err(Error::Full)));
    assert!(seen.work().is_none(), "it doesn't try again at once");
    assert!(matches!(seen.expire(at(301)), Err(Error::Full)));
    assert_knows(&mut seen, 1..=400);
    disk.limit_space(None);
    seen.seal(Lsn(401), at(401));
    seen.settle().unwrap();
    assert_eq!(open(&disk, 401).1.replay_from, Lsn(402));
    assert!(disk.names().iter().all(|name| !name.ends_with(open::UNFINISHED)));
}

#[test]
fn what_lies_beyond_an_older_copy_of_the_journal_is_dropped() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 900, 300);
    seen.expire(at(301)).unwrap();
    let (mut seen, opened) = open(&disk, 700);
    assert_eq!((opened.gaps, opened.replay_from), (vec![], Lsn(601)));
    assert_eq!(seen.get(&key(800)).unwrap(), None);
    // Even what was forgotten: the copy will hold other facts there.
    assert_eq!(open(&disk, 100).1.replay_from, Lsn(101));
    assert_eq!(open(&disk, 900).1.replay_from, Lsn(101));
}

#[test]
fn what_was_dropped_does_not_come_back_after_a_crash() {
    for seed in 0..30 {
        let disk = SimDisk::default();
        filled(&disk, 900, 300);
        open(&disk, 700);
        disk.crash(&mut Dice(seed));
        assert_eq!(open(&disk, 900).1.replay_from, Lsn(601));
    }
}

#[test]
fn another_stores_ids_are_not_taken() {
    let disk = SimDisk::default();
    let mut seen = filled(&disk, 900, 300);
    seen.expire(at(301)).unwrap();
    let (_, opened) = Seen::open_on(Arc::new(disk), StoreId([8; 16]), Lsn(900), DAY).unwrap();
    assert_eq!((opened.garbled.len(), opened.replay_from), (2, Lsn(1)));
}

#[test]
fn a_bucket_that_tells_of_no_filter_is_garbled() {
    let disk = SimDisk::default();
    filled(&disk, 200, 200);
    let name = buckets_of(&disk)[0].clone();
    let mut content = disk.content(&name)[..4096].to_vec();
    // No ids and no words of a filter, and every checksum right.
    content[56..72].fill(0);
    let sum = crc32fast::hash(&content[..4092]);
    content[4092..].copy_from_slice(&sum.to_be_bytes());
    content.extend(crc32fast::hash(&[]).to_be_bytes());
    disk.put(&name, &content);
    let (_, opened) = open(&disk, 200);
    assert_eq!((opened.garbled.len(), opened.replay_from), (1, Lsn(1)));
}
