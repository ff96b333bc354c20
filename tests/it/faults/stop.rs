//! SIGTERM in mid-load: answers in flight are finished, every acknowledged event is there, the journal is closed, and the
//! exit code is 0.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tollgate::domain::Lsn;
use tollgate::store::journal::{self, Journal};

use super::scale;
use crate::load::{Load, random};
use crate::server::{Server, connect, read_answer};

const SENDERS: usize = 6;

#[test]
fn a_stop_before_it_serves_is_a_stop_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (config, data) = (folder.path().join("tollgate.toml"), folder.path().join("data"));
    // It waits for its configuration as long as nobody writes it: so the signal comes while it begins.
    assert!(Command::new("mkfifo").arg(&config).status().unwrap().success());
    let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(&config)
        .arg("--data")
        .arg(&data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut writer = std::fs::File::options().write(true).open(&config).unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    // One that is not listening is ended by now.
    std::thread::sleep(Duration::from_millis(100));
    let _ = writer.write_all(b"# nothing is set\n");
    drop(writer);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_stop_in_mid_load_finishes_its_answers_and_loses_nothing() {
    let rounds = 3 * scale();
    let load = Load::of_payments(400 * scale(), 400);
    let queue = load.shuffled();
    let next = AtomicUsize::new(0);
    let data = tempfile::tempdir().unwrap();
    let mut seed = 11;
    for round in 0..rounds {
        let server = Server::start(data.path(), &[]);
        let address = server.address();
        let until = queue.len() * (round + 1) / (rounds + 1);
        // One request is half there when the signal comes.
        let request = load.request(round, false);
        let (first, rest) = request.split_at(request.len() - 100);
        let mut half_sent = connect(address).unwrap();
        half_sent.write_all(first).unwrap();
        let code = std::thread::scope(|scope| {
            for _ in 0..SENDERS {
                scope.spawn(|| load.send(address, &queue, &next, until));
            }
            std::thread::sleep(Duration::from_millis(30 + random(&mut seed) % 100));
            server.terminate();
            std::thread::sleep(Duration::from_millis(50));
            half_sent.write_all(rest).unwrap();
            let answer = read_answer(&mut half_sent).expect("the answer in flight was dropped");
            assert_eq!(answer.status, 200, "{}", answer.text);
            load.note(round, &answer);
            server.exit_code()
        });
        assert_eq!(code, Some(0), "round {round}");
        let (journal, found) =
            Journal::open(&data.path().join("journal"), journal::Options::default(), Lsn(0)).unwrap();
        assert!(found.clean && found.cut.is_none(), "round {round}: the journal was not closed: {found:?}");
        journal.close().unwrap();
    }
    let server = Server::start(data.path(), &[]);
    server.settle();
    let stopped = load.assert_kept(&server);
    load.send_all(server.address());
    server.settle();
    println!("{rounds} stops: {stopped:?}, and all: {:?}", load.assert_kept(&server));
    server.terminate();
    assert_eq!(server.exit_code(), Some(0));
    let (sound, why) = Server::check(data.path());
    assert!(sound, "{why}");
}
