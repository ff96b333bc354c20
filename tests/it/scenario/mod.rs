//! Stories: deliveries, clock steps and upstream answers from `tests/scenarios/<machine>/<story>.toml`, played through
//! the real core (sources, store, turns) and written down as text that anyone can review.

mod play;
mod render;
mod story;
mod upstream;

use std::path::{Path, PathBuf};

use self::play::play;
pub(crate) use self::play::settings;

#[test]
fn every_story_ends_as_it_says_and_goes_as_its_snapshot_says() {
    let mut wrong = Vec::new();
    for path in stories() {
        let story = story::read(&path);
        let played = play(&story, 0);
        let machine = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        insta::with_settings!({
            snapshot_path => Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/scenarios").join(&machine),
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, {
            insta::assert_snapshot!(name.as_str(), played.text);
        });
        if played.ends != story.ends {
            wrong.push(format!("{machine}/{name}: ends as {:?}, right is {:?}", played.ends, story.ends));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_story_ends_the_same_when_each_delivery_comes_three_times() {
    for path in stories() {
        let story = story::read(&path);
        let (once, again) = (play(&story, 0), play(&story, 2));
        assert_eq!((once.ends, once.fields), (again.ends, again.fields), "{}", path.display());
    }
}

/// A snapshot without a story would stay for ever.
#[test]
fn every_snapshot_has_its_story() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tidy = |path: &Path, below: &str| path.strip_prefix(root.join(below)).unwrap().with_extension("");
    let stories: Vec<PathBuf> = stories().iter().map(|path| tidy(path, "tests/scenarios")).collect();
    for path in files(&root.join("snapshots/scenarios"), "snap") {
        let story = tidy(&path, "snapshots/scenarios");
        assert!(stories.contains(&story), "{} has no story; delete it", path.display());
    }
}

/// All story files, sorted.
pub(crate) fn stories() -> Vec<PathBuf> {
    let stories = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios"), "toml");
    assert!(stories.len() >= 75, "only {} stories are there", stories.len());
    stories
}

/// All files below the folder that end so, sorted.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            out.push(path);
        }
    }
    out.sort();
    out
}
