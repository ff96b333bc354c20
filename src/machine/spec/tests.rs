use super::*;
use crate::domain::StateName;
use crate::machine::{OnDivergence, OnGap, Policies};

pub(super) const GOOD: &str = r#"name = "shop/order"
version = 3
doc = "An order."
states = [
  { name = "new", initial = true, doc = "Just placed." },
  { name = "paid" },
  { name = "done", terminal = true },
  { name = "gone", terminal = true, gone = true },
]
transitions = [
  { from = ["new"], to = "paid", event = "order.paid" },
  { from = ["paid"], to = "done" },
  { from = ["new", "paid"], to = "gone" },
]
"#;

pub(super) fn parse_order(text: &str) -> Result<Machine, Vec<Problem>> {
    parse("order.toml", text, &MachineName::new("shop/order"))
}

/// The problems of a text, one a line; empty if it is good.
fn problems(text: &str) -> String {
    let found = parse_order(text).err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Checks what is said of the good file after each (old, new) replacement.
fn check(edits: &[(&str, &str)], expected: &[&str]) {
    let mut text = GOOD.to_owned();
    for (old, new) in edits {
        assert!(text.contains(old), "nothing to replace: {old}");
        text = text.replacen(old, new, 1);
    }
    let expected: Vec<String> = expected.iter().map(|line| format!("order.toml:{line}")).collect();
    assert_eq!(problems(&text), expected.join("\n"), "in\n{text}");
}

#[test]
fn a_good_file_becomes_a_machine() {
    let machine = parse_order(GOOD).unwrap();
    assert_eq!((machine.name().as_str(), machine.version(), machine.doc()), ("shop/order", 3, "An order."));
    let states: Vec<_> = machine.states().iter().map(|s| (s.name.as_str(), s.initial, s.terminal, s.gone)).collect();
    let expected = [
        ("new", true, false, false),
        ("paid", false, false, false),
        ("done", false, true, false),
        ("gone", false, true, true),
    ];
    assert_eq!(states, expected);
    assert_eq!(machine.states()[0].doc, "Just placed.");
    let edges: Vec<_> = machine
        .transitions()
        .iter()
        .map(|t| (t.from.as_str(), t.to.as_str(), t.event.as_ref().map(StateName::as_str)))
        .collect();
    let expected =
        [("new", "paid", Some("order.paid")), ("paid", "done", None), ("new", "gone", None), ("paid", "gone", None)];
    assert_eq!(edges, expected);
    assert_eq!(machine.policies(), Policies::default());
    assert_eq!(machine.sha256(), digest(GOOD));
}

#[test]
fn the_example_of_the_module_is_good() {
    let lines = include_str!("mod.rs").lines().skip_while(|line| *line != "//! ```toml").skip(1);
    let example: Vec<_> = lines
        .map_while(|line| line.strip_prefix("//! ").or(line.strip_prefix("//!")))
        .take_while(|line| *line != "```")
        .collect();
    assert_eq!(problems(&example.join("\n")), "");
}

#[test]
fn policies_are_read() {
    let text = format!("{GOOD}[policies]\non_gap = \"accept\"\non_divergence = \"accept\"\n");
    let expected = Policies { on_gap: OnGap::Accept, on_divergence: OnDivergence::Accept };
    assert_eq!(parse_order(&text).unwrap().policies(), expected);
    let text = format!("{GOOD}[policies]\non_gap = \"fetch\"\non_divergence = \"flag\"\n");
    assert_eq!(parse_order(&text).unwrap().policies(), Policies::default());
}

#[test]
fn the_other_toml_forms_of_the_same_file_are_read() {
    let tables = r#"
        name = "shop/order"
        version = 0x1
        policies.on_gap = "accept"
        [[states]]
        name = 'new'
        initial = true
        [[states]]
        name = 'done'
        terminal = true
        [[transitions]]
        from = ["new"]
        to = "done"
    "#;
    assert_eq!(problems(tables), "");
    assert_eq!(problems(&GOOD.replace('\n', "\r\n")), "");
    assert_eq!(problems(&format!("\u{feff}{GOOD}")), "");
}

#[test]
fn legal_oddities_are_no_problems() {
    // A terminal state may have edges, a first state may be final, two happenings may share an edge.
    check(&[("{ from = [\"paid\"], to = \"done\" }", "{ from = [\"paid\", \"gone\"], to = \"done\" }")], &[]);
    check(&[("{ name = \"done\", terminal", "{ name = \"done\", initial = true, terminal")], &[]);
    let twice =
        "{ from = [\"new\"], to = \"paid\", event = \"a\" },\n  { from = [\"new\"], to = \"paid\", event = \"b\" }";
    check(&[("{ from = [\"new\"], to = \"paid\", event = \"order.paid\" }", twice)], &[]);
    let single = "name = \"shop/order\"\nversion = 1\nstates = [{ name = \"on\", initial = true, terminal = true }]\n";
    assert_eq!(problems(&format!("{single}transitions = []\n")), "");
}

#[test]
fn keys_and_types_are_checked_one_by_one() {
    check(&[("doc = \"An", "docs = \"An")], &["3:1: key `docs` is unknown at the top level (did you mean `doc`?)"]);
    check(
        &[("doc = \"An", "owner = \"An")],
        &[
            "3:1: key `owner` is unknown at the top level: use `name`, `version`, `doc`, `states`, `transitions` or `policies`",
        ],
    );
    check(
        &[("terminal = true }", "final = true }")],
        &[
            "7:12: state `done` has no way out: declare it terminal or give it an edge",
            "7:20: key `final` is unknown in a state: use `name`, `initial`, `terminal`, `gone` or `doc`",
        ],
    );
    check(&[("event =", "events =")], &["11:34: key `events` is unknown in a transition (did you mean `event`?)"]);
    check(&[("version = 3\n", "")], &["1:1: key `version` is missing at the top level"]);
    check(
        &[("name = \"paid\"", "doc = \"\"")],
        &[
            "6:3: key `name` is missing in a state",
            "11:26: state `paid` is not declared in `shop/order`",
            "12:13: state `paid` is not declared in `shop/order`",
            "13:20: state `paid` is not declared in `shop/order`",
        ],
    );
    check(&[(", to = \"done\"", "")], &["12:3: key `to` is missing in a transition"]);
    check(&[("version = 3", "version = \"3\"")], &["2:11: `version` must be a whole number, not a string"]);
    check(&[("version = 3", "version = 3.5")], &["2:11: `version` must be a whole number, not a fraction"]);
    check(&[("\"An order.\"", "2026-01-01")], &["3:7: `doc` must be a string, not a time"]);
    check(&[("initial = true", "initial = 1")], &["5:29: `initial` must be true or false, not a whole number"]);
    check(&[("event = \"order.paid\"", "event = []")], &["11:42: `event` must be a string, not an array"]);
    check(
        &[("  { name = \"paid\" },", "  \"paid\",  { name = \"paid\" },")],
        &["6:3: `states` must be an array of tables, not a string"],
    );
    check(&[("[\"paid\"]", "{}")], &["12:12: `from` must be an array of strings, not a table"]);
    check(&[("[\"paid\"]", "[\"paid\", true]")], &["12:21: `from` must be an array of strings, not true or false"]);
    check(
        &[("[\"paid\"]", "\"paid\"")],
        &["12:12: `from` must be an array of strings, not a string: write `from = [\"paid\"]`"],
    );
    check(&[("[\"paid\"]", "[]")], &["12:12: `from` names no state: list at least one"]);
}

#[test]
fn names_and_versions_are_checked() {
    check(
        &[("shop/order", "shop/orders")],
        &["1:8: machine name `shop/orders` does not match the file's path: it must be `shop/order`"],
    );
    check(
        &[("shop/order", "the shop")],
        &[
            "1:8: machine name `the shop` is malformed: use 1 to 64 of `A-Z a-z 0-9 _ - . /`, starting with a letter or digit",
        ],
    );
    check(
        &[("\"order.paid\"", "\"\"")],
        &["11:42: event name `` is malformed: use 1 to 64 of `A-Z a-z 0-9 _ - . /`, starting with a letter or digit"],
    );
    // A malformed name still counts as declared, and is shown without what would garble a terminal.
    check(
        &[("\"done\"", "\"d\\u001bne\""), ("to = \"done\"", "to = \"d\\u001bne\"")],
        &[
            r"7:12: state name `d\u{1b}ne` is malformed: use 1 to 64 of `A-Z a-z 0-9 _ - . /`, starting with a letter or digit",
        ],
    );
    check(
        &[("version = 3", "version = 0")],
        &["2:11: version `0` is out of range: use a whole number from 1 to 4294967295"],
    );
    check(
        &[("version = 3", "version = -7")],
        &["2:11: version `-7` is out of range: use a whole number from 1 to 4294967295"],
    );
    check(
        &[("version = 3", "version = 0x1_0000_0000")],
        &["2:11: version `0x100000000` is out of range: use a whole number from 1 to 4294967295"],
    );
}

#[test]
fn states_are_checked() {
    check(
        &[("{ name = \"paid\" }", "{ name = \"paid\" }, { name = \"paid\" }")],
        &["6:31: state `paid` is already declared on line 6"],
    );
    check(
        &[(", initial = true", "")],
        &["4:10: no state is initial: mark those in which an entity may be seen first with `initial = true`"],
    );
    check(
        &[("{ from = [\"paid\"], to = \"done\" }", "{ from = [\"done\"], to = \"paid\" }")],
        &["7:12: state `done` is unreachable from every initial state: give it an edge or mark it `initial = true`"],
    );
    check(
        &[("\"done\", terminal = true", "\"done\"")],
        &["7:12: state `done` has no way out: declare it terminal or give it an edge"],
    );
    check(
        &[("\"gone\", terminal = true", "\"gone\"")],
        &[
            "8:12: gone state `gone` is not terminal: add `terminal = true`",
            "8:12: state `gone` has no way out: declare it terminal or give it an edge",
        ],
    );
    check(
        &[("\"done\", terminal = true", "\"done\", terminal = true, gone = true")],
        &["8:12: state `gone` cannot be gone as well: `done` on line 7 is, and a machine has one gone state"],
    );
    let empty = "name = \"shop/order\"\nversion = 1\nstates = []\ntransitions = []\n";
    assert_eq!(problems(empty), "order.toml:3:10: no state is declared: list at least one");
    let many: Vec<_> = (0..=STATES_MAX).map(|n| format!("{{ name = \"s{n}\" }}")).collect();
    assert_eq!(
        problems(&empty.replace("states = []", &format!("states = [{}]", many.join(", ")))),
        "order.toml:3:10: 257 states are declared: at most 256 are allowed"
    );
}

#[test]
fn transitions_are_checked() {
    check(
        &[("to = \"done\"", "to = \"don\"")],
        &["12:27: state `don` is not declared in `shop/order` (did you mean `done`?)"],
    );
    check(
        &[("[\"paid\"]", "[\"Paid\"]")],
        &["12:13: state `Paid` is not declared in `shop/order` (did you mean `paid`?)"],
    );
    check(&[("to = \"done\"", "to = \"shipped\"")], &["12:27: state `shipped` is not declared in `shop/order`"]);
    check(
        &[("[\"paid\"]", "[\"paid\", \"done\"]")],
        &["12:21: transition from `done` to itself: the current state is never a move, so drop it"],
    );
    check(
        &[("[\"paid\"]", "[\"paid\", \"new\", \"paid\"]")],
        &["12:28: transition from `paid` to `done` is already declared on line 12"],
    );
    check(
        &[(
            "{ from = [\"paid\"], to = \"done\" }",
            "{ from = [\"paid\"], to = \"done\" },\n  { from = [\"new\"], to = \"paid\" }",
        )],
        &["13:13: transition from `new` to `paid` is declared on line 11 too, and one of the two names no event: \
         any edge may be observed, so keep the one with the event"],
    );
}

#[test]
fn policies_are_checked() {
    let policies = |lines: &str| problems(&format!("{GOOD}{lines}"));
    assert_eq!(policies("policies = \"accept\"\n"), "order.toml:15:12: `policies` must be a table, not a string");
    assert_eq!(
        policies("[policies]\non_gap = \"acept\"\non_divergence = \"fetch\"\non_tie = 1\n"),
        "order.toml:16:10: `on_gap` cannot be `acept`: use `fetch` or `accept` (did you mean `accept`?)\n\
         order.toml:17:17: `on_divergence` cannot be `fetch`: use `flag` or `accept`\n\
         order.toml:18:1: key `on_tie` is unknown in `policies`: use `on_gap` or `on_divergence`"
    );
}

#[test]
fn syntax_errors_are_told_with_their_place_and_without_what_they_only_seem_to_cause() {
    check(
        &[("name = \"shop/order\"", "name = \"shop/order")],
        &["1:19: invalid TOML: invalid basic string, expected `\"`"],
    );
    check(&[("version = 3", "version = 3\nversion = 4")], &["3:1: invalid TOML: duplicate key"]);
    check(
        &[("[\"paid\"]", "[\"paid\"")],
        &[
            "12:21: invalid TOML: invalid boolean, expected `true`",
            "14:2: invalid TOML: unclosed inline table, expected `}`",
        ],
    );
    // The other mistakes are told as well.
    check(
        &[("doc = ", "dog = "), ("terminal = true }", "terminal = yes }"), ("event = \"order.paid\"", "event = 1")],
        &[
            "3:1: key `dog` is unknown at the top level (did you mean `doc`?)",
            "7:31: invalid TOML: string values must be quoted, expected literal string",
            "11:42: `event` must be a string, not a whole number",
        ],
    );
    // What slipped out of its table is not taken for an unknown key.
    assert_eq!(
        problems(&format!("{GOOD}[policies\non_gap = \"accept\"\n")),
        "order.toml:15:10: invalid TOML: unclosed table, expected `]`"
    );
}

#[test]
fn every_problem_of_a_file_is_told_at_once() {
    check(
        &[
            ("shop/order", "shop/odrer"),
            ("version = 3", "version = 0"),
            ("{ name = \"new\", initial", "{ name = \"new\", inital"),
            ("{ name = \"paid\" }", "{ name = \"paid\" }, { name = \"lost\" }"),
            ("to = \"done\"", "to = \"doen\""),
            ("[\"new\", \"paid\"]", "[\"new\", \"paid\", \"gone\"]"),
        ],
        &[
            "1:8: machine name `shop/odrer` does not match the file's path: it must be `shop/order`",
            "2:11: version `0` is out of range: use a whole number from 1 to 4294967295",
            "5:19: key `inital` is unknown in a state (did you mean `initial`?)",
            "6:31: state `lost` is unreachable from every initial state: give it an edge or mark it `initial = true`",
            "6:31: state `lost` has no way out: declare it terminal or give it an edge",
            "12:27: state `doen` is not declared in `shop/order` (did you mean `done`?)",
            "13:28: transition from `gone` to itself: the current state is never a move, so drop it",
        ],
    );
}

#[test]
fn a_place_is_counted_in_characters() {
    check(
        &[("\"Just placed.\" }", "\"Größe ✓\", dok = \"\" }")],
        &["5:52: key `dok` is unknown in a state (did you mean `doc`?)"],
    );
}

#[test]
fn an_empty_file_lacks_every_required_key() {
    let expected = ["name", "version", "states", "transitions"]
        .map(|key| format!("order.toml:1:1: key `{key}` is missing at the top level"));
    assert_eq!(problems(""), expected.join("\n"));
}

#[test]
fn a_happening_with_several_targets_is_found() {
    let machine = parse_order(GOOD).unwrap();
    assert_eq!(ambiguous_happenings(&machine), []);
    let text = GOOD.replace("to = \"done\" }", "to = \"done\", event = \"order.paid\" }");
    let machine = parse_order(&text).unwrap();
    let targets = ["paid", "done"].map(Into::into).to_vec();
    assert_eq!(ambiguous_happenings(&machine), [AmbiguousHappening { event: "order.paid".into(), targets }]);
}
