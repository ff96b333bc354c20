//! A store with one of everything as files, and what it answers when some of their bytes are others.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use tempfile::TempDir;

use super::regions::Region;
use crate::domain::query::EntityFilter;
use crate::domain::{Admission, Admit, Delivery, Disposition, EntityKey, Position, Reason};
use crate::store::contract::facts::{
    at, check_entry, commit, dead, delivery, entry, event, fetched, field_entry, item, queued, retry, sub,
};
use crate::store::contract::{Rig, copy, options};
use crate::store::disk::sim::{Dice, SimDisk};
use crate::store::embedded::EmbeddedStore;
use crate::store::fuzz::Files;
use crate::store::layout::Layout;
use crate::store::open::Disks;
use crate::store::{Action, Command, Commit, Error, Scope, Store};

/// The files of a store apart from its view.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) journal: Files,
    pub(super) seen: Files,
    /// The view's, by their path in its folder.
    view: Files,
    settings: Vec<u8>,
}

/// A store as files, and its answers.
pub(super) struct Base {
    pub(super) files: Stored,
    /// Deliveries that it knows.
    known: Vec<Delivery>,
    entities: Vec<EntityKey>,
    expected: Vec<String>,
}

/// Bytes that are changed.
#[derive(Clone, Debug)]
pub(super) struct Damage {
    area: Area,
    /// File, offset, mask.
    flips: Vec<(String, usize, u8)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Area {
    Journal,
    Seen,
    View,
}

impl Damage {
    pub(super) fn flip(file: &str, at: usize, mask: u8) -> Self {
        Self { area: Area::Journal, flips: vec![(file.to_owned(), at, mask)] }
    }

    pub(super) fn in_journal(self) -> Self {
        Self { area: Area::Journal, ..self }
    }

    pub(super) fn in_seen(self) -> Self {
        Self { area: Area::Seen, ..self }
    }

    /// Whether it lies in one of these regions of the journal.
    pub(super) fn touches<'a>(&self, mut regions: impl Iterator<Item = &'a Region>) -> bool {
        let within =
            |region: &Region| self.flips.iter().any(|(file, at, _)| *file == region.file && region.range.contains(at));
        self.area == Area::Journal && regions.any(within)
    }
}

impl Stored {
    fn damaged(&self, damage: &Damage) -> Self {
        let mut files = self.clone();
        let area = match damage.area {
            Area::Journal => &mut files.journal,
            Area::Seen => &mut files.seen,
            Area::View => &mut files.view,
        };
        for (file, at, mask) in &damage.flips {
            area.get_mut(file).unwrap()[*at] ^= mask;
        }
        files
    }

    /// Opens a store on a copy of these files.
    fn open(&self, keep_view: bool) -> (TempDir, Result<EmbeddedStore, Error>) {
        let dir = TempDir::new().unwrap();
        let layout = Layout::new(dir.path());
        let lock = layout.lock().unwrap();
        fs::write(layout.settings(), &self.settings).unwrap();
        if keep_view {
            for (name, bytes) in &self.view {
                let path = layout.view().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, bytes).unwrap();
            }
        }
        let disk = |files: &Files| {
            let disk = SimDisk::default();
            for (name, bytes) in files {
                disk.put(name, bytes);
            }
            disk
        };
        let disks = Disks { journal: Arc::new(disk(&self.journal)), seen: Arc::new(disk(&self.seen)) };
        let store = EmbeddedStore::open_on(&layout, lock, &disks, &options());
        (dir, store)
    }
}

impl Base {
    /// A store with every kind of record, in sealed segments and in the open one.
    pub(super) async fn furnished() -> Self {
        let mut rig = Rig::embedded();
        let (mut known, mut entities) = (Vec::new(), Vec::new());
        for round in 0..6 {
            furnish(&rig, round, &mut known, &mut entities).await;
        }
        entities.dedup();
        let mut files = None;
        rig.meddle(|bench, view| {
            let read =
                |disk: &SimDisk| disk.names().into_iter().map(|name| (name.clone(), disk.content(&name))).collect();
            let settings = fs::read(view.with_file_name("store.toml")).unwrap();
            let copied = TempDir::new().unwrap();
            copy(view, copied.path());
            let view = read_folder(copied.path());
            files = Some(Stored { journal: read(&bench.journal), seen: read(&bench.seen), view, settings });
        })
        .await
        .unwrap();
        let mut base = Self { files: files.unwrap(), known, entities, expected: Vec::new() };
        for keep_view in [true, false] {
            let (_dir, store) = base.files.open(keep_view);
            let answers: Vec<_> = base.answers(&store.unwrap()).await.into_iter().map(Result::unwrap).collect();
            assert!(base.expected.is_empty() || base.expected == answers, "a rebuilt view answers otherwise");
            base.expected = answers;
        }
        base
    }

    /// The same after a crash: nothing says that it was closed.
    pub(super) fn without_the_closing_mark(&self, regions: &[Region]) -> Self {
        let mut files = self.files.clone();
        for region in regions.iter().filter(|region| region.what.starts_with("open mark closed")) {
            files.journal.get_mut(&region.file).unwrap()[region.range.clone()].fill(0);
        }
        Self { files, known: self.known.clone(), entities: self.entities.clone(), expected: self.expected.clone() }
    }

    /// One to three flipped bits somewhere.
    pub(super) fn random_damage(&self, dice: &mut Dice) -> Damage {
        let (area, files) = match dice.roll(6) {
            0..=3 => (Area::Journal, &self.files.journal),
            4 => (Area::Seen, &self.files.seen),
            _ => (Area::View, &self.files.view),
        };
        let roll = |dice: &mut Dice, sides: usize| usize::try_from(dice.roll(sides.try_into().unwrap())).unwrap();
        let names: Vec<_> = files.iter().filter(|(_, bytes)| !bytes.is_empty()).map(|(name, _)| name).collect();
        let flips = (0..=roll(dice, 3)).map(|_| {
            let name = names[roll(dice, names.len())];
            let bytes = &files[name];
            // Mostly where something stands.
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
            let sides = if dice.roll(8) == 0 { bytes.len() } else { used };
            (name.clone(), roll(dice, sides), 1 << roll(dice, 8))
        });
        Damage { area, flips: flips.collect() }
    }

    /// Opens damaged files and compares: each answer is as before, or a clear error. Answers whether there was one.
    pub(super) async fn check(&self, damage: &Damage, keep_view: bool, what: &str) -> bool {
        let (_dir, opened) = self.files.damaged(damage).open(keep_view);
        let store = match opened {
            Ok(store) => store,
            Err(error) => {
                clear(&error, what);
                return true;
            }
        };
        let mut told = false;
        for (number, (answer, expected)) in self.answers(&store).await.into_iter().zip(&self.expected).enumerate() {
            match answer {
                Ok(answer) => assert!(answer == *expected, "{what}: answer {number} is\n{answer}\nand not\n{expected}"),
                Err(error) => {
                    clear(&error, what);
                    told = true;
                }
            }
        }
        told
    }

    /// Everything that a store can be asked, piece by piece.
    async fn answers(&self, store: &EmbeddedStore) -> Vec<Result<String, Error>> {
        let mut out = Vec::new();
        let said = |answer: Result<String, Error>, out: &mut Vec<_>| out.push(answer);
        said(store.entities(&EntityFilter::default(), None, 1000).await.map(|page| format!("{page:?}")), &mut out);
        said(store.entries(None, None, 1000).await.map(|page| format!("{:?}", page.items)), &mut out);
        said(store.feed(None, 1000).await.map(|page| format!("{:?}", page.items)), &mut out);
        for entity in &self.entities {
            let pending = store.pending(Scope::Entity(entity), at(1000), 100).await;
            said(pending.map(|pending| format!("{pending:?}")), &mut out);
            said(store.load(entity).await.map(|entity| format!("{entity:?}")), &mut out);
            said(store.entries(Some(entity), None, 1000).await.map(|page| format!("{:?}", page.items)), &mut out);
        }
        let letters = store.dead_letters(None, 1000).await;
        let positions: Vec<Position> =
            letters.iter().flat_map(|page| &page.items).map(|letter| letter.position).collect();
        said(letters.map(|page| format!("{:?}", page.items)), &mut out);
        let mut kept = Ok(String::new());
        for position in positions {
            match (&mut kept, store.delivery(position).await) {
                (Ok(text), Ok(found)) => write!(text, "{found:?}").unwrap(),
                (kept, Err(error)) => *kept = Err(error),
                (Err(_), Ok(_)) => {}
            }
        }
        said(kept, &mut out);
        said(store.due(at(1000), 1000).await.map(|due| format!("{due:?}")), &mut out);
        said(store.machines().await.map(|machines| format!("{machines:?}")), &mut out);
        let status = store.status();
        let counts =
            (status.synced, status.pending, status.retries, status.checks, status.dead_letters, status.entities);
        said(Ok(format!("{counts:?}")), &mut out);
        for delivery in &self.known {
            let again = store.append(delivery.clone()).await;
            said(again.map(|admissions| format!("{admissions:?}")), &mut out);
        }
        out
    }
}

/// An error that says where the damage is, or that the store stopped for it.
fn clear(error: &Error, what: &str) {
    let words = match error {
        Error::Corrupt { place, detail } if !place.is_empty() => detail.as_str(),
        Error::Stopped { reason } => reason.as_str(),
        Error::Corrupt { .. }
        | Error::Full
        | Error::Busy
        | Error::TooLarge { .. }
        | Error::Fenced { .. }
        | Error::Moved { .. }
        | Error::NotPending { .. }
        | Error::NotDead { .. }
        | Error::Io { .. }
        | Error::OtherShards { .. }
        | Error::Locked { .. } => "",
    };
    assert!(!words.is_empty(), "{what}: {error:?} is no word on damage");
}

fn read_folder(folder: &std::path::Path) -> Files {
    let mut files = Files::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

/// One of everything.
async fn furnish(rig: &Rig, round: usize, known: &mut Vec<Delivery>, entities: &mut Vec<EntityKey>) {
    let name = |what: &str| format!("{what}_{round}");
    let (mover, sleeper, mourner) = (sub(&name("mover")), sub(&name("sleeper")), sub(&name("mourner")));
    entities.extend([mover.clone(), sleeper.clone(), mourner.clone()]);
    // A delivery of three: one for a queue, one recorded, one dead from the start.
    let reason = Reason::BodyNotJson { detail: "line 1".to_owned() };
    let mut nameless = event(&name("evt_nameless"), &mover, "active");
    nameless.entity = None;
    let many = delivery(vec![
        item(event(&name("evt_a"), &mover, "active"), Admit::Queue),
        item(nameless.clone(), Admit::Record),
        item(event(&name("evt_torn"), &mover, "active"), Admit::DeadLetter(reason)),
    ]);
    rig.accept(many.clone()).await;
    known.push(many);
    rig.decide(&mover).await;
    // A conflict, which is a record of its own.
    let conflict = rig.store().append(queued(&name("evt_a"), &mover, "canceled")).await.unwrap();
    assert!(matches!(conflict[..], [Admission::Conflict { .. }]), "{conflict:?}");
    // A retry, a wait and a check.
    for (event, disposition) in [("evt_r", retry(at(10))), ("evt_w", Disposition::Wait { at: at(500) })] {
        let delivery = queued(&name(event), &sleeper, "active");
        let position = rig.accept(delivery.clone()).await[0];
        known.push(delivery);
        rig.judge(&sleeper, position, disposition).await;
    }
    rig.commit(&sleeper, vec![check_entry(Some(at(20)))], vec![]).await.unwrap();
    // Fields, and an answer of the upstream.
    rig.commit(&mover, vec![field_entry("notes", &"x".repeat(700))], vec![]).await.unwrap();
    let before = rig.load(&mover).await;
    let asked = commit(&mover, before.as_ref(), rig.adopt(&mover).await);
    let entries = vec![entry(Some("active"), "past_due", vec![])];
    rig.store().commit(Commit { entries: entries.into(), fetched: Some(fetched()), ..asked }).await.unwrap();
    // Dead letters: one stays, one is replayed and dies again, one is discarded.
    let mut died = Vec::new();
    for n in 0..3 {
        let delivery = queued(&format!("{}_{n}", name("evt_d")), &mourner, "active");
        let position = rig.accept(delivery.clone()).await[0];
        known.push(delivery);
        rig.judge(&mourner, position, dead()).await;
        died.push(position);
    }
    let command = |action| Command { by: "ops".into(), at: at(50), action };
    let again = event(&format!("{}_1", name("evt_d")), &mourner, "active");
    let replayed = rig.store().command(command(Action::Replay { dead: died[1], event: again.into() })).await.unwrap();
    rig.judge(&mourner, replayed, dead()).await;
    rig.store().command(command(Action::Discard { dead: died[2] })).await.unwrap();
    let machine = crate::store::contract::facts::machine();
    let version = u32::try_from(round + 1).unwrap();
    rig.store().command(command(Action::MachineChanged { machine, version, sha256: [9; 32] })).await.unwrap();
    // And one that nobody decided yet.
    let waiting = queued(&name("evt_last"), &sleeper, "past_due");
    rig.accept(waiting.clone()).await;
    known.push(waiting);
}
