//! Random runs against a map: inserts, seals, work, expiry, crashes and lost files.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// New ids.
    Insert(u8),
    /// The last id is un-marked: its append failed.
    Fail,
    /// Everything up to some LSNs before the end is sealed.
    Seal(u8),
    /// One piece of work.
    Work,
    Settle,
    /// So many seconds pass.
    Wait(u32),
    Expire,
    /// The power goes, and the journal is replayed as opening asks.
    Crash,
    /// A file is lost or garbled while nobody has it open.
    Lose {
        which: u8,
        garble: Option<u16>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (1..120_u8).prop_map(Step::Insert),
        1 => Just(Step::Fail),
        5 => (0..30_u8).prop_map(Step::Seal),
        3 => Just(Step::Work),
        2 => Just(Step::Settle),
        2 => (1..40_000_u32).prop_map(Step::Wait),
        1 => Just(Step::Expire),
        2 => Just(Step::Crash),
        1 => (any::<u8>(), prop::option::of(any::<u16>())).prop_map(|(which, garble)| Step::Lose { which, garble }),
    ]
}

struct World {
    disk: SimDisk,
    dice: Dice,
    seen: Option<Seen>,
    /// LSN to time of what the journal holds; the n-th id stands at LSN n.
    journal: BTreeMap<u64, Timestamp>,
    /// The next LSN, which is the next id.
    next: u64,
    now: Timestamp,
    /// Ids younger than this are known for sure.
    expired: Timestamp,
}

impl World {
    fn new(seed: u64) -> Self {
        let (journal, now) = (BTreeMap::new(), at(1_000_000));
        let disk = SimDisk::default();
        Self { disk, dice: Dice(seed), seen: None, journal, next: 1, now, expired: Timestamp::EPOCH }
    }

    fn last(&self) -> u64 {
        self.journal.last_key_value().map_or(0, |(lsn, _)| *lsn)
    }

    /// Opens and does what opening asks for.
    fn seen(&mut self) -> &mut Seen {
        if self.seen.is_none() {
            let last = self.last();
            let (mut seen, opened) = open(&self.disk, last);
            for gap in opened.gaps {
                let lsns = gap.first.0..=gap.last.0;
                let newest = self.journal.range(lsns.clone()).map(|(_, at)| *at).max().unwrap_or(self.now);
                seen.rebuild(gap, newest, self.journal.range(lsns).map(|(n, _)| (key(*n), entry(*n)))).unwrap();
            }
            for n in self.journal.range(opened.replay_from.0..).map(|(n, _)| *n) {
                seen.insert(key(n), entry(n));
            }
            self.seen = Some(seen);
        }
        self.seen.as_mut().unwrap()
    }

    fn take(&mut self, step: Step) {
        self.seen();
        match step {
            Step::Insert(count) => {
                for _ in 0..count {
                    let n = self.next;
                    assert!(self.seen().insert(key(n), entry(n)));
                    self.journal.insert(n, self.now);
                    self.next += 1;
                }
            }
            Step::Fail => {
                let n = self.next;
                self.seen().insert(key(n), entry(n));
                self.seen().remove(&key(n));
            }
            Step::Seal(before) => {
                let through = Lsn(self.last().saturating_sub(u64::from(before)));
                let now = self.now;
                self.seen().seal(through, now);
            }
            Step::Work => {
                if let Some(work) = self.seen().work() {
                    self.seen().worked(work.run()).unwrap();
                }
            }
            Step::Settle => self.seen().settle().unwrap(),
            Step::Wait(seconds) => self.now = self.now.plus(Duration::from_secs(seconds.into())),
            Step::Expire => {
                self.expired = self.now.minus(DAY);
                let before = self.expired;
                self.seen().expire(before).unwrap();
            }
            Step::Crash => {
                self.seen = None;
                self.disk.crash(&mut self.dice);
            }
            Step::Lose { which, garble } => self.lose(usize::from(which), garble),
        }
        self.check();
    }

    fn lose(&mut self, which: usize, garble: Option<u16>) {
        self.seen = None;
        let names = buckets_of(&self.disk);
        let Some(name) = names.get(which % names.len().max(1)) else { return };
        match garble {
            None => {
                self.disk.remove(name).unwrap();
                self.disk.sync().unwrap();
            }
            Some(place) => {
                // In the header or the tail: found when it is opened, as a rebuild then needs.
                let mut content = self.disk.content(name);
                let len = content.len();
                content[if place % 2 == 0 { usize::from(place) % 4096 } else { len - 1 }] ^= 0x10;
                self.disk.put(name, &content);
            }
        }
    }

    fn check(&mut self) {
        let (next, expired) = (self.next, self.expired);
        for n in (1..next).step_by(7) {
            let young = self.journal[&n] >= expired;
            let found = self.seen().get(&key(n)).unwrap();
            assert!(found == Some(entry(n)) || (found.is_none() && !young), "{n}: {found:?}");
        }
        for n in next..next + 5 {
            assert_eq!(self.seen().get(&key(n)).unwrap(), None);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn it_agrees_with_a_map(seed in any::<u64>(), steps in prop::collection::vec(step(), 1..60)) {
        let mut world = World::new(seed);
        for step in steps {
            world.take(step);
        }
    }
}
