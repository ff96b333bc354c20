//! The command line: reads what is asked, does it, and says how it went.
//!
//! One file a command; each has its arguments, its help and its `run`. What they share: [`Failure`] is how a
//! command ends badly, `out` writes, `client` talks to a server, and [`assemble`] makes a server out of a
//! configuration, for `serve` as for the demo and tests.
//!
//! Exit codes: 0 for done, 1 for failed, 2 for a command line or a configuration that can't be used. What was asked
//! for goes to the standard output, everything else to the standard error stream; with `--json` the standard output
//! is one JSON document (for what streams, one a line).

pub mod assemble;

mod serve;

mod bench;
mod demo;

mod send;
mod sign;

mod dead_letter;
mod entity;
mod log;

mod config;
mod key;
mod machine;
mod store;

mod args;
mod client;
mod failure;
mod files;
mod instant;
mod out;
mod signer;

use std::process::ExitCode;

use clap::Parser;

use crate::code;
use crate::config::Environment;
use out::Out;

pub use failure::Failure;

/// What every command is given beside its arguments.
struct Context {
    environment: Environment,
    out: Out,
}

/// The widest that help is wrapped to: longer lines are hard to read.
const HELP_WIDTH_MAX: usize = 100;

/// Where `--json` stands among the options: behind those of the command itself.
const JSON_ORDER: usize = 900;

#[derive(Parser)]
#[command(
    name = "tollgate",
    version,
    about = "A billing state engine: verified webhooks become forward-only, provable entity states",
    after_help = EXAMPLES,
    max_term_width = HELP_WIDTH_MAX,
    arg_required_else_help = true
)]
struct Cli {
    /// Print JSON, for programs
    #[arg(long, global = true, display_order = JSON_ORDER)]
    json: bool,

    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  # see it work: signed webhooks, what was decided, and why
  tollgate demo
  # take webhooks and answer what is known, with the data in ./data
  tollgate serve
  # sign a payload and post it, as the provider would
  tollgate send --source stripe event.json

Exit codes: 0 done, 1 failed, 2 the command line or the configuration can't be used. With --json \
the output is one JSON document, or one a line for what comes bit by bit. NO_COLOR turns colours off.";

#[derive(clap::Subcommand)]
enum Command {
    /// Serve webhooks and the API
    Serve(serve::Args),
    /// Play realistic stories and say what was decided, and why
    Demo(demo::Args),
    /// Sign payloads as a source does and post them to a server
    Send(send::Args),
    /// Sign a payload as a source does and print the headers
    Sign(sign::Args),
    /// Show what is known of entities
    #[command(subcommand)]
    Entity(entity::Command),
    /// Show what was decided
    #[command(subcommand)]
    Log(log::Command),
    /// Create, list and revoke the keys of a data directory
    #[command(subcommand)]
    Key(key::Command),
    /// Look at events that gave up; replay or discard them
    #[command(subcommand)]
    DeadLetter(dead_letter::Command),
    /// List, check and draw state machines, without a server
    #[command(subcommand)]
    Machine(machine::Command),
    /// Check or rebuild the store of a data directory, without a server
    #[command(subcommand)]
    Store(store::Command),
    /// Check the configuration
    #[command(subcommand)]
    Config(config::Command),
    /// Measure this machine
    #[command(subcommand)]
    Bench(bench::Command),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let environment = Environment::of_process();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            if code != 0 && std::env::args_os().any(|argument| argument == "--json") {
                Out::of_process(true, &environment).failure(&usage(&error));
                return ExitCode::from(code);
            }
            // Whoever asked can't be told if the terminal is gone.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let out = Out::of_process(cli.json, &environment);
    let context = Context { environment, out };
    match run(cli.command, &context) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            context.out.failure(&failure);
            ExitCode::from(failure.exit())
        }
    }
}

/// What is wrong with a command line, for programs: what clap says of it, without the usage that it shows people.
fn usage(error: &clap::Error) -> Failure {
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::new(code::USAGE, "a command is missing");
    }
    let text = error.to_string();
    let told = text.split("\nUsage:").next().unwrap_or(&text).trim_end();
    let told = told.split("\nFor more information").next().unwrap_or(told);
    let lines = told.trim_start_matches("error:").lines().map(str::trim).filter(|line| !line.is_empty());
    Failure::of_all(code::USAGE, lines.map(ToOwned::to_owned).collect())
}

fn run(command: Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Serve(args) => serve::run(&args, context),
        Command::Demo(args) => demo::run(&args, context),
        Command::Send(args) => send::run(&args, context),
        Command::Sign(args) => sign::run(&args, context),
        Command::Entity(command) => entity::run(&command, context),
        Command::Log(command) => log::run(&command, context),
        Command::Key(command) => key::run(&command, context),
        Command::DeadLetter(command) => dead_letter::run(&command, context),
        Command::Machine(command) => machine::run(&command, context),
        Command::Store(command) => store::run(&command, context),
        Command::Config(command) => config::run(&command, context),
        Command::Bench(command) => bench::run(&command, context),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_fits_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_summary_and_examples_that_fit_a_terminal() {
        fn check(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} has no summary");
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:\n"), "{path} has no examples");
            for line in after.lines() {
                // Paragraphs are wrapped; an example is to be copied.
                assert!(!line.starts_with(' ') || line.len() <= 80, "{path}: `{line}` is too long for a terminal");
            }
            command.get_subcommands().for_each(|sub| check(sub, &path));
        }
        check(&Cli::command(), "");
    }
}
