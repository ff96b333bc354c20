//! A burst of many times what the server can take: memory stays bounded, what is too much is refused with a time to come
//! again, and nothing acknowledged is lost.
//!
//! No machine can send itself many times what it can take. So the journal is slowed down, by settings: each delivery
//! gets a segment, and a sync, of its own. All before the journal works as fast as ever.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::Instant;

use super::scale;
use crate::load::Load;
use crate::server::{Server, connect, next_answer};

/// How many are offered for each that is taken, at least. Mostly it is more than twenty, and the figure is printed; it
/// depends on the machine, so that much is not held against it.
const TIMES: usize = 10;

/// How many events measure the sustainable rate.
const SUSTAINED: usize = 200;

/// How many events the burst has.
const BURST: usize = 20_000;

const CONNECTIONS: usize = 400;

/// How many requests of a connection are under way at once: together they are far more than may wait.
const AHEAD: usize = 16;

/// How much the server may grow under it: the sum of the bounds below, and what a connection takes.
const GROWTH_KIB_MAX: u64 = (16 + 16 + 8 + 8 + 16) * 1024 + 400 * 64;

const SETTINGS: [(&str, &str); 9] = [
    ("TOLLGATE__STORE__GROUP_SIZE", "1B"),
    ("TOLLGATE__STORE__SEGMENT_SIZE", "1B"),
    ("TOLLGATE__STORE__WAITING", "16"),
    ("TOLLGATE__SERVER__BODIES_MAX", "16MiB"),
    ("TOLLGATE__STORE__OVERLAY_SIZE", "16MiB"),
    ("TOLLGATE__STORE__WINDOW_DECODED", "8MiB"),
    ("TOLLGATE__STORE__ENTITIES_AT_HAND", "8MiB"),
    ("TOLLGATE__STORE__VIEW_CACHE", "16MiB"),
    ("TOLLGATE__STORE__RESERVE", "0B"),
];

#[test]
fn a_burst_of_many_times_what_a_slowed_journal_takes_is_refused_in_bounded_memory_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Server::start(data.path(), &SETTINGS.map(|(key, value)| (key, value.to_owned())));
    let load = Load::of_payments((SUSTAINED + BURST * scale()).div_ceil(4), 1000);
    let rate = sustained(&server, &load);
    let idle = server.peak_kib();
    let Burst { sent, answered, refused, offered } = burst(&server, &load, SUSTAINED, BURST * scale());
    let grown = server.peak_kib() - idle;
    let (taken, unanswered) = (load.acknowledged() - SUSTAINED, sent - answered);
    println!(
        "{rate:.0}/s sustained by a slowed journal; {answered} events came in at {offered:.0}/s, {:.0} times as fast: {taken} acknowledged, \
         {refused} refused, {unanswered} unanswered; {idle} KiB before, grown by {grown} KiB",
        offered / rate,
    );
    assert!(answered >= TIMES * taken, "the burst was no burst: {taken} of {answered} were taken");
    assert_eq!(unanswered, 0, "of {sent}, each of which is to get an answer");
    assert!(refused > 0 && taken > 0, "{refused} refused, {taken} acknowledged");
    assert!(grown <= GROWTH_KIB_MAX, "grown by {grown} KiB");
    server.settle();
    load.assert_kept(&server);
    // A few of the senders that were refused come again.
    let again: Vec<usize> = (SUSTAINED..SUSTAINED + SUSTAINED).collect();
    load.send(server.address(), &again, &AtomicUsize::new(0), again.len());
    server.settle();
    println!("{:?}", load.assert_kept(&server));
}

/// How many events a second are acknowledged while a few senders always have one under way.
fn sustained(server: &Server, load: &Load) -> f64 {
    let next = AtomicUsize::new(0);
    let queue: Vec<usize> = (0..SUSTAINED).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| load.send(server.address(), &queue, &next, queue.len()));
        }
    });
    assert_eq!(load.acknowledged(), SUSTAINED);
    f64::from(u32::try_from(SUSTAINED).unwrap()) / began.elapsed().as_secs_f64()
}

/// What came of a burst.
struct Burst {
    /// Requests that were written whole.
    sent: usize,
    answered: usize,
    refused: usize,
    /// How many a second were answered.
    offered: f64,
}

/// Writes events as fast as they are answered over many connections, some ahead on each.
fn burst(server: &Server, load: &Load, from: usize, count: usize) -> Burst {
    let [sent, refused, answered] = [const { AtomicUsize::new(0) }; 3];
    let barrier = Barrier::new(CONNECTIONS + 1);
    let began = std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (barrier, sent, refused, answered) = (&barrier, &sent, &refused, &answered);
            scope.spawn(move || {
                let events: Vec<usize> = (from..from + count).skip(connection).step_by(CONNECTIONS).collect();
                let requests: Vec<Vec<u8>> = events.iter().map(|index| load.request(*index, true)).collect();
                let mut stream = connect(server.address()).unwrap();
                barrier.wait();
                let mut writer = stream.try_clone().unwrap();
                let (answer_came, answers) = mpsc::sync_channel(AHEAD);
                let writing = scope.spawn(move || {
                    for (number, request) in requests.iter().enumerate() {
                        let may_go = number < AHEAD || answers.recv().is_ok();
                        if !may_go || writer.write_all(request).is_err() {
                            return;
                        }
                        sent.fetch_add(1, Ordering::SeqCst);
                    }
                });
                barrier.wait();
                let mut read = Vec::new();
                for index in events {
                    let Some(answer) = next_answer(&mut stream, &mut read) else { break };
                    let _ = answer_came.try_send(());
                    load.note(index, &answer);
                    answered.fetch_add(1, Ordering::SeqCst);
                    refused.fetch_add(usize::from(answer.status == 503), Ordering::SeqCst);
                }
                drop((stream, answer_came));
                writing.join().unwrap();
            });
        }
        barrier.wait();
        let began = Instant::now();
        barrier.wait();
        began
    });
    let answered = answered.into_inner();
    let offered = f64::from(u32::try_from(answered).unwrap()) / began.elapsed().as_secs_f64();
    Burst { sent: sent.into_inner(), answered, refused: refused.into_inner(), offered }
}
