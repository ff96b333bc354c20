//! An embedded store whose committer, applier and file work are futures for a simulation to drive, in place of threads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::applier::{Applier, Step};
use super::committer::{Committer, Request};
use super::disk::sim::Dice;
use super::embedded::{EmbeddedStore, Hands};
use super::journal::{Journal, Pruner};
use super::layout::Layout;
use super::open::{Disks, Opened, open};
use super::oracle::pruned;
use super::records::mark;
use super::replay::Replay;
use super::seen::Work;
use super::shared::Shared;
use super::tree::Trees as _;
use super::tree::sim::SimTrees;
use super::view::{Meta, View};
use super::{Error, Options};
use crate::domain::Lsn;

/// How many pieces of file work may wait.
const FILE_WORK_MAX: usize = 16;

/// Passes some time: how much is the simulation's to say.
pub(crate) type Pace = Arc<dyn Fn() -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// What a store without threads needs done.
pub(crate) struct Steps {
    shared: Arc<Shared>,
    committer: Committer,
    requests: mpsc::Receiver<Request>,
    applier: Applier,
    file_work: mpsc::Receiver<Work>,
    pruner: Option<Pruner>,
    back: mpsc::WeakSender<Request>,
    bells: Bells,
}

/// What one step tells the others.
#[derive(Clone, Default)]
struct Bells {
    /// The applier may have work.
    work: Arc<Notify>,
    /// The overlay may have got smaller.
    room: Arc<Notify>,
    /// The applier has ended.
    ended: Arc<Notify>,
}

/// Three futures that do a store's work until it ends.
pub(crate) struct Futures<C, A, F> {
    pub(crate) committer: C,
    pub(crate) applier: A,
    pub(crate) file_work: F,
}

impl EmbeddedStore {
    /// Opens the store without threads.
    pub(crate) fn by_steps(layout: &Layout, disks: &Disks, options: &Options) -> Result<(Self, Steps), Error> {
        let lock = layout.lock()?;
        let Opened { journal, ids, replay: Replay { shared, applier, .. } } = open(layout, disks, options)?;
        let (requests, received) = mpsc::channel(shared.options.waiting.max(1));
        let (give, file_work) = mpsc::channel(FILE_WORK_MAX);
        let elsewhere = Box::new(move |work| match give.try_send(work) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(work) | mpsc::error::TrySendError::Closed(work)) => Some(work),
        });
        let pruner = Some(journal.pruner());
        let committer = Committer::new(Arc::clone(&shared), journal, ids, elsewhere);
        let bells = Bells::default();
        let steps = Steps {
            shared: Arc::clone(&shared),
            committer,
            requests: received,
            applier,
            file_work,
            pruner,
            back: requests.downgrade(),
            bells: bells.clone(),
        };
        Ok((Self::assemble(shared, requests, Vec::new(), lock, Hands::Steps(bells.ended)), steps))
    }
}

impl Steps {
    /// A future that prunes sealed segments now and then, whatever else goes on.
    pub(crate) fn pruning(&mut self, dice: Dice) -> impl Future<Output = ()> + use<> {
        let (shared, pruner) = (Arc::clone(&self.shared), self.pruner.take());
        async move {
            if let Some(pruner) = pruner {
                prune(shared, pruner, dice).await;
            }
        }
    }

    /// The futures that do the work; between two steps some time passes.
    pub(crate) fn futures(
        self,
        pace: Pace,
    ) -> Futures<impl Future<Output = ()>, impl Future<Output = ()>, impl Future<Output = ()>> {
        let Self { shared, committer, requests, applier, file_work, pruner: _, back, bells } = self;
        Futures {
            committer: commit(Arc::clone(&shared), committer, requests, bells.clone(), Arc::clone(&pace)),
            applier: apply(shared, applier, bells, Arc::clone(&pace)),
            file_work: work(file_work, back, pace),
        }
    }
}

async fn commit(
    shared: Arc<Shared>,
    mut committer: Committer,
    mut requests: mpsc::Receiver<Request>,
    bells: Bells,
    pace: Pace,
) {
    loop {
        let request = match committer.held_back() {
            Some(request) => Some(request),
            None => requests.recv().await,
        };
        let Some(request) = request else { break };
        pace().await;
        loop {
            let room = bells.room.notified();
            if !committer.lacks_room(&shared.state()) {
                break;
            }
            tokio::select! { biased; () = stopped(&shared) => {}, () = room => {} }
        }
        let closing = committer.step(request, &mut requests);
        bells.work.notify_one();
        if let Some(reply) = closing {
            // What waits loses its place for an answer, and learns that the store was closed.
            drop(committer.close(reply));
            bells.work.notify_one();
            return;
        }
    }
    committer.abandon();
    bells.work.notify_one();
}

async fn apply(shared: Arc<Shared>, mut applier: Applier, bells: Bells, pace: Pace) {
    let mut gathers_until: Option<Instant> = None;
    loop {
        pace().await;
        match applier.step(gathers_until.is_some_and(|until| Instant::now() >= until)) {
            Ok(Step::Applied) => gathers_until = None,
            Ok(Step::Worked) => {}
            Ok(Step::Gather) => {
                let until = *gathers_until.get_or_insert_with(|| Instant::now() + shared.options.gather_for);
                tokio::select! {
                    biased;
                    () = stopped(&shared) => {}
                    () = tokio::time::sleep_until(until) => {}
                    () = bells.work.notified() => {}
                }
            }
            Ok(Step::Pause) => tokio::time::sleep(shared.options.gather_for).await,
            Ok(Step::Rest) => {
                tokio::select! { biased; () = bells.work.notified() => {}, () = stopped(&shared) => {} }
            }
            Ok(Step::End) => break,
            Err(error) => {
                shared.fail(&error);
                break;
            }
        }
        bells.room.notify_one();
    }
    bells.room.notify_one();
    bells.ended.notify_one();
}

async fn work(mut file_work: mpsc::Receiver<Work>, back: mpsc::WeakSender<Request>, pace: Pace) {
    while let Some(work) = file_work.recv().await {
        pace().await;
        let Some(back) = back.upgrade() else { return };
        // If nobody takes it back the store has ended, and the next opening does it again.
        drop(back.send(Request::Worked(Box::new(work.run()))).await);
    }
}

async fn prune(shared: Arc<Shared>, pruner: Pruner, mut dice: Dice) {
    while shared.signals.check().is_ok() {
        tokio::time::sleep(Duration::from_millis(500 + dice.roll(15_000))).await;
        let sealed: Vec<Lsn> =
            shared.reader.segments().iter().filter(|segment| segment.sealed).map(|segment| segment.first).collect();
        let nth = usize::try_from(dice.roll(u64::try_from(sealed.len()).unwrap())).unwrap();
        let Some(first) = sealed.get(nth) else { continue };
        match pruner.prune(*first, pruned) {
            Ok(_) | Err(Error::Full) => {}
            Err(error) => drop(shared.fail(&error)),
        }
    }
}

/// Brings the view to where the journal ends. What was written to the disks counts as synced.
pub(crate) fn catch_up(layout: &Layout, disks: &Disks, options: &Options) -> Result<(), Error> {
    let (_store, mut steps) = EmbeddedStore::by_steps(layout, disks, options)?;
    steps.applier.catch_up()
}

/// The last LSN of a journal, once its torn end is cut off, and the mark of its record.
pub(crate) fn last_of(disks: &Disks, options: &Options) -> Result<(Lsn, u32), Error> {
    let (journal, found) = Journal::open_on(Arc::clone(&disks.journal), options.journal, Lsn(0))?;
    Ok((found.last, mark(&journal.reader(), found.last)?.unwrap_or_default()))
}

/// Makes a view that has more than its journal say that it hasn't. False if it has not.
pub(crate) fn belittle(trees: &SimTrees, (last, mark): (Lsn, u32)) -> Result<bool, Error> {
    let view = View::open(trees.open(0)?, Meta::default())?;
    let meta = view.meta();
    if meta.applied > last {
        view.apply(&[], Meta { applied: last, mark, scan_from: meta.scan_from.min(Lsn(last.0 + 1)), ..meta })?;
    }
    view.close();
    Ok(meta.applied > last)
}

/// Whether a table was being written to the view when its process ended.
pub(crate) fn is_being_written(trees: &SimTrees) -> bool {
    let meta = || Some(View::open(trees.open(0).ok()?, Meta::default()).ok()?.meta());
    trees.exists() && meta().is_some_and(|meta| meta.writing > Lsn(0))
}

/// Resolves when the store stops.
async fn stopped(shared: &Shared) {
    while shared.signals.synced_beyond(Lsn(u64::MAX)).await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::domain::Timestamp;
    use crate::store::disk::Disk as _;
    use crate::store::disk::sim::SimDisk;
    use crate::store::{Action, Command, Store};

    /// Runs a store by steps, on one thread and in memory alone, while `asked` asks it.
    async fn run<T>(parts: &(Layout, Disks), asked: impl AsyncFnOnce(&EmbeddedStore) -> T) -> T {
        let mut options = Options::default();
        options.journal.segment_bytes = 8 << 10;
        options.gather_for = Duration::from_millis(1);
        let (store, steps) = EmbeddedStore::by_steps(&parts.0, &parts.1, &options).unwrap();
        let pace: Pace = Arc::new(|| Box::pin(tokio::task::yield_now()));
        let Futures { committer, applier, file_work } = steps.futures(pace);
        let work = async { tokio::join!(committer, applier, file_work) };
        tokio::select! { answer = asked(&store) => answer, _ = work => panic!("the store ended by itself") }
    }

    #[tokio::test]
    async fn a_store_driven_by_steps_keeps_what_it_answered_over_a_crash_of_all_its_disks() {
        let (files, journal, seen, view) =
            (SimDisk::default(), SimDisk::default(), SimDisk::default(), SimTrees::default());
        let disks = Disks { journal: Arc::new(journal.clone()), seen: Arc::new(seen.clone()) };
        let parts = (Layout::on(Path::new("sim"), Arc::new(files.clone()), Arc::new(view.clone())), disks);
        let action = Action::MachineChanged { machine: "m".into(), version: 3, sha256: [7; 32] };
        let command = Command { by: Arc::from("test"), at: Timestamp::EPOCH, action };
        for round in 0..20 {
            run(&parts, async |store| store.command(command.clone()).await.unwrap()).await;
            for disk in [&files, &journal, &seen] {
                disk.crash(&mut Dice(round));
            }
            view.crash(&mut Dice(round));
            let known = run(&parts, async |store| store.machines().await.unwrap()).await;
            assert_eq!(known.get("m"), Some(&(3, [7; 32])));
            view.crash(&mut Dice(round));
        }
    }

    #[tokio::test]
    async fn a_store_whose_first_start_was_killed_opens_again_when_the_power_has_gone_later() {
        for (syncs, dice) in (0..4).flat_map(|syncs| (0..8).map(move |dice| (syncs, dice))) {
            let [files, journal, seen] = [(); 3].map(|()| SimDisk::default());
            let view = SimTrees::default();
            let disks = Disks { journal: Arc::new(journal.clone()), seen: Arc::new(seen.clone()) };
            let parts = (Layout::on(Path::new("sim"), Arc::new(files.clone()), Arc::new(view.clone())), disks);
            files.fail_sync_after(Some(syncs));
            drop(EmbeddedStore::by_steps(&parts.0, &parts.1, &Options::default()));
            [&files, &journal, &seen].into_iter().for_each(SimDisk::kill);
            view.crash(&mut Dice(dice));
            let action = Action::MachineChanged { machine: "m".into(), version: 3, sha256: [7; 32] };
            let command = Command { by: Arc::from("test"), at: Timestamp::EPOCH, action };
            run(&parts, async |store| store.command(command).await.unwrap()).await;
            for disk in [&files, &journal, &seen] {
                disk.crash(&mut Dice(dice));
            }
            view.crash(&mut Dice(dice));
            let known = run(&parts, async |store| store.machines().await.unwrap()).await;
            assert_eq!(known.get("m"), Some(&(3, [7; 32])), "killed after {syncs} syncs, dice {dice}");
        }
    }

    /// Three tables, each too large for one batch of the view, by a process that ends after so many calls of the view.
    async fn three_tables(parts: &(Layout, Disks), view: &SimTrees, calls: u64) {
        let options = Options { gather_for: Duration::from_millis(1), ..Options::default() };
        let (store, steps) = EmbeddedStore::by_steps(&parts.0, &parts.1, &options).unwrap();
        view.fail_after(Some(calls));
        let pace: Pace = Arc::new(|| Box::pin(tokio::task::yield_now()));
        let Futures { committer, applier, file_work } = steps.futures(pace);
        let work = async { tokio::join!(committer, applier, file_work) };
        let asked = async {
            for version in 0..3 {
                let commands = (0..250).map(|machine| {
                    let machine = format!("m{machine}").as_str().into();
                    let action = Action::MachineChanged { machine, version, sha256: [7; 32] };
                    store.command(Command { by: Arc::from("test"), at: Timestamp::EPOCH, action })
                });
                futures_util::future::join_all(commands).await;
                while store.status().applied < store.status().synced {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    if store.machines().await.is_err() {
                        return;
                    }
                }
            }
        };
        tokio::select! { () = asked => {}, _ = work => {} }
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_is_killed_at_any_time_finds_its_view_again() {
        let mut whole = 0;
        for calls in (0..1000).step_by(61) {
            for dice in 0..2 {
                let (files, view) = (SimDisk::default(), SimTrees::default());
                let disks = Disks { journal: Arc::new(SimDisk::default()), seen: Arc::new(SimDisk::default()) };
                let parts = (Layout::on(Path::new("sim"), Arc::new(files.clone()), Arc::new(view.clone())), disks);
                // There is a view before anything happens to it.
                run(&parts, async |store| store.machines().await.unwrap()).await;
                view.crash(&mut Dice(dice));
                three_tables(&parts, &view, calls).await;
                // What the view had not written out is lost with the process; the files are with the system.
                view.crash(&mut Dice(dice));
                // One that is killed does not live to say that its view failed.
                let _ = files.remove("view.damaged");
                let known = run(&parts, async |store| store.machines().await.unwrap()).await;
                assert_eq!(view.times_set_aside(), 1, "killed after {calls} calls, dice {dice}: it was built anew");
                whole += usize::from(known.len() == 250);
            }
        }
        assert!(whole > 10, "{whole}");
    }

    #[tokio::test]
    async fn a_store_says_while_its_view_is_not_proved_and_that_ends() {
        let disks = Disks { journal: Arc::new(SimDisk::default()), seen: Arc::new(SimDisk::default()) };
        let trees = Arc::new(SimTrees::default());
        let layout = Layout::on(Path::new("sim"), Arc::new(SimDisk::default()), trees.clone());
        let parts = (layout, disks);
        run(&parts, async |store| assert!(!store.status().proving, "a new view has nothing to prove")).await;
        trees.crash(&mut Dice(1));
        let options = Options { prove_at_once_pairs: 0, ..Options::default() };
        let action = Action::MachineChanged { machine: "m".into(), version: 3, sha256: [7; 32] };
        let command = Command { by: Arc::from("test"), at: Timestamp::EPOCH, action };
        run(&parts, async |store| {
            store.command(command.clone()).await.unwrap();
            while store.status().applied < store.status().synced {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        trees.crash(&mut Dice(1));
        let (store, steps) = EmbeddedStore::by_steps(&parts.0, &parts.1, &options).unwrap();
        assert!(store.status().proving);
        let pace: Pace = Arc::new(|| Box::pin(tokio::task::yield_now()));
        let Futures { committer, applier, file_work } = steps.futures(pace);
        let work = async { tokio::join!(committer, applier, file_work) };
        tokio::select! { _ = store.command(command) => {}, _ = work => panic!("the store ended by itself") }
        assert!(!store.status().proving, "it took a command");
    }

    #[tokio::test]
    async fn a_view_is_kept_up_to_a_point_not_before_its_last_flush_and_can_be_lost_or_damaged() {
        let trees = SimTrees::default();
        let put = |tree: &dyn crate::store::tree::Tree, key: u8| tree.apply(vec![(vec![key], Some(vec![key]))]);
        let mut kept = std::collections::BTreeSet::new();
        for round in 0..50 {
            trees.lose();
            let tree = crate::store::tree::Trees::open(&trees, 0).unwrap();
            put(&*tree, 1).unwrap();
            tree.flush().unwrap();
            (2..5).for_each(|key| put(&*tree, key).unwrap());
            trees.crash(&mut Dice(round));
            assert!(put(&*tree, 9).is_err(), "its handle is of before the crash");
            kept.insert(trees.content().len());
        }
        assert_eq!(kept.into_iter().collect::<Vec<_>>(), [1, 2, 3, 4]);
        let before = trees.content();
        assert!(trees.flip(&mut Dice(3)));
        assert_ne!(trees.content(), before);
        trees.put(before.clone());
        assert_eq!(trees.content(), before);
        trees.fail_after(Some(0));
        assert!(put(&*crate::store::tree::Trees::open(&trees, 0).unwrap(), 1).is_err());
    }
}
