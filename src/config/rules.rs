//! Whether the rules of the sources fit the machines: what only shows when both are at hand.

use super::{Config, Declared, Problem};
use crate::domain::suggest::{did_you_mean, nearest};
use crate::domain::{MachineName, StateName};
use crate::machine::{Machine, Registry, spec};
use crate::source::spec::{EntitySpec, MachineSpec};

/// The rules of one machine of one kind of entity.
struct Rules<'a> {
    /// The key that they stand under.
    key: String,
    origin: String,
    machine: &'a Machine,
    /// Whether the entity can be asked for, so that a claim may be ambiguous.
    asks: bool,
}

impl Config {
    /// What does not fit between the sources, on or off, and these machines: machines that no file declares, states
    /// and happenings that a machine doesn't have, and happenings that only the current state could place where there
    /// is nobody to ask for it.
    #[must_use]
    pub fn check_rules(&self, machines: &Registry) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, declared) in &self.sources {
            for (kind, entity) in &declared.spec.entities {
                for (machine, rules) in &entity.machines {
                    let origin = format!("source `{name}`");
                    let key = format!("sources.{name}.entities.{kind}.machines.{machine}");
                    let Some(found) = machines.get(machine) else {
                        problems.push(Problem::new(&origin, &key, &unknown(machine, machines)));
                        continue;
                    };
                    let asks = asks(declared, entity);
                    Rules { key, origin, machine: found, asks }.check(rules, &mut problems);
                }
            }
        }
        problems
    }
}

fn unknown(machine: &MachineName, machines: &Registry) -> String {
    let hint = did_you_mean(machines.nearest(machine.as_str()).map(MachineName::as_str));
    format!("no machine of this name is loaded{hint}; `paths.machines` names a folder of your own")
}

/// Whether an upstream is declared. One without its key today may have it tomorrow: that is no fault of the rules.
fn asks(declared: &Declared, entity: &EntitySpec) -> bool {
    declared.spec.upstream.is_some() && entity.upstream.is_some()
}

impl Rules<'_> {
    fn check(&self, rules: &MachineSpec, problems: &mut Vec<Problem>) {
        for (table, claims) in [("override", &rules.overrides), ("fallback", &rules.fallback)] {
            for (pattern, claim) in claims {
                if let Some(message) = self.wrong(pattern, claim) {
                    let key = format!("{}.{table}.\"{pattern}\"", self.key);
                    problems.push(Problem::new(&self.origin, &key, &message));
                }
            }
        }
    }

    /// What is wrong with a claim of the events whose type fits the pattern. Its form was checked elsewhere.
    fn wrong(&self, pattern: &str, claim: &str) -> Option<String> {
        match claim.split_once(':') {
            Some(("observed", state)) => self.wrong_state(state),
            Some(("happened", happening)) => self.wrong_happening(happening),
            None if claim == "happened" && !pattern.contains('*') => self.wrong_happening(pattern),
            None if claim == "happened" => self.wrong_pattern(pattern),
            Some(_) | None => None,
        }
    }

    fn wrong_state(&self, state: &str) -> Option<String> {
        let states = || self.machine.states().iter().map(|state| state.name.as_str());
        let known = states().any(|known| known == state);
        (!known).then(|| self.undeclared("state", state, nearest(state, states())))
    }

    fn wrong_happening(&self, happening: &str) -> Option<String> {
        let happenings = || self.machine.happenings().map(StateName::as_str);
        if !happenings().any(|known| known == happening) {
            return Some(self.undeclared("happening", happening, nearest(happening, happenings())));
        }
        self.ambiguous(|event| event == happening)
    }

    /// A pattern stands for happenings of many names; those that can't be placed are found by its beginning.
    fn wrong_pattern(&self, pattern: &str) -> Option<String> {
        let head = pattern.split('*').next().unwrap_or_default();
        self.ambiguous(|event| event.starts_with(head))
    }

    fn undeclared(&self, what: &str, name: &str, nearest: Option<&str>) -> String {
        format!("{what} `{name}` is not declared in `{}`{}", self.machine.name(), did_you_mean(nearest))
    }

    fn ambiguous(&self, claimed: impl Fn(&str) -> bool) -> Option<String> {
        if self.asks {
            return None;
        }
        let found = spec::ambiguous_happenings(self.machine);
        let found = found.iter().find(|happening| claimed(happening.event.as_str()))?;
        let targets: Vec<_> = found.targets.iter().map(|state| format!("`{state}`")).collect();
        Some(format!(
            "happening `{}` of `{}` leads to {}, and there is no upstream to ask which; claim the state, or add one",
            found.event,
            self.machine.name(),
            targets.join(" or ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::load;

    /// A machine whose happening `thing.ended` leads to two states.
    fn machines() -> Registry {
        let text = "name = \"thing\"\nversion = 1\ndoc = \"A thing.\"\n\
            states = [{ name = \"open\", initial = true }, { name = \"won\", terminal = true }, \
            { name = \"half\" }, { name = \"lost\", terminal = true }]\n\
            transitions = [{ from = [\"open\"], to = \"won\", event = \"thing.ended\" }, \
            { from = [\"open\"], to = \"half\", event = \"thing.halved\" }, \
            { from = [\"half\"], to = \"lost\", event = \"thing.ended\" }]\n";
        let machine = spec::parse("thing.toml", text, &MachineName::new("thing"));
        Registry::shipped().iter().map(|machine| (**machine).clone()).chain([machine.unwrap()]).collect()
    }

    fn problems(rules: &str) -> Vec<String> {
        let acme = crate::config::tests::ACME;
        let text = format!("{acme}\n[sources.acme.entities.thing]\ntypes = [\"thing.*\"]\nid = [\"/id\"]\n{rules}");
        let config = load(&text, &[], &[]).unwrap();
        config.check_rules(&machines()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_shipped_sources_fit_the_shipped_machines() {
        let config = Config::load(&crate::config::Inputs::default()).unwrap();
        assert_eq!(config.check_rules(&Registry::shipped()), []);
    }

    #[test]
    fn a_machine_that_is_not_loaded_is_told_with_the_nearest() {
        assert_eq!(
            problems("[sources.acme.entities.thing.machines.thinge]\nstate = [\"/state\"]"),
            [
                "source `acme`: `sources.acme.entities.thing.machines.thinge`: no machine of this name is loaded (did you \
              mean `thing`?); `paths.machines` names a folder of your own"
            ]
        );
    }

    #[test]
    fn a_claim_names_what_its_machine_declares() {
        let check = |claim: &str, expected: &[&str]| {
            let rules = format!("[sources.acme.entities.thing.machines.thing.override]\n{claim}");
            let found: Vec<_> = problems(&rules)
                .iter()
                .map(|problem| problem.replace("sources.acme.entities.thing.machines.thing.override.", ""))
                .collect();
            assert_eq!(found, expected, "{claim}");
        };
        check("\"thing.done\" = \"observed:won\"", &[]);
        check("\"thing.halved\" = \"happened\"", &[]);
        check("\"thing.x\" = \"happened:thing.halved\"", &[]);
        check("\"thing.x\" = \"hint\"\n\"thing.y\" = \"none\"", &[]);
        check("\"thing.h*\" = \"happened\"", &[]);
        check(
            "\"thing.done\" = \"observed:wom\"",
            &["source `acme`: `\"thing.done\"`: state `wom` is not declared in `thing` (did you mean `won`?)"],
        );
        check(
            "\"thing.x\" = \"happened:thing.halfed\"",
            &["source `acme`: `\"thing.x\"`: happening `thing.halfed` is not declared in `thing` (did you mean \
               `thing.halved`?)"],
        );
        check(
            "\"thing.gone\" = \"happened\"",
            &["source `acme`: `\"thing.gone\"`: happening `thing.gone` is not declared in `thing` (did you mean \
               `thing.ended`?)"],
        );
        let ambiguous = "happening `thing.ended` of `thing` leads to `won` or `lost`, and there is no upstream to ask \
            which; claim the state, or add one";
        let expected = |pattern: &str| vec![format!("source `acme`: `\"{pattern}\"`: {ambiguous}")];
        for pattern in ["thing.ended", "thing.*"] {
            let expected = expected(pattern);
            let expected: Vec<_> = expected.iter().map(String::as_str).collect();
            check(&format!("\"{pattern}\" = \"happened\""), &expected);
        }
    }

    #[test]
    fn an_upstream_may_be_asked_what_an_ambiguous_happening_meant() {
        let rules = "[sources.acme.entities.thing.machines.thing.override]\n\"thing.ended\" = \"happened\"\n\
            [sources.acme.entities.thing.upstream]\npath = \"/things/{id}\"\n\
            [sources.acme.upstream]\nbase_url = \"https://api.acme.test\"\nauth = \"none\"\nrate_per_s = 10\ntimeout_ms = 1000\n";
        assert_eq!(problems(rules), Vec::<String>::new());
    }
}
