//! `tollgate demo`: plays stories and says what was decided, and why.

use super::Context;
use super::failure::Failure;
use crate::code;

const EXAMPLES: &str = "\
Examples:
  # play the stories, then go on serving what they left
  tollgate demo
  # end after the account; exit code 0 only if every story ended as it must
  tollgate demo --once
  tollgate demo --once --json";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// End after the account; exit code 0 only if every story ended as it must
    #[arg(long)]
    pub(super) once: bool,

    /// The address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    pub(super) listen: std::net::SocketAddr,
}

pub(super) fn run(_: &Args, _: &Context) -> Result<(), Failure> {
    Err(Failure::new(code::INTERNAL, "this build has no stories"))
}
