//! Opening a store on a disk that has no room left: it opens, or says that the disk is full, and loses nothing.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::damage::answers;
use crate::domain::Admission;
use crate::store::contract::facts::{at, commit, entry, field_entry, judged, queued, retry, sub};
use crate::store::disk::Disk as _;
use crate::store::disk::sim::{Dice, Filling, SimDisk};
use crate::store::embedded::EmbeddedStore;
use crate::store::layout::Layout;
use crate::store::open::Disks;
use crate::store::steps::{Futures, Pace};
use crate::store::tree::Trees as _;
use crate::store::tree::sim::SimTrees;
use crate::store::{Action, Command, Commit, Error, Options, Store};

/// All of a store's disks, which are parts of one that can fill up.
#[derive(Default)]
struct Platters {
    files: SimDisk,
    journal: SimDisk,
    seen: SimDisk,
    view: SimTrees,
    filling: Filling,
}

impl Platters {
    fn new() -> Self {
        let new = Self::default();
        new.lie_on_one();
        new
    }

    fn copy(&self) -> Self {
        let (files, journal, seen) = (self.files.copy(), self.journal.copy(), self.seen.copy());
        let copy = Self { files, journal, seen, ..Self::default() };
        if self.view.exists() {
            copy.view.put(self.view.content());
        }
        copy.lie_on_one();
        copy
    }

    fn lie_on_one(&self) {
        for disk in [&self.files, &self.journal, &self.seen] {
            disk.lie_on(&self.filling);
        }
        self.view.lie_on(&self.filling);
    }

    fn parts(&self) -> (Layout, Disks) {
        let layout = Layout::on(Path::new("sim"), Arc::new(self.files.clone()), Arc::new(self.view.clone()));
        (layout, Disks { journal: Arc::new(self.journal.clone()), seen: Arc::new(self.seen.clone()) })
    }

    fn kill(&self) {
        [&self.files, &self.journal, &self.seen].into_iter().for_each(SimDisk::kill);
        // What sled held in memory goes with the process.
        self.view.crash(&mut Dice(7));
    }

    /// Opens the store, and says what it answers.
    async fn opened(&self) -> Result<String, Error> {
        let (layout, disks) = self.parts();
        let (store, steps) = EmbeddedStore::by_steps(&layout, &disks, &options())?;
        let said = format!("{:?}\n{}", store.status().synced, answers(&store).await);
        drop((store, steps));
        Ok(said)
    }
}

fn options() -> Options {
    let mut options = crate::store::contract::options();
    options.gather_for = Duration::from_millis(1);
    // A table of the machines below is of more than one batch.
    options.overlay_bytes = 40_000;
    options.journal.segment_bytes = 4 << 10;
    options
}

/// A store in the midst of its work is killed: if that is some, so many calls after it began to write a large table to its
/// view.
async fn killed(cut: Option<u64>) -> Platters {
    let platters = Platters::new();
    let (layout, disks) = platters.parts();
    let (store, steps) = EmbeddedStore::by_steps(&layout, &disks, &options()).unwrap();
    let pace: Pace = Arc::new(|| Box::pin(tokio::task::yield_now()));
    let Futures { committer, applier, file_work } = steps.futures(pace);
    let work = async { tokio::join!(committer, applier, file_work) };
    let asked = async {
        for n in 0..40_i64 {
            let entity = sub(&format!("sub_{}", n % 9));
            let taken = store.append(queued(&format!("evt_{n}"), &entity, "active")).await;
            let [Admission::Accepted(position)] = taken.unwrap()[..] else { panic!("evt_{n} is new") };
            let before = store.load(&entity).await.unwrap();
            let epoch = store.adopt(entity.shard(store.shards())).await.unwrap();
            let change = commit(&entity, before.as_ref(), epoch);
            let change = match n % 4 {
                0 => Commit { judged: vec![judged(position, retry(at(n)))], ..change },
                1 => Commit { entries: [entry(None, "active", vec![position])].into(), ..change },
                2 => Commit { entries: [field_entry("notes", &"x".repeat(6000))].into(), ..change },
                _ => continue,
            };
            store.commit(change).await.unwrap();
        }
        let Some(calls) = cut else { return };
        while store.status().applied < store.status().synced {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        platters.view.fail_after(Some(calls));
        let command = |n| {
            let machine = format!("m{n}").as_str().into();
            let action = Action::MachineChanged { machine, version: 3, sha256: [7; 32] };
            store.command(Command { by: Arc::from("test"), at: at(0), action })
        };
        drop(join_all((0..250).map(command)).await);
        for _ in 0..100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if store.machines().await.is_err() {
                return;
            }
        }
        panic!("the view did not fail");
    };
    tokio::select! { biased; () = asked => {}, _ = work => {} }
    platters.kill();
    drop(store);
    // One that is killed does not live to say that its view failed.
    let _ = platters.files.remove("view.damaged");
    platters
}

/// Opens a copy on a disk that has room for so many calls, for every number until it is enough; then there is room.
async fn check(platters: &Platters, what: &str) {
    let expected = platters.copy().opened().await.unwrap();
    let thrown_away = {
        let copy = platters.copy();
        copy.opened().await.unwrap();
        copy.view.times_set_aside()
    };
    let mut calls = 0;
    loop {
        let copy = platters.copy();
        copy.filling.after(Some(calls));
        let opened = copy.opened().await;
        let enough = opened.is_ok() && !copy.filling.is_full();
        match opened {
            Ok(said) => assert_eq!(said, expected, "{what}: opened with room for {calls} calls"),
            Err(Error::Full) => {}
            Err(error) => panic!("{what}, room for {calls} calls: {error}"),
        }
        // It is tried again and again.
        assert!(matches!(copy.opened().await, Ok(_) | Err(Error::Full)), "{what}, room for {calls} calls");
        copy.kill();
        copy.filling.after(None);
        let said = copy.opened().await.unwrap_or_else(|error| panic!("{what}, {calls} calls, then room: {error}"));
        assert_eq!(said, expected, "{what}: with room again after {calls} calls");
        if thrown_away == 0 {
            assert_eq!(copy.view.times_set_aside(), 0, "{what}, {calls} calls: a good view was thrown away");
        }
        if enough {
            break;
        }
        // Loading a view is hundreds of calls, which are all alike.
        calls += if calls < 30 { 1 } else { 97 };
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_killed_opens_on_a_full_disk_or_says_so_and_all_is_there_when_there_is_room() {
    for cut in [None, Some(1), Some(220)] {
        let what = format!("killed, calls into a table: {cut:?}");
        let killed = killed(cut).await;
        check(&killed, &what).await;
        let torn = killed.copy();
        let name = torn.journal.names().into_iter().rfind(|name| name.ends_with(".segment")).unwrap();
        let mut bytes = torn.journal.content(&name);
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        bytes[used..used + 20].fill(7);
        torn.journal.put(&name, &bytes);
        check(&torn, &format!("{what}, with a torn end")).await;
        let gap = killed.copy();
        for name in gap.seen.names() {
            gap.seen.put(&name, b"garbled");
        }
        check(&gap, &format!("{what}, with garbled seen ids")).await;
        let mut dice = Dice(5);
        let power = killed.copy();
        power.view.crash(&mut dice);
        check(&power, &format!("{what}, and of its view some is lost")).await;
    }
    // Building a view anew takes long, whatever was in the old one.
    let whole = killed(None).await;
    let bare = whole.copy();
    bare.view.lose();
    for name in bare.seen.names() {
        bare.seen.remove(&name).unwrap();
    }
    check(&bare, "killed, without view and seen ids").await;
    let condemned = whole.copy();
    condemned.files.put("view.damaged", b"it was damaged");
    check(&condemned, "killed, with a condemned view").await;
    check(&Platters::new(), "a new store").await;
}
