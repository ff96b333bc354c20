//! The ladder as a table: each rule, with and without an upstream, and which rule answers first.

use std::time::Duration;

use crate::domain::{Claim, MachineState, OrderKey, StateName, TimeOf, Timestamp};

use super::ladder::{Terms, Verdict, judge};
use super::{Machine, OnDivergence, OnGap, Policies, StateSpec, TransitionSpec};

/// `draft -> open -> paid` (final), `open -> late <-> open`, `late -> lost` (final), `draft -> void` (final, may be
/// `restored`), and an island `orphan`.
fn machine(on_gap: OnGap) -> Machine {
    let state = |name: &str, initial: bool, terminal: bool| StateSpec {
        name: StateName::new(name),
        doc: String::new(),
        initial,
        terminal,
        gone: false,
    };
    let edge = |from: &str, to: &str, event: Option<&str>| TransitionSpec {
        from: StateName::new(from),
        to: StateName::new(to),
        event: event.map(StateName::new),
    };
    let states = vec![
        state("draft", true, false),
        state("open", false, false),
        state("late", false, false),
        state("paid", false, true),
        state("lost", false, true),
        state("void", false, true),
        state("restored", false, false),
        state("orphan", false, false),
    ];
    let transitions = vec![
        edge("draft", "open", Some("finalized")),
        edge("open", "paid", Some("paid")),
        edge("late", "paid", Some("paid")),
        edge("open", "late", Some("dunned")),
        edge("late", "open", Some("forgiven")),
        edge("late", "lost", Some("closed")),
        edge("draft", "void", Some("closed")),
        edge("void", "restored", None),
    ];
    let policies = Policies { on_gap, on_divergence: OnDivergence::Flag };
    Machine::build("test".into(), 1, String::new(), [0; 32], states, transitions, policies)
}

/// Reads `10` (event time in seconds), `10c` (a fetch's clock), `10o` (object), `10r` (receipt) or `v10`.
fn key(text: &str) -> OrderKey {
    if let Some(version) = text.strip_prefix('v') {
        return OrderKey::Version(version.parse().unwrap());
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let of = match &text[digits.len()..] {
        "" => TimeOf::Event,
        "c" => TimeOf::Clock,
        "o" => TimeOf::Object,
        "r" => TimeOf::Receipt,
        other => panic!("unknown time `{other}`"),
    };
    OrderKey::Time { at: Timestamp::from_secs(digits.parse().unwrap()), of }
}

/// Judges `held` (`state@key`, or `-` for an unknown entity) against `claim` (`state@key`, `!happening@key`,
/// `none@key`, `hint@key`), and says the verdict in words.
fn verdict_of(machine: &Machine, held: &str, claim: &str, upstream: bool) -> String {
    let held = (held != "-").then(|| {
        let (state, at) = held.split_once('@').unwrap();
        MachineState { state: state.into(), key: key(at), machine_version: 1, since: Timestamp::EPOCH }
    });
    let (text, at) = claim.split_once('@').unwrap();
    let claim = match (text, text.strip_prefix('!')) {
        (_, Some(happening)) => Claim::Happened(happening.into()),
        ("none", _) => Claim::None,
        ("hint", _) => Claim::Hint,
        (state, None) => Claim::Observed(state.into()),
    };
    let terms = Terms { clock_skew: Duration::from_secs(5), upstream };
    match judge(machine, held.as_ref(), &claim, key(at), terms) {
        Verdict::Take { outcome, rule, state, key } => {
            format!("{} by {}: {state} at {key}", outcome.as_str(), rule.as_str())
        }
        Verdict::Leave { outcome, rule } => format!("{} by {}", outcome.as_str(), rule.as_str()),
        Verdict::Ask(rule) => format!("ask: {}", rule.as_str()),
        Verdict::Dead(rule, reason) => format!("dead by {}: {}", rule.as_str(), reason.code()),
    }
}

/// Each row: held, claim, the verdict with an upstream, the verdict without one.
fn check(rows: &[(&str, &str, &str, &str)]) {
    let machine = machine(OnGap::Fetch);
    for (held, claim, with, without) in rows {
        assert_eq!(verdict_of(&machine, held, claim, true), short(with), "{held} <- {claim}, with an upstream");
        assert_eq!(verdict_of(&machine, held, claim, false), short(without), "{held} <- {claim}, without an upstream");
    }
}

/// `@10` stands for a time of ten seconds past the epoch.
fn short(text: &str) -> String {
    let mut out = text.to_owned();
    for secs in 0..60 {
        for (mark, of) in [("c", "clock"), ("o", "object"), ("r", "receipt"), ("", "event")] {
            let at = format!("1970-01-01T00:00:{secs:02}Z ({of})");
            if let Some(head) = out.strip_suffix(&format!("@{secs}{mark}")) {
                out = format!("{head} at {at}");
            }
        }
        if let Some(head) = out.strip_suffix(&format!("@v{secs}")) {
            out = format!("{head} at version {secs}");
        }
    }
    out
}

#[test]
fn a_claim_of_nothing_is_noted_and_a_hint_asks() {
    check(&[
        ("-", "none@10", "noted by noted", "noted by noted"),
        ("open@10", "none@20", "noted by noted", "noted by noted"),
        ("open@10", "hint@20", "ask: hint", "dead by hint: ambiguous"),
        ("-", "hint@20", "ask: hint", "dead by hint: ambiguous"),
    ]);
}

#[test]
fn a_state_or_happening_that_is_not_declared_is_a_dead_letter() {
    check(&[
        ("-", "opened@10", "dead by unknown_state: unknown_state", "dead by unknown_state: unknown_state"),
        ("open@10", "opened@5", "dead by unknown_state: unknown_state", "dead by unknown_state: unknown_state"),
        ("open@10", "!opened@5", "dead by unknown_state: unknown_state", "dead by unknown_state: unknown_state"),
    ]);
}

#[test]
fn an_unknown_entity_is_created_in_an_initial_state_or_asked_about() {
    check(&[
        ("-", "draft@10", "created by created: draft@10", "created by created: draft@10"),
        ("-", "paid@10", "ask: unknown", "created by unknown: paid@10"),
        ("-", "!finalized@10", "ask: unknown", "created by unknown: open@10"),
    ]);
}

#[test]
fn a_happening_claims_the_one_state_that_its_edges_lead_to() {
    check(&[
        ("draft@10", "!finalized@20", "advanced by advance: open@20", "advanced by advance: open@20"),
        ("open@10", "!paid@20", "advanced by advance: paid@20", "advanced by advance: paid@20"),
        ("late@10", "!closed@20", "advanced by advance: lost@20", "advanced by advance: lost@20"),
        ("draft@10", "!closed@20", "advanced by advance: void@20", "advanced by advance: void@20"),
        ("open@10", "!closed@20", "ask: no_target", "dead by no_target: ambiguous"),
        ("-", "!closed@20", "ask: no_target", "dead by no_target: ambiguous"),
    ]);
}

#[test]
fn order_that_cannot_be_told_asks_unless_the_graph_answers() {
    check(&[
        ("open@10c", "open@12", "unchanged by unsure: open@12c", "unchanged by unsure: open@12c"),
        ("open@10c", "open@8", "unchanged by unsure: open@10c", "unchanged by unsure: open@10c"),
        ("open@10c", "draft@12", "stale by unsure", "stale by unsure"),
        ("open@10c", "paid@12", "ask: unsure", "advanced by advance: paid@12"),
        ("open@10c", "late@8", "ask: unsure", "stale by older"),
        ("open@10c", "late@16", "advanced by advance: late@16", "advanced by advance: late@16"),
        ("open@10o", "late@12", "ask: unsure", "advanced by advance: late@12"),
        ("open@10o", "late@12o", "advanced by advance: late@12o", "advanced by advance: late@12o"),
        ("open@10", "late@40r", "ask: unsure", "advanced by advance: late@40r"),
        ("open@v3", "late@40", "ask: unsure", "dead by unsure: ambiguous"),
    ]);
}

#[test]
fn an_older_claim_is_stale_unless_it_lies_strictly_ahead() {
    check(&[
        ("open@10", "draft@9", "stale by older", "stale by older"),
        ("open@10", "open@9", "stale by older", "stale by older"),
        ("open@10", "late@9", "stale by older", "stale by older"),
        ("open@10", "paid@9", "ask: older", "dead by older: ambiguous"),
        ("paid@10", "open@9", "stale by older", "stale by older"),
        ("open@v7", "late@v6", "stale by older", "stale by older"),
    ]);
}

#[test]
fn the_same_state_moves_the_key_up_and_nothing_else() {
    check(&[
        ("open@10", "open@10", "unchanged by same: open@10", "unchanged by same: open@10"),
        ("open@10", "open@20", "unchanged by same: open@20", "unchanged by same: open@20"),
        ("paid@10", "paid@20", "unchanged by same: paid@20", "unchanged by same: paid@20"),
        ("open@v6", "open@v7", "unchanged by same: open@v7", "unchanged by same: open@v7"),
    ]);
}

#[test]
fn a_final_state_is_left_by_a_declared_edge_only() {
    check(&[
        ("paid@10", "open@20", "ask: terminal", "refused by terminal"),
        ("paid@10", "open@10", "ask: terminal", "refused by terminal"),
        ("paid@10", "lost@20", "ask: terminal", "refused by terminal"),
        ("void@10", "restored@20", "advanced by advance: restored@20", "advanced by advance: restored@20"),
        ("void@10", "restored@10", "advanced by advance: restored@10", "advanced by advance: restored@10"),
    ]);
}

#[test]
fn a_declared_edge_is_taken_when_newer_or_without_a_way_back() {
    check(&[
        ("draft@10", "open@10", "advanced by advance: open@10", "advanced by advance: open@10"),
        ("open@10", "late@11", "advanced by advance: late@11", "advanced by advance: late@11"),
        ("late@10", "open@11", "advanced by advance: open@11", "advanced by advance: open@11"),
        ("draft@v1", "late@v5", "advanced_gap_proven by gap: late@v5", "advanced_gap_proven by gap: late@v5"),
    ]);
}

#[test]
fn a_tie_with_a_way_back_asks_or_goes_to_the_higher_rank() {
    check(&[
        ("open@10", "late@10", "ask: tie", "advanced by tie: late@10"),
        ("late@10", "open@10", "ask: tie", "stale by tie"),
    ]);
}

#[test]
fn a_claim_strictly_behind_is_stale_at_an_equal_key_and_asked_about_when_newer() {
    check(&[
        ("open@10", "draft@10", "stale by backward", "stale by backward"),
        ("open@10", "draft@20", "ask: backward", "dead by backward: ambiguous"),
        ("open@v2", "draft@v3", "ask: backward", "dead by backward: ambiguous"),
    ]);
}

#[test]
fn a_gap_asks_or_is_accepted_when_strictly_ahead() {
    check(&[
        ("draft@10", "late@20", "ask: gap", "advanced_gap_accepted by gap: late@20"),
        ("draft@10", "paid@10", "ask: gap", "advanced_gap_accepted by gap: paid@10"),
        ("draft@10", "paid@9", "ask: older", "dead by older: ambiguous"),
    ]);
}

#[test]
fn a_machine_may_accept_gaps_although_it_could_ask() {
    let machine = machine(OnGap::Accept);
    let with = |held, claim| verdict_of(&machine, held, claim, true);
    assert_eq!(with("draft@10", "paid@20"), short("advanced_gap_accepted by gap: paid@20"));
    assert_eq!(with("draft@10", "paid@9"), "ask: older");
}

#[test]
fn states_that_do_not_reach_each_other_ask() {
    check(&[
        ("open@10", "void@20", "ask: unrelated", "dead by unrelated: ambiguous"),
        ("open@10", "orphan@10", "ask: unrelated", "dead by unrelated: ambiguous"),
        ("gone_from_the_file@10", "open@20", "ask: unrelated", "dead by unrelated: ambiguous"),
    ]);
}

/// Each row fits two rules; the one that stands first in the ladder must answer.
#[test]
fn the_first_rule_that_fits_answers() {
    check(&[
        // noted before everything, even for an entity in a state that no longer exists
        ("gone_from_the_file@10", "none@5", "noted by noted", "noted by noted"),
        // unknown_state before created, older and unsure
        ("-", "opened@1", "dead by unknown_state: unknown_state", "dead by unknown_state: unknown_state"),
        ("open@10c", "opened@10", "dead by unknown_state: unknown_state", "dead by unknown_state: unknown_state"),
        // unsure before same, terminal, advance, backward and gap
        ("paid@10c", "lost@11", "ask: unsure", "refused by terminal"),
        ("draft@10c", "late@12", "ask: unsure", "advanced_gap_accepted by gap: late@12"),
        ("draft@10c", "open@12", "ask: unsure", "advanced by advance: open@12"),
        // older before same, terminal and advance
        ("paid@10", "paid@9", "stale by older", "stale by older"),
        ("paid@10", "lost@9", "stale by older", "stale by older"),
        ("late@10", "open@9", "stale by older", "stale by older"),
        // same before terminal
        ("paid@10", "paid@11", "unchanged by same: paid@11", "unchanged by same: paid@11"),
        // terminal before backward and unrelated
        ("paid@10", "draft@11", "ask: terminal", "refused by terminal"),
        ("paid@10", "void@11", "ask: terminal", "refused by terminal"),
        // advance before gap: an edge is an edge even where a longer way exists too
        ("late@10", "paid@11", "advanced by advance: paid@11", "advanced by advance: paid@11"),
    ]);
}
