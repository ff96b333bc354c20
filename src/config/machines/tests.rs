use super::*;

/// A machine file that is good under this name.
fn machine(name: &str, version: u32) -> String {
    format!(
        "name = \"{name}\"\nversion = {version}\nstates = [{{ name = \"on\", initial = true, terminal = true }}]\n\
         transitions = []\n"
    )
}

/// A directory with these files.
fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// The problems of loading a directory, without its own path.
fn problems(dir: &Path) -> Vec<String> {
    let prefix = format!("{}/", dir.display());
    let found = load(Some(dir)).err().unwrap_or_default();
    found.iter().map(|problem| problem.to_string().replace(&prefix, "")).collect()
}

#[test]
fn the_shipped_machines_are_the_directory() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("state-machines");
    let found = load(Some(&root)).unwrap();
    let forms = |registry: &Registry| -> Vec<_> {
        registry.iter().map(|machine| (machine.name().clone(), hex::encode(machine.sha256()))).collect()
    };
    assert_eq!(forms(&Registry::shipped()), forms(&found), "every file below state-machines must be shipped");
    let mut problems = Vec::new();
    assert_eq!(read(&root, &mut problems).len(), found.iter().count(), "and every shipped one must be there");
}

#[test]
fn a_directory_overrides_and_adds() {
    let dir = dir(&[
        ("payment.toml", &machine("payment", 7)),
        ("shop/order.toml", &machine("shop/order", 1)),
        ("README.md", "not a machine"),
        (".hidden.toml", "not one either"),
        ("..data/payment.toml", "nor this"),
    ]);
    let registry = load(Some(dir.path())).unwrap();
    assert_eq!(registry.iter().count(), Registry::shipped().iter().count() + 1);
    assert_eq!(registry.get(&"payment".into()).unwrap().version(), 7);
    assert_eq!(registry.get(&"shop/order".into()).unwrap().version(), 1);
    assert_eq!(registry.get(&"stripe/charge".into()).unwrap().states().len(), 3);
    assert!(registry.get(&"shop/cart".into()).is_none());
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_a_loop_of_them_ends() {
    let dir = dir(&[("real/order.toml", &machine("shop/order", 1))]);
    fs::create_dir(dir.path().join("shop")).unwrap();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(dir.path().join(to), dir.path().join(name)).unwrap();
    link("real/order.toml", "shop/order.toml");
    fs::remove_file(dir.path().join("shop/order.toml")).unwrap();
    fs::rename(dir.path().join("real"), dir.path().join(".real")).unwrap();
    link(".real/order.toml", "shop/order.toml");
    assert!(load(Some(dir.path())).unwrap().get(&"shop/order".into()).is_some());
    link("shop", "shop/again");
    let found = problems(dir.path());
    let deepest = "shop/again/again/again: folders are nested more than 4 deep: move its files up";
    assert!(found.iter().any(|problem| problem.ends_with(deepest)), "{found:#?}");
}

#[test]
fn the_problems_of_all_files_come_together() {
    let long = "#".repeat(usize::try_from(FILE_LEN_MAX).unwrap() + 1);
    let dir = dir(&[
        ("a.toml", "version = 1\nstates = []\ntransitions = []\n"),
        ("b/c.toml", &machine("b/d", 1)),
        ("b/not a name.toml", ""),
        ("e/f/g/h/i.toml", ""),
        ("long.toml", &long),
    ]);
    fs::write(dir.path().join("bytes.toml"), [0xff]).unwrap();
    let expected = [
        "a.toml:1:1: key `name` is missing at the top level",
        "a.toml:2:10: no state is declared: list at least one",
        "b/c.toml:1:8: machine name `b/d` does not match the file's path: it must be `b/c`",
        "b/not a name.toml: `b/not a name` cannot name a machine: use 1 to 64 of `A-Z a-z 0-9 _ - . /`, \
         starting with a letter or digit",
        "bytes.toml: cannot read the file: stream did not contain valid UTF-8",
        "e/f/g/h: folders are nested more than 4 deep: move its files up",
        "long.toml: cannot read the file: it is longer than 262144 bytes",
    ];
    assert_eq!(problems(dir.path()), expected);
}

#[test]
fn a_directory_that_is_not_there_is_a_problem() {
    let dir = tempfile::tempdir().unwrap().path().join("machines");
    let found = load(Some(&dir)).unwrap_err();
    let expected = format!("{}: cannot read the directory: No such file or directory (os error 2)", dir.display());
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

#[test]
fn a_directory_with_too_many_files_is_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..=FILES_MAX {
        fs::write(dir.path().join(format!("m{number}.toml")), "").unwrap();
    }
    let found = load(Some(dir.path())).unwrap_err();
    let expected = format!("{}: more than 1000 machine files: is this the right directory?", dir.path().display());
    assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}
