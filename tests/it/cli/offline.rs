//! Commands that need no server: signing, configuration, machines, keys.

use std::path::Path;

use serde_json::Value;

use super::{Cli, Ran, snapshot};

const STRIPE_BODY: &str = "{\n  \"id\": \"evt_test_webhook\",\n  \"object\": \"event\"\n}";
const STRIPE_SIGNATURE: &str = "t=1700000000,v1=4f1cd7feda9826e746b7d482c4badebb657398df1099e1046364f6196a230150";

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn a_payload_is_signed_as_the_provider_signs_it() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "event.json", STRIPE_BODY);
    let cli = Cli::within(folder.path()).with("STRIPE_WEBHOOK_SECRET", "whsec_test_secret");
    let at = ["sign", "--source", "stripe", "--at", "1700000000", "event.json"];
    let header = format!("stripe-signature: {STRIPE_SIGNATURE}\n");
    cli.check(&at, 0, &header, "");
    cli.check(&["sign", "--source", "stripe", "--at", "2023-11-14T22:13:20Z", "event.json"], 0, &header, "");
    let stdin = cli.run_with(&["sign", "--source", "stripe", "--at", "1700000000", "-"], STRIPE_BODY.as_bytes());
    assert_eq!(stdin.out, header);
    let json: Value = serde_json::from_str(&cli.run(&[&at[..], &["--json"]].concat()).out).unwrap();
    assert_eq!(json["headers"]["stripe-signature"], STRIPE_SIGNATURE);
    assert_eq!((json["source"].as_str(), json["signed_at"].as_str()), (Some("stripe"), Some("2023-11-14T22:13:20Z")));
    snapshot("sign-curl", &cli.run(&[&at[..], &["--curl"]].concat()).out);
}

#[test]
fn a_message_is_signed_with_its_id() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "event.json", r#"{"test": 2432232314}"#);
    let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    let expected = format!(
        "webhook-id: {id}\nwebhook-timestamp: 1614265330\n\
         webhook-signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\n"
    );
    write(folder.path(), "secret.txt", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n");
    let arguments = ["sign", "--source", "standard", "--at", "1614265330", "--secret-file", "secret.txt", "event.json"];
    let cli = Cli::within(folder.path());
    cli.check(&[&arguments[..], &["--id", id]].concat(), 0, &expected, "");
    // Without an id of its own, the same bytes have the same one.
    let first = cli.run(&arguments).out;
    assert!(first.starts_with("webhook-id: msg_") && first == cli.run(&arguments).out, "{first}");
}

#[test]
fn what_cannot_be_signed_is_told_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "event.json", "{}");
    write(folder.path(), "short.txt", "short\n");
    let told = |ran: Ran| {
        assert_eq!(ran.out, "");
        format!("exit code {}\n{}", ran.code, ran.err)
    };
    let cli = Cli::within(folder.path());
    let sign = |arguments: &[&str]| told(cli.run(&[&["sign", "--source"], arguments].concat()));
    let text = [
        sign(&["stripe", "event.json"]),
        sign(&["strip", "event.json"]),
        sign(&["stripe", "--secret-file", "short.txt", "event.json"]),
        sign(&["stripe", "--secret-file", "nowhere.txt", "event.json"]),
        sign(&["stripe", "--at", "soon", "event.json"]),
        told(Cli::within(folder.path()).with("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef").run(&[
            "sign",
            "--source",
            "stripe",
            "nowhere.json",
        ])),
        told(cli.run(&["sign", "--source", "stripe", "event.json", "--json"])),
    ];
    snapshot("sign-refused", &text.join("\n"));
}

#[test]
fn a_configuration_is_told_with_its_secrets_masked() {
    let folder = tempfile::tempdir().unwrap();
    let secret = "whsec_0123456789abcdef";
    let cli = Cli::within(folder.path()).with("STRIPE_WEBHOOK_SECRET", secret);
    let ran = cli.run(&["config", "check", "--data", "elsewhere"]);
    assert_eq!((ran.code, ran.err.as_str()), (0, "the configuration can be used\n"));
    let shown: toml::Table = toml::from_str(&ran.out).unwrap();
    assert_eq!(shown["paths"]["data"].as_str(), Some("elsewhere"));
    assert!(!ran.out.contains(secret));
    let json: Value = serde_json::from_str(&cli.run(&["config", "check", "--json"]).out).unwrap();
    assert_eq!(
        (json["ok"].as_bool(), json["config"]["server"]["listen"].as_str()),
        (Some(true), Some("127.0.0.1:8080"))
    );
}

#[test]
fn everything_that_is_wrong_with_a_configuration_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "slips.toml", "[server]\nlisen = \"127.0.0.1:1\"\n[engine]\nclock_skew = 5\n");
    write(
        folder.path(),
        "parts.toml",
        "[paths]\nmachines = \"machines\"\n[sources.stripe.entities.subscription.machines.\"stripe/subscription\".override]\n\
         \"customer.subscription.paused\" = \"observed:pausd\"\n",
    );
    write(folder.path(), "machines/order.toml", "name = \"order\"\nversion = 1\ndoc = \"An order.\"\nstates = []\n");
    write(folder.path(), "fit/order.toml", ORDER);
    let cli = Cli::within(folder.path()).with("PADDLE_WEBHOOK_SECRET", " padded ");
    let told = |arguments: &[&str]| {
        let ran = cli.run(arguments);
        format!("$ tollgate {}\nexit code {}\n{}", arguments.join(" "), ran.code, ran.err)
    };
    let text = [
        told(&["config", "check", "--config", "slips.toml"]),
        told(&["serve", "--config", "slips.toml"]),
        told(&["config", "check", "--config", "parts.toml"]),
        told(&["config", "check", "--config", "nowhere.toml"]),
        told(&["machine", "check", "--config", "parts.toml", "fit"]),
        told(&["serve", "--listen", "here"]),
    ];
    snapshot("config-refused", &text.join("\n"));
    let ran = cli.run(&["config", "check", "--config", "parts.toml", "--json"]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, json["ok"].as_bool()), (2, Some(false)));
    assert!(json["problems"].as_array().unwrap().iter().any(|problem| problem["code"] == "secret_invalid"), "{json}");
}

/// A machine file that is fine.
const ORDER: &str = "name = \"order\"\nversion = 1\ndoc = \"An order.\"\n\
    states = [{ name = \"placed\", initial = true }, { name = \"paid\", terminal = true }]\n\
    transitions = [{ from = [\"placed\"], to = \"paid\", event = \"order.paid\" }]\n";

#[test]
fn machines_are_listed_checked_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "fine/order.toml", ORDER);
    let broken = ORDER.replace("to = \"paid\"", "to = \"payed\"").replace("version = 1", "version = 0");
    write(folder.path(), "broken/order.toml", &broken);
    let cli = Cli::within(folder.path());
    let list = cli.run(&["machine", "list", "--dir", "fine"]);
    assert_eq!(list.code, 0);
    snapshot("machine-list", &list.out);
    cli.check(&["machine", "check", "fine/order.toml"], 0, "1 machine is fine\n", "");
    let all = cli.run(&["machine", "check", "fine"]);
    assert_eq!((all.code, all.out.as_str()), (0, "15 machines are fine\n"), "{}", all.err);
    let broken = cli.run(&["machine", "check", "broken"]);
    assert_eq!((broken.code, broken.out.as_str()), (2, ""));
    snapshot("machine-check", &broken.err);
    let json = cli.run(&["machine", "check", "broken", "--json"]);
    let checked: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.code, json.err.as_str(), checked["ok"].as_bool()), (2, "", Some(false)));
    snapshot("machine-graph", &cli.run(&["machine", "graph", "payment"]).out);
    let graph = |format| cli.run(&["machine", "graph", "payment", "--format", format]).out;
    assert!(graph("mermaid").contains("stateDiagram-v2") && graph("dot").starts_with("digraph \"payment\""));
    cli.check(
        &["machine", "graph", "stripe/subscripton"],
        1,
        "",
        "error: no machine is named `stripe/subscripton` (did you mean `stripe/subscription`?) [machine_not_found]\n\
         fix: See `tollgate machine list`.\n",
    );
}

#[test]
fn a_command_line_that_cannot_be_read_is_told_to_programs_too() {
    let folder = tempfile::tempdir().unwrap();
    let cli = Cli::within(folder.path());
    for arguments in [
        &["--json", "sign", "--sorce", "stripe", "event.json"][..],
        &["sign", "--source", "stripe", "--at", "99999999999999", "event.json", "--json"],
        &["sign", "--source", "stripe", "--id", "", "event.json", "--json"],
        &["send", "--json"],
        &["--json"],
    ] {
        let ran = cli.run(arguments);
        let document: Value = serde_json::from_str(&ran.err).unwrap_or_else(|error| panic!("{error}: {}", ran.err));
        assert_eq!((ran.code, ran.out.as_str(), document["code"].as_str()), (2, "", Some("usage")), "{arguments:?}");
        assert!(document["details"][0].as_str().is_some_and(|detail| !detail.starts_with("error")), "{document}");
    }
    assert_eq!(cli.run(&["machine", "check", "nodir"]).code, 2);
    assert_eq!(cli.run(&["machine", "list", "--dir", "nodir"]).code, 2);
    let slip = Cli::within(folder.path()).with("TOLLGATE_SERVER_LISTEN", "127.0.0.1:1").run(&["config", "check"]);
    assert!(slip.code == 0 && slip.err.contains("`TOLLGATE__SERVER__LISTEN`"), "{}", slip.err);
}

#[test]
fn a_key_is_printed_once_listed_without_itself_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let cli = Cli::within(folder.path());
    let made = cli.run(&["key", "create", "oncall", "--scope", "read", "--scope", "operate"]);
    assert_eq!(made.code, 0, "{}", made.err);
    assert_eq!(made.err, "key `oncall` may read, operate; this is the only time it is shown\n");
    let key = made.out.trim_end();
    assert!(key.starts_with("tg_") && key.len() == 67, "{key}");
    let list = cli.run(&["key", "list", "--json"]);
    assert!(!list.out.contains(key));
    let keys: Value = serde_json::from_str(&list.out).unwrap();
    assert_eq!(keys[0]["name"], "oncall");
    assert_eq!(keys[0]["scopes"], serde_json::json!(["read", "operate"]));
    assert!(cli.run(&["key", "list"]).out.starts_with("name    scopes         created"));
    assert_eq!(cli.run(&["key", "create", "oncall"]).code, 1);
    assert_eq!(cli.run(&["key", "create", "on call"]).code, 2);
    cli.check(&["key", "revoke", "oncall"], 0, "key `oncall` is revoked\n", "");
    cli.check(
        &["key", "revoke", "oncal"],
        1,
        "",
        "error: no key is named `oncal` (did you mean `oncall`?) [key_not_found]\nfix: See `tollgate key list`.\n",
    );
    let none = cli.run(&["key", "list", "--data", "elsewhere"]);
    assert_eq!(none.out, "`elsewhere` has no keys; the first start of a server makes one\n");
}

#[test]
fn a_server_that_is_not_there_is_told() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "event.json", "{}");
    let cli =
        Cli::within(folder.path()).with("TOLLGATE_KEY", "tg_0").with("STRIPE_WEBHOOK_SECRET", "whsec_0123456789abcdef");
    // Nobody listens on port 1.
    let ran = cli.run(&["entity", "list", "--server", "http://127.0.0.1:1"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.starts_with("error: `http://127.0.0.1:1/` doesn't answer: "), "{}", ran.err);
    let ran = cli.run(&["send", "--server", "http://127.0.0.1:1", "--source", "stripe", "event.json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.starts_with("--- server_unreachable  event.json: "), "{}", ran.out);
    write(folder.path(), "keys.txt", "tg_1\ntg_2\n");
    let several = cli.run(&["entity", "list", "--key-file", "keys.txt"]);
    assert_eq!(several.code, 1);
    assert!(several.err.contains("[key_invalid]"), "{}", several.err);
    let keyless = Cli::within(folder.path()).run(&["entity", "list"]);
    assert_eq!(keyless.code, 1);
    assert!(keyless.err.contains("[key_missing]") && keyless.err.contains("data/operator.key"), "{}", keyless.err);
}
