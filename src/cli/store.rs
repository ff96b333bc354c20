//! `tollgate store`: checks and rebuilds the store of a data directory that no server has open.

use std::path::PathBuf;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Context;
use super::args::{ConfigArgs, DataArgs};
use super::failure::Failure;
use crate::code;
use crate::config::Config;
use crate::store::check::{self, Report};
use crate::store::embedded::EmbeddedStore;
use crate::store::options::{Options, Progress};
use crate::store::{Error, Store};

const EXAMPLES: &str = "\
Examples:
  tollgate store check --data /var/lib/tollgate
  tollgate store rebuild --data /var/lib/tollgate

Stop the server first: one process at a time may have a store open.";

const CHECK_EXAMPLES: &str = "\
Examples:
  tollgate store check
  tollgate store check --data /var/lib/tollgate --json

Reads the whole journal, folds it, and compares what comes of it with the view, pair by pair: so each entity is \
proved to be what its entries say. Reads the files of seen ids too. Exit code 1 if anything is wrong.

The comparison needs room in the data directory for files named `rebuild.*`, up to about the size of the journal. \
Without it all the rest is read, and `disk_full` says that the view was not compared.";

const REBUILD_EXAMPLES: &str = "\
Examples:
  tollgate store rebuild
  tollgate store rebuild --data /var/lib/tollgate

The view holds only what the journal implies, so nothing is lost. A server does this by itself when it finds its \
view damaged.";

/// What is not known if there is no room.
const NOT_COMPARED: &str = "the view was not compared with the journal: that needs room on the disk, up to about the size \
    of the journal";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// Read everything, and compare what is shown with what the journal says
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Args),
    /// Drop the view and build it anew from the journal
    #[command(after_help = REBUILD_EXAMPLES)]
    Rebuild(Args),
}

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,

    #[command(flatten)]
    config: ConfigArgs,
}

/// What was found, as JSON.
#[derive(Serialize)]
struct Found<'a> {
    ok: bool,
    /// Whether the view was compared with the journal: it is not if there is no room for that.
    compared: bool,
    data: String,
    last: u64,
    deliveries: u64,
    events: u64,
    commands: u64,
    commits: u64,
    entries: u64,
    entities: u64,
    pending: u64,
    retries: u64,
    dead_letters: u64,
    problems: Vec<Problem<'a>>,
    more_problems: u64,
}

#[derive(Serialize)]
struct Problem<'a> {
    place: &'a str,
    detail: &'a str,
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::Check(args) => {
            let (data, report) = args.with_store(context, "checking", check::check)?;
            tell(&data, &report, "is sound", context)
        }
        Command::Rebuild(args) => {
            let (data, report) = args.with_store(context, "rebuilding", check::rebuild)?;
            tell(&data, &report, "has a new view", context)
        }
    }
}

/// Opens the store of a configuration. Shows how far it has come if its view is built anew.
pub(super) fn open(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    let (progress, bar) = progress("building the view");
    let options = Options { progress: Some(progress), ..config.store.options() };
    let store = match EmbeddedStore::open(&config.paths.data, options.clone()) {
        // The count of shards that is configured is for a new store; an old one keeps its own.
        Err(Error::OtherShards { .. }) => EmbeddedStore::open(&config.paths.data, Options { shards: None, ..options }),
        opened => opened,
    };
    bar.finish_and_clear();
    Ok(Arc::new(store?))
}

impl Args {
    /// Does something with the store that is meant, and shows how far it has come.
    fn with_store(
        &self,
        context: &Context,
        what: &'static str,
        work: impl FnOnce(&std::path::Path, &Options) -> Result<Report, Error>,
    ) -> Result<(PathBuf, Report), Failure> {
        let config = self.config.load(context, self.data.flags())?;
        let (progress, bar) = progress(what);
        // The store says itself how many shards it has.
        let options = Options { shards: None, progress: Some(progress), ..config.store.options() };
        let report = work(&config.paths.data, &options);
        bar.finish_and_clear();
        Ok((config.paths.data, report?))
    }
}

fn tell(data: &std::path::Path, report: &Report, sound: &str, context: &Context) -> Result<(), Failure> {
    let data = data.display().to_string();
    if context.out.is_json() {
        context.out.document(&Found::of(data, report))?;
        let is_proved = report.is_sound() && !report.lacks_room;
        return if is_proved { Ok(()) } else { Err(Failure::told(code::STORE_CORRUPT.exit_code())) };
    }
    if !report.is_sound() {
        let mut details: Vec<_> =
            report.problems.iter().map(|problem| format!("{}: {}", problem.place, problem.detail)).collect();
        if report.more_problems > 0 {
            details.push(format!("and {} more", report.more_problems));
        }
        if report.lacks_room {
            details.push(NOT_COMPARED.to_owned());
        }
        let fix = "A view is built anew by `tollgate store rebuild`; what is wrong with the journal needs the named \
            file from a backup, and what is wrong with seen ids is made anew once the named file is removed.";
        return Err(Failure::of_all(code::STORE_CORRUPT, details).with_fix(fix));
    }
    if report.lacks_room {
        let detail = format!("the journal and the seen ids in {data} are sound, but {NOT_COMPARED}");
        return Err(Failure::new(code::DISK_FULL, detail).with_fix("Free some space, then check again."));
    }
    context.out.line(&format!("the store in {data} {sound}"))?;
    context.out.pairs(&facts(report))
}

fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let all = [
        ("records", report.last.0),
        ("deliveries", report.deliveries),
        ("events", report.events),
        ("commands", report.commands),
        ("decisions", report.commits),
        ("entries", report.entries),
        ("entities", report.entities),
        ("undecided", report.pending),
        ("retries", report.retries),
        ("dead letters", report.dead_letters),
    ];
    // A rebuild doesn't count what it only passes on; what is undecided is worth a zero.
    let told = all.into_iter().filter(|(name, count)| *count > 0 || *name == "undecided");
    told.map(|(name, count)| (name, count.to_string())).collect()
}

impl<'a> Found<'a> {
    fn of(data: String, report: &'a Report) -> Self {
        let Report {
            last,
            deliveries,
            events,
            commands,
            commits,
            entries,
            entities,
            pending,
            retries,
            dead_letters,
            problems,
            more_problems,
            lacks_room,
        } = report;
        Self {
            ok: report.is_sound() && !lacks_room,
            compared: !lacks_room,
            data,
            last: last.0,
            deliveries: *deliveries,
            events: *events,
            commands: *commands,
            commits: *commits,
            entries: *entries,
            entities: *entities,
            pending: *pending,
            retries: *retries,
            dead_letters: *dead_letters,
            problems: problems
                .iter()
                .map(|problem| Problem { place: &problem.place, detail: &problem.detail })
                .collect(),
            more_problems: *more_problems,
        }
    }
}

/// A bar on the standard error stream; nothing is drawn if that is no terminal.
fn progress(what: &'static str) -> (Progress, ProgressBar) {
    let bar = ProgressBar::new(0).with_message(what);
    let form = "{msg} [{bar:30}] {human_pos} of {human_len} records, {eta} left";
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style.progress_chars("=> "));
    }
    let drawn = bar.clone();
    let tell = move |done, total| {
        drawn.set_length(total);
        drawn.set_position(done);
    };
    (Arc::new(tell), bar)
}
