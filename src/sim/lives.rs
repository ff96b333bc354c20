//! The lives of the process: it starts, something happens to it, it comes back.

use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::checks;
use super::planted::Planted;
use super::process::Process;
use super::schedule::Life;
use super::world::World;
use crate::store::disk::Space;
use crate::store::steps::is_being_written;

/// How a life ends.
enum End {
    Done,
    Stopped(String),
    Crash { power: bool },
    Burnt { power: bool },
    Drain,
}

impl World {
    /// Starts the process again and again, and lets happen to it what the plan says.
    pub(super) async fn supervise(self: Rc<Self>) {
        let plan = &self.ground.plan;
        let (mut crashes, mut drains) = (plan.crashes, plan.drains);
        for nth in 0.. {
            let life = Life::begin();
            self.excused.set(false);
            self.prepare(nth, crashes > 0);
            let view = &self.ground.platters.view;
            let cut_off = is_being_written(view).then(|| view.times_set_aside());
            let started = tokio::select! {
                biased;
                () = self.ground.fuse.burns() => Err(String::new()),
                started = self.ground.start(&life, nth) => started,
            };
            let burnt = self.ground.fuse.is_burnt();
            let process = match started {
                Ok(process) => process,
                Err(why) => {
                    if !burnt && !self.is_excused() {
                        return self.violate(why);
                    }
                    self.account.say(|| format!("the process dies while it starts ({why})"));
                    self.account.count("death while starting");
                    crashes = crashes.saturating_sub(1);
                    let power = self.roll(3) > 0;
                    self.bury(&life, None, power).await;
                    continue;
                }
            };
            self.account.say(|| format!("life {nth}: {:?}", process.status()));
            self.account.count("start");
            if cut_off == Some(view.times_set_aside()) {
                self.account.count("view completed from its redo file");
            }
            checks::after_opening(&self, &process);
            *self.process.borrow_mut() = Some(process.clone());
            let how = self.end_of_life(&process, crashes > 0, drains > 0).await;
            *self.process.borrow_mut() = None;
            match how {
                End::Done => return,
                End::Stopped(why) if !self.is_excused() => return self.violate(format!("it stops by itself: {why}")),
                End::Stopped(_) => {}
                End::Crash { .. } | End::Burnt { .. } => crashes = crashes.saturating_sub(1),
                End::Drain => drains -= 1,
            }
            self.end(how, &life, process).await;
        }
    }

    /// Ends a life as it is to end.
    async fn end(&self, how: End, life: &Life, process: Process) {
        let power = match how {
            End::Done => return,
            End::Stopped(why) => {
                self.account.count("stop by itself after a fault of its disks");
                self.account.say(|| format!("the process stops by itself: {why}"));
                false
            }
            End::Crash { power } => {
                self.account.count(if power { "crash of the machine" } else { "kill of the process" });
                self.account.say(|| format!("{} at {:?}", if power { "CRASH" } else { "KILL" }, process.status()));
                power
            }
            End::Burnt { power } => {
                self.account.count(if power {
                    "crash in the midst of a disk's operation"
                } else {
                    "kill in the midst of a disk's operation"
                });
                let what = if power { "CRASH" } else { "KILL" };
                self.account.say(|| format!("{what} at a disk's operation, at {:?}", process.status()));
                power
            }
            End::Drain => {
                self.account.count("drain");
                self.account.say(|| "drain".to_owned());
                let drained = tokio::select! {
                    biased;
                    () = self.ground.fuse.burns() => Ok(()),
                    drained = process.engine.drain(Duration::from_secs(5)) => drained,
                };
                if let Err(error) = drained.as_ref().map_err(ToString::to_string)
                    && !self.is_excused()
                {
                    self.violate(format!("a drain fails: {error}"));
                }
                self.ground.fuse.is_burnt() && self.roll(3) > 0
            }
        };
        self.bury(life, Some(process), power).await;
    }

    /// Arms what is to go wrong in the life that begins.
    fn prepare(&self, nth: u64, may_crash: bool) {
        let (plan, platters) = (&self.ground.plan, &self.ground.platters);
        if self.is_calm() {
            return self.ground.fuse.arm(None);
        }
        let at_operation = may_crash && self.roll(2) == 0;
        self.ground.fuse.arm(at_operation.then(|| self.roll(300)));
        if plan.view_meddled && nth > 0 {
            let mut dice = self.dice.borrow_mut();
            let older = self.older_view.borrow().clone();
            // One that may hold a flipped bit is no copy to keep.
            if self.flipped_in.get().is_none() && (older.is_empty() || dice.roll(3) == 0) {
                *self.older_view.borrow_mut() = platters.view.content();
            }
            match dice.roll(6) {
                4..6 if !older.is_empty() => {
                    self.account.count("older view put back");
                    platters.view.put(older);
                }
                0 => {
                    self.account.count("view lost");
                    platters.view.lose();
                }
                1 if platters.view.flip(&mut dice) => {
                    self.account.count("bit of the view flipped");
                    self.flipped_in.set(Some(platters.view.times_set_aside()));
                }
                _ => {}
            }
        }
    }

    /// Whether the process may stop by itself: its disks were meddled with in this life, or there may be a flipped bit in
    /// its view, which shows only when it is read.
    fn is_excused(&self) -> bool {
        self.excused.get() || self.flipped_in.get() == Some(self.ground.platters.view.times_set_aside())
    }

    /// Lets disks fail in a life that has begun.
    fn break_disks(&self) {
        let (plan, platters) = (&self.ground.plan, &self.ground.platters);
        if plan.disk_errors && self.roll(2) == 0 {
            self.excused.set(true);
            let after = Some(self.roll(60));
            match self.roll(9) {
                0 => platters.journal.fail_sync_after(after),
                1 => platters.journal.fail_write_after(after),
                2 => platters.seen.fail_write_after(after),
                3 => platters.seen.fail_sync_after(after),
                4 => platters.files.fail_write_after(after),
                5 => {
                    self.account.count("no space for the redo file");
                    platters.files.limit_space(Some(0));
                    self.full_until.set(Some(Instant::now() + Duration::from_millis(self.roll(30_000))));
                }
                6 => {
                    self.account.count("view without space");
                    platters.view.full_after(after);
                }
                _ => platters.view.fail_after(after),
            }
            self.account.count("disk that will fail");
        }
        if plan.disk_full && self.roll(2) == 0 {
            self.account.count("full disk");
            self.account.say(|| "the journal's disk is full".to_owned());
            if self.roll(2) == 0 {
                platters.journal.say_space(Some(Space { free: 0, total: 1 << 30 }));
            } else {
                platters.journal.limit_space(Some(0));
            }
            self.full_until.set(Some(Instant::now() + Duration::from_millis(self.roll(30_000))));
        }
    }

    pub(super) fn platters_recover(&self) {
        let platters = &self.ground.platters;
        platters.journal.say_space(None);
        platters.journal.limit_space(None);
        platters.files.limit_space(None);
        for disk in [&platters.journal, &platters.seen, &platters.files] {
            disk.fail_sync_after(None);
            disk.fail_write_after(None);
        }
        platters.view.fail_after(None);
        platters.view.full_after(None);
        self.ground.fuse.arm(None);
        self.full_until.set(None);
    }

    /// Waits for what ends this life.
    async fn end_of_life(&self, process: &Process, may_crash: bool, may_drain: bool) -> End {
        let began = Instant::now();
        let breaks_at = began + Duration::from_millis(self.roll(20_000));
        let crashes_at = began + Duration::from_millis(self.roll(40_000));
        let drains_at = began + Duration::from_millis(self.roll(60_000));
        let power = self.roll(3) > 0;
        let mut broken = false;
        loop {
            let now = Instant::now();
            if self.ends.get() {
                return End::Done;
            }
            if !self.is_calm() {
                if !broken && now >= breaks_at {
                    broken = true;
                    self.break_disks();
                }
                if may_crash && now >= crashes_at {
                    return End::Crash { power };
                }
                if may_drain && now >= drains_at {
                    return End::Drain;
                }
                if self.full_until.get().is_some_and(|until| now >= until) {
                    self.account.say(|| "the disk has room again".to_owned());
                    self.ground.platters.journal.say_space(None);
                    self.ground.platters.journal.limit_space(None);
                    self.ground.platters.files.limit_space(None);
                    self.full_until.set(None);
                }
            }
            if process.store.is_proved() {
                // Whatever was flipped in it is not there.
                self.flipped_in.set(None);
            }
            checks::bounds(self, process);
            tokio::select! {
                biased;
                () = self.ground.fuse.burns() => return End::Burnt { power },
                why = process.engine.stopped() => return End::Stopped(why.unwrap_or_default()),
                () = tokio::time::sleep(Duration::from_millis(500)) => {}
            }
        }
    }

    fn power_goes(&self) {
        let (platters, plan) = (&self.ground.platters, &self.ground.plan);
        let planted = plan.planted == Some(Planted::ViewAhead);
        let ahead = if planted { platters.with_view_ahead(&plan.options) } else { None };
        platters.crash(&mut self.dice.borrow_mut());
        // Where that fails the disks are broken, and the next life finds it.
        if ahead.is_some_and(|ahead| platters.believe(&ahead, &plan.options).unwrap_or(false)) {
            self.account.say(|| "the view is ahead of its journal".to_owned());
        }
    }

    /// Takes a life away, and with the power what was not synced.
    async fn bury(&self, life: &Life, process: Option<Process>, power: bool) {
        life.end();
        self.ground.schedule.bury();
        self.ground.fuse.arm(None);
        self.ground.platters.files.limit_space(None);
        if let Some(process) = process {
            // What it says is durable must be there when it comes back.
            self.ground.fuse.examine(true);
            match process.store.records() {
                Ok(records) => *self.durable.borrow_mut() = records,
                Err(error) => self.violate(format!("the journal cannot be read: {error}")),
            }
            self.ground.fuse.examine(false);
            if power {
                // The dead close nothing.
                self.power_goes();
            }
            drop(process);
        } else if power {
            self.power_goes();
        }
        if !power {
            self.ground.platters.kill(&mut self.dice.borrow_mut());
        }
        if self.is_calm() {
            self.platters_recover();
        }
        let pause = Duration::from_millis(self.roll(8000));
        tokio::time::sleep(pause).await;
    }
}
