//! Who works on the shards of a dispatcher: which entities have an actor, who is woken, who waits for room, who is retired.
//!
//! All of a dispatcher's logic and none of its machinery: whoever starts actors and sends to them is a [`Crew`].

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::EntityKey;
use crate::store::map::{Map, Set};

/// How long after a panic an entity's actor starts anew.
pub(super) const RESPAWN_PAUSE: Duration = Duration::from_secs(1);

/// What became of a wake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sent {
    /// It lies in the actor's mailbox.
    Taken,
    /// One lies there already, and will find this work too.
    Full,
    /// The actor has stopped.
    Gone,
}

/// Which actor it is: of which entity, and which of those that it had one after the other. What an older one says must
/// not touch a newer one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Incarnation {
    /// The entity.
    pub(super) key: EntityKey,
    /// A number that no other actor of the dispatcher has.
    number: u64,
}

/// What an actor leaves that has taken so many wakes and has nothing left to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Note {
    /// Who leaves it.
    pub(super) of: Incarnation,
    /// How many wakes it has taken.
    pub(super) wakes: u64,
}

/// Those who start actors and send to them.
pub(super) trait Crew {
    /// A handle to an actor.
    type Actor;

    /// Starts an actor.
    fn start(&mut self, who: Incarnation) -> Self::Actor;

    /// The notes that were left since they were taken last.
    fn notes(&mut self) -> Vec<Note>;

    /// Tells an actor that it has work.
    fn wake(&mut self, actor: &Self::Actor) -> Sent;

    /// Tells an idle actor to stop.
    fn retire(&mut self, actor: Self::Actor);
}

/// The actors of some shards.
pub(super) struct Roster<A> {
    slots: Map<EntityKey, Slot<A>>,
    slots_max: usize,
    /// Idle actors, the longest idle first. A row is stale once its actor was woken again.
    idle: VecDeque<(EntityKey, Instant)>,
    waiting: Waiting,
    /// How many actors were started.
    started: u64,
}

/// An actor, and what was sent to it.
struct Slot<A> {
    actor: A,
    number: u64,
    wakes: u64,
    idle_since: Option<Instant>,
}

/// Entities that wait for room, each once, in their order.
#[derive(Default)]
struct Waiting {
    order: VecDeque<EntityKey>,
    known: Set<EntityKey>,
}

impl<A> Roster<A> {
    /// Nobody yet, and at most `slots_max` actors.
    pub(super) fn new(slots_max: usize) -> Self {
        let (slots, idle, waiting) = (Map::default(), VecDeque::new(), Waiting::default());
        Self { slots, slots_max: slots_max.max(1), idle, waiting, started: 0 }
    }

    /// These entities have work. Answers how many entities wait for room.
    pub(super) fn arrived(&mut self, keys: Vec<EntityKey>, now: Instant, crew: &mut impl Crew<Actor = A>) -> usize {
        self.read_notes(now, crew);
        for key in keys {
            self.wake(key, crew);
        }
        self.make_room(crew);
        self.waiting.order.len()
    }

    /// An actor has failed. Its entity is to be announced again [`RESPAWN_PAUSE`] later; its place is free at once.
    pub(super) fn failed(&mut self, who: &Incarnation, crew: &mut impl Crew<Actor = A>) {
        if self.slots.get(&who.key).is_some_and(|slot| slot.number == who.number) {
            self.slots.remove(&who.key);
            self.make_room(crew);
        }
    }

    fn wake(&mut self, key: EntityKey, crew: &mut impl Crew<Actor = A>) {
        if let Some(slot) = self.slots.get_mut(&key) {
            match crew.wake(&slot.actor) {
                Sent::Taken => {
                    slot.wakes += 1;
                    slot.idle_since = None;
                    return;
                }
                Sent::Full => return,
                Sent::Gone => {
                    self.slots.remove(&key);
                }
            }
        }
        if self.slots.len() >= self.slots_max && !self.retire_longest_idle(crew) {
            self.waiting.push(key);
            return;
        }
        let number = self.started;
        self.started += 1;
        let actor = crew.start(Incarnation { key: key.clone(), number });
        let wakes = u64::from(crew.wake(&actor) == Sent::Taken);
        self.slots.insert(key, Slot { actor, number, wakes, idle_since: None });
    }

    fn read_notes(&mut self, now: Instant, crew: &mut impl Crew<Actor = A>) {
        for Note { of: Incarnation { key, number }, wakes } in crew.notes() {
            let Some(slot) = self.slots.get_mut(&key) else { continue };
            if (slot.number, slot.wakes) == (number, wakes) {
                slot.idle_since = Some(now);
                self.idle.push_back((key, now));
            }
        }
        // Stale rows must not pile up behind a front that is not old yet.
        if self.idle.len() > self.slots_max.saturating_mul(2) {
            let slots = &self.slots;
            self.idle.retain(|(key, since)| slots.get(key).is_some_and(|slot| slot.idle_since == Some(*since)));
        }
        self.make_room(crew);
    }

    /// Retires what has been idle for long, and forgets stale rows.
    pub(super) fn retire_idle(&mut self, now: Instant, idle_after: Duration, crew: &mut impl Crew<Actor = A>) {
        self.read_notes(now, crew);
        while let Some((key, since)) = self.idle.front().cloned() {
            let current = self.is_idle_since(&key, since);
            if current && now.saturating_duration_since(since) < idle_after {
                return;
            }
            self.idle.pop_front();
            if current {
                self.retire(&key, crew);
            }
        }
    }

    /// Gives the places of idle actors to entities that wait for one.
    fn make_room(&mut self, crew: &mut impl Crew<Actor = A>) {
        while (self.slots.len() < self.slots_max || self.retire_longest_idle(crew))
            && let Some(key) = self.waiting.pop()
        {
            self.wake(key, crew);
        }
    }

    /// Whether an idle actor was there to be retired.
    fn retire_longest_idle(&mut self, crew: &mut impl Crew<Actor = A>) -> bool {
        while let Some((key, since)) = self.idle.pop_front() {
            if self.is_idle_since(&key, since) {
                self.retire(&key, crew);
                return true;
            }
        }
        false
    }

    fn is_idle_since(&self, key: &EntityKey, since: Instant) -> bool {
        self.slots.get(key).is_some_and(|slot| slot.idle_since == Some(since))
    }

    fn retire(&mut self, key: &EntityKey, crew: &mut impl Crew<Actor = A>) {
        if let Some(slot) = self.slots.remove(key) {
            crew.retire(slot.actor);
        }
    }
}

impl Waiting {
    fn push(&mut self, key: EntityKey) {
        if self.known.insert(key.clone()) {
            self.order.push_back(key);
        }
    }

    fn pop(&mut self) -> Option<EntityKey> {
        let key = self.order.pop_front()?;
        self.known.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests;
