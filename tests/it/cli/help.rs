//! The help of every command, as a person reads it.

use std::fmt::Write as _;
use std::path::Path;

use super::{Cli, snapshot};

#[test]
fn the_help_of_every_command_reads_well() {
    snapshot("help", &help(&[]));
    for command in commands(&help(&[])) {
        let mut text = String::new();
        add(&mut text, &[&command]);
        snapshot(&format!("help-{command}"), &text);
    }
}

/// Adds the help of a command and of those below it.
fn add(text: &mut String, path: &[&str]) {
    let help = help(path);
    writeln!(text, "$ tollgate {} --help\n{help}", path.join(" ")).unwrap();
    for command in commands(&help) {
        add(text, &[path, &[&command]].concat());
    }
}

fn help(path: &[&str]) -> String {
    let ran = Cli::within(Path::new(".")).run(&[path, &["--help"]].concat());
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{path:?}");
    for line in ran.out.lines() {
        assert!(line.chars().count() <= 80, "{path:?}: `{line}` is wider than a terminal");
    }
    ran.out
}

/// The commands that a help lists, but for `help` itself.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A summary that is broken into two lines is indented further.
    let names = lines.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

#[test]
fn no_command_and_a_wrong_one_are_slips_of_usage() {
    let cli = Cli::within(Path::new("."));
    for arguments in [&[][..], &["entity"], &["serv"], &["serve", "--lisen", "x"], &["sign"], &["send", "--seed", "1"]]
    {
        let ran = cli.run(arguments);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{arguments:?}");
        assert!(ran.err.contains("Usage: tollgate"), "{arguments:?}: {}", ran.err);
    }
    assert!(cli.run(&["serv"]).err.contains("'serve'"), "the nearest command is named");
}

#[test]
fn the_version_is_that_of_the_package() {
    Cli::within(Path::new(".")).check(&["--version"], 0, &format!("tollgate {}\n", env!("CARGO_PKG_VERSION")), "");
}
