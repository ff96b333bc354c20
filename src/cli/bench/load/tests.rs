//! What is measured of a server that does not answer.

use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::source::{SHIPPED, Secrets, SigningSecret};

/// What is measured of a server that answers `answers` requests in all, and keeps the others waiting.
fn measure(answers: usize) -> Measured {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let left = AtomicUsize::new(answers);
    let text = SHIPPED.iter().find(|(name, _)| *name == "stripe").unwrap().1;
    let secrets = Secrets { signing: vec![SigningSecret::new("whsec_of_a_test_of_the_load")], ..Secrets::default() };
    let source = Source::compile(&toml::from_str(text).unwrap(), &secrets).unwrap();
    std::thread::scope(|scope| {
        let left = &left;
        for _ in 0..2 {
            let listener = listener.try_clone().unwrap();
            scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 8 << 10];
                while stream.read(&mut request).is_ok_and(|read| read > 0) {
                    let take = |left: usize| left.checked_sub(1);
                    if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
                        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
                    }
                }
            });
        }
        let load = Load {
            address,
            path: "/webhooks/stripe",
            source: &source,
            now: &|| SystemClock.now(),
            connections: 2,
            pace: Pace::Open(100.0),
            measured: Duration::from_millis(100),
            patience: Duration::from_millis(10),
            backlog: &|| 0,
            backlog_max: u64::MAX,
        };
        load.run(&mut Events::of(1, SystemClock.now())).unwrap()
    })
}

#[test]
fn a_request_that_is_not_answered_counts_with_the_time_that_it_waited() {
    let due = 60;
    let stuck = measure(0);
    assert_eq!(
        (stuck.acknowledged, stuck.latencies.len()),
        (0, due),
        "two under way, and all that were due behind them"
    );
    assert!(stuck.latency_ms(1000) >= 600.0 && stuck.latency_ms(1) >= 10.0, "{:?}", stuck.latencies);
    let soon_stuck = measure(7);
    // Those that were answered in time were so before the measurement, mostly.
    assert!((due - 7..=due).contains(&soon_stuck.latencies.len()), "{:?}", soon_stuck.latencies);
}
