//! What must hold: after each opening, at each acknowledgement, while it runs, and at the end.

mod reading;

use std::collections::{BTreeMap, BTreeSet};

use super::network::{ITEMS, is_forged};
use super::plan::Clocks;
use super::process::Process;
use super::truth::{BEGIN, Thing};
use super::world::{World, all, overlay_bound};
use crate::domain::{Admission, Cause, Entity, Flag, Lsn, Position, Reason, Recorded, StateName, Timestamp};
use crate::store::oracle::{Told, pruned};
use crate::store::{self, Store as _};

/// How often a thing may be asked for, for each of its events and once more: failures and checks are among them.
const FETCHES_EACH: u64 = 12;

/// Nothing is acknowledged that the journal does not call durable, and a conflict is what contradicts something taken.
pub(crate) fn at_acknowledgement(world: &World, process: &Process, admissions: &[Admission], contradicts: bool) {
    // Just now something was added.
    bounds(world, process);
    let is_conflict = |admission: &Admission| matches!(admission, Admission::Conflict { .. });
    if admissions.iter().any(|admission| is_conflict(admission) != contradicts) {
        world
            .violate(format!("what {} is answered {admissions:?}", if contradicts { "contradicts" } else { "agrees" }));
    }
    let synced = process.status().synced;
    for position in admissions.iter().flat_map(|admission| positions(*admission)) {
        if position.lsn > synced {
            world.violate(format!("{position} is acknowledged, and durable is {}", synced.0));
        }
    }
}

/// What is held in memory stays within its bounds.
pub(crate) fn bounds(world: &World, process: &Process) {
    let (options, (events, bytes)) = (&world.ground.plan.options, process.store.held_in_memory());
    if events > options.window_events.max(ITEMS) {
        world.violate(format!("the window holds {events} events, its bound is {}", options.window_events));
    }
    if bytes > overlay_bound(options) {
        world.violate(format!("the overlay holds {bytes} bytes, its bound is {}", overlay_bound(options)));
    }
    let status = process.status();
    if events >= options.window_events && status.pending > u64::try_from(events).unwrap() {
        world.account.count("backlog beyond the window");
    }
}

/// What was durable and what was acknowledged is there, and nothing contradicts itself.
pub(crate) fn after_opening(world: &World, process: &Process) {
    let records = match process.store.records() {
        Ok(records) => records,
        // It may have died just now.
        Err(_) if !process.life.goes_on() => return,
        Err(error) => return world.violate(format!("the journal cannot be read: {error}")),
    };
    let durable = world.durable.borrow();
    for ((lsn, before), now) in durable.iter().zip(records.iter().map(Some).chain(std::iter::repeat(None))) {
        match now {
            None => return world.violate(format!("record {} was durable, and is lost", lsn.0)),
            Some((_, now)) if !is_same(*lsn, before, now) => {
                return world.violate(format!("record {} was durable, and is another", lsn.0));
            }
            Some(_) => {}
        }
    }
    if records.len() > durable.len() {
        world.account.count("record kept that was not answered");
    }
    let told = Told::of(&records);
    for problem in &told.problems {
        world.violate(problem.clone());
    }
    acknowledged_is_stored(world, &told);
    if process.store.is_proved() {
        reading::what_is_due_is_told(world, process, &told);
    }
}

/// Whether two are one record, with its body or pruned: a crash leaves the one or the other segment.
fn is_same(lsn: Lsn, before: &Vec<u8>, now: &Vec<u8>) -> bool {
    before == now || pruned(lsn, before).as_ref() == Some(now) || pruned(lsn, now).as_ref() == Some(before)
}

fn acknowledged_is_stored(world: &World, told: &Told) {
    for (lsn, what) in world.commanded.borrow().iter() {
        if told.commands.get(lsn) != Some(what) {
            world.violate(format!("a command about {what:?} was answered at {}, which is another record", lsn.0));
        }
    }
    for acknowledged in world.acknowledged.borrow().iter() {
        if acknowledged.ids.len() != acknowledged.admissions.len() {
            world.violate(format!("of {:?} were acknowledged {:?}", acknowledged.ids, acknowledged.admissions));
        }
        for (id, admission) in acknowledged.ids.iter().zip(&acknowledged.admissions) {
            for position in positions(*admission) {
                let stored = told.ids.get(&position);
                if stored.is_none_or(|stored| stored.as_str() != id && !id.starts_with("evt_noise_")) {
                    world.violate(format!("{id} was acknowledged at {position}, where {stored:?} stands"));
                }
            }
        }
    }
}

/// When all is quiet.
pub(crate) async fn at_the_end(world: &World) {
    let Some(process) = world.running() else { return world.violate("no process runs at the end".to_owned()) };
    if let Err(error) = check(world, &process).await {
        world.violate(format!("at the end the store fails: {error}"));
    }
}

async fn check(world: &World, process: &Process) -> Result<(), store::Error> {
    let told = Told::of(&process.store.records()?);
    for Recorded { position, entity, entry } in &told.entries {
        world.account.count(entry.outcome.as_str());
        world.account.say(|| {
            let state = |state: &Option<StateName>| state.as_ref().map_or("-", |state| state.as_str()).to_owned();
            format!(
                "decided {position} {} at {:.3} s: {} by {}, {} -> {}, of {:?}, key {}, flags {:?}, check {}",
                entity.id,
                entry.decided_at.since(Timestamp::from_secs(BEGIN)).as_secs_f64(),
                entry.outcome.as_str(),
                entry.rule.as_str(),
                state(&entry.states.from),
                state(&entry.states.to),
                entry.positions,
                entry.key_after.map_or("-".to_owned(), |key| key.to_string()),
                entry.flags,
                entry.check.is_some(),
            )
        });
    }
    for problem in &told.problems {
        world.violate(problem.clone());
    }
    let len = |len: usize| u64::try_from(len).unwrap();
    world.account.add("segment sealed", len(process.store.sealed_segments()));
    world.account.add("segment pruned", len(process.store.pruned_segments()));
    world.account.add("file of seen ids", len(world.ground.platters.seen.names().len()));
    world.account.add("view built anew", world.ground.platters.view.times_set_aside().saturating_sub(1));
    acknowledged_is_stored(world, &told);
    let forged: Vec<_> = told.ids.values().filter(|id| is_forged(id)).collect();
    if !forged.is_empty() {
        world.violate(format!("forged, and in the store: {forged:?}"));
    }
    every_event_is_decided_once(world, &told);
    nothing_is_applied_twice(world, &told);
    reading::what_is_read_is_what_is_told(world, process, &told).await?;
    what_was_shown_is_there(world, &told);
    reading::the_feed_is_whole(world, process, &told).await?;
    for difference in process.store.differences(&world.ground.platters.view)? {
        world.violate(format!("the view differs from one that is built anew: {difference}"));
    }
    legal_events_are_not_given_up(world, process).await?;
    for nth in 0..world.things.len() {
        final_state(world, nth, &told);
        fetches_are_bounded(world, nth, &told);
    }
    Ok(())
}

fn every_event_is_decided_once(world: &World, told: &Told) {
    if !told.pending.is_empty() || !told.waiting.is_empty() {
        world.violate(format!("undecided: {:?} {:?}", told.pending, told.waiting));
    }
    for (position, times) in told.done.iter().filter(|(_, times)| **times != 1) {
        world.violate(format!("{position} is decided {times} times"));
    }
    let recorded: BTreeSet<_> = told.entries.iter().flat_map(|recorded| &recorded.entry.positions).collect();
    for position in told.done.keys().filter(|position| !recorded.contains(position)) {
        world.violate(format!("{position} is decided, and no entry says what came of it"));
    }
}

/// An event moves a machine once by itself, whatever is asked of it later.
fn nothing_is_applied_twice(world: &World, told: &Told) {
    let mut applied = BTreeSet::new();
    for recorded in told.entries.iter().filter(|recorded| recorded.entry.cause == Cause::Webhook) {
        for position in &recorded.entry.positions {
            let machine = recorded.entry.machine.as_ref().map(|machine| machine.name.clone());
            if !applied.insert((*position, machine)) {
                world.violate(format!("{position} of `{}` is applied twice", recorded.entity));
            }
        }
    }
}

/// Nothing was ever shown that a crash took back.
fn what_was_shown_is_there(world: &World, told: &Told) {
    let moves: Vec<&Recorded> = told.entries.iter().filter(|recorded| recorded.entry.is_move()).collect();
    let followed = world.followed.borrow();
    if !followed.iter().eq(moves.iter().copied().take(followed.len())) {
        let strange = followed.iter().zip(&moves).find(|(shown, is)| shown != *is);
        world.violate(format!("the feed showed what is not so, or left something out: {strange:?}"));
    }
    let shown = world.shown.borrow();
    let mut folds: BTreeMap<_, Entity> = BTreeMap::new();
    let mut met = 0;
    for recorded in &told.entries {
        let entity = folds.entry(&recorded.entity).or_insert_with(|| Entity::unknown(recorded.entity.clone()));
        a_move_is_allowed(world, entity, recorded);
        recorded.entry.apply(entity);
        if let Some(seen) = shown.get(&(recorded.entity.clone(), entity.version)) {
            met += 1;
            if seen != entity {
                world.violate(format!("shown was {seen:?}, its entries give {entity:?}"));
            }
        }
    }
    if met != shown.len() {
        world.violate(format!("{} of the entities shown were never so", shown.len() - met));
    }
}

/// A move begins in the state that the entity is in, and there is a way from there.
fn a_move_is_allowed(world: &World, entity: &Entity, Recorded { position, entry, .. }: &Recorded) {
    let Some(name) = entry.machine.as_ref().map(|machine| &machine.name) else { return };
    let held = entity.ladder().machines.get(name).map(|held| &held.state);
    if entry.states.from.as_ref() != held {
        world.violate(format!("{position} moves `{}` from {:?}, it is in {held:?}", entity.key, entry.states.from));
    }
    let machine = world.ground.registry.get(name).unwrap();
    let place = |state: &StateName| machine.place(state);
    if let (Some(from), Some(to)) = (&entry.states.from, &entry.states.to)
        && entry.is_move()
        && !place(from).zip(place(to)).is_some_and(|(from, to)| machine.reaches(from, to))
    {
        world.violate(format!("{position} moves `{}` from {from} to {to}, where no way leads", entity.key));
    }
}

/// Where the end state is promised, nothing of a legal history stays among the dead letters.
async fn legal_events_are_not_given_up(world: &World, process: &Process) -> Result<(), store::Error> {
    for letter in all(async |after| process.store.dead_letters(after, 5).await).await? {
        let of = |thing: &&Thing| letter.event.entity == Some(thing.key());
        let Some(thing) = world.things.iter().find(of).filter(|thing| is_promised(world, thing)) else { continue };
        let reason = letter.attempts.last().map(|attempt| &attempt.reason);
        match reason {
            Some(Reason::EventIdReused { .. }) => {}
            // Whoever looks after it is gone finds nothing, and cannot know whether it ever was there.
            Some(Reason::UpstreamNotFound) if thing.ends_gone() => {}
            _ => world.violate(format!("{} at {} is given up: {reason:?}", letter.event.id, letter.position)),
        }
    }
    Ok(())
}

/// Whether the end state of a thing is promised.
fn is_promised(world: &World, thing: &Thing) -> bool {
    let asked = world.ground.plan.asked && thing.sort.has_upstream();
    !asked || world.ground.plan.clocks == Clocks::Within
}

/// The entity of a legal history ends as it is true.
fn final_state(world: &World, nth: usize, told: &Told) {
    let (thing, plan) = (&world.things[nth], &world.ground.plan);
    let last = thing.steps.len() - 1;
    let has = |step: &usize| {
        let id = thing.event_id(*step);
        told.firsts.keys().any(|(_, stored)| [id.as_str(), &format!("{id}b")].contains(&stored.as_str()))
    };
    let known: Vec<usize> = (0..=last).filter(has).collect();
    let entity = told.entities.get(&thing.key());
    let held = entity.and_then(|entity| entity.ladder().machines.get(&thing.machine));
    let Some((entity, held)) = entity.zip(held) else {
        if !known.is_empty() {
            world.violate(format!("{} is unknown", thing.id));
        }
        return;
    };
    let asked = plan.asked && thing.sort.has_upstream();
    if !is_promised(world, thing) {
        return world.account.count("end state beyond the skew, which is not promised");
    }
    let possible: BTreeSet<_> = match known.last() {
        // What was never told can only be known from an upstream, if something led to it being asked.
        Some(newest) if asked => thing.steps[*newest..].iter().map(|(_, state)| state).collect(),
        Some(newest) => BTreeSet::from([&thing.steps[*newest].1]),
        None => BTreeSet::from([&thing.steps[last].1]),
    };
    world.account.count(if asked { "end state with an upstream" } else { "end state by strict keys" });
    if !possible.contains(&held.state) {
        world.violate(format!("{} ends as {}, true is {possible:?}: {entity:?}", thing.id, held.state));
    }
    if entity.flags.contains(&Flag::Diverged) {
        world.violate(format!("{} is flagged: {entity:?}", thing.id));
    }
}

fn fetches_are_bounded(world: &World, nth: usize, told: &Told) {
    let key = world.things[nth].key();
    let asked = world.upstream.asked.lock().unwrap()[nth];
    let positions = told.entries.iter().filter(|recorded| recorded.entity == key);
    let events: BTreeSet<Position> = positions.flat_map(|recorded| recorded.entry.positions.clone()).collect();
    let bound = FETCHES_EACH * (1 + u64::try_from(events.len()).unwrap());
    world.account.add("events of things", u64::try_from(events.len()).unwrap());
    if asked > bound {
        world.violate(format!("{} was asked for {asked} times for {} events", world.things[nth].id, events.len()));
    }
}

/// The places that an answer names.
fn positions(admission: Admission) -> Vec<Position> {
    match admission {
        Admission::Accepted(position) | Admission::Duplicate(position) => vec![position],
        Admission::Conflict { first, dead } => vec![first, dead],
    }
}
