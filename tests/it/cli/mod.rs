//! The command line as people and programs meet it: the built binary, its output and its exit codes.

mod help;
mod offline;
mod online;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a command gave.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// A command line to run: the program sees these variables and no others, as wide as a usual terminal.
struct Cli<'a> {
    folder: &'a Path,
    variables: Vec<(&'a str, String)>,
}

impl<'a> Cli<'a> {
    /// Runs in this folder.
    fn within(folder: &'a Path) -> Self {
        Self { folder, variables: vec![("COLUMNS", "80".to_owned()), ("TZ", "UTC".to_owned())] }
    }

    /// The same with a variable.
    fn with(mut self, name: &'a str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(arguments)
            .current_dir(self.folder)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads nothing may be gone before it is written to.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Checks how a command ends, and what it prints to either stream.
    #[track_caller]
    fn check(&self, arguments: &[&str], code: i32, out: &str, err: &str) {
        let ran = self.run(arguments);
        assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (code, out, err), "{arguments:?}");
    }
}

/// Compares with `snapshots/cli/NAME.snap`.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../../snapshots/cli");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}
