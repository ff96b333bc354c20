use insta::assert_snapshot;

use super::*;
use crate::machine::{Registry, spec};

fn order() -> Machine {
    let file = r#"
        name = "shop/order"
        version = 3
        doc = "An order."
        states = [
          { name = "new", initial = true, doc = "Just placed." },
          { name = "part-paid" },
          { name = "done", initial = true, terminal = true },
          { name = "gone", terminal = true, gone = true, doc = "Deleted." },
        ]
        transitions = [
          { from = ["new"], to = "part-paid", event = "order.paid" },
          { from = ["new"], to = "part-paid", event = "order.credited" },
          { from = ["part-paid"], to = "new" },
          { from = ["new", "part-paid"], to = "done", event = "order.done" },
          { from = ["new"], to = "gone" },
        ]
        policies = { on_gap = "accept", on_divergence = "accept" }
    "#;
    spec::parse("order.toml", file, &"shop/order".into()).unwrap()
}

#[test]
fn text_shows_states_relations_happenings_policies_and_meanings() {
    assert_snapshot!(text(&order()), @r#"
    shop/order, version 3

    An order.

    state      marks             moves to               strictly ahead
    new        initial           part-paid, done, gone  done, gone
    part-paid  -                 new, done              done, gone
    done       initial terminal  -                      -
    gone       terminal gone     -                      -

    happening       takes
    order.credited  new -> part-paid
    order.done      new, part-paid -> done
    order.paid      new -> part-paid

    on a gap: accept; on divergence: accept

    new   Just placed.
    gone  Deleted.
    "#);
}

#[test]
fn mermaid_shows_first_and_final_states_edges_and_happenings() {
    assert_snapshot!(mermaid(&order()), @r#"
    ---
    title: shop/order
    ---
    stateDiagram-v2
        state "new" as s0
        state "part-paid" as s1
        state "done" as s2
        state "gone" as s3
        [*] --> s0
        [*] --> s2
        s0 --> s1: order.credited, order.paid
        s0 --> s2: order.done
        s0 --> s3
        s1 --> s0
        s1 --> s2: order.done
        s2 --> [*]
        s3 --> [*]
    "#);
}

#[test]
fn dot_shows_first_and_final_states_edges_and_happenings() {
    assert_snapshot!(dot(&order()), @r#"
    digraph "shop/order" {
        rankdir=LR;
        node [shape=box];
        "new" [peripheries=1];
        "> new" [shape=point];
        "> new" -> "new";
        "part-paid" [peripheries=1];
        "done" [peripheries=2];
        "> done" [shape=point];
        "> done" -> "done";
        "gone" [peripheries=2, style=dashed];
        "new" -> "part-paid" [label="order.credited\norder.paid"];
        "new" -> "done" [label="order.done"];
        "new" -> "gone";
        "part-paid" -> "new";
        "part-paid" -> "done" [label="order.done"];
    }
    "#);
}

#[test]
fn each_shipped_machine_is_drawn_as_in_its_snapshot() {
    for machine in Registry::shipped().iter() {
        let settings = || {
            let mut settings = insta::Settings::clone_current();
            settings.set_snapshot_path("../../../snapshots/machine");
            settings.set_prepend_module_to_snapshot(false);
            settings.set_omit_expression(true);
            settings
        };
        settings().bind(|| assert_snapshot!(machine.name().as_str().replace('/', "-"), text(machine)));
    }
}
