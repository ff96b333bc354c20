//! The arrows between the layers, as a table: what a module may name of ours, and where outside crates may stand.
//! `ARCHITECTURE.md` draws the same picture.

use std::path::{Path, PathBuf};

/// A module, and the modules of ours that it may use.
const LAYERS: [(&str, &[&str]); 10] = [
    ("domain", &[]),
    ("machine", &["domain"]),
    ("source", &["domain"]),
    ("store", &["domain"]),
    ("engine", &["domain", "machine", "source", "store"]),
    ("code", &["domain"]),
    ("telemetry", &["domain"]),
    ("config", &["domain", "machine", "source", "store", "engine", "code", "telemetry", "http"]),
    ("http", &["domain", "machine", "source", "engine", "code"]),
    ("cli", &["domain", "machine", "source", "store", "engine", "code", "telemetry", "config", "http"]),
];

/// An outside crate, and the paths below `src` that may name it.
const OUTSIDE: [(&str, &[&str]); 9] = [
    ("sled", &["store/view"]),
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
    for (path, number, line) in lines() {
        let Some((_, allowed)) = LAYERS.iter().find(|(module, _)| module_of(&path) == *module) else { continue };
        for used in words_after(&line, "crate::") {
            let known = LAYERS.iter().any(|(module, _)| *module == used);
            if known && used != module_of(&path) && !allowed.contains(&used.as_str()) {
                wrong.push(format!("src/{path}:{number}: `{}` may not use `{used}`", module_of(&path)));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn outside_crates_stand_where_the_table_says() {
    let mut wrong = Vec::new();
    for (path, number, line) in lines() {
        for (name, allowed) in OUTSIDE {
            let named = line.match_indices(&format!("{name}::")).any(|(at, _)| starts_a_word(&line, at));
            if named && !allowed.iter().any(|prefix| path.starts_with(prefix)) {
                wrong.push(format!("src/{path}:{number}: `{name}` belongs in {allowed:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_module_has_its_place_in_the_table() {
    let modules: Vec<String> = lines().into_iter().map(|(path, ..)| module_of(&path).to_owned()).collect();
    for module in modules {
        let known = LAYERS.iter().any(|(layer, _)| *layer == module) || ["lib", "main"].contains(&module.as_str());
        assert!(known, "`{module}` has no row in the table of layers");
    }
}

/// No file grows past what a reader can hold: 450 lines, tests apart.
#[test]
fn no_file_is_longer_than_a_reader_can_hold() {
    let mut longest: Vec<(usize, String)> = Vec::new();
    for file in files(&root().join("src")) {
        let path = below(&file);
        let is_test = path.contains("tests");
        let lines = std::fs::read_to_string(&file).unwrap().lines().count();
        if lines > 450 && !is_test {
            longest.push((lines, path));
        }
    }
    assert!(longest.is_empty(), "too long: {longest:?}");
}

/// The source lines that are code, with their file below `src` and their number.
fn lines() -> Vec<(String, usize, String)> {
    let mut out = Vec::new();
    for file in files(&root().join("src")) {
        let path = below(&file);
        if path.contains("tests") {
            continue;
        }
        for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            if !line.trim_start().starts_with("//") {
                out.push((path.clone(), number + 1, line.to_owned()));
            }
        }
    }
    out
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

fn words_after(line: &str, prefix: &str) -> Vec<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let after = line.match_indices(prefix).filter(|(at, _)| starts_a_word(line, *at));
    after.map(|(at, _)| line[at + prefix.len()..].chars().take_while(|c| is_word(*c)).collect()).collect()
}

fn starts_a_word(line: &str, at: usize) -> bool {
    !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}
