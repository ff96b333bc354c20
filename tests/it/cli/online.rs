//! Commands that talk to a running server, and the server's own start and end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Cli, snapshot};
use crate::server::{STANDARD_SECRET, STRIPE_SECRET, Server};

/// A payment event that says its state.
fn payment(state: &str, second: u32) -> String {
    let data = format!(r#"{{"id":"pay_1","status":"{state}","amount":12.50,"currency":"EUR"}}"#);
    format!(r#"{{"type":"payment.{state}","timestamp":"2024-01-15T07:00:{second:02}Z","data":{data}}}"#)
}

/// A server with its data in a folder, and a folder of payloads.
struct World {
    folder: tempfile::TempDir,
    server: Server,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let payloads = folder.path().join("payloads");
        std::fs::create_dir(&payloads).unwrap();
        let states = [("1-pending", "pending", 0), ("2-captured", "captured", 20), ("3-authorized", "authorized", 10)];
        for (name, state, second) in states {
            std::fs::write(payloads.join(format!("{name}.json")), payment(state, second)).unwrap();
        }
        std::fs::write(payloads.join("4-odd.json"), payment("held", 30)).unwrap();
        std::fs::write(folder.path().join("odd.json"), payment("lost", 40)).unwrap();
        let server = Server::start(&folder.path().join("data"), &[]);
        Self { folder, server }
    }

    fn cli(&self) -> Cli<'_> {
        Cli::within(self.folder.path()).with("STANDARD_WEBHOOK_SECRET", STANDARD_SECRET)
    }

    /// What a command prints, with times replaced. It must end with this exit code.
    #[track_caller]
    fn told(&self, arguments: &[&str], code: i32) -> String {
        let address = format!("http://{}", self.server.address());
        let key: &[&str] = if arguments[0] == "send" { &[] } else { &["--key-file", "data/operator.key"] };
        let ran = self.cli().run(&[arguments, &["--server", &address], key].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {} {}", ran.out, ran.err);
        self.server.settle();
        format!("$ tollgate {}\n{}{}", arguments.join(" "), timeless(&ran.out), timeless(&ran.err))
    }

    /// The JSON document that a command prints.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let told = self.told(&[arguments, &["--json"]].concat(), 0);
        serde_json::from_str(told.split_once('\n').unwrap().1).unwrap()
    }
}

/// The text with what differs from run to run replaced: times, durations and cursors.
fn timeless(text: &str) -> String {
    let line = |line: &str| {
        let words = line.split(' ').map(|word| {
            let is_time =
                word.len() >= 20 && word.starts_with("20") && word.ends_with('Z') && !word.starts_with("2024");
            if is_time { "TIME".to_owned() } else { word.to_owned() }
        });
        let line = words.collect::<Vec<_>>().join(" ");
        match (line.find(" ms: "), line.split_once("--after ")) {
            (Some(end), _) => {
                let start = line[..end].rfind(' ').unwrap();
                format!("{} N{}", &line[..start], &line[end..])
            }
            (None, Some((before, _))) => format!("{before}--after CURSOR"),
            (None, None) => line,
        }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn payloads_are_sent_and_what_came_of_them_is_read() {
    let world = World::new();
    let mut told = String::new();
    let mut tell = |arguments: &[&str], code: i32| {
        told.push_str(&world.told(arguments, code));
        told.push('\n');
    };
    for payload in ["1-pending", "2-captured", "3-authorized", "4-odd"] {
        tell(&["send", "--source", "standard", &format!("payloads/{payload}.json")], 0);
    }
    tell(&["send", "--source", "standard", "payloads"], 0);
    tell(&["entity", "list"], 0);
    tell(&["entity", "list", "--source", "stripe"], 0);
    tell(&["entity", "show", "standard/payment/pay_1"], 0);
    tell(&["entity", "show", "standard/payment/pay_2"], 1);
    tell(&["log", "list"], 0);
    tell(&["log", "list", "--outcome", "stale"], 0);
    tell(&["log", "list", "--entity", "standard/payment/pay_1", "--rule", "created"], 0);
    tell(&["log", "list", "--moves", "--limit", "1"], 0);
    tell(&["log", "list", "--outcome", "stail"], 1);
    tell(&["dead-letter", "list"], 0);
    snapshot("session", &told);
}

#[test]
fn a_dead_letter_is_shown_replayed_and_discarded() {
    let world = World::new();
    world.told(&["send", "--source", "standard", "payloads/4-odd.json"], 0);
    let list = world.json(&["dead-letter", "list"]);
    let position = list["items"][0]["position"].as_str().unwrap().to_owned();
    let shown = world.told(&["dead-letter", "show", &position], 0);
    assert!(shown.contains("state `held` is not declared in machine `payment`"), "{shown}");
    assert!(shown.contains(&payment("held", 30)), "the body is shown as it came: {shown}");
    // One that is none is told, and is no hindrance to the others.
    let replayed = world.told(&["dead-letter", "replay", "999.0", &position], 1);
    assert!(replayed.contains(&format!("{position} is pending again, at ")), "{replayed}");
    assert!(replayed.contains("[dead_letter_not_found, HTTP 404]"), "{replayed}");
    let again = world.json(&["dead-letter", "list"])["items"][0]["position"].as_str().unwrap().to_owned();
    let gone = world.told(&["dead-letter", "discard", &position], 1);
    assert!(gone.contains("[dead_letter_not_found, HTTP 404]"), "{gone}");
    world.told(&["send", "--source", "standard", "odd.json"], 0);
    let list = world.json(&["dead-letter", "list"]);
    let other = list["items"][1]["position"].as_str().unwrap();
    let done = world.json(&["dead-letter", "discard", &again, other]);
    assert_eq!((done[1]["command"].as_str(), done[1]["by"].as_str()), (Some("discard"), Some("operator")));
    let half = world.told(&["dead-letter", "discard", "1.0", &again], 1);
    assert!(half.contains("no dead letter stands at 1.0"), "{half}");
    assert_eq!(world.json(&["dead-letter", "list"])["items"], serde_json::json!([]));
}

#[test]
fn what_is_forged_or_stale_is_refused_and_told() {
    let world = World::new();
    let secret = world.folder.path().join("other.txt");
    std::fs::write(secret, "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n").unwrap();
    let payload = "payloads/1-pending.json";
    let forged = ["send", "--source", "standard", "--secret-file", "other.txt", payload];
    let told = world.told(&forged, 1);
    assert!(told.contains("401 signature_mismatch  payloads/1-pending.json: "), "{told}");
    assert!(told.contains("1 delivery in N ms: 1 refused (401 signature_mismatch)"), "{told}");
    world.told(&[&forged[..], &["--allow-refused"]].concat(), 0);
    let old = world.told(&["send", "--source", "standard", "--at", "2026-01-01T00:00:00Z", payload], 1);
    assert!(old.contains("401 timestamp_too_old"), "{old}");
    let off = Cli::within(world.folder.path()).with("PADDLE_WEBHOOK_SECRET", "pdl_ntfset_0123456789").run(&[
        "send",
        "--server",
        &format!("http://{}", world.server.address()),
        "--source",
        "paddle",
        payload,
    ]);
    assert_eq!(off.code, 1);
    assert!(off.out.contains("404 source_not_found"), "{}", off.out);
}

#[test]
fn recorded_payloads_that_share_an_id_are_sent_with_new_ones() {
    let world = World::new();
    let event = |object: &str| {
        format!(
            r#"{{ "id":"evt_same", "object":"event","type":"charge.succeeded","created":1700000000,"livemode":true,
            "data":{{"object":{{"id":"{object}","status":"succeeded","amount":1.50}}}} }}"#
        )
    };
    let folder = world.folder.path().join("stripe");
    std::fs::create_dir(&folder).unwrap();
    for object in ["ch_1", "ch_2", "ch_3"] {
        std::fs::write(folder.join(format!("{object}.json")), event(object)).unwrap();
    }
    let send = |more: &[&str]| {
        let address = format!("http://{}", world.server.address());
        let fixed = ["send", "--source", "stripe", "--server", &address, "--json", "stripe"];
        let ran = world.cli().with("STRIPE_WEBHOOK_SECRET", STRIPE_SECRET).run(&[&fixed, more].concat());
        assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
        let lines = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines: Vec<_> = lines.collect();
        (lines, ran.err)
    };
    let outcomes = |lines: &[Value]| {
        lines.iter().map(|line| line["events"][0]["outcome"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (same, _) = send(&[]);
    assert_eq!(outcomes(&same), ["accepted", "conflict", "conflict"]);
    let (new, summary) = send(&["--new-ids", "--repeat", "2", "--shuffle", "--seed", "7", "--concurrency", "4"]);
    assert_eq!(outcomes(&new), ["accepted"; 6]);
    assert!(summary.starts_with("6 deliveries in "), "{summary}");
    let files = |lines: &[Value]| lines.iter().map(|line| line["file"].to_string()).collect::<Vec<_>>();
    let (again, _) = send(&["--new-ids", "--repeat", "2", "--shuffle", "--seed", "7"]);
    assert_eq!(files(&new), files(&again), "a seed repeats its order");
    world.server.settle();
    let charges = world.json(&["entity", "list", "--kind", "charge"]);
    assert_eq!(charges["items"].as_array().unwrap().len(), 3);
    assert_eq!(charges["items"][0]["state"], "succeeded");
    std::fs::write(world.folder.path().join("bare.json"), "{}").unwrap();
    let address = format!("http://{}", world.server.address());
    let bare = ["send", "--source", "stripe", "--new-ids", "bare.json", "--server", &address];
    let said = world.cli().with("STRIPE_WEBHOOK_SECRET", STRIPE_SECRET).run(&bare).err;
    assert_eq!(said, "bare.json: no event id stands at `/id`; it is sent as it is\n");
}

#[test]
fn a_store_is_checked_and_its_view_rebuilt() {
    let World { folder, server } = World::new();
    let cli = Cli::within(folder.path()).with("STANDARD_WEBHOOK_SECRET", STANDARD_SECRET);
    let address = format!("http://{}", server.address());
    assert_eq!(cli.run(&["send", "--server", &address, "--source", "standard", "payloads"]).code, 0);
    server.settle();
    let locked = cli.run(&["store", "check"]);
    assert_eq!(locked.code, 1);
    assert!(locked.err.contains("[data_locked]"), "{}", locked.err);
    server.kill();

    let sound = cli.run(&["store", "check"]);
    assert_eq!((sound.code, sound.err.as_str()), (0, ""));
    assert!(sound.out.starts_with("the store in data is sound\nrecords "), "{}", sound.out);
    let json: Value = serde_json::from_str(&cli.run(&["store", "check", "--json"]).out).unwrap();
    assert_eq!(
        (json["ok"].as_bool(), json["events"].as_u64(), json["entities"].as_u64()),
        (Some(true), Some(4), Some(1))
    );

    std::fs::write(folder.path().join("data/view/db"), "garbage").unwrap();
    let damaged = cli.run(&["store", "check"]);
    assert_eq!((damaged.code, damaged.out.as_str()), (1, ""));
    assert!(damaged.err.contains("[store_corrupt]") && damaged.err.contains("store rebuild"), "{}", damaged.err);
    let rebuilt = cli.run(&["store", "rebuild"]);
    assert!(rebuilt.code == 0 && rebuilt.out.starts_with("the store in data has a new view\n"), "{rebuilt:?}");
    assert_eq!(cli.run(&["store", "check"]).out, sound.out);
    let none = cli.run(&["store", "check", "--data", "nowhere"]);
    assert_eq!(none.code, 1);
    assert!(none.err.contains("no store is there"), "{}", none.err);
}

#[test]
fn moves_are_followed_as_they_come() {
    let world = World::new();
    let mut follower = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["log", "list", "--follow", "--json", "--key-file", "data/operator.key", "--server"])
        .arg(format!("http://{}", world.server.address()))
        .current_dir(world.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(follower.stdout.take().unwrap()));
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap()["to"].clone();
    world.told(&["send", "--source", "standard", "payloads/1-pending.json"], 0);
    assert_eq!(next(), "pending");
    world.told(&["send", "--source", "standard", "payloads/2-captured.json"], 0);
    assert_eq!(next(), "captured");
    signal(follower.id(), "INT");
    let output = follower.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("next: --after "));
}

#[test]
fn a_server_says_where_it_is_and_ends_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_tollgate"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data", "data", "--json"])
        .current_dir(folder.path())
        .env("STANDARD_WEBHOOK_SECRET", STANDARD_SECRET)
        .env_remove("STRIPE_WEBHOOK_SECRET")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut greeting = String::new();
    let mut out = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut greeting).unwrap();
    let greeting: Value = serde_json::from_str(&greeting).unwrap();
    let address = greeting["address"].as_str().unwrap();
    assert_eq!(greeting["sources"], serde_json::json!(["standard"]));
    assert_eq!(greeting["operator_key"], "data/operator.key");
    let cli = Cli::within(folder.path());
    let list = ["entity", "list", "--key-file", "data/operator.key", "--server", address];
    cli.check(&list, 0, "no entity is known\n", "");

    let second = cli.run(&["serve", "--listen", "127.0.0.1:0", "--data", "data"]);
    assert_eq!(second.code, 1);
    assert!(second.err.contains("[data_locked]"), "{}", second.err);
    let taken = cli.run(&["serve", "--listen", address.trim_start_matches("http://"), "--data", "other"]);
    assert_eq!(taken.code, 1);
    assert!(taken.err.contains("[listen_failed]"), "{}", taken.err);

    let key = cli.run(&["key", "create", "auditor", "--data", "data"]).out;
    std::fs::write(folder.path().join("auditor.key"), key).unwrap();
    until(|| cli.run(&["entity", "list", "--key-file", "auditor.key", "--server", address]).code == 0);

    signal(server.id(), "TERM");
    let output = server.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("STRIPE_WEBHOOK_SECRET` is not set") && log.contains("stopped"), "{log}");
}

fn signal(process: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits until something holds: a server looks at its keys once a second.
fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "it never held");
        std::thread::sleep(Duration::from_millis(100));
    }
}
