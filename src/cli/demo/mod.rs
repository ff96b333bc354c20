//! `tollgate demo`: plays stories on a server of its own and says what was decided, and why.
//!
//! Everything is real: the server listens on loopback, the deliveries are signed and posted, the store is the embedded
//! one (in a temporary folder), and the upstream is a small API on loopback.

mod account;
mod stage;
mod stories;

use super::Context;
use super::failure::Failure;
use crate::code;
use account::Account;
use stage::Stage;

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

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    actix_rt::System::new().block_on(play(args, context, folder.path()))
}

async fn play(args: &Args, context: &Context, folder: &std::path::Path) -> Result<(), Failure> {
    let stage = Stage::set(folder, args.listen).await?;
    let mut account = Account::begin(&context.out, &stage.address())?;
    for story in stories::all(stage.now()) {
        account.story(&story)?;
        let wrong = stage.play(&story, &mut account).await?;
        account.ended(&story, &wrong)?;
    }
    let wrong = account.close(&stage.entities().await?, stage.fetches(), &stage.address())?;
    if !args.once {
        account.serving(&stage.address(), stage.operator_key().as_deref())?;
        stage.serve().await?;
    }
    stage.stop().await?;
    if wrong == 0 { Ok(()) } else { Err(Failure::new(code::DEMO_FAILED, format!("{wrong} stories ended wrongly"))) }
}
