//! Slow senders: hundreds of connections that sent half a head, half a body, or a byte now and then. They hold no
//! worker: a good sender is answered while they last.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::scale;
use crate::load::Load;
use crate::server::{Server, connect};

/// What a slow sender sends of its request.
type Part = fn(&[u8]) -> &[u8];

/// How a slow sender is slow.
const WAYS: [Part; 4] = [
    |_| b"",
    |request| &request[..40],
    |request| &request[..request.len() / 2],
    |request| &request[..request.len() - 100],
];

#[test]
fn hundreds_of_slow_senders_hold_no_worker() {
    let load = Load::of_payments(100, 1000);
    let data = tempfile::tempdir().unwrap();
    // They outlast the test: nothing but their holding no worker lets a good sender through.
    let patient = ["HEAD_TIMEOUT", "BODY_TIMEOUT"].map(|key| (format!("TOLLGATE__SERVER__{key}"), "10m".to_owned()));
    let mut environment: Vec<_> = patient.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    environment.push(("TOLLGATE__SERVER__WORKERS", "2".to_owned()));
    let server = Server::start(data.path(), &environment);
    let mut slow: Vec<TcpStream> = (0..300 * scale()).map(|n| half_sent(server.address(), &load, n)).collect();
    for round in 0..4 {
        // They drip on: a byte each, which completes nothing.
        for stream in &mut slow {
            let _ = stream.write_all(if round % 2 == 0 { b"x" } else { b"" });
        }
        for index in round * 100..(round + 1) * 100 {
            let answer = load.deliver(server.address(), index).expect("a good sender is answered");
            assert_eq!(answer.status, 200, "{}", answer.text);
        }
    }
    // They outlasted it indeed: nothing came, neither an answer nor an end.
    for (number, stream) in slow.iter_mut().enumerate() {
        stream.set_nonblocking(true).unwrap();
        let read = stream.read(&mut [0; 64]).map_err(|error| error.kind());
        assert_eq!(read, Err(ErrorKind::WouldBlock), "slow sender {number}");
    }
    let slow = slow.len();
    server.settle();
    println!("beside {slow} slow senders: {:?}", load.assert_kept(&server));
}

fn half_sent(address: SocketAddr, load: &Load, number: usize) -> TcpStream {
    let mut stream = connect(address).unwrap();
    let request = load.request(number % load.events.len(), true);
    stream.write_all(WAYS[number % WAYS.len()](&request)).unwrap();
    stream
}
