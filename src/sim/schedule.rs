//! The scheduler: tasks on one thread, of which the dice say who goes on, under a clock that moves when all of them wait.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::future::LocalBoxFuture;

use crate::store::disk::sim::Dice;

/// Tasks that live and die together, as those of a process do.
#[derive(Clone, Debug)]
pub(crate) struct Life(Arc<AtomicBool>);

/// The scheduler. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Schedule(Rc<State>);

struct State {
    tasks: RefCell<BTreeMap<u64, Task>>,
    ready: Arc<Mutex<Ready>>,
    next: Cell<u64>,
    polls: Cell<u64>,
    dice: RefCell<Dice>,
}

struct Task {
    life: Life,
    /// None while it runs.
    future: Option<LocalBoxFuture<'static, ()>>,
    waker: Waker,
}

#[derive(Default)]
struct Ready {
    /// In an order of their own: in which order one event wakes several is not always the same.
    tasks: BTreeSet<u64>,
    outer: Option<Waker>,
}

struct Bell {
    task: u64,
    ready: Arc<Mutex<Ready>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let mut ready = self.ready.lock().unwrap();
        ready.tasks.insert(self.task);
        if let Some(outer) = ready.outer.take() {
            outer.wake();
        }
    }
}

impl Life {
    pub(crate) fn begin() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Nothing of it runs any more.
    pub(crate) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    pub(crate) fn goes_on(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Schedule {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Rc::new(State {
            tasks: RefCell::default(),
            ready: Arc::default(),
            next: Cell::new(0),
            polls: Cell::new(0),
            dice: RefCell::new(Dice(seed)),
        }))
    }

    /// Starts a task.
    pub(crate) fn spawn(&self, life: &Life, future: LocalBoxFuture<'static, ()>) {
        let id = self.0.next.replace(self.0.next.get() + 1);
        let bell = Arc::new(Bell { task: id, ready: Arc::clone(&self.0.ready) });
        let waker = Waker::from(Arc::clone(&bell));
        self.0.tasks.borrow_mut().insert(id, Task { life: life.clone(), future: Some(future), waker });
        bell.wake();
    }

    /// Drops the tasks of lives that have ended.
    pub(crate) fn bury(&self) {
        let mut dead = Vec::new();
        self.0.tasks.borrow_mut().retain(|_, task| {
            let goes_on = task.life.goes_on();
            if !goes_on {
                dead.push(task.future.take());
            }
            goes_on
        });
        // Outside of the borrow: what is dropped may wake others.
        drop(dead);
    }

    /// How many steps were taken.
    pub(crate) fn polls(&self) -> u64 {
        self.0.polls.get()
    }

    /// Runs until `root` is done, with at most so many steps; none if they were not enough.
    pub(crate) fn run<T: 'static>(&self, root: impl Future<Output = T> + 'static, polls_max: u64) -> Option<T> {
        let answer = Rc::new(RefCell::new(None));
        let given = Rc::clone(&answer);
        self.spawn(&Life::begin(), Box::pin(async move { *given.borrow_mut() = Some(root.await) }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let tasks = tokio::task::unconstrained(poll_fn(|cx| self.poll(cx, &answer, polls_max)));
        let done = runtime.block_on(tasks);
        self.0.tasks.borrow_mut().values().for_each(|task| task.life.end());
        self.bury();
        done
    }

    fn poll<T>(&self, cx: &mut Context<'_>, answer: &RefCell<Option<T>>, polls_max: u64) -> Poll<Option<T>> {
        loop {
            if let Some(answer) = answer.borrow_mut().take() {
                return Poll::Ready(Some(answer));
            }
            if self.0.polls.get() >= polls_max {
                return Poll::Ready(None);
            }
            let id = {
                let mut ready = self.0.ready.lock().unwrap();
                if ready.tasks.is_empty() {
                    ready.outer = Some(cx.waker().clone());
                    return Poll::Pending;
                }
                let place = self.0.dice.borrow_mut().roll(u64::try_from(ready.tasks.len()).unwrap());
                let id = *ready.tasks.iter().nth(usize::try_from(place).unwrap()).unwrap();
                ready.tasks.remove(&id);
                id
            };
            self.step(id);
        }
    }

    fn step(&self, id: u64) {
        let taken = self.0.tasks.borrow_mut().get_mut(&id).and_then(|task| {
            let future = task.future.take()?;
            Some((future, task.waker.clone(), task.life.clone()))
        });
        let Some((mut future, waker, life)) = taken else { return };
        let ended = !life.goes_on() || {
            self.0.polls.set(self.0.polls.get() + 1);
            Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_ready() || !life.goes_on()
        };
        if ended {
            self.0.tasks.borrow_mut().remove(&id);
        } else if let Some(task) = self.0.tasks.borrow_mut().get_mut(&id) {
            task.future = Some(future);
            return;
        }
        drop(future);
    }
}
