use std::time::Duration;

use super::*;

/// A source that is whole, for what the shipped ones should not be bent for.
pub(super) const ACME: &str = r#"
[sources.acme]
secrets_env = "ACME_SECRET"

[sources.acme.signature]
headers = [{ signature = "acme-signature" }]
parse = { form = "plain", prefix = "sha256=" }
key_decode = ["utf8"]
signed = "{body}"
encoding = "hex"
window = "none"

[sources.acme.event]
id = ["/id"]
type = ["/type"]
time = ["/at"]
time_unit = "rfc3339"
"#;

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::Builder::new().prefix("tollgate").suffix(".toml").tempfile().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::of(variables.iter().copied())
}

pub(super) fn load(
    text: &str,
    variables: &[(&str, &str)],
    flags: &[(&'static str, &'static str, &str)],
) -> Result<Config, String> {
    let file = file(text);
    let flags = flags.iter().map(|(name, key, value)| Flag { name, key, value: (*value).to_owned() }).collect();
    let inputs = Inputs { file: Some(file.path().to_owned()), environment: environment(variables), flags };
    Config::load(&inputs).map_err(|problems| {
        let lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        lines.join("\n").replace(&file.path().display().to_string(), "tollgate.toml")
    })
}

#[test]
fn the_default_file_is_complete_and_fits() {
    let config = Config::load(&Inputs::default()).unwrap();
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.server.body_limit, Size(1 << 20));
    assert_eq!(config.engine.clock_skew, Span(Duration::from_secs(5)));
    assert_eq!(config.engine.confirm_after, Span(Duration::from_secs(15)));
    assert_eq!(
        (config.engine.retry.first.to_string(), config.engine.retry.max.to_string()),
        ("5s".into(), "1h".into())
    );
    assert_eq!(config.engine.retry.attempts, 12);
    let (ours, theirs) = (config.store.options(), crate::store::Options::default());
    assert_eq!((ours.shards, ours.journal.segment_bytes), (Some(64), theirs.journal.segment_bytes));
    assert_eq!(
        (ours.waiting, ours.window_events, ours.seen_for),
        (theirs.waiting, theirs.window_events, theirs.seen_for)
    );
    let names: Vec<_> = config.sources.keys().map(SourceName::as_str).collect();
    assert_eq!(names, ["flexprice", "paddle", "standard", "stripe"]);
}

#[test]
fn a_file_overrides_defaults_the_environment_a_file_and_a_flag_the_environment() {
    let listen = |variables: &[(&str, &str)], flags: &[(&'static str, &'static str, &str)]| {
        load("server.listen = \"127.0.0.1:1\"", variables, flags).unwrap().server.listen.port()
    };
    let variable = [("TOLLGATE__SERVER__LISTEN", "127.0.0.1:2")];
    assert_eq!(listen(&[], &[]), 1);
    assert_eq!(listen(&variable, &[]), 2);
    assert_eq!(listen(&variable, &[("--listen", "server.listen", "127.0.0.1:3")]), 3);
}

#[test]
fn a_key_of_a_shipped_source_is_set_alone() {
    let variables = [
        ("TOLLGATE__SOURCES__STRIPE__SIGNATURE__TOLERANCE_S", "60"),
        ("TOLLGATE__SOURCES__STRIPE__RETRY__FIRST", "200ms"),
    ];
    let config = load("", &variables, &[]).unwrap();
    let stripe = config.sources.get("stripe").unwrap();
    assert_eq!(stripe.spec.signature.tolerance_s, Some(60));
    assert!(!stripe.spec.event.id.is_empty(), "the rest stays");
    let retry = config.engine.settings(&config.sources).schedule(&SourceName::new("stripe"));
    assert_eq!((retry.first, retry.attempts), (Duration::from_millis(200), 12));
}

#[test]
fn a_folder_of_sources_joins_and_overrides_the_shipped_ones() {
    let folder = tempfile::tempdir().unwrap();
    let acme = ACME.replace("sources.acme.", "").replace("[sources.acme]", "name = \"acme\"");
    std::fs::write(folder.path().join("acme.toml"), acme).unwrap();
    std::fs::write(folder.path().join("stripe.toml"), "secrets_env = \"OTHER\"\n").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not a source").unwrap();
    let path = folder.path().display().to_string();
    let config = load("", &[("TOLLGATE__PATHS__SOURCES", &path)], &[]).unwrap();
    assert_eq!(config.sources.get("stripe").unwrap().spec.secrets_env.as_deref(), Some("OTHER"));
    assert_eq!(config.sources.get("acme").unwrap().spec.secrets_env.as_deref(), Some("ACME_SECRET"));
}

#[test]
fn what_is_wrong_is_said_with_its_origin_and_the_nearest_right_name() {
    let check = |text: &str, expected: &str| assert_eq!(load(text, &[], &[]).unwrap_err(), expected, "{text}");
    check(
        "[server]\nlisen = \"127.0.0.1:1\"",
        "file `tollgate.toml`: `server.lisen`: it is unknown (did you mean `listen`?)",
    );
    check("[sever]\nlisten = 1", "file `tollgate.toml`: `sever`: it is unknown (did you mean `server`?)");
    check(
        "engine.clock_skew = 5",
        "file `tollgate.toml`: `engine.clock_skew`: expected a duration such as `5s`, `200ms` or `1h`, \
         found signed int `5`",
    );
    check(
        "engine.clock_skew = \"5\"",
        "file `tollgate.toml`: `engine.clock_skew`: expected a duration such as `5s`, `200ms` or `1h`, \
         found string \"5\"",
    );
    check(
        "telemetry.format = \"jsn\"",
        "file `tollgate.toml`: `telemetry.format`: `jsn` is not one of `text`, `json` (did you mean `json`?)",
    );
    check("server.listen = \"here\"", "file `tollgate.toml`: `server.listen`: invalid socket address syntax");
    check("server.keep_alive = \"500ms\"", "file `tollgate.toml`: `server.keep_alive`: it must be at least `1s`");
    let of_store = |key: &str, must: &str| format!("file `tollgate.toml`: `store.{key}`: it must be {must}");
    check("store.view_cache = \"512KiB\"", &of_store("view_cache", "`1MiB` to `1024GiB`"));
    check("store.waiting = 9000000000000000000", &of_store("waiting", "1 to 1000000"));
    check("store.waiting = 0", &of_store("waiting", "1 to 1000000"));
    check("store.window_events = 0", &of_store("window_events", "1000 to 100000000"));
    let small = "store.frame_max = \"512KiB\"\nserver.body_limit = \"1KiB\"";
    check(small, &of_store("frame_max", "`1MiB` to `1GiB`"));
    for (key, must) in [
        ("server.connections_max", "1 to 1000000"),
        ("server.workers", "0 to 1024"),
        ("engine.actors_max", "1 to 10000000"),
        ("engine.fetches_max", "1 to 10000"),
    ] {
        let expected = format!("file `tollgate.toml`: `{key}`: it must be {must}");
        check(&format!("{key} = 9000000000000000000"), &expected);
    }
    check(
        "server.bodies_max = \"512KiB\"",
        "file `tollgate.toml`: `server.bodies_max`: it must be at least `server.body_limit`, or no body of that size \
         could come in",
    );
    check(
        "telemetry.level = \"loud\"",
        "file `tollgate.toml`: `telemetry.level`: `loud` is no log level: `loud` is unknown; use `error`, `warn`, \
         `info`, `debug`, `trace`, `off`, or `info,tollgate=debug`",
    );
    check("store.shards = 0", "file `tollgate.toml`: `store.shards`: it must be 1 to 512");
    check("engine.retry.first = \"2h\"", "file `tollgate.toml`: `engine.retry`: `first` must be at most `max`");
    check(
        "sources.stripe.signature.tolerance = 1",
        "file `tollgate.toml`: `sources.stripe.signature.tolerance`: it is unknown (did you mean `tolerance_s`?)",
    );
    check(
        "sources.stripe.signature.tolerance_s = 3888000",
        "file `tollgate.toml`: `sources.stripe.signature.tolerance_s`: twice 3888000 s is not below \
         `store.seen_for`, 90d; lower one, raise the other",
    );
    check("a = \nb = 1", "file `tollgate.toml`, line 1: string values must be quoted, expected literal string");
}

#[test]
fn variables_and_flags_are_named_too() {
    let check = |variable: (&str, &str), expected: &str| assert_eq!(load("", &[variable], &[]).unwrap_err(), expected);
    check(
        ("TOLLGATE__SERVER__LISTNE", "127.0.0.1:1"),
        "environment variable `TOLLGATE__SERVER__LISTNE`: `server.listne`: it is unknown (did you mean `listen`?)",
    );
    check(
        ("TOLLGATE__SOURCES__STRIP__SECRETS_ENV", "X"),
        "environment variable `TOLLGATE__SOURCES__STRIP__SECRETS_ENV`: `sources.strip`: `signature` is missing \
         (did you mean `stripe`?)",
    );
    let error = load("", &[], &[("--listen", "server.listen", "here")]).unwrap_err();
    assert_eq!(error, "flag `--listen`: `server.listen`: invalid socket address syntax");
}

#[test]
fn a_variable_with_too_few_underscores_is_noticed() {
    let check = |name: &str, slip: bool| {
        let slips = environment(&[(name, "x")]).slips();
        assert_eq!(slips.len(), usize::from(slip), "{slips:?}");
        slips.into_iter().next().unwrap_or_default()
    };
    assert_eq!(
        check("TOLLGATE_SERVER_LISTEN", true),
        "environment variable `TOLLGATE_SERVER_LISTEN` sets nothing; two underscores stand between the parts: \
         `TOLLGATE__SERVER__LISTEN`"
    );
    assert!(check("TOLLGATE_STORE_FRAME_MAX", true).ends_with("`TOLLGATE__STORE__FRAME_MAX`"));
    check("TOLLGATE_SOURCES_STRIPE_SECRETS_ENV", true);
    check("TOLLGATE_KEY", false);
    check("TOLLGATE__SERVER__LISTEN", false);
    check("SERVER_LISTEN", false);
}

#[test]
fn all_sections_and_sources_are_checked_at_once() {
    let text = "[server]\nlisen = 1\n[engine]\nticks = 1\n[sources.paddle]\nx = 1\n[sources.stripe]\ny = 1";
    assert_eq!(load(text, &[], &[]).unwrap_err().lines().count(), 4);
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let inputs = Inputs { file: Some("nowhere/tollgate.toml".into()), ..Inputs::default() };
    let problems = Config::load(&inputs).unwrap_err();
    assert!(problems[0].to_string().starts_with("file `nowhere/tollgate.toml`: it can't be read: "), "{problems:?}");
}

#[test]
fn a_source_is_on_with_a_secret_and_off_without() {
    let config = load(ACME, &[], &[]).unwrap();
    let on = |variables: &[(&str, &str)]| {
        let sources = config.sources(&environment(variables)).unwrap();
        (sources.on.contains_key("acme"), sources.off.iter().find(|off| off.source.as_str() == "acme").cloned())
    };
    let (is_on, off) = on(&[]);
    assert!(!is_on);
    assert_eq!(off.unwrap().why, "`ACME_SECRET` is not set; set it to the source's signing secret");
    assert!(on(&[("ACME_SECRET", "a-secret-of-at-least-sixteen-bytes")]).0);
    assert!(on(&[("ACME_SECRET", "a-secret-of-at-least-sixteen-bytes,another-secret-for-the-rotation")]).0);
}

#[test]
fn secrets_come_from_a_file_too() {
    let secrets = file("# the old one\na-secret-of-at-least-sixteen-bytes not_after=2030-01-01T00:00:00Z\n");
    let named = format!("secrets_file = {:?}", secrets.path().display().to_string());
    let config = load(&ACME.replace("secrets_env = \"ACME_SECRET\"", &named), &[], &[]).unwrap();
    assert!(config.sources(&environment(&[])).unwrap().on.contains_key("acme"));
    let config = load(&ACME.replace("secrets_env = \"ACME_SECRET\"", "secrets_file = \"nowhere\""), &[], &[]).unwrap();
    let problems = config.sources(&environment(&[])).unwrap_err();
    assert!(problems[0].to_string().starts_with("file `nowhere`: `sources.acme.secrets_file`: it can't be read"));
    assert_eq!(problems[0].code, &code::SECRETS_FILE_INVALID);
    for empty in ["", "\n", "# one a line\n"] {
        let secrets = file(empty);
        let named = format!("secrets_file = {:?}", secrets.path().display().to_string());
        let config = load(&ACME.replace("secrets_env = \"ACME_SECRET\"", &named), &[], &[]).unwrap();
        let problems = config.sources(&environment(&[])).unwrap_err();
        assert_eq!(problems[0].code, &code::SECRETS_FILE_INVALID, "{empty:?}");
        assert!(problems[0].message.starts_with("it holds no secret"), "{problems:?}");
    }
}

#[test]
fn a_bad_secret_is_refused_when_it_is_read_and_never_printed() {
    let config = load(ACME, &[], &[]).unwrap();
    for bad in ["", " padded-secret-of-enough-bytes", "short", "a-secret-of-at-least-sixteen-bytes,"] {
        let environment = environment(&[("ACME_SECRET", bad)]);
        let problems = config.sources(&environment).unwrap_err();
        assert_eq!(problems[0].code, &code::SECRET_INVALID, "{bad}");
        let text = format!("{problems:?} {environment:?}");
        assert!(bad.is_empty() || !text.contains(bad), "{text}");
    }
}

#[test]
fn a_bad_api_key_is_refused() {
    let upstream = "\n[sources.acme.upstream]\nbase_url = \"https://api.acme.test\"\napi_key_env = \"ACME_KEY\"\n\
        auth = \"bearer\"\nrate_per_s = 10\ntimeout_ms = 1000\n";
    let config = load(&format!("{ACME}{upstream}"), &[], &[]).unwrap();
    for bad in ["", "key ", "key\nkey", "k\u{e9}y"] {
        let variables = [("ACME_SECRET", "a-secret-of-at-least-sixteen-bytes"), ("ACME_KEY", bad)];
        assert_eq!(config.sources(&environment(&variables)).unwrap_err()[0].code, &code::SECRET_INVALID, "{bad:?}");
    }
}

#[test]
fn what_is_shown_reads_back_and_holds_no_secret() {
    let upstream = "\n[sources.acme.upstream]\nbase_url = \"https://user:hunter2@api.acme.test/v1\"\n\
        auth = \"none\"\nrate_per_s = 10\ntimeout_ms = 1000\nheaders = { x-api-key = \"hunter3\", accept = \"json\" }\n";
    let config = load(&format!("{ACME}{upstream}"), &[], &[]).unwrap();
    let secret = "a-secret-of-at-least-sixteen-bytes";
    // Without its secret the source is off, and nobody has found fault with its address.
    let off = config.sources(&environment(&[])).unwrap();
    let shown = config.show(&off).toml();
    for hidden in ["hunter2", "hunter3"] {
        assert!(!shown.contains(hidden), "{hidden} in {shown}");
    }
    for seen in ["https://********@api.acme.test/v1", "accept = \"json\"", "clock_skew = \"5s\"", "door = \"off: "] {
        assert!(shown.contains(seen), "{seen} not in {shown}");
    }
    let config = load(ACME, &[], &[]).unwrap();
    let sources = config.sources(&environment(&[("ACME_SECRET", secret)])).unwrap();
    let shown = config.show(&sources).toml();
    assert!(shown.contains("door = \"on\"") && !shown.contains(secret), "{shown}");
    let again: toml::Table = toml::from_str(&shown).unwrap();
    assert_eq!(again["server"]["listen"].as_str(), Some("127.0.0.1:8080"));
    assert!(!format!("{config:?} {sources:?}").contains(secret));
}

#[test]
fn no_color_is_obeyed() {
    assert!(environment(&[]).allows_color());
    assert!(environment(&[("NO_COLOR", "")]).allows_color());
    assert!(!environment(&[("NO_COLOR", "1")]).allows_color());
}
