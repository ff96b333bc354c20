//! The stories that the demo plays: what is sent, what the upstream has, and how each must end.

use crate::domain::Timestamp;

/// One story.
pub(super) struct Story {
    /// What it shows.
    pub(super) title: &'static str,
    /// What goes wrong without it.
    pub(super) why: &'static str,
    /// What happens, in order.
    pub(super) acts: Vec<Act>,
    /// How it must end.
    pub(super) ends: Vec<End>,
}

/// One thing that happens.
pub(super) enum Act {
    /// A delivery, and the outcome or error code that must answer it.
    Send(Message, &'static str),
    /// The same delivery so often at the same moment: one must be accepted, the others are duplicates.
    SendAtOnce(Message, usize),
    /// The upstream has this body at this path from now on.
    Upstream(String, String),
    /// The upstream answers nothing but 503 from now on.
    Down,
    /// The upstream answers again.
    Up,
}

/// A delivery to be signed.
#[derive(Clone)]
pub(super) struct Message {
    /// The source.
    pub(super) source: &'static str,
    /// What the event is, for the reader.
    pub(super) what: String,
    /// The id header, for schemes that have one.
    pub(super) id: String,
    /// The body.
    pub(super) body: String,
    /// How long ago it was signed, in seconds.
    pub(super) signed_ago_s: u64,
    /// Whether the body is changed after signing.
    pub(super) forged: bool,
}

/// How a story must end.
pub(super) enum End {
    /// This entity (`source/kind/id`) is in this state.
    State(&'static str, &'static str),
    /// No such entity was made.
    Nothing(&'static str),
    /// The event with this id is a dead letter for this reason.
    Dead(&'static str, &'static str),
}

/// All stories, with event times before `now`.
pub(super) fn all(now: Timestamp) -> Vec<Story> {
    let at = |ago: i64| now.secs() - ago;
    let mut stories = at_the_door(&at);
    stories.extend(out_of_order(&at));
    stories.extend(ambiguous(&at));
    stories
}

/// Duplicates, forgeries, replays, and what nobody declared.
fn at_the_door(at: &dyn Fn(i64) -> i64) -> Vec<Story> {
    let captured = standard("msg_dup", "payment.captured", at(60), "pay_duplicate", "captured");
    let created = stripe_subscription("evt_burst", "created", at(60), "sub_burst", "active");
    let forged = standard("msg_forged", "payment.captured", at(60), "pay_forged", "captured");
    let old = standard("msg_old", "payment.captured", at(600), "pay_old", "captured");
    let settled = standard("msg_reused", "payment.captured", at(60), "pay_reused", "captured");
    vec![
        Story {
            title: "A duplicate",
            why: "A sender that missed an answer sends again: counted twice, it would be money twice.",
            acts: vec![
                Act::Send(captured.clone(), "accepted"),
                Act::Send(captured.clone(), "duplicate"),
                Act::Send(captured, "duplicate"),
            ],
            ends: vec![End::State("standard/payment/pay_duplicate", "captured")],
        },
        Story {
            title: "Eight duplicates at the same moment",
            why: "Two handlers that both ask \"is it there?\" before either writes make two rows.",
            acts: vec![Act::SendAtOnce(created, 8)],
            ends: vec![End::State("stripe/subscription/sub_burst", "active")],
        },
        Story {
            title: "One id, two contents",
            why: "An id that comes again with another payload is no duplicate. The first stands, a person should look.",
            acts: vec![
                Act::Send(settled, "accepted"),
                Act::Send(standard("msg_reused", "payment.failed", at(50), "pay_reused", "failed"), "conflict"),
            ],
            ends: vec![
                End::State("standard/payment/pay_reused", "captured"),
                End::Dead("msg_reused", "event_id_reused"),
            ],
        },
        Story {
            title: "A forged signature",
            why: "Anyone can post \"payment captured\" to a public address.",
            acts: vec![Act::Send(Message { forged: true, ..forged }, "signature_mismatch")],
            ends: vec![End::Nothing("standard/payment/pay_forged")],
        },
        Story {
            title: "An old request, replayed",
            why: "A recorded request stays validly signed for ever; only its age gives it away.",
            acts: vec![Act::Send(Message { signed_ago_s: 600, ..old }, "timestamp_too_old")],
            ends: vec![End::Nothing("standard/payment/pay_old")],
        },
        Story {
            title: "A type that nothing is known about",
            why: "Answering 4xx to it would start a storm of retries. It is recorded, and moves nothing.",
            acts: vec![Act::Send(
                stripe("evt_unmapped", "customer.updated", at(60), "{\"id\":\"cus_1\",\"object\":\"customer\"}"),
                "accepted",
            )],
            ends: vec![End::Nothing("stripe/customer/cus_1")],
        },
        Story {
            title: "A state that nobody declared",
            why: "A provider adds a state overnight. The event is kept as a dead letter, to be replayed once it is known.",
            acts: vec![Act::Send(
                stripe(
                    "evt_unknown_state",
                    "payment_intent.updated",
                    at(60),
                    "{\"id\":\"pi_new\",\"object\":\"payment_intent\",\"status\":\"requires_magic\"}",
                ),
                "accepted",
            )],
            ends: vec![End::Nothing("stripe/payment_intent/pi_new"), End::Dead("evt_unknown_state", "unknown_state")],
        },
    ]
}

/// Deliveries in the wrong order, whose own times tell the right one.
fn out_of_order(at: &dyn Fn(i64) -> i64) -> Vec<Story> {
    vec![
        Story {
            title: "`updated` before `created`",
            why: "Whoever stores what came last is stuck at `incomplete` for a customer who has paid.",
            acts: vec![
                Act::Send(stripe_subscription("evt_r2", "updated", at(58), "sub_reordered", "active"), "accepted"),
                Act::Send(stripe_subscription("evt_r1", "created", at(60), "sub_reordered", "incomplete"), "accepted"),
            ],
            ends: vec![End::State("stripe/subscription/sub_reordered", "active")],
        },
        Story {
            title: "`authorized` after `captured`",
            why: "A late authorization must not take the capture back.",
            acts: vec![
                Act::Send(standard("msg_c", "payment.captured", at(58), "pay_late", "captured"), "accepted"),
                Act::Send(standard("msg_a", "payment.authorized", at(60), "pay_late", "authorized"), "accepted"),
            ],
            ends: vec![End::State("standard/payment/pay_late", "captured")],
        },
        Story {
            title: "A credit wallet frozen and released, out of order",
            why: "The release arrives first; the freeze that it ended must not lock the customer out again.",
            acts: vec![
                Act::Send(standard("msg_w1", "wallet.created", at(90), "wallet_1", "active"), "accepted"),
                Act::Send(standard("msg_w3", "wallet.unfrozen", at(58), "wallet_1", "active"), "accepted"),
                Act::Send(standard("msg_w2", "wallet.frozen", at(60), "wallet_1", "frozen"), "accepted"),
            ],
            ends: vec![End::State("standard/credit_wallet/wallet_1", "active")],
        },
        Story {
            title: "Deleted before created",
            why: "The entity ends before it was ever seen. A late `created` must not bring it back to life.",
            acts: vec![
                Act::Upstream("/v1/subscriptions/sub_gone".to_owned(), subscription("sub_gone", "canceled")),
                Act::Send(stripe_subscription("evt_d2", "deleted", at(58), "sub_gone", "canceled"), "accepted"),
                Act::Send(stripe_subscription("evt_d1", "created", at(60), "sub_gone", "active"), "accepted"),
            ],
            ends: vec![End::State("stripe/subscription/sub_gone", "canceled")],
        },
    ]
}

/// Sequences that no webhook can decide: the upstream is asked.
fn ambiguous(at: &dyn Fn(i64) -> i64) -> Vec<Story> {
    let tie = |id, status| stripe_subscription(id, "updated", at(58), "sub_tie", status);
    vec![
        Story {
            title: "Two changes in the same second",
            why: "Stripe's times have whole seconds. Which of the two came last? Only Stripe knows, so it is asked.",
            acts: vec![
                Act::Send(stripe_subscription("evt_t1", "created", at(90), "sub_tie", "active"), "accepted"),
                Act::Upstream("/v1/subscriptions/sub_tie".to_owned(), subscription("sub_tie", "past_due")),
                Act::Send(tie("evt_t3", "active"), "accepted"),
                Act::Send(tie("evt_t2", "past_due"), "accepted"),
            ],
            ends: vec![End::State("stripe/subscription/sub_tie", "past_due")],
        },
        Story {
            title: "A gap",
            why: "From draft to uncollectible leads no single step: an event is missing, so the truth is fetched.",
            acts: vec![
                Act::Send(stripe_invoice("evt_g1", "invoice.created", at(90), "in_gap", "draft"), "accepted"),
                Act::Upstream("/v1/invoices/in_gap".to_owned(), invoice("in_gap", "uncollectible")),
                Act::Send(
                    stripe_invoice("evt_g3", "invoice.marked_uncollectible", at(58), "in_gap", "uncollectible"),
                    "accepted",
                ),
            ],
            ends: vec![End::State("stripe/invoice/in_gap", "uncollectible")],
        },
        Story {
            title: "The upstream is down, and comes back",
            why: "What can't be decided now waits on disk and is tried again. Nothing is guessed, nothing is lost.",
            acts: vec![
                Act::Send(paddle("evt_p1", "transaction.created", at(90), "txn_1", "draft"), "accepted"),
                Act::Down,
                Act::Send(paddle("evt_p2", "transaction.completed", at(58), "txn_1", "completed"), "accepted"),
                Act::Upstream("/transactions/txn_1".to_owned(), paddle_answer("txn_1", "completed", at(58))),
                Act::Up,
            ],
            ends: vec![End::State("paddle/transaction/txn_1", "completed")],
        },
    ]
}

fn standard(id: &str, event_type: &str, at: i64, entity: &str, state: &str) -> Message {
    let time = Timestamp::from_secs(at);
    let body = format!(
        "{{\"type\":\"{event_type}\",\"timestamp\":\"{time}\",\"data\":{{\"id\":\"{entity}\",\"status\":\"{state}\",\
         \"amount\":\"12.50\",\"currency\":\"EUR\"}}}}"
    );
    let what = format!("{event_type} ({state})");
    Message { source: "standard", what, id: id.to_owned(), body, signed_ago_s: 0, forged: false }
}

fn stripe(id: &str, event_type: &str, at: i64, object: &str) -> Message {
    let body = format!(
        "{{\"id\":\"{id}\",\"object\":\"event\",\"type\":\"{event_type}\",\"created\":{at},\"livemode\":true,\
         \"data\":{{\"object\":{object}}}}}"
    );
    let what = event_type.to_owned();
    Message { source: "stripe", what, id: id.to_owned(), body, signed_ago_s: 0, forged: false }
}

fn stripe_subscription(id: &str, change: &str, at: i64, entity: &str, status: &str) -> Message {
    let event_type = format!("customer.subscription.{change}");
    let message = stripe(id, &event_type, at, &subscription(entity, status));
    Message { what: format!("{event_type} ({status})"), ..message }
}

fn stripe_invoice(id: &str, event_type: &str, at: i64, entity: &str, status: &str) -> Message {
    let message = stripe(id, event_type, at, &invoice(entity, status));
    Message { what: format!("{event_type} ({status})"), ..message }
}

fn subscription(id: &str, status: &str) -> String {
    format!("{{\"id\":\"{id}\",\"object\":\"subscription\",\"status\":\"{status}\",\"customer\":\"cus_1\"}}")
}

fn invoice(id: &str, status: &str) -> String {
    format!(
        "{{\"id\":\"{id}\",\"object\":\"invoice\",\"status\":\"{status}\",\"amount_due\":1250,\"currency\":\"eur\"}}"
    )
}

fn paddle(id: &str, event_type: &str, at: i64, entity: &str, status: &str) -> Message {
    let time = Timestamp::from_secs(at);
    let body = format!(
        "{{\"event_id\":\"{id}\",\"event_type\":\"{event_type}\",\"occurred_at\":\"{time}\",\
         \"data\":{{\"id\":\"{entity}\",\"status\":\"{status}\",\"updated_at\":\"{time}\"}}}}"
    );
    let what = format!("{event_type} ({status})");
    Message { source: "paddle", what, id: id.to_owned(), body, signed_ago_s: 0, forged: false }
}

fn paddle_answer(id: &str, status: &str, at: i64) -> String {
    let time = Timestamp::from_secs(at);
    format!("{{\"data\":{{\"id\":\"{id}\",\"status\":\"{status}\",\"updated_at\":\"{time}\"}}}}")
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State(entity, state) => write!(f, "{entity} is {state}"),
            Self::Nothing(entity) => write!(f, "{entity} was not made"),
            Self::Dead(id, reason) => write!(f, "{id} is a dead letter ({reason})"),
        }
    }
}
