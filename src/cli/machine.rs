//! `tollgate machine`: state machines as they are declared. No server is asked.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::Context;
use super::args::ConfigArgs;
use super::failure::Failure;
use crate::code;
use crate::config::{Config, Problem};
use crate::domain::MachineName;
use crate::domain::suggest::did_you_mean;
use crate::http::dto;
use crate::machine::{Registry, diagram, spec};

const EXAMPLES: &str = "\
Examples:
  tollgate machine list
  tollgate machine check my-machines/
  tollgate machine graph stripe/subscription";

const LIST_EXAMPLES: &str = "\
Examples:
  tollgate machine list
  tollgate machine list --dir my-machines --json";

const CHECK_EXAMPLES: &str = "\
Examples:
  # what the configuration would load
  tollgate machine check
  # the shipped machines, with those of a folder over them
  tollgate machine check my-machines/
  tollgate machine check my-machines/shop/order.toml

Every problem is told at once, with its file and line. Unless single files are named, the sources' rules are \
checked against the machines too. Exit code 2 if anything is wrong.";

const GRAPH_EXAMPLES: &str = "\
Examples:
  tollgate machine graph stripe/subscription
  tollgate machine graph payment --format mermaid
  tollgate machine graph stripe/invoice --format dot | dot -Tsvg > invoice.svg";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// List the machines that would be loaded
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Check machine files, and whether the sources' rules fit them
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Draw a machine
    #[command(after_help = GRAPH_EXAMPLES)]
    Graph(GraphArgs),
}

/// Which machines are meant.
#[derive(clap::Args)]
struct Place {
    /// A folder of machine files over the shipped ones [default: `paths.machines` of the configuration]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,

    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub(super) struct CheckArgs {
    /// A folder of machine files, or single files [default: `paths.machines` of the configuration]
    #[arg(value_name = "DIR or FILES")]
    paths: Vec<PathBuf>,

    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(clap::Args)]
pub(super) struct GraphArgs {
    /// The machine's name
    #[arg(value_name = "NAME")]
    name: String,

    /// How to draw it: a table, a Mermaid state diagram, or a Graphviz digraph
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "text")]
    format: Format,

    #[command(flatten)]
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Format {
    Text,
    Mermaid,
    Dot,
}

/// What a check found, as JSON.
#[derive(Serialize)]
struct Checked {
    ok: bool,
    machines: usize,
    problems: Vec<String>,
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, context),
        Command::Check(args) => check(args, context),
        Command::Graph(args) => graph(args, context),
    }
}

impl Place {
    fn load(&self, context: &Context) -> Result<Registry, Failure> {
        let dir = match &self.dir {
            Some(dir) => Some(dir.clone()),
            None => self.config.load(context, Vec::new())?.paths.machines(),
        };
        Registry::load(dir.as_deref()).map_err(|problems| Failure::of_all(code::MACHINE_INVALID, lines(&problems)))
    }
}

fn lines<T: ToString>(problems: &[T]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

fn list(args: &ListArgs, context: &Context) -> Result<(), Failure> {
    let machines = args.place.load(context)?;
    let machines = machines.iter().map(|machine| dto::MachineSummary::from(&**machine));
    let machines: Vec<_> = machines.collect();
    if context.out.is_json() {
        return context.out.document(&machines);
    }
    let row = |machine: &dto::MachineSummary| {
        let doc = machine.doc.split_once(". ").map_or(machine.doc.as_str(), |(first, _)| first);
        let doc = doc.lines().next().unwrap_or_default().trim_end_matches('.');
        let counts = [machine.version.to_string(), machine.states.to_string(), machine.transitions.to_string()];
        [machine.name.clone()].into_iter().chain(counts).chain([doc.to_owned()]).collect()
    };
    let rows: Vec<Vec<String>> = machines.iter().map(row).collect();
    context.out.table(&["name", "version", "states", "edges", "what it is"], &rows, "no machine is loaded")
}

fn graph(args: &GraphArgs, context: &Context) -> Result<(), Failure> {
    let machines = args.place.load(context)?;
    let Some(machine) = machines.get(&MachineName::new(&args.name)) else {
        let hint = did_you_mean(machines.nearest(&args.name).map(MachineName::as_str));
        let detail = format!("no machine is named `{}`{hint}", args.name);
        return Err(Failure::new(code::MACHINE_NOT_FOUND, detail).with_fix("See `tollgate machine list`."));
    };
    if context.out.is_json() {
        return context.out.document(&dto::Machine::from(&**machine));
    }
    let drawn = match args.format {
        Format::Text => diagram::text(machine),
        Format::Mermaid => diagram::mermaid(machine),
        Format::Dot => diagram::dot(machine),
    };
    context.out.line(drawn.trim_end())
}

fn check(args: &CheckArgs, context: &Context) -> Result<(), Failure> {
    let (machines, problems) = match args.paths.as_slice() {
        [] => {
            let config = args.config.load(context, Vec::new())?;
            check_with_sources(config.paths.machines().as_deref(), &config)
        }
        [dir] if dir.is_dir() => check_with_sources(Some(dir), &args.config.load(context, Vec::new())?),
        files => check_files(files)?,
    };
    if context.out.is_json() {
        context.out.document(&Checked { ok: problems.is_empty(), machines, problems: problems.clone() })?;
        return if problems.is_empty() { Ok(()) } else { Err(Failure::told(code::MACHINE_INVALID.exit_code())) };
    }
    if problems.is_empty() {
        let noun = if machines == 1 { "machine is" } else { "machines are" };
        return context.out.line(&format!("{machines} {noun} fine"));
    }
    Err(Failure::of_all(code::MACHINE_INVALID, problems))
}

/// The machines of a folder with the shipped ones, against themselves and against the sources' rules.
fn check_with_sources(dir: Option<&Path>, config: &Config) -> (usize, Vec<String>) {
    match Registry::load(dir) {
        Ok(machines) => {
            let problems: Vec<Problem> = config.check_rules(&machines);
            (machines.iter().count(), lines(&problems))
        }
        Err(problems) => (0, lines(&problems)),
    }
}

/// Files one by one.
fn check_files(files: &[PathBuf]) -> Result<(usize, Vec<String>), Failure> {
    let mut problems = Vec::new();
    for file in files {
        if file.is_dir() {
            let detail = format!("`{}` is a folder: name one folder, or only files", file.display());
            return Err(Failure::new(code::USAGE, detail));
        }
        let shown = file.display().to_string();
        let unread = |error| Failure::new(code::MACHINE_INVALID, format!("`{shown}` can't be read: {error}"));
        let text = std::fs::read_to_string(file).map_err(unread)?;
        if let Err(found) = spec::parse(&shown, &text, &expected_name(file, &text)) {
            problems.extend(lines(&found));
        }
    }
    Ok((files.len(), problems))
}

/// The name that a file's machine must have: the one it gives, if the file's path ends in it, else the file's own.
///
/// A single file doesn't say where its folder of machines begins.
fn expected_name(file: &Path, text: &str) -> MachineName {
    let given = text.parse::<toml::Table>().ok();
    let given = given.as_ref().and_then(|table| table.get("name")).and_then(toml::Value::as_str);
    let bare = file.with_extension("");
    match given {
        Some(name) if bare.ends_with(name) => MachineName::new(name),
        Some(_) | None => MachineName::new(&bare.file_name().unwrap_or_default().to_string_lossy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_expected_to_hold_the_machine_that_its_path_ends_in() {
        let check = |file: &str, text: &str, expected: &str| {
            assert_eq!(expected_name(Path::new(file), text).as_str(), expected, "{file} {text}");
        };
        check("my/shop/order.toml", "name = \"shop/order\"", "shop/order");
        check("order.toml", "name = \"order\"", "order");
        check("my/shop/order.toml", "name = \"shop/refund\"", "order");
        check("my/shop/order.toml", "name = ", "order");
    }
}
