//! Random runs of appends, crashes, failures and openings against a list of frames.

use proptest::prelude::*;

use crate::store::disk::sim::Dice;

use super::*;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happening {
    /// Groups are appended, of so many frames of so many bytes.
    Append(Vec<(u8, u16)>),
    /// The power goes between two calls.
    Crash,
    /// This many syncs from now one fails, and then the power goes or the process is killed.
    FailSync { syncs: u64, power: bool },
    /// A write fails half-way, and then the power goes or the process is killed.
    FailWrite { writes: u64, power: bool },
    /// The process is killed; the system goes on.
    Kill,
    /// The process is killed, and the power goes while the journal is opened.
    CrashOpening { syncs: u64 },
    /// Closed in order and opened again.
    Close,
    /// Space is out for one append.
    Full,
    /// A sealed segment is pruned (to the same frames).
    Prune(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    let group = (1..5_u8, prop_oneof![4 => 0..200_u16, 1 => 0..6000_u16]);
    prop_oneof![
        8 => prop::collection::vec(group, 1..8).prop_map(Happening::Append),
        2 => Just(Happening::Crash),
        3 => (0..4_u64, any::<bool>()).prop_map(|(syncs, power)| Happening::FailSync { syncs, power }),
        2 => (0..4_u64, any::<bool>()).prop_map(|(writes, power)| Happening::FailWrite { writes, power }),
        1 => Just(Happening::Kill),
        3 => (0..4_u64).prop_map(|syncs| Happening::CrashOpening { syncs }),
        1 => Just(Happening::Close),
        1 => Just(Happening::Full),
        1 => any::<u8>().prop_map(Happening::Prune),
    ]
}

/// The journal and what it must hold.
struct World {
    disk: SimDisk,
    dice: Dice,
    journal: Option<Journal>,
    /// All frames that were acknowledged, or found after a crash.
    sure: Vec<Vec<u8>>,
    /// Frames of the one group whose outcome is not known.
    unsure: Vec<Vec<u8>>,
    incarnation: u64,
    made: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::default();
        Self { disk, dice: Dice(seed), journal: None, sure: vec![], unsure: vec![], incarnation: 0, made: 0 }
    }

    fn journal(&mut self) -> &mut Journal {
        if self.journal.is_none() {
            self.open();
        }
        self.journal.as_mut().unwrap()
    }

    fn open(&mut self) {
        let opened = self.try_open();
        self.opened(opened.unwrap());
    }

    fn try_open(&mut self) -> Result<(Journal, Recovery), Error> {
        let vouched = Lsn(self.dice.roll(wide(self.sure.len()) + 1));
        Journal::open_on(Arc::new(self.disk.clone()), SMALL, vouched)
    }

    /// Acknowledged <= recovered <= submitted, in order.
    fn opened(&mut self, (journal, found): (Journal, Recovery)) {
        let mut frames = all(&journal).unwrap();
        assert!(found.incarnation > self.incarnation, "incarnations only grow");
        assert_eq!(wide(frames.len()), found.last.0);
        assert!(frames.len() >= self.sure.len(), "an acknowledged frame is gone");
        let more = frames.split_off(self.sure.len());
        assert_eq!(frames, self.sure);
        assert!(self.unsure.starts_with(&more), "a frame that nobody submitted");
        self.sure.extend(more);
        self.unsure.clear();
        self.incarnation = if found.clean { self.incarnation } else { found.incarnation };
        self.journal = Some(journal);
    }

    /// Appends a group, and answers whether the journal goes on.
    fn append(&mut self, count: u8, len: u16) -> bool {
        let made = self.made;
        let frames: Vec<Vec<u8>> = (0..u64::from(count))
            .map(|n| (made + n).to_be_bytes().into_iter().cycle().take(usize::from(len) + 1).collect())
            .collect();
        self.made += u64::from(count);
        let expected = Lsn(wide(self.sure.len()) + 1);
        match self.journal().append(&frames) {
            Ok(first) => {
                assert_eq!(first, expected);
                self.sure.extend(frames);
                true
            }
            Err(Error::Full) => true,
            Err(Error::Stopped { .. } | Error::Io { .. }) => {
                self.unsure = frames;
                false
            }
            Err(error) => panic!("{error:?}"),
        }
    }

    fn crash(&mut self) {
        self.journal = None;
        self.disk.crash(&mut self.dice);
    }

    fn kill(&mut self) {
        self.journal = None;
        self.disk.kill();
    }

    fn append_until_failure(&mut self, power: bool) {
        while self.append(2, 300) {}
        if power { self.crash() } else { self.kill() }
    }

    fn happen(&mut self, happening: Happening) {
        if let Happening::CrashOpening { syncs } = happening {
            self.kill();
            self.disk.fail_sync_after(Some(syncs));
            match self.try_open() {
                Ok(opened) => {
                    self.disk.fail_sync_after(None);
                    self.opened(opened);
                }
                Err(Error::Io { .. } | Error::Stopped { .. }) => self.crash(),
                Err(error) => panic!("{error:?}"),
            }
            return;
        }
        self.journal();
        match happening {
            Happening::Append(groups) => {
                for (count, len) in groups {
                    assert!(self.append(count, len));
                }
            }
            Happening::Crash => self.crash(),
            Happening::FailSync { syncs, power } => {
                self.disk.fail_sync_after(Some(syncs));
                self.append_until_failure(power);
            }
            Happening::FailWrite { writes, power } => {
                self.disk.fail_write_after(Some(writes));
                self.append_until_failure(power);
            }
            Happening::Kill => self.kill(),
            Happening::CrashOpening { .. } => {}
            Happening::Close => self.journal.take().unwrap().close().unwrap(),
            Happening::Full => {
                self.disk.limit_space(Some(0));
                self.append(1, 3000);
                self.append(1, 3);
                self.disk.limit_space(None);
            }
            Happening::Prune(which) => {
                let journal = self.journal();
                let segments = journal.segments();
                let segment = segments[usize::from(which) % segments.len()];
                journal.pruner().prune(segment.first, |_, _| None).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_is_recovered_lies_between_what_was_acknowledged_and_what_was_submitted(
        seed in any::<u64>(),
        happenings in prop::collection::vec(happening(), 1..25),
    ) {
        let mut world = World::new(seed);
        for happening in happenings {
            world.happen(happening);
        }
        world.crash();
        world.open();
    }
}
