//! A burst of twenty times what the server can take: memory stays bounded, what is too much is refused with a time to
//! come again, and nothing acknowledged is lost.

use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use super::scale;
use crate::load::Load;
use crate::server::{Server, connect, next_answer};

/// How many times the sustainable rate is offered.
const TIMES: f64 = 20.0;

/// For how long it is offered.
const BURST: Duration = Duration::from_millis(150);

const CONNECTIONS: usize = 400;

/// How many requests of a connection are under way at once, as many as the HTTP library takes: together they are far
/// more than may wait.
const AHEAD: usize = 16;

/// How much the server may grow under it: the sum of the bounds below, as much again for what they don't count, and what
/// the HTTP library reads ahead of each connection.
const GROWTH_KIB_MAX: u64 = 2 * (16 + 16 + 8 + 8 + 16) * 1024 + 400 * 128;

const BOUNDS: [(&str, &str); 7] = [
    // Every refusal is logged, which is not what is tried here.
    ("TOLLGATE__TELEMETRY__LEVEL", "error"),
    ("TOLLGATE__STORE__WAITING", "16"),
    ("TOLLGATE__SERVER__BODIES_MAX", "16MiB"),
    ("TOLLGATE__STORE__OVERLAY_SIZE", "16MiB"),
    ("TOLLGATE__STORE__WINDOW_DECODED", "8MiB"),
    ("TOLLGATE__STORE__ENTITIES_AT_HAND", "8MiB"),
    ("TOLLGATE__STORE__VIEW_CACHE", "16MiB"),
];

#[test]
fn a_burst_of_twenty_times_the_rate_is_refused_in_bounded_memory_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let environment = BOUNDS.map(|(key, value)| (key, value.to_owned()));
    let server = Server::start(data.path(), &environment);
    let load = Load::of_payments(8000 * scale(), 1000);
    let rate = sustained(&server, &load);
    let idle = server.peak_kib();
    // Behind those that measured the rate, as far as there are events.
    let from = load.acknowledged();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::as_conversions, reason = "a count")]
    let count = ((rate * TIMES * BURST.as_secs_f64()) as usize * scale()).min(load.events.len() - from);
    let (refused, unanswered, offered) = burst(&server, &load, from, count);
    let grown = server.peak_kib() - idle;
    println!(
        "{rate:.0}/s sustained; {count} events, {} of them at once, came in at {offered:.0}/s: {} acknowledged, {refused} refused, \
         {unanswered} unanswered; {idle} KiB before, grown by {grown} KiB",
        count.min(CONNECTIONS * AHEAD),
        load.acknowledged() - from
    );
    assert!(refused > 0, "the burst was no burst");
    assert!(grown <= GROWTH_KIB_MAX, "grown by {grown} KiB");
    server.settle();
    load.assert_kept(&server);
    // The senders come again.
    let rest: Vec<usize> = (from..from + count).collect();
    load.send(server.address(), &rest, &AtomicUsize::new(0), rest.len());
    assert_eq!(load.acknowledged(), from + count);
    server.settle();
    println!("{:?}", load.assert_kept(&server));
}

/// How many events a second are acknowledged one behind the other on a few connections.
fn sustained(server: &Server, load: &Load) -> f64 {
    let next = AtomicUsize::new(0);
    let queue: Vec<usize> = (0..400).collect();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| load.send(server.address(), &queue, &next, queue.len()));
        }
    });
    let events = u32::try_from(load.acknowledged()).unwrap();
    f64::from(events) / began.elapsed().as_secs_f64()
}

/// Writes events as fast as they are answered over many connections, some ahead on each. Answers how many were refused,
/// how many got no answer, and how many a second came in.
fn burst(server: &Server, load: &Load, from: usize, count: usize) -> (usize, usize, f64) {
    let (refused, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let barrier = Barrier::new(CONNECTIONS + 1);
    let began = std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let (barrier, refused, answered) = (&barrier, &refused, &answered);
            scope.spawn(move || {
                let events: Vec<usize> = (from..from + count).skip(connection).step_by(CONNECTIONS).collect();
                let requests: Vec<Vec<u8>> = events.iter().map(|index| load.request(*index, true)).collect();
                let mut stream = connect(server.address()).unwrap();
                barrier.wait();
                let mut writer = stream.try_clone().unwrap();
                let (answer_came, answers) = mpsc::sync_channel(AHEAD);
                let writing = std::thread::spawn(move || {
                    for (number, request) in requests.iter().enumerate() {
                        let may_go = number < AHEAD || answers.recv().is_ok();
                        if !may_go || writer.write_all(request).is_err() {
                            return;
                        }
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
    let offered = f64::from(u32::try_from(count).unwrap()) / began.elapsed().as_secs_f64();
    (refused.into_inner(), count - answered, offered)
}
