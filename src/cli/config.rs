//! `tollgate config`: what holds after all layers, and whether it can be used.

use serde::Serialize;
use serde_json::Value;

use super::Context;
use super::args::{ConfigArgs, DataArgs};
use super::assemble;
use super::failure::Failure;
use crate::config::{Config, Problem};

const EXAMPLES: &str = "\
Examples:
  tollgate config check
  tollgate config check --config tollgate.toml";

const CHECK_EXAMPLES: &str = "\
Examples:
  tollgate config check
  TOLLGATE__SERVER__LISTEN=0.0.0.0:80 tollgate config check
  tollgate config check --config tollgate.toml --json

Prints what holds after all layers in the form of a configuration file, with secrets masked. Then tells \
everything that is wrong with it, its secrets, machines and sources. Exit code 2 if anything is.";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// Print the merged configuration with secrets masked, and everything that is wrong with it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
}

#[derive(clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,

    #[command(flatten)]
    data: DataArgs,
}

/// What a check found, as JSON.
#[derive(Serialize)]
struct Checked<'a> {
    ok: bool,
    /// The merged configuration; null if its layers don't fit together.
    config: Option<&'a Value>,
    problems: Vec<Wrong<'a>>,
    /// What is no error but hardly meant.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Wrong<'a> {
    code: &'a str,
    origin: &'a str,
    key: &'a str,
    message: &'a str,
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    let Command::Check(args) = command;
    let loaded = Config::load(&args.config.inputs(context, args.data.flags()));
    let (config, problems) = match loaded {
        Ok(config) => {
            let (sources, machines, problems) = assemble::parts(&config, &context.environment);
            drop(machines);
            let shown = config.show(&sources.unwrap_or_default());
            (Some(shown), problems)
        }
        Err(problems) => (None, problems),
    };
    let warnings = context.environment.slips();
    if context.out.is_json() {
        let config = config.as_ref().map(crate::config::Shown::json);
        let wrong = problems.iter().map(Wrong::from).collect();
        context.out.document(&Checked { ok: problems.is_empty(), config, problems: wrong, warnings })?;
        let exit = Failure::from(problems.clone()).exit();
        return if problems.is_empty() { Ok(()) } else { Err(Failure::told(exit)) };
    }
    for warning in &warnings {
        context.out.note(&format!("warning: {warning}"));
    }
    if let Some(shown) = &config {
        context.out.line(shown.toml().trim_end())?;
    }
    if problems.is_empty() {
        context.out.note("the configuration can be used");
        return Ok(());
    }
    Err(problems.into())
}

impl<'a> From<&'a Problem> for Wrong<'a> {
    fn from(problem: &'a Problem) -> Self {
        let Problem { origin, key, message, code } = problem;
        Self { code: code.id, origin, key, message }
    }
}
