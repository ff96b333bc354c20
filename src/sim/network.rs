//! Senders and the network: each event is sent until it is taken, late, more than once, out of order, and among what
//! nobody of the source has signed.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::process::Refusal;
use super::truth::{BATCH, Message, noise};
use super::world::World;
use crate::domain::{Admission, EventId, Timestamp};

/// How long a sender waits for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The longest pause of a sender between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// How often a sender tries, unless it gives up soon.
const TRIES_MAX: u32 = 40;

/// How many events are in one delivery at most.
pub(crate) const ITEMS: usize = 4;

/// What was answered with 200.
#[derive(Clone, Debug)]
pub(crate) struct Acknowledged {
    /// The ids of its events, and what was answered of each.
    pub(crate) ids: Vec<String>,
    pub(crate) admissions: Vec<Admission>,
}

/// Starts everybody who sends something.
pub(crate) fn send_all(world: &Rc<World>) {
    for thing in world.things.iter() {
        for step in 0..thing.steps.len() {
            let at = thing.steps[step].0;
            let last = thing.steps.len() - 1;
            let late = |world: &World| {
                if thing.restless {
                    // The last but one comes first, so that somebody has to be asked; the last comes after the answer.
                    let (from, more) = if step + 1 == last { (0, 300) } else { (10_000, 10_000) };
                    return at.plus(Duration::from_millis(from + world.roll(more)));
                }
                let most = [100, 500, 2000, 10_000, 60_000][usize::try_from(world.roll(5)).unwrap()];
                at.plus(Duration::from_millis(world.roll(most)))
            };
            let gives_up = world.ground.plan.gives_up && world.roll(3) == 0;
            let suffixes: &[&str] = if world.roll(3) == 0 { &["", "b"] } else { &[""] };
            for suffix in suffixes {
                let message = thing.message(step, suffix, late(world));
                let copies = 1 + world.roll(3) / 2 + world.roll(6) / 5;
                for _ in 0..copies {
                    let contradicted =
                        (suffix.is_empty() && world.roll(12) == 0).then(|| thing.contradiction(step, late(world)));
                    let together = world.ground.plan.burst && world.roll(2) == 0;
                    let at = if together { message.at } else { late(world) };
                    let message =
                        together_with_others(world, Message { at, ..message.clone() }, thing.event(step, suffix));
                    start(world, message, if gives_up { 1 } else { TRIES_MAX }, contradicted);
                }
            }
        }
    }
    for nth in 0..world.roll(4) {
        let at = world.now().plus(Duration::from_millis(world.roll(60_000)));
        start(world, noise(nth, at), TRIES_MAX, None);
    }
    for nth in 0..world.roll(4) {
        let world = Rc::clone(world);
        let life = super::schedule::Life::begin();
        world.ground.schedule.clone().spawn(&life, Box::pin(async move { forge(&world, nth).await }));
    }
}

/// The same event, among others of its source that have happened by then, if that sends several together.
fn together_with_others(world: &World, message: Message, event: (String, String)) -> Message {
    if message.source != BATCH {
        return message;
    }
    let mut events = vec![event];
    for _ in 0..world.roll(u64::try_from(ITEMS).unwrap()) {
        let nth = usize::try_from(world.roll(u64::try_from(world.things.len()).unwrap())).unwrap();
        let thing = &world.things[nth];
        let step = thing.step_at(message.at);
        if thing.sort.source == BATCH && thing.steps[step].0 <= message.at {
            let step = usize::try_from(world.roll(u64::try_from(step + 1).unwrap())).unwrap();
            let place = usize::try_from(world.roll(u64::try_from(events.len() + 1).unwrap())).unwrap();
            events.insert(place, thing.event(step, ""));
        }
    }
    if events.len() > 1 {
        world.account.count("delivery of several events");
    }
    Message::of(BATCH, events, message.at)
}

fn start(world: &Rc<World>, message: Message, tries: u32, then: Option<Message>) {
    world.senders.set(world.senders.get() + 1);
    let (of, life) = (Rc::clone(world), super::schedule::Life::begin());
    let sending = async move {
        if send(&of, &message, tries).await {
            if let Some(then) = then {
                of.account.count("another content under an id");
                send(&of, &then, TRIES_MAX).await;
            }
        } else {
            of.account.count("event given up by its sender");
            of.account.say(|| format!("{}: given up by its sender", message.id));
        }
        of.senders.set(of.senders.get() - 1);
    };
    world.ground.schedule.spawn(&life, Box::pin(sending));
}

/// Sends until it is taken; answers whether it was.
async fn send(world: &Rc<World>, message: &Message, tries: u32) -> bool {
    tokio::time::sleep(message.at.since(world.now())).await;
    let mut pause = Duration::from_millis(500 + world.roll(1500));
    for nth in 0..tries {
        let source = &world.ground.sources[message.source];
        let headers = source.sign(0, &message.id, message.body.as_bytes(), world.now());
        match deliver(world, message, headers).await {
            Some(Ok(())) => return true,
            Some(Err(Refusal::Unverified(why))) => {
                world.violate(format!("{} is refused: {why}", message.id));
                return false;
            }
            Some(Err(Refusal::Unavailable(why))) => {
                world.account.count("503");
                world.account.say(|| format!("{}: 503 {why}", message.id));
            }
            None => {}
        }
        if nth + 1 < tries {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
    false
}

/// One request, if the network and the process let it through; none without an answer.
async fn deliver(world: &Rc<World>, message: &Message, headers: Vec<(String, String)>) -> Option<Result<(), Refusal>> {
    let (id, source) = (&message.id, message.source);
    let lost = |world: &World| !world.is_calm() && world.roll(100) < world.ground.plan.lost;
    tokio::time::sleep(Duration::from_millis(world.roll(30))).await;
    if lost(world) {
        world.account.count("request lost");
        world.account.say(|| format!("{id}: the request is lost"));
        return None;
    }
    let Some(process) = world.running() else {
        world.account.say(|| format!("{id}: nobody listens"));
        return None;
    };
    let (reply, answer) = oneshot::channel();
    let (of, name, ids, body) = (Rc::clone(world), id.clone(), message.events.clone(), message.body.clone());
    let (life, schedule) = (process.life.clone(), world.ground.schedule.clone());
    let contradicts = message.contradicts;
    // Goes on when its sender hangs up, and ends with the process.
    let handling = async move {
        let received = process.receive(source, &headers, Bytes::from(body)).await;
        let answer = received.map(|admissions| {
            of.account.say(|| format!("{name}: 200 {admissions:?}"));
            super::checks::at_acknowledgement(&of, &process, &admissions, contradicts);
            for admission in &admissions {
                of.account.count(match admission {
                    Admission::Accepted(_) => "accepted",
                    Admission::Duplicate(_) => "duplicate",
                    Admission::Conflict { .. } => "conflict",
                });
            }
            of.acknowledged.borrow_mut().push(Acknowledged { ids, admissions });
        });
        drop(reply.send(answer));
    };
    schedule.spawn(&life, Box::pin(handling));
    let answer = tokio::time::timeout(ANSWER_WITHIN, answer).await.ok()?.ok()?;
    tokio::time::sleep(Duration::from_millis(world.roll(30))).await;
    if lost(world) {
        world.account.count("answer lost");
        world.account.say(|| format!("{id}: the answer is lost"));
        return None;
    }
    Some(answer)
}

/// What nobody of the source signed like this: it must be refused, and leave no trace.
async fn forge(world: &Rc<World>, nth: u64) {
    let at = world.now().plus(Duration::from_millis(world.roll(60_000)));
    tokio::time::sleep(at.since(world.now())).await;
    let thing = &world.things[0];
    let mut message = thing.message(0, &format!("_forged_{nth}"), at);
    let source = &world.ground.sources[message.source];
    let now = world.now();
    let sign = |body: &str, at: Timestamp| source.sign(0, &message.id, body.as_bytes(), at);
    let headers = match world.roll(4) {
        0 => sign("another body", now),
        1 => sign(&message.body, now.minus(Duration::from_secs(1000))),
        2 => Vec::new(),
        _ => {
            let headers = sign(&message.body, now);
            message.body.push(' ');
            headers
        }
    };
    match deliver(world, &message, headers).await {
        Some(Ok(())) => world.violate(format!("the forged {} is taken", message.id)),
        Some(Err(Refusal::Unverified(_))) => world.account.count("forgery refused"),
        Some(Err(Refusal::Unavailable(why))) => world.violate(format!("a forgery got to the store: {why}")),
        None => {}
    }
}

/// Whether an id is of something forged.
pub(crate) fn is_forged(id: &EventId) -> bool {
    id.as_str().contains("_forged_")
}
