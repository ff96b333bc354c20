//! Stories: deliveries, clock steps and upstream answers from `tests/scenarios/<machine>/<story>.toml`, played through
//! the real core (sources, store, turns) and written down as text that anyone can review.

mod play;
mod render;
mod story;

use std::path::{Path, PathBuf};

#[test]
fn every_story_ends_as_its_snapshot_says() {
    let stories = stories(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios"));
    assert!(stories.len() >= 2, "no stories were found");
    for path in stories {
        let story = story::read(&path);
        let text = play::play(&story);
        let machine = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        insta::with_settings!({
            snapshot_path => Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/scenarios").join(machine),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name, text);
        });
    }
}

/// All story files below the folder, sorted.
fn stories(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(stories(&path));
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            out.push(path);
        }
    }
    out.sort();
    out
}
