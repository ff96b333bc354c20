//! The arrows between the layers, as a table: what a module may name of ours, and where outside crates may stand.
//! `ARCHITECTURE.md` draws the same picture.

use std::path::{Path, PathBuf};

/// A module, and the modules of ours that it may use.
const LAYERS: [(&str, &[&str]); 11] = [
    ("domain", &[]),
    ("machine", &["domain"]),
    ("source", &["domain"]),
    ("store", &["domain"]),
    ("engine", &["domain", "machine", "source", "store"]),
    ("code", &["domain"]),
    ("telemetry", &["domain"]),
    ("config", &["domain", "machine", "source", "store", "engine", "code", "telemetry", "http"]),
    ("http", &["domain", "machine", "source", "engine", "code"]),
    ("sim", &["domain", "machine", "source", "store", "engine"]),
    ("cli", &["domain", "machine", "source", "store", "engine", "code", "telemetry", "config", "http"]),
];

/// An outside crate, and the paths below `src` that may name it.
const OUTSIDE: [(&str, &[&str]); 9] = [
    ("sled", &["store/sled_tree.rs"]),
    ("actix", &["engine/"]),
    ("actix_web", &["http/"]),
    ("reqwest", &["engine/upstream.rs", "cli/client.rs"]),
    ("strsim", &["domain/suggest.rs"]),
    ("petgraph", &["machine/graph.rs"]),
    ("clap", &["cli/"]),
    ("figment", &["config"]),
    ("prometheus_client", &["engine/metrics.rs", "http/metrics.rs"]),
];

#[test]
fn every_arrow_points_one_way() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let Some((_, allowed)) = LAYERS.iter().find(|(module, _)| module_of(&path) == *module) else { continue };
        for (number, used) in modules_used(&text) {
            let known = LAYERS.iter().any(|(module, _)| *module == used);
            if known && used != module_of(&path) && !allowed.contains(&used) {
                wrong.push(format!("src/{path}:{number}: `{}` may not use `{used}`", module_of(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_is_seen_in_every_form() {
    let check = |text: &str, expected: &[(usize, &str)]| assert_eq!(modules_used(text), expected, "{text}");
    check("use crate::store::Error;", &[(1, "store")]);
    check("\nlet a = crate::http::b(crate::cli::c());", &[(2, "http"), (2, "cli")]);
    check("use crate::{code, domain::{Event, name}, store};", &[(1, "code"), (1, "domain"), (1, "store")]);
    check("use crate::{\n    domain::{\n        Event,\n    },\n    http::keys,\n};", &[(2, "domain"), (5, "http")]);
    check("use {crate::store, std::fmt};", &[(1, "store")]);
    check("$crate::store; mycrate::http; a::crate::cli", &[(1, "store")]);
    check(&without_comments("// use crate::store\nuse crate::http;"), &[(2, "http")]);
}

#[test]
fn outside_crates_stand_where_the_table_says() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        for (name, allowed) in OUTSIDE {
            let named = text.match_indices(&format!("{name}::")).find(|(at, _)| starts_a_word(&text, *at));
            if let Some((at, _)) = named.filter(|_| !allowed.iter().any(|prefix| path.starts_with(prefix))) {
                wrong.push(format!("src/{path}:{}: `{name}` belongs in {allowed:?}", line_of(&text, at)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_has_its_place_in_the_table() {
    for (path, _) in sources() {
        let module = module_of(&path);
        let known = LAYERS.iter().any(|(layer, _)| *layer == module) || ["lib", "main"].contains(&module);
        assert!(known, "`{module}` has no row in the table of layers");
    }
}

/// No file grows past what a reader can hold: 410 lines, tests apart.
#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let mut longest: Vec<(usize, String)> = Vec::new();
    for file in files(&root().join("src")) {
        let path = below(&file);
        let is_test = path.contains("tests");
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        if lines > 410 && !is_test {
            longest.push((lines, path));
        }
    }
    assert!(longest.is_empty(), "too long: {longest:?}");
}

/// The sources apart from tests and from what a fuzzer calls, by their path below `src`, with nothing where comments stand.
fn sources() -> Vec<(String, String)> {
    let is_test = |file: &PathBuf| ["tests", "fuzz"].iter().any(|word| below(file).contains(word));
    let sources = files(&root().join("src")).into_iter().filter(|file| !is_test(file));
    sources.map(|file| (below(&file), without_comments(&std::fs::read_to_string(&file).unwrap()))).collect()
}

/// The text with as many lines, those that are comments being empty.
fn without_comments(text: &str) -> String {
    let code = |line| if str::trim_start(line).starts_with("//") { "" } else { line };
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn below(file: &Path) -> String {
    file.strip_prefix(root().join("src")).unwrap().to_string_lossy().into_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
    out.sort();
    out
}

fn module_of(path: &str) -> &str {
    path.split('/').next().unwrap().trim_end_matches(".rs")
}

/// What a text names of ours: the line and the first word behind each `crate::`, or of each branch of `crate::{..}`.
fn modules_used(text: &str) -> Vec<(usize, &str)> {
    const PREFIX: &str = "crate::";
    let found = text.match_indices(PREFIX).filter(|(at, _)| starts_a_word(text, *at));
    let words = found.flat_map(|(at, _)| {
        if text[at + PREFIX.len()..].starts_with('{') {
            branches(text, at + PREFIX.len() + 1)
        } else {
            vec![at + PREFIX.len()]
        }
    });
    words.map(|at| (line_of(text, at), word_at(text, at))).collect()
}

/// Where each branch of a group begins. `start` is behind the group's brace.
fn branches(text: &str, start: usize) -> Vec<usize> {
    let (mut depth, mut is_next, mut out) = (1, true, Vec::new());
    for (at, c) in text[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_next = true,
            c if is_next && !c.is_whitespace() => {
                out.push(start + at);
                is_next = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    out
}

fn word_at(text: &str, at: usize) -> &str {
    let rest = &text[at..];
    &rest[..rest.find(|c: char| !is_of_a_word(c)).unwrap_or(rest.len())]
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn is_of_a_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn starts_a_word(text: &str, at: usize) -> bool {
    !text[..at].ends_with(|c: char| is_of_a_word(c) || c == ':')
}
