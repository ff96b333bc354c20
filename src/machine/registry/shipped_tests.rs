//! What the shipped machines say, as facts a reader can check against the provider's documentation.

use super::Registry;
use crate::machine::spec::ambiguous_happenings;
use crate::machine::{Machine, Place};

/// Checks facts of a machine, one a line:
/// `a -> b` an edge, `a -/> b` no edge, `a < b` b strictly ahead, `a ~ b` each reaches the other,
/// `a | b` neither reaches the other.
fn check(name: &str, facts: &[&str]) {
    let registry = Registry::shipped();
    let machine = registry.get(&name.into()).unwrap();
    let place = |state: &str| machine.place(&state.into()).unwrap_or_else(|| panic!("`{state}` is not in `{name}`"));
    for fact in facts {
        let words: Vec<&str> = fact.split(' ').collect();
        let [a, relation, b] = words[..] else { panic!("`{fact}` is no fact") };
        assert!(holds(machine, place(a), relation, place(b)), "`{fact}` does not hold in `{name}`");
    }
}

fn holds(machine: &Machine, a: Place, relation: &str, b: Place) -> bool {
    match relation {
        "->" => machine.has_edge(a, b),
        "-/>" => !machine.has_edge(a, b),
        "<" => machine.is_strictly_ahead(b, a),
        "~" => machine.reaches(a, b) && machine.reaches(b, a),
        "|" => !machine.reaches(a, b) && !machine.reaches(b, a),
        _ => panic!("`{relation}` is no relation"),
    }
}

/// The names of a machine's states with a mark.
fn marked(machine: &Machine, is_marked: impl Fn(&crate::machine::StateSpec) -> bool) -> String {
    let names = machine.states().iter().filter(|state| is_marked(state)).map(|state| state.name.as_str());
    names.collect::<Vec<_>>().join(" ")
}

#[test]
fn initial_and_terminal_states_are_these() {
    let table = [
        ("credit_wallet", "active low depleted", "closed"),
        ("flexprice/wallet", "active", "closed"),
        ("paddle/adjustment", "pending_approval approved", "rejected reversed"),
        ("paddle/subscription", "trialing active", "canceled"),
        ("paddle/transaction", "draft ready billed", "completed canceled"),
        ("payment", "pending authorized captured failed", "settled failed voided"),
        ("stripe/charge", "pending succeeded failed", "succeeded failed"),
        ("stripe/checkout_payment", "unpaid paid no_payment_required", "paid no_payment_required"),
        ("stripe/checkout_session", "open", "complete expired"),
        ("stripe/dispute", "warning_needs_response needs_response", "warning_closed won lost prevented"),
        ("stripe/invoice", "draft", "paid void deleted"),
        (
            "stripe/payment_intent",
            "requires_payment_method requires_confirmation requires_action processing requires_capture succeeded \
             canceled",
            "succeeded canceled",
        ),
        ("stripe/refund", "pending requires_action succeeded failed canceled", "failed canceled"),
        ("stripe/subscription", "incomplete trialing active", "incomplete_expired canceled"),
    ];
    let registry = Registry::shipped();
    let found: Vec<_> = registry
        .iter()
        .map(|machine| (machine.name().to_string(), marked(machine, |s| s.initial), marked(machine, |s| s.terminal)))
        .collect();
    let table = table.map(|(name, initial, terminal)| (name.to_owned(), initial.to_owned(), terminal.to_owned()));
    assert_eq!(found, table);
}

#[test]
fn only_a_deleted_invoice_is_gone() {
    let registry = Registry::shipped();
    let gone: Vec<_> = registry.iter().filter_map(|machine| Some((machine.name().as_str(), machine.gone()?))).collect();
    assert_eq!(gone, [("stripe/invoice", &"deleted".into())]);
}

#[test]
fn no_edge_leads_out_of_a_terminal_state_of_a_shipped_machine() {
    for machine in Registry::shipped().iter() {
        for transition in machine.transitions() {
            let from = machine.place(&transition.from).unwrap();
            assert!(!machine.is_terminal(from), "{} -> {} in {}", transition.from, transition.to, machine.name());
        }
    }
}

#[test]
fn every_machine_and_every_state_says_what_it_means() {
    for machine in Registry::shipped().iter() {
        assert!(!machine.doc().is_empty(), "{}", machine.name());
        for state in machine.states() {
            assert!(!state.doc.is_empty(), "{} in {}", state.name, machine.name());
        }
    }
}

#[test]
fn happenings_are_these_and_each_leads_to_one_state() {
    let registry = Registry::shipped();
    let mut found = Vec::new();
    for machine in registry.iter() {
        assert_eq!(ambiguous_happenings(machine), [], "{}", machine.name());
        found.extend(machine.happenings().map(|event| {
            let (_, to) = machine.happening(event)[0];
            format!("{}: {event} -> {}", machine.name(), machine.state(to).unwrap().name)
        }));
    }
    assert_eq!(
        found,
        [
            "credit_wallet: wallet.closed -> closed",
            "credit_wallet: wallet.frozen -> frozen",
            "payment: payment.authorized -> authorized",
            "payment: payment.captured -> captured",
            "payment: payment.failed -> failed",
            "payment: payment.settled -> settled",
            "payment: payment.voided -> voided",
        ]
    );
}

#[test]
fn stripe_subscription_recovers_and_never_returns_to_incomplete() {
    check(
        "stripe/subscription",
        &[
            "incomplete -> active",
            "incomplete -> trialing",
            "incomplete -> incomplete_expired",
            "incomplete -> canceled",
            "incomplete -/> unpaid",
            "incomplete -/> paused",
            "trialing -> active",
            "trialing -> canceled",
            "trialing -> past_due",
            "trialing -> paused",
            "active -> trialing",
            "active -> past_due",
            "active -> paused",
            "past_due -> active",
            "past_due -> unpaid",
            "past_due -> paused",
            "unpaid -> active",
            "unpaid -> canceled",
            "paused -> active",
            "paused -> past_due",
            "active ~ past_due",
            "active ~ trialing",
            "active ~ unpaid",
            "active ~ paused",
            "incomplete < active",
            "incomplete < trialing",
            "incomplete < canceled",
            "active < canceled",
            "unpaid < canceled",
            "incomplete < incomplete_expired",
            "active | incomplete_expired",
            "canceled | incomplete_expired",
            "canceled -/> active",
        ],
    );
}

#[test]
fn stripe_invoice_can_be_paid_after_it_was_written_off() {
    check(
        "stripe/invoice",
        &[
            "draft -> open",
            "draft -> paid",
            "draft -> deleted",
            "draft -/> void",
            "draft < void",
            "open -> paid",
            "open -> void",
            "open -> uncollectible",
            "open -/> draft",
            "open | deleted",
            "open < uncollectible",
            "uncollectible -> paid",
            "uncollectible -> void",
            "uncollectible -/> open",
            "paid | void",
            "paid | deleted",
        ],
    );
}

#[test]
fn stripe_payment_intent_goes_on_after_a_failed_attempt() {
    check(
        "stripe/payment_intent",
        &[
            "requires_payment_method -> succeeded",
            "requires_payment_method -> requires_action",
            "requires_payment_method -> canceled",
            "requires_confirmation -> requires_payment_method",
            "requires_action -> requires_payment_method",
            "requires_action -> requires_confirmation",
            "processing -> requires_payment_method",
            "requires_capture -> requires_payment_method",
            "requires_capture -> processing",
            "requires_capture -> succeeded",
            "requires_capture -> canceled",
            "processing -> canceled",
            "requires_payment_method ~ processing",
            "requires_confirmation ~ requires_capture",
            "requires_action < succeeded",
            "processing < canceled",
            "succeeded | canceled",
            "succeeded -/> requires_payment_method",
        ],
    );
}

#[test]
fn stripe_charge_refund_dispute_and_checkout_are_these() {
    check(
        "stripe/charge",
        &["pending -> succeeded", "pending -> failed", "succeeded | failed", "failed -/> succeeded"],
    );
    check(
        "stripe/refund",
        &[
            "pending -> succeeded",
            "pending -> failed",
            "pending -> canceled",
            "requires_action -> canceled",
            "pending ~ requires_action",
            "succeeded -> failed",
            "succeeded < failed",
            "succeeded | canceled",
            "failed -/> succeeded",
        ],
    );
    check(
        "stripe/dispute",
        &[
            "warning_needs_response -> warning_under_review",
            "warning_needs_response -> needs_response",
            "warning_under_review -> needs_response",
            "warning_under_review -> warning_closed",
            "warning_needs_response -> warning_closed",
            "needs_response -> under_review",
            "needs_response -> lost",
            "under_review -> won",
            "under_review -> lost",
            "warning_needs_response < needs_response",
            "warning_needs_response < won",
            "needs_response -/> warning_needs_response",
            "needs_response | warning_closed",
            "won | lost",
        ],
    );
    check("stripe/checkout_session", &["open -> complete", "open -> expired", "complete | expired"]);
    check(
        "stripe/checkout_payment",
        &["unpaid -> paid", "unpaid -> no_payment_required", "paid | no_payment_required", "paid -/> unpaid"],
    );
}

#[test]
fn paddle_machines_are_these() {
    check(
        "paddle/subscription",
        &[
            "trialing -> active",
            "trialing -> past_due",
            "trialing -> paused",
            "trialing -> canceled",
            "active -> past_due",
            "past_due -> active",
            "past_due -> paused",
            "paused -> active",
            "paused -> past_due",
            "active ~ paused",
            "active ~ past_due",
            "trialing < active",
            "trialing < paused",
            "paused < canceled",
            "active -/> trialing",
        ],
    );
    check(
        "paddle/transaction",
        &[
            "draft -> ready",
            "draft -/> past_due",
            "draft -/> canceled",
            "draft < canceled",
            "ready -> paid",
            "ready -> billed",
            "billed -> paid",
            "billed -> past_due",
            "past_due -> paid",
            "past_due -> completed",
            "past_due -> canceled",
            "paid -> completed",
            "paid -/> canceled",
            "past_due < paid",
            "billed < past_due",
            "completed | canceled",
        ],
    );
    check(
        "paddle/adjustment",
        &[
            "pending_approval -> approved",
            "pending_approval -> rejected",
            "approved -> reversed",
            "approved -/> rejected",
            "approved | rejected",
            "pending_approval < reversed",
        ],
    );
}

#[test]
fn wallets_can_be_frozen_and_released_until_they_are_closed() {
    check("flexprice/wallet", &["active ~ frozen", "active -> closed", "frozen -> closed", "frozen < closed"]);
    check(
        "credit_wallet",
        &[
            "active ~ low",
            "active ~ depleted",
            "active ~ frozen",
            "active -> depleted",
            "depleted -> active",
            "frozen -> active",
            "frozen -> low",
            "frozen -> depleted",
            "frozen < closed",
            "depleted < closed",
        ],
    );
}

#[test]
fn a_payment_only_moves_forward() {
    check(
        "payment",
        &[
            "pending -> authorized",
            "pending -> captured",
            "authorized -> captured",
            "captured -> settled",
            "authorized -> voided",
            "authorized -> failed",
            "captured -> failed",
            "captured -> voided",
            "pending -/> settled",
            "pending < authorized",
            "authorized < captured",
            "captured < settled",
            "settled | failed",
            "failed | voided",
            "settled -/> failed",
        ],
    );
}
