//! The shipped sources against the shipped machines: what one file claims, another must declare.

use tollgate::domain::{Kind, MachineName};
use tollgate::machine::Registry;
use tollgate::source::SHIPPED;
use tollgate::source::spec::SourceSpec;

/// What a claim names, for a given event type: `(state, happening)`.
fn named<'a>(claim: &'a str, event_type: &'a str) -> (Option<&'a str>, Option<&'a str>) {
    match claim.split_once(':') {
        Some(("observed", state)) => (Some(state), None),
        Some(("happened", name)) => (None, Some(name)),
        Some(_) => panic!("{claim}"),
        None => (None, (claim == "happened").then_some(event_type)),
    }
}

#[test]
fn every_machine_state_and_happening_that_a_shipped_source_names_is_declared() {
    let machines = Registry::shipped();
    let mut wrong = Vec::new();
    for (source, toml) in SHIPPED {
        let spec: SourceSpec = toml::from_str(toml).unwrap();
        for (kind, entity) in &spec.entities {
            for (name, claims) in &entity.machines {
                let Some(machine) = machines.get(name) else {
                    wrong.push(format!("{source} {kind}: no machine `{name}`"));
                    continue;
                };
                for (event_type, claim) in claims.overrides.iter().chain(&claims.fallback) {
                    let (state, happening) = named(claim, event_type);
                    let no_state = state.is_some_and(|state| machine.states().iter().all(|s| s.name.as_str() != state));
                    let no_happening = happening.is_some_and(|name| machine.happening(&name.into()).is_empty());
                    if no_state || no_happening {
                        wrong.push(format!("{source} {kind}: `{name}` does not know `{claim}` of `{event_type}`"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_shipped_machine_is_fed_by_a_shipped_source() {
    let specs = SHIPPED.map(|(_, toml)| toml::from_str::<SourceSpec>(toml).unwrap());
    let fed: Vec<&MachineName> =
        specs.iter().flat_map(|spec| spec.entities.values()).flat_map(|entity| entity.machines.keys()).collect();
    let machines = Registry::shipped();
    let idle: Vec<_> = machines.iter().filter(|machine| !fed.contains(&machine.name())).map(|m| m.name()).collect();
    assert!(idle.is_empty(), "{idle:?}");
    assert!(specs.iter().any(|spec| spec.entities.contains_key(&Kind::new("subscription"))));
}
