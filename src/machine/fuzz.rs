//! What must hold of machine files for any text.

use super::{Registry, diagram, spec};
use crate::domain::MachineName;
use crate::fuzz::Input;

/// A text (behind the line that names the machine) is a machine whose relations fit together, or has problems that
/// each have their place.
pub fn machine_files(data: &[u8]) {
    let mut input = Input::new(data);
    let name = MachineName::new(&String::from_utf8_lossy(input.until(b"\n")));
    let text = String::from_utf8_lossy(input.rest());
    match spec::parse("machine.toml", &text, &name) {
        Ok(machine) => {
            assert_eq!(machine.name(), &name);
            sound(&machine);
            for drawn in [diagram::text(&machine), diagram::mermaid(&machine), diagram::dot(&machine)] {
                assert!(machine.states().iter().all(|state| drawn.contains(state.name.as_str())), "{drawn}");
            }
            let unclear = spec::ambiguous_happenings(&machine);
            assert!(unclear.iter().all(|happening| happening.targets.len() > 1));
        }
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in problems {
                let line = problem.line.checked_sub(1).and_then(|line| text.split('\n').nth(line));
                let fits = line.is_some_and(|line| (1..=line.chars().count() + 1).contains(&problem.column));
                assert!(fits || (problem.line, problem.column) == (0, 0), "{problem}");
            }
        }
    }
}

fn sound(machine: &super::Machine) {
    let places: Vec<_> = machine.states().iter().map(|state| machine.place(&state.name).unwrap()).collect();
    assert!((1..=spec::STATES_MAX).contains(&places.len()));
    assert!(places.iter().any(|place| machine.is_initial(*place)), "nothing can begin");
    for a in &places {
        for b in &places {
            let (ahead, behind) = (machine.is_strictly_ahead(*b, *a), machine.is_strictly_ahead(*a, *b));
            assert!(!(ahead && behind), "both ahead of each other");
            assert!(!machine.has_edge(*a, *b) || machine.reaches(*a, *b), "an edge that leads nowhere");
            // Who decides a tie by rank must never go backward.
            assert!(!ahead || machine.rank(*b) > machine.rank(*a), "a state ahead has no higher rank");
        }
    }
}

/// Every shipped machine.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let text = |name: &str| {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("state-machines/{name}.toml"));
        format!("{name}\n{}", std::fs::read_to_string(path).unwrap())
    };
    let names = Registry::shipped();
    names.iter().map(|m| (m.name().as_str().replace('/', "-"), text(m.name().as_str()).into_bytes())).collect()
}
