//! What must hold of a configuration for any file and any environment.

use std::sync::LazyLock;

use tempfile::TempDir;

use super::{Config, Environment, Inputs, Problem};
use crate::fuzz::Input;
use crate::source::SHIPPED;

/// A folder of this process.
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

/// What stands between the file and the environment.
const SEPARATOR: &str = "\n---\n";

/// A secret that must not be shown, whatever else is wrong.
const SECRET: &str = "whsec_never-to-be-seen";

/// A file, and lines `NAME=VALUE` of the environment, are a configuration or have problems in words. Neither those
/// nor what is shown of it has the secret of a variable in it.
pub fn configuration(data: &[u8]) {
    let data = String::from_utf8_lossy(data);
    // A file that says the secret itself would only prove that, and one that names a file of secrets would read it.
    if data.contains(SECRET) || data.to_lowercase().contains("secrets_file") {
        return;
    }
    let mut input = Input::new(data.as_bytes());
    let text = input.until(SEPARATOR.as_bytes());
    let lines = String::from_utf8_lossy(input.rest());
    let file = FOLDER.path().join(format!("{:?}.toml", std::thread::current().id()));
    std::fs::write(&file, text).unwrap();
    // Half of the time the secret is one that is refused, for the space in it.
    let behind = if text.len().is_multiple_of(2) { "" } else { " x" };
    let ours = ["STRIPE_WEBHOOK_SECRET", "PADDLE_API_KEY"].map(|name| (name, format!("{SECRET}{behind}")));
    let given = lines.lines().filter_map(|line| line.split_once('=')).map(|(name, value)| (name, value.to_owned()));
    let environment = Environment::of(given.chain(ours));
    unseen(&format!("{environment:?} {:?}", environment.slips()));
    let loaded = Config::load(&Inputs { file: Some(file), environment: environment.clone(), flags: Vec::new() });
    match loaded.map(|config| (config.sources(&environment), config)) {
        Ok((sources, config)) => {
            let shown = config.show(sources.as_ref().unwrap_or(&super::Sources::default()));
            assert!(!shown.toml().contains("it can't be shown as TOML"), "{}", shown.toml());
            unseen(&format!("{}{config:?}{sources:?}", shown.toml()));
            sources.err().iter().for_each(|problems| told(problems));
        }
        Err(problems) => told(&problems),
    }
}

/// What is refused is refused in words.
fn told(problems: &[Problem]) {
    assert!(!problems.is_empty(), "refused without a word");
    for problem in problems {
        assert!(!problem.message.is_empty() && !problem.origin.is_empty(), "{problem:?}");
        unseen(&problem.to_string());
    }
}

fn unseen(text: &str) {
    assert!(!text.contains(SECRET), "the secret is shown: {text}");
}

/// The default file, each shipped source as a section of its own, and variables of every section.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let variables = [
        "TOLLGATE__SERVER__LISTEN=0.0.0.0:1",
        "TOLLGATE__STORE__SHARDS=8",
        "TOLLGATE__ENGINE__RETRY__FIRST=2s",
        "TOLLGATE__SOURCES__STRIPE__UPSTREAM__BASE_URL=http://user:pass@localhost:1/x",
        "TOLLGATE__SOURCES__STRIPE__RETRY__ATTEMPTS=3",
        "TOLLGATE__TELEMETRY__FORMAT=json",
        "TOLLGATE_SERVER_LISTEN=slip",
        "STANDARD_WEBHOOK_SECRET=whsec_dG9sbGdhdGUtdGVzdC1zZWNyZXQtMDEyMzQ1Njc4OTA= not_after=2027-01-31T00:00:00Z",
    ];
    let seed = |name: &str, text: &str, variables: &[&str]| {
        (name.to_owned(), format!("{text}{SEPARATOR}{}", variables.join("\n")).into_bytes())
    };
    let of_source = |(name, text): &(&str, &str)| {
        // Below `sources.NAME`, as a section of one's own file is.
        let sections = text.lines().map(|line| match line.strip_prefix('[') {
            Some(section) if line.ends_with(']') => format!("[sources.{name}.{section}"),
            Some(_) | None => line.to_owned(),
        });
        seed(name, &format!("[sources.{name}]\n{}", sections.collect::<Vec<_>>().join("\n")), &variables[3..])
    };
    let mut seeds = vec![seed("default", super::DEFAULT, &[]), seed("variables", "", &variables)];
    seeds.extend(SHIPPED.iter().map(of_source));
    seeds
}
