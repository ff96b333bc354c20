//! Who works, who waits and who is taken for idle, with actors that are made up.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;

use super::{Crew, Incarnation, Note, Roster, Sent};
use crate::domain::EntityKey;
use crate::store::contract::facts::sub;

/// Actors that are only numbers: which of them were started, and which live.
#[derive(Default)]
struct Made {
    started: Vec<Incarnation>,
    living: BTreeSet<usize>,
    notes: Vec<Note>,
}

impl Crew for Made {
    type Actor = usize;

    fn start(&mut self, who: Incarnation) -> usize {
        let living: Vec<_> = self.living.iter().map(|nth| &self.started[*nth].key).collect();
        assert!(!living.contains(&&who.key), "two actors of `{}` at once", who.key);
        self.started.push(who);
        self.living.insert(self.started.len() - 1);
        self.started.len() - 1
    }

    fn notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    fn wake(&mut self, actor: &usize) -> Sent {
        if self.living.contains(actor) { Sent::Taken } else { Sent::Gone }
    }

    fn retire(&mut self, actor: usize) {
        self.living.remove(&actor);
    }
}

impl Made {
    /// The `nth` actor ends by a panic. Its message to the dispatcher is on its way.
    fn fails(&mut self, nth: usize) -> Incarnation {
        self.living.remove(&nth);
        self.started[nth].clone()
    }

    /// The `nth` actor has nothing left to do, having taken so many wakes.
    fn rests(&mut self, nth: usize, wakes: u64) {
        self.notes.push(Note { of: self.started[nth].clone(), wakes });
    }

    fn living(&self) -> Vec<&str> {
        self.living.iter().map(|nth| &*self.started[*nth].key.id).collect()
    }
}

fn keys(ids: &[&str]) -> Vec<EntityKey> {
    ids.iter().map(|id| sub(id)).collect()
}

#[test]
fn the_failure_of_an_older_actor_leaves_a_newer_one_alone() {
    let (mut roster, mut crew, now) = (Roster::new(2), Made::default(), Instant::now());
    roster.arrived(keys(&["a"]), now, &mut crew);
    let failed = crew.fails(0);
    // Work comes before the message does.
    roster.arrived(keys(&["a"]), now, &mut crew);
    assert_eq!((crew.started.len(), crew.living()), (2, vec!["a"]));
    roster.failed(&failed, &mut crew);
    roster.arrived(keys(&["a"]), now, &mut crew);
    assert_eq!((crew.started.len(), crew.living()), (2, vec!["a"]));
}

#[test]
fn the_note_of_an_older_actor_retires_no_newer_one() {
    let (mut roster, mut crew, now) = (Roster::new(1), Made::default(), Instant::now());
    roster.arrived(keys(&["a"]), now, &mut crew);
    crew.rests(0, 1);
    let failed = crew.fails(0);
    roster.failed(&failed, &mut crew);
    crew.notes.clear();
    let note = Note { of: failed, wakes: 1 };
    roster.arrived(keys(&["a"]), now, &mut crew);
    // The newer one has taken as many wakes, and works.
    crew.notes.push(note);
    assert_eq!(roster.arrived(keys(&["b"]), now, &mut crew), 1);
    assert_eq!(crew.living(), ["a"]);
    crew.rests(1, 1);
    assert_eq!(roster.arrived(Vec::new(), now, &mut crew), 0);
    assert_eq!(crew.living(), ["b"]);
}

#[test]
fn the_place_of_an_actor_that_failed_is_given_away_at_once() {
    let (mut roster, mut crew, now) = (Roster::new(1), Made::default(), Instant::now());
    assert_eq!(roster.arrived(keys(&["a", "b"]), now, &mut crew), 1);
    let failed = crew.fails(0);
    roster.failed(&failed, &mut crew);
    assert_eq!(crew.living(), ["b"]);
}

#[test]
fn notes_are_read_before_anybody_is_made_to_wait() {
    let (mut roster, mut crew, now) = (Roster::new(1), Made::default(), Instant::now());
    roster.arrived(keys(&["a"]), now, &mut crew);
    crew.rests(0, 1);
    assert_eq!(roster.arrived(keys(&["b"]), now, &mut crew), 0);
    assert_eq!(crew.living(), ["b"]);
}

#[test]
fn an_actor_is_retired_when_it_was_idle_for_long_and_not_before() {
    let (mut roster, mut crew, now) = (Roster::new(5), Made::default(), Instant::now());
    let after = Duration::from_secs(30);
    roster.arrived(keys(&["a", "b"]), now, &mut crew);
    crew.rests(0, 1);
    crew.rests(1, 1);
    roster.retire_idle(now, after, &mut crew);
    // The second is woken again: its note is out of date.
    roster.arrived(keys(&["b"]), now, &mut crew);
    roster.retire_idle(now + after, after, &mut crew);
    assert_eq!(crew.living(), ["b"]);
    crew.rests(1, 2);
    roster.retire_idle(now + after, after, &mut crew);
    assert_eq!(crew.living(), ["b"]);
    roster.retire_idle(now + after + after, after, &mut crew);
    assert!(crew.living().is_empty());
}
