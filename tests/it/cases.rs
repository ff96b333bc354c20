//! What has broken products that take in webhooks, and the story or test that shows what happens here.
//!
//! A row stays when a test is renamed or moved: this table then fails until it names the new place.

use std::path::{Path, PathBuf};

/// A case in a sentence, and where it is tested: `stories/<machine>/<story>`, or `<file>: <test function>`.
type Case = (&'static str, &'static str);

const ORDER: [Case; 27] = [
    ("the creation arrives after the update and says incomplete", "stories/stripe_subscription/created_after_updated"),
    ("the creation is one second older than the update", "stories/stripe_subscription/created_after_updated"),
    ("creation and activation fall into one second", "stories/stripe_subscription/created_and_active_same_second"),
    ("a notice has the time of a change", "stories/stripe_subscription/trial_will_end_same_second"),
    ("a draft arrives after the open invoice", "stories/stripe_invoice/draft_after_open"),
    ("a slow worker writes an old state after a new one", "stories/stripe_subscription/burst"),
    (
        "an event arrives while its entity waits for an answer",
        "tests/it/turns.rs: while_one_entity_waits_for_an_answer_its_events_queue_up_and_other_entities_go_on",
    ),
    ("an old event arrives after the state was looked up", "stories/stripe_subscription/stale_after_fetch"),
    ("an update that contradicts what is known is taken on trust", "stories/stripe_subscription/ended_and_stale"),
    ("the state changes twice within one second", "stories/stripe_subscription/same_second_tie"),
    ("fields change twice within one second", "stories/stripe_subscription/same_second_fields"),
    ("paid overtakes completed by a second and a half", "stories/paddle_transaction/microseconds"),
    ("two changes lie a microsecond apart", "stories/paddle_transaction/one_microsecond"),
    ("three events arrive in every order", "stories/stripe_subscription/every_order_of_three"),
    (
        "any history, in any order, with strict keys",
        "tests/laws/main.rs: with_strict_keys_every_order_of_delivery_ends_in_the_last_state_without_an_upstream",
    ),
    (
        "any history, delayed and repeated, with reads that lag",
        "tests/laws/delays.rs: delayed_and_repeated_deliveries_end_in_the_last_state_although_reads_lag_and_clocks_differ",
    ),
    ("a copy of another object lies inside an event", "stories/stripe_subscription/embedded_copy"),
    ("an earlier step arrives two seconds after a later one", "stories/payment/authorized_after_captured"),
    ("a failed payment is told after the subscription is gone", "stories/stripe_subscription/ended_and_stale"),
    ("the end is known before the beginning", "stories/stripe_subscription/deleted_before_created"),
    ("a failure arrives after the success", "stories/stripe_payment_intent/late_failure_after_success"),
    ("a failure arrives where nobody can be asked", "stories/payment/late_failure"),
    ("the first try fails after the second succeeded", "stories/stripe_charge/each_try_is_its_own"),
    ("events are reordered within a second on their way", "stories/payment/same_instant"),
    ("the order of receipt must be told later", "src/http/dto/tests.rs: an_entry_says_everything_in_words"),
    ("event ids are taken for an order", "stories/stripe_subscription/every_order_of_three"),
    ("a payment arrives before the creation of its invoice", "stories/stripe_invoice/created_after_paid"),
];

const BACKWARD: [Case; 10] = [
    ("a success after a failure is ignored", "stories/stripe_payment_intent/failure_is_not_final"),
    ("a customer who pays late stays locked out", "stories/stripe_subscription/past_due_and_back"),
    ("a resumed subscription stays paused", "stories/paddle_subscription/paused_and_resumed"),
    ("a released wallet stays frozen", "stories/credit_wallet/frozen_and_released"),
    ("an invoice that was written off cannot be paid", "stories/stripe_invoice/written_off_then_paid"),
    ("a late payment of what was past due is lost", "stories/paddle_transaction/past_due_then_paid"),
    ("a refund that succeeded cannot fail", "stories/stripe_refund/succeeded_then_failed"),
    ("an inquiry cannot become a chargeback", "stories/stripe_dispute/inquiry_escalates"),
    ("a session is completed as it expires", "stories/stripe_checkout_session/expired_and_completed"),
    ("a later step seems to be older by its time", "stories/stripe_invoice/paid_seems_older"),
];

const MISSING: [Case; 20] = [
    ("an invoice that is only foreseen has no id", "stories/stripe_invoice/upcoming_has_no_id"),
    ("the customer is null", "stories/stripe_invoice/null_customer"),
    ("the invoice of a charge is null", "stories/stripe_charge/no_invoice_and_no_refunds"),
    ("the event carries no object", "src/source/tests/mapping.rs: what_names_no_tracked_entity_is_recorded"),
    ("the entity is unknown here, and is looked up", "stories/stripe_invoice/draft_after_open"),
    ("the entity is unknown here and, as yet, there", "stories/stripe_subscription/wrong_key"),
    ("one bad item spoils a batch", "src/source/tests/batches.rs: items_come_in_order_and_a_bad_one_fails_alone"),
    ("an enumeration has a new word", "src/source/tests/mapping.rs: parsing_is_loose"),
    ("a state is new", "stories/payment/unknown_state"),
    ("the API version of the event is another", "stories/stripe_subscription/shapes_of_two_versions"),
    ("the list of refunds is left out", "stories/stripe_charge/no_invoice_and_no_refunds"),
    ("a field is cleared by null", "stories/stripe_subscription/collection_paused"),
    ("a scheduled change is called off by null", "stories/paddle_subscription/scheduled_change"),
    ("what holds a field is cleared by null", "stories/stripe_payment_intent/error_is_cleared"),
    ("a wrong key finds nothing twice", "stories/stripe_invoice/paid_is_not_deleted"),
    ("a verified body is no JSON", "stories/payment/verified_but_unreadable"),
    ("a draft is deleted, and its payload says draft", "stories/stripe_invoice/deleted_draft"),
    ("an object is gone without a word", "stories/stripe_invoice/draft_that_vanished"),
    ("a key of the test mode finds nothing", "stories/stripe_subscription/wrong_key"),
    ("an answer is no JSON, or about another object", "stories/stripe_subscription/answer_of_no_use"),
];

const REPETITION: [Case; 24] = [
    ("an event comes again, and its copies differ", "stories/payment/duplicates"),
    ("two sources use the same id", "stories/paddle_subscription/same_id_from_two_sources"),
    ("an id comes again with other content", "stories/payment/same_id_other_content"),
    ("creation and update run at once and make two rows", "stories/stripe_subscription/burst"),
    (
        "two writers commit at once",
        "src/store/contract/deciding.rs: commits_of_one_entity_that_race_are_decided_one_by_one",
    ),
    (
        "an event is marked as done before it is done",
        "tests/it/kill.rs: a_server_killed_at_random_loses_nothing_and_decides_nothing_twice",
    ),
    ("the upstream fails for a while", "stories/stripe_subscription/upstream_down"),
    ("the upstream fails for hours", "stories/stripe_subscription/upstream_down_too_long"),
    (
        "the upstream is asked ever more while it is down",
        "tests/it/turns.rs: a_call_that_a_resting_breaker_holds_back_is_no_attempt",
    ),
    (
        "a crash leaves an event half done",
        "tests/it/kill.rs: a_server_killed_at_random_loses_nothing_and_decides_nothing_twice",
    ),
    (
        "a replay is cut off by a crash",
        "src/store/contract/appending.rs: a_replay_is_pending_at_the_commands_position_with_its_earlier_tries",
    ),
    (
        "a replayed event fails again",
        "src/store/contract/appending.rs: a_replay_that_fails_again_is_a_dead_letter_at_the_commands_position",
    ),
    (
        "a fault of our own is swallowed, or stops everything",
        "tests/it/turns.rs: an_event_that_breaks_the_decider_is_put_off_and_given_up_and_the_others_go_on",
    ),
    ("two updates say the same", "stories/stripe_subscription/told_twice"),
    ("an end is told twice", "stories/stripe_subscription/told_twice"),
    ("each state is told twice", "stories/paddle_transaction/renewal"),
    ("each state is told twice, last one first", "stories/paddle_transaction/renewal_reversed"),
    ("events have no id", "src/source/tests/mapping.rs: an_event_without_an_id_is_known_by_its_bytes"),
    ("events were missed, and nobody sends them again", "stories/stripe_subscription/missed_events"),
    ("a step was missed where nobody can be asked", "stories/payment/missed_step"),
    ("a read lags behind the event", "stories/stripe_subscription/lagging_read"),
    ("a read lags behind an event that says nothing", "stories/stripe_subscription/hint_before_the_read"),
    ("a read lags behind fields that are known", "stories/stripe_subscription/fields_before_the_read"),
    ("each event of a backlog is looked up alone", "stories/stripe_subscription/waiting_events_share_an_answer"),
];

const DOOR: [Case; 26] = [
    (
        "escapes and accents are written anew before the signature is checked",
        "src/source/tests/schemes.rs: published_vectors_verify_and_are_what_sign_writes",
    ),
    (
        "surrogates are rewritten",
        "src/source/tests/door.rs: a_delivery_keeps_the_raw_bytes_and_the_headers_that_matter",
    ),
    ("one byte differs", "src/source/tests/laws.rs: one_changed_byte_is_refused"),
    ("the body is read before it is verified", "stories/payment/forged_and_replayed"),
    (
        "a signature is too short, or no code at all",
        "src/source/tests/door.rs: the_stripe_header_is_read_as_stripe_reads_it",
    ),
    (
        "a list of signatures has other schemes in it",
        "src/source/tests/door.rs: the_list_of_standard_webhooks_is_read_as_its_libraries_read_it",
    ),
    (
        "a bad signature is answered as our own fault",
        "src/http/tests/door.rs: each_fault_of_a_request_has_its_status_and_code",
    ),
    ("a tolerance is too tight for the way to here", "src/config/tests.rs: a_key_of_a_shipped_source_is_set_alone"),
    (
        "the tolerances are not those of the providers",
        "src/source/tests/shipped.rs: shipped_tolerances_are_those_of_the_providers",
    ),
    ("retries carry their first time", "src/source/tests/schemes.rs: each_scheme_has_the_window_that_its_provider_has"),
    (
        "ids are forgotten while a signature still counts",
        "src/config/tests.rs: what_is_wrong_is_said_with_its_origin_and_the_nearest_right_name",
    ),
    ("an old request is sent again by somebody else", "stories/payment/forged_and_replayed"),
    ("a request is dated ahead", "stories/payment/forged_and_replayed"),
    (
        "lenient decoding makes a near-empty key",
        "src/source/tests/secrets.rs: secrets_that_cannot_be_right_are_refused_at_once",
    ),
    ("a secret ends in a line break", "src/source/tests/secrets.rs: secrets_that_cannot_be_right_are_refused_at_once"),
    ("a secret is meant in several ways", "src/source/tests/schemes.rs: a_secret_may_be_meant_in_several_ways"),
    ("a secret is being rolled", "src/source/tests/door.rs: any_secret_may_match_and_the_answer_says_which"),
    (
        "a rotation sends several codes",
        "src/source/tests/door.rs: every_h1_of_a_paddle_rotation_is_tried_with_every_secret",
    ),
    (
        "the secret of another endpoint is used",
        "src/source/tests/door.rs: any_secret_may_match_and_the_answer_says_which",
    ),
    ("a secret is written in hexadecimal", "src/source/tests/secrets.rs: a_hexadecimal_secret_is_decoded_or_refused"),
    (
        "headers come under either of two names",
        "src/source/tests/door.rs: svix_headers_may_come_under_either_name_and_the_id_is_the_verified_one",
    ),
    (
        "signed parts can be cut in another place",
        "src/source/tests/door.rs: the_signed_bytes_cannot_be_cut_in_another_place",
    ),
    (
        "a delivery must be passed on as it came",
        "src/source/tests/door.rs: a_delivery_keeps_the_raw_bytes_and_the_headers_that_matter",
    ),
    (
        "a body has no bound before it is verified",
        "src/http/tests/door.rs: each_fault_of_a_request_has_its_status_and_code",
    ),
    (
        "what is verified is refused, and comes again for days",
        "src/http/tests/door.rs: what_is_verified_is_200_whatever_it_says",
    ),
    ("a replayed dead letter is refused for its age", "stories/payment/unknown_state"),
];

const SHAPES_AND_MONEY: [Case; 21] = [
    ("the subscription of an invoice has moved", "stories/stripe_invoice/subscription_moved"),
    ("both places of the subscription are filled", "stories/stripe_invoice/subscription_moved"),
    ("the end of the period has moved", "stories/stripe_subscription/shapes_of_two_versions"),
    ("two refunds overtake each other", "stories/stripe_charge/refunds_add_up_at_stripe"),
    ("a sum so far is added to the sum so far", "stories/stripe_charge/refunds_add_up_at_stripe"),
    ("a refund reopens what was paid", "stories/stripe_invoice/refund_leaves_it_paid"),
    ("a void invoice has a successor", "stories/stripe_invoice/replaced_by_a_revision"),
    ("a failed payment becomes a state", "stories/stripe_invoice/payment_failed_then_paid"),
    ("money becomes a state", "stories/stripe_dispute/money_is_no_state"),
    ("a capture becomes a state", "stories/stripe_charge/capture_is_a_field"),
    ("a notice of the period's end becomes the end", "stories/stripe_subscription/cancel_at_period_end"),
    ("an amount passes through a float", "stories/payment/exact_amounts"),
    ("test mode and live mode share an id", "stories/stripe_subscription/test_and_live"),
    ("accounts of a platform share an id", "stories/stripe_subscription/accounts"),
    ("an event only names its object", "stories/stripe_subscription/thin_event"),
    ("the name of an event and its payload disagree", "stories/flexprice_wallet/payload_beats_the_name"),
    ("events have no time", "stories/flexprice_wallet/no_event_time"),
    ("a checkout is complete and not paid", "stories/stripe_checkout_session/paid_later"),
    ("a delayed payment fails", "stories/stripe_checkout_session/debit_fails"),
    ("an upstream contradicts what is known, and heals", "stories/stripe_subscription/upstream_behind"),
    ("an event is older than the provider keeps its own", "stories/stripe_subscription/missed_events"),
];

#[test]
fn every_case_has_its_story_or_test() {
    let all = [&ORDER[..], &BACKWARD, &MISSING, &REPETITION, &DOOR, &SHAPES_AND_MONEY].concat();
    let missing: Vec<_> = all.iter().filter(|(_, place)| !is_there(place)).collect();
    assert!(missing.is_empty(), "nothing tests these any more: {missing:#?}");
}

fn is_there(place: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if let Some(story) = place.strip_prefix("stories/") {
        return root.join("tests/scenarios").join(format!("{story}.toml")).is_file();
    }
    let (file, function) = place.split_once(": ").unwrap_or_else(|| panic!("`{place}` is neither a story nor a test"));
    let text = std::fs::read_to_string(PathBuf::from(root).join(file)).unwrap_or_default();
    is_test(&text, function)
}

/// Whether a function of this name stands in the text, and runs: marked as a test, or named by the store's contract.
fn is_test(text: &str, function: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_it = |line: &str| {
        let named = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        named.and_then(|rest| rest.strip_prefix(function)).is_some_and(|rest| rest.starts_with('('))
    };
    let is_mark = |line: &&str| ["#[test]", "#[tokio::test]", "#[actix_web::test]"].contains(line);
    let contract = text.split_once("contract!").and_then(|(_, rest)| rest.split(['}', ')']).next()).unwrap_or_default();
    let in_contract = contract.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|name| name == function);
    lines
        .iter()
        .enumerate()
        .filter(|(_, line)| is_it(line))
        .any(|(at, _)| in_contract || lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).any(&is_mark))
}

#[test]
fn only_what_is_marked_is_a_test() {
    let check = |text: &str, expected: bool| assert_eq!(is_test(text, "it_works"), expected, "{text}");
    check("#[test]\nfn it_works() {", true);
    check("    #[tokio::test]\n    #[cfg(unix)]\n    async fn it_works() {", true);
    check("fn it_works() {", false);
    check("#[test]\nfn other() {}\nfn it_works() {", false);
    check("#[test]\nfn it_works_too() {", false);
    check("contract! {\n    other,\n    it_works,\n}\nasync fn it_works(rig: &mut Rig) {", true);
    check("contract! {\n    other\n}\nasync fn it_works(rig: &mut Rig) {", false);
}
