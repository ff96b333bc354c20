//! `tollgate key`: the keys of a data directory. A running server notices within a second.

use std::collections::BTreeSet;

use secrecy::ExposeSecret as _;
use serde::Serialize;

use super::Context;
use super::args::{ConfigArgs, DataArgs};
use super::failure::Failure;
use super::instant;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::http::keys::{self, Key, Scope};

const EXAMPLES: &str = "\
Examples:
  tollgate key create dashboard --scope read
  tollgate key list
  tollgate key revoke dashboard";

const CREATE_EXAMPLES: &str = "\
Examples:
  tollgate key create dashboard --scope read
  tollgate key create oncall --scope read --scope operate > oncall.key

The key is printed once, alone, to the standard output; what is kept is its hash.";

const LIST_EXAMPLES: &str = "\
Examples:
  tollgate key list
  tollgate key list --data /var/lib/tollgate --json";

const REVOKE_EXAMPLES: &str = "\
Examples:
  tollgate key revoke dashboard
  tollgate key revoke dashboard --data /var/lib/tollgate

A revoked key keeps its name, since what it did is recorded under it.";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// Create a key and print it, this once
    #[command(after_help = CREATE_EXAMPLES)]
    Create(CreateArgs),
    /// List the keys, revoked ones too
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Revoke a key: a running server refuses it within a second
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke(RevokeArgs),
}

#[derive(clap::Args)]
pub(super) struct CreateArgs {
    /// The key's name, which what it does is recorded under
    #[arg(value_name = "NAME")]
    name: String,

    /// What it may do: see everything, act on dead letters, send usage; can be given several times
    #[arg(long = "scope", value_name = "SCOPE", value_enum, default_value = "read")]
    scopes: Vec<Scoped>,

    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    place: Place,
}

#[derive(clap::Args)]
pub(super) struct RevokeArgs {
    /// The key's name
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    place: Place,
}

/// Whose keys are meant.
#[derive(clap::Args)]
struct Place {
    #[command(flatten)]
    data: DataArgs,

    #[command(flatten)]
    config: ConfigArgs,
}

/// A scope as it is written on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Scoped {
    Read,
    Operate,
    Ingest,
}

impl From<Scoped> for Scope {
    fn from(scoped: Scoped) -> Self {
        match scoped {
            Scoped::Read => Self::Read,
            Scoped::Operate => Self::Operate,
            Scoped::Ingest => Self::Ingest,
        }
    }
}

/// A key as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    scopes: &'a BTreeSet<Scope>,
    created_at: String,
    revoked_at: Option<String>,
    /// The key itself, this once.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create(args, context),
        Command::List(args) => list(args, context),
        Command::Revoke(args) => revoke(args, context),
    }
}

fn create(args: &CreateArgs, context: &Context) -> Result<(), Failure> {
    let data = args.place.data.directory(&args.place.config, context)?;
    let scopes: BTreeSet<Scope> = args.scopes.iter().map(|scope| (*scope).into()).collect();
    let now = SystemClock.now();
    let token = keys::create(&data, &args.name, &scopes, now)?;
    if context.out.is_json() {
        let (name, created_at) = (args.name.as_str(), now.to_string());
        let key = Some(token.expose_secret());
        return context.out.document(&Shown { name, scopes: &scopes, created_at, revoked_at: None, key });
    }
    context.out.note(&format!("key `{}` may {}; this is the only time it is shown", args.name, words(&scopes)));
    context.out.line(token.expose_secret())
}

fn list(args: &ListArgs, context: &Context) -> Result<(), Failure> {
    let data = args.place.data.directory(&args.place.config, context)?;
    let keys = keys::list(&data)?;
    if context.out.is_json() {
        return context.out.document(&keys.iter().map(shown).collect::<Vec<_>>());
    }
    let row = |key: &Key| {
        let revoked = key.revoked_at.map_or_else(|| "-".to_owned(), |at| instant::short(&at.to_string()));
        vec![key.name.clone(), words(&key.scopes), instant::short(&key.created_at.to_string()), revoked]
    };
    let rows: Vec<_> = keys.iter().map(row).collect();
    let none = format!("`{}` has no keys; the first start of a server makes one", data.display());
    context.out.table(&["name", "scopes", "created", "revoked"], &rows, &none)
}

fn revoke(args: &RevokeArgs, context: &Context) -> Result<(), Failure> {
    let data = args.place.data.directory(&args.place.config, context)?;
    let key = keys::revoke(&data, &args.name, SystemClock.now())?;
    if context.out.is_json() {
        return context.out.document(&shown(&key));
    }
    context.out.line(&format!("key `{}` is revoked", key.name))
}

fn shown(key: &Key) -> Shown<'_> {
    Shown {
        name: &key.name,
        scopes: &key.scopes,
        created_at: key.created_at.to_string(),
        revoked_at: key.revoked_at.map(|at| at.to_string()),
        key: None,
    }
}

fn words(scopes: &BTreeSet<Scope>) -> String {
    scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(", ")
}
