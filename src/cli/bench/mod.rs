//! `tollgate bench`: measures this machine, with what it is compared to in the same run.

mod event;
mod load;
mod report;
mod webhooks;

use super::Context;
use super::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  tollgate bench webhooks
  tollgate bench webhooks --seconds 60 --json";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) enum Command {
    /// How many webhooks a second are answered, stored and decided
    Webhooks(webhooks::Args),
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Webhooks(args) => webhooks::run(args, context),
    }
}
