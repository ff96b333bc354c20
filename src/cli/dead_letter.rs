//! `tollgate dead-letter`: events that gave up, and what is done with them.

use super::Context;
use super::args::PageArgs;
use super::client::{KeyedArgs, block_on};
use super::entity;
use super::failure::Failure;
use super::instant;
use super::out::printable;
use crate::domain::Position;
use crate::http::dto::{DeadLetter, DeadLetterShown, Done, KeptDelivery, Page};

/// How far what is told of a dead letter is indented below its first line: to behind the position.
const INDENT: usize = 10;

const EXAMPLES: &str = "\
Examples:
  tollgate dead-letter list
  tollgate dead-letter show 42.0
  tollgate dead-letter replay 42.0 43.0";

const LIST_EXAMPLES: &str = "\
Examples:
  tollgate dead-letter list --key-file data/operator.key
  tollgate dead-letter list --json | jq -r '.items[].position'";

const SHOW_EXAMPLES: &str = "\
Examples:
  tollgate dead-letter show 42.0
  # the body, to mend a mapping with
  tollgate dead-letter show 42.0 --json | jq -r .delivery.body";

const REPLAY_EXAMPLES: &str = "\
Examples:
  tollgate dead-letter replay 42.0
  tollgate dead-letter replay 42.0 43.0 --key-file data/operator.key

Mend the cause first: each event is mapped anew from its raw bytes and judged again.";

const DISCARD_EXAMPLES: &str = "\
Examples:
  tollgate dead-letter discard 42.0
  tollgate dead-letter discard 42.0 43.0 --key-file data/operator.key

The event stays in the journal; it only counts as looked at.";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// List dead letters, the oldest first
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Show a dead letter: every try, and the delivery as it was received
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// Judge dead letters again
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(CommandArgs),
    /// Drop dead letters that somebody has looked at
    #[command(after_help = DISCARD_EXAMPLES)]
    Discard(CommandArgs),
}

#[derive(clap::Args)]
pub(super) struct ListArgs {
    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    server: KeyedArgs,
}

#[derive(clap::Args)]
pub(super) struct ShowArgs {
    /// Where it stands, such as 42.0
    #[arg(value_name = "POSITION", value_parser = position)]
    position: Position,

    #[command(flatten)]
    server: KeyedArgs,
}

#[derive(clap::Args)]
pub(super) struct CommandArgs {
    /// Where they stand, such as 42.0
    #[arg(value_name = "POSITION", required = true, value_parser = position)]
    positions: Vec<Position>,

    #[command(flatten)]
    server: KeyedArgs,
}

fn position(text: &str) -> Result<Position, String> {
    Position::parse(text).ok_or_else(|| "expected LSN.ITEM, such as `42.0`".to_owned())
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, context),
        Command::Show(args) => show(args, context),
        Command::Replay(args) => command_all("replay", args, context),
        Command::Discard(args) => command_all("discard", args, context),
    }
}

fn list(args: &ListArgs, context: &Context) -> Result<(), Failure> {
    let client = args.server.connect(context)?;
    let answer = block_on(client.get::<Page<DeadLetter>>(&["v1", "dead-letters"], &args.page.query()))?;
    if context.out.is_json() {
        return context.out.line(&answer.text);
    }
    let page = answer.value;
    if page.items.is_empty() {
        context.out.line("there are no dead letters")?;
    }
    for letter in &page.items {
        let (head, rest) = told(letter);
        context.out.line(&head)?;
        context.out.prose(INDENT, &rest)?;
    }
    context.out.more(page.next.as_deref());
    Ok(())
}

/// A dead letter's first line, and what stands below it.
fn told(letter: &DeadLetter) -> (String, String) {
    let code = letter.attempts.last().map_or("unknown", |attempt| attempt.reason.code.as_str());
    let tries = letter.attempts.len();
    let tries = if tries > 1 { format!(" after {tries} tries") } else { String::new() };
    let about = letter.entity.as_ref().map(|of| entity::name(&of.source, &of.kind, &of.id, &of.partition));
    let about = about.map(|entity| format!(", about {entity}")).unwrap_or_default();
    let head = format!("{:8}  {}  {code}{tries}", letter.position, instant::short(&letter.received_at));
    (head, format!("{} {} {}{about}", letter.source, letter.event_type, letter.event_id))
}

fn show(args: &ShowArgs, context: &Context) -> Result<(), Failure> {
    let client = args.server.connect(context)?;
    let position = args.position.to_string();
    let answer = block_on(client.get::<DeadLetterShown>(&["v1", "dead-letters", &position], &[]))?;
    if context.out.is_json() {
        return context.out.line(&answer.text);
    }
    let DeadLetterShown { dead_letter, delivery } = answer.value;
    context.out.pairs(&facts(&dead_letter))?;
    context.out.line("\ntries")?;
    for attempt in &dead_letter.attempts {
        let at = instant::with_local(&attempt.at);
        context.out.line(&format!("{at}  {}\n  {}", attempt.reason.code, printable(&attempt.reason.detail)))?;
    }
    match delivery {
        None => context.out.line("\nits delivery is no longer kept"),
        Some(delivery) => show_delivery(&delivery, context),
    }
}

fn facts(letter: &DeadLetter) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("position", letter.position.clone()),
        ("event", format!("{} {} ({})", letter.source, letter.event_type, letter.event_id)),
    ];
    let entity = letter.entity.as_ref();
    facts.extend(entity.map(|of| ("entity", entity::name(&of.source, &of.kind, &of.id, &of.partition))));
    facts.extend(letter.event_time.as_ref().map(|at| ("happened", instant::with_local(at))));
    facts.push(("received", instant::with_local(&letter.received_at)));
    for (machine, claim) in &letter.claims {
        let name = claim.name.as_ref().map(|name| format!("({name})")).unwrap_or_default();
        facts.push(("claims", format!("{}{name} of {machine}", claim.sort)));
    }
    facts.push(("sha256", letter.body_sha256.clone()));
    facts
}

fn show_delivery(delivery: &KeptDelivery, context: &Context) -> Result<(), Failure> {
    context.out.line(&format!("\ndelivery, signed with secret {}", delivery.secret))?;
    let header = |(name, value): (&String, &String)| context.out.line(&printable(&format!("{name}: {value}")));
    delivery.headers.iter().try_for_each(header)?;
    match (&delivery.body, &delivery.body_base64) {
        (Some(text), _) => {
            context.out.line("")?;
            text.split('\n').try_for_each(|line| context.out.line(&printable(line)))
        }
        (None, Some(base64)) => context.out.line(&format!("\nnot text, in base64:\n{base64}")),
        (None, None) => Ok(()),
    }
}

/// Commands one dead letter after the other. One that can't be is told, and is no hindrance to those behind it.
fn command_all(command: &'static str, args: &CommandArgs, context: &Context) -> Result<(), Failure> {
    let client = args.server.connect(context)?;
    let mut all = Vec::new();
    let mut failures = Vec::new();
    block_on(async {
        for position in &args.positions {
            let position = position.to_string();
            match client.post::<Done>(&["v1", "dead-letters", &position, command]).await {
                Ok(done) => all.push(done.value),
                Err(failure) => {
                    // What is not about this dead letter would go wrong with the next one too.
                    let goes_on = matches!(failure.status(), Some(404 | 409));
                    failures.push(failure);
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        Ok(())
    })?;
    if context.out.is_json() {
        context.out.document(&all)?;
    } else {
        for done in &all {
            let what = if command == "replay" { "is pending again, at" } else { "is discarded, by the command at" };
            context.out.line(&format!("{} {what} {}", done.dead_letter, done.position))?;
        }
    }
    let Some(last) = failures.pop() else { return Ok(()) };
    for failure in &failures {
        context.out.failure(failure);
    }
    Err(last)
}
