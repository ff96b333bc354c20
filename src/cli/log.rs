//! `tollgate log`: what was decided.

use super::Context;
use super::args::PageArgs;
use super::client::{Client, KeyedArgs, block_on};
use super::entity::{self, EntityPath};
use super::failure::Failure;
use super::instant;
use crate::domain::Rule;
use crate::http::dto::{Entry, Page};

/// How long a server holds an answer back while nothing moves, in seconds.
const WAIT_S: u32 = 25;

/// How far what is told of an entry is indented below its first line: to behind the position.
const INDENT: usize = 10;

const EXAMPLES: &str = "\
Examples:
  tollgate log list --key-file data/operator.key
  tollgate log list --entity stripe/subscription/sub_1
  tollgate log list --follow";

const LIST_EXAMPLES: &str = "\
Examples:
  # one entity's whole history
  tollgate log list --entity stripe/subscription/sub_1
  # what was refused
  tollgate log list --outcome refused --source stripe
  # moves as they come, one JSON document a line
  tollgate log list --follow --json";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// List what was decided, the oldest first: moves, and what was stale or refused too
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
}

#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Only of this entity, SOURCE/KIND/ID
    #[arg(long, value_name = "ENTITY", value_parser = EntityPath::parse)]
    entity: Option<EntityPath>,

    /// Its account and mode, such as `live`, `test` or `acct_1:test`; needed if several have the id
    #[arg(long, value_name = "PARTITION", requires = "entity")]
    partition: Option<String>,

    /// Only of this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// Only of entities of this kind
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,

    /// Only with this outcome, such as advanced, stale or refused
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,

    /// Only by this rule of the ladder, such as older or tie
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,

    /// Only what moved a state: the change feed
    #[arg(long)]
    moves: bool,

    /// Go on with moves as they come, until interrupted (implies --moves)
    #[arg(long)]
    follow: bool,

    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    server: KeyedArgs,
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    let Command::List(args) = command;
    let client = args.server.connect(context)?;
    if args.follow {
        return block_on(follow(args, &client, context));
    }
    let (page, text) = block_on(list(args, &client))?;
    if context.out.is_json() {
        return match text {
            Some(text) => context.out.line(&text),
            None => context.out.document(&page),
        };
    }
    if page.items.is_empty() {
        context.out.line("nothing was decided")?;
    }
    page.items.iter().try_for_each(|entry| tell(entry, context))?;
    context.out.more(page.next.as_deref());
    Ok(())
}

/// A page, and its text where the server's answer is the page as it is wanted.
async fn list(args: &ListArgs, client: &Client) -> Result<(Page<Entry>, Option<String>), Failure> {
    if args.moves {
        return moves(args, client).await.map(|page| (page, None));
    }
    let Some(EntityPath { source, kind, id }) = &args.entity else {
        let filters =
            [("source", &args.source), ("kind", &args.kind), ("outcome", &args.outcome), ("rule", &args.rule)];
        let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
        return entries(args, client, &["v1", "entries"], filters.collect()).await;
    };
    let partition = args.partition.iter().map(|partition| ("partition", partition.clone()));
    entries(args, client, &["v1", "entities", source, kind, id, "entries"], partition.collect()).await
}

/// Entries that fit, until there are enough of them or no more: a server cuts a long search short.
async fn entries(
    args: &ListArgs,
    client: &Client,
    path: &[&str],
    filters: Vec<(&'static str, String)>,
) -> Result<(Page<Entry>, Option<String>), Failure> {
    let (limit, mut after) = (usize::from(args.page.limit), args.page.after.clone());
    let mut items: Vec<Entry> = Vec::new();
    loop {
        // Never more than there is room for, so that the cursor skips nothing.
        let mut query = vec![("limit", (limit - items.len()).to_string())];
        query.extend(after.iter().map(|after| ("after", after.clone())));
        query.extend(filters.iter().cloned());
        let answer = client.get::<Page<Entry>>(path, &query).await?;
        let (page, found) = (answer.value, items.len());
        let whole = page.items.len();
        items.extend(page.items.into_iter().filter(|entry| args.fits(entry)));
        if items.len() >= limit || page.next.is_none() || page.next == after {
            // A first page of which nothing was left out is what was asked for, as it is.
            let as_it_is = found == 0 && after == args.page.after && items.len() == whole;
            return Ok((Page { items, next: page.next }, as_it_is.then_some(answer.text)));
        }
        after = page.next;
    }
}

/// Moves that fit, until there are enough of them or no more.
async fn moves(args: &ListArgs, client: &Client) -> Result<Page<Entry>, Failure> {
    let (limit, mut after) = (usize::from(args.page.limit), args.page.after.clone());
    let mut items: Vec<Entry> = Vec::new();
    loop {
        // Never more than there is room for, so that the cursor skips nothing.
        let page = feed(client, after.as_deref(), limit - items.len(), 0).await?;
        // A stretch without a move is an empty page too; at the end the cursor stays.
        let ended = page.items.is_empty() && page.next == after;
        items.extend(page.items.into_iter().filter(|entry| args.fits(entry)));
        after = page.next;
        if ended || items.len() >= limit {
            return Ok(Page { items, next: after });
        }
    }
}

async fn feed(client: &Client, after: Option<&str>, limit: usize, wait_s: u32) -> Result<Page<Entry>, Failure> {
    let mut query = vec![("limit", limit.to_string()), ("wait", wait_s.to_string())];
    query.extend(after.map(|after| ("after", after.to_owned())));
    Ok(client.get::<Page<Entry>>(&["v1", "transitions"], &query).await?.value)
}

/// Moves as they come. Ends when it is interrupted or the server is gone, and then says where to go on.
async fn follow(args: &ListArgs, client: &Client, context: &Context) -> Result<(), Failure> {
    let mut after = args.page.after.clone();
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        let page = tokio::select! {
            page = feed(client, after.as_deref(), usize::from(args.page.limit), WAIT_S) => page,
            _ = &mut interrupted => {
                context.out.more(after.as_deref());
                return Ok(());
            }
        };
        let page = page.inspect_err(|_| context.out.more(after.as_deref()))?;
        for entry in page.items.iter().filter(|entry| args.fits(entry)) {
            if context.out.is_json() {
                context.out.document(entry)?;
            } else {
                tell(entry, context)?;
            }
        }
        after = page.next.or(after);
    }
}

impl ListArgs {
    /// Whether an entry is one of those that are wanted.
    fn fits(&self, entry: &Entry) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_ref().is_none_or(|wanted| wanted == value);
        let of = &entry.entity;
        let same = |path: &EntityPath| path.source == of.source && path.kind == of.kind && path.id == of.id;
        self.entity.as_ref().is_none_or(same)
            && is(&self.partition, &of.partition)
            && is(&self.source, &of.source)
            && is(&self.kind, &of.kind)
            && is(&self.outcome, &entry.outcome)
            && is(&self.rule, &entry.rule)
    }
}

/// Tells an entry: what it is about, what was decided by which rule, what led to it, and what went wrong.
fn tell(entry: &Entry, context: &Context) -> Result<(), Failure> {
    let (head, rest) = told(entry);
    context.out.line(&head)?;
    rest.iter().try_for_each(|line| context.out.prose(INDENT, line))
}

/// An entry's first line, and those below it.
fn told(entry: &Entry) -> (String, Vec<String>) {
    let of = &entry.entity;
    let name = entity::name(&of.source, &of.kind, &of.id, &of.partition);
    let head = format!("{:8}  {}  {name}", entry.position, instant::short(&entry.decided_at));
    let decided = format!("{}{} by rule `{}`{}", moved(entry), entry.outcome, entry.rule, meaning(&entry.rule));
    let reason = entry.reason.as_ref().map(|reason| reason.detail.clone());
    (head, [decided, format!("{}{}", cause(entry), machine(entry))].into_iter().chain(reason).collect())
}

fn moved(entry: &Entry) -> String {
    match (&entry.from, &entry.to) {
        (None, None) => String::new(),
        (Some(from), Some(to)) if from != to => format!("{from} -> {to}, "),
        (Some(state), Some(_) | None) => format!("stays {state}, "),
        (None, Some(to)) => format!("new -> {to}, "),
    }
}

/// The machine, unless it is the one that is named for the kind.
fn machine(entry: &Entry) -> String {
    let main = format!("{}/{}", entry.entity.source, entry.entity.kind);
    let other = entry.machine.as_ref().filter(|machine| **machine != main && **machine != entry.entity.kind);
    other.map(|machine| format!(", of {machine}")).unwrap_or_default()
}

/// What a rule means in words; nothing for one that a newer server made.
fn meaning(rule: &str) -> String {
    let rule = Rule::ALL.into_iter().find(|known| known.as_str() == rule);
    rule.map(|rule| format!(": {}", rule.meaning())).unwrap_or_default()
}

fn cause(entry: &Entry) -> String {
    let by = entry.by.as_ref().map(|by| format!("{} of {by}", entry.cause));
    let by = by.unwrap_or_else(|| entry.cause.clone());
    match (&entry.event_type, &entry.event_id) {
        (Some(event_type), Some(id)) => format!("{by} {event_type} {id}"),
        (None, Some(id)) => format!("{by} {id}"),
        (Some(_) | None, None) => by,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::config::Environment;

    fn entry(json: &str) -> Entry {
        let whole = format!(
            r#"{{"position":"12.0","entity":{{"source":"stripe","kind":"subscription","id":"sub_1","partition":"live"}},
                "cause":"webhook","positions":["11.0"],"event_id":"evt_1","event_type":"customer.subscription.updated",
                "decided_at":"2026-11-30T01:48:50.25Z","fields":{{}},"flags_set":[],"flags_cleared":[],"fetched":false,
                {json}}}"#
        );
        serde_json::from_str(&whole).unwrap()
    }

    /// Answers requests with these bodies, one a connection, and gives what was asked for.
    fn answering(bodies: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
        use std::io::{BufRead as _, BufReader, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answer = move |body: String| {
            let (mut stream, _) = listener.accept().unwrap();
            let head: Vec<_> =
                BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let size = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {size}\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).unwrap();
            head[0].clone()
        };
        (address, std::thread::spawn(move || bodies.into_iter().map(answer).collect()))
    }

    #[test]
    fn a_search_goes_on_over_empty_pages_until_there_is_enough_or_no_more() {
        let found = serde_json::to_string(&entry(r#""outcome":"refused","rule":"terminal""#)).unwrap();
        let check = |arguments: &[&str], pages: &[(&str, &str)], asked: &[&str], next: Option<&str>| {
            let pages = pages.iter().map(|(items, next)| format!(r#"{{"items":[{items}],"next":{next}}}"#)).collect();
            let (address, server) = answering(pages);
            let start = ["tollgate", "log", "list", "--outcome", "refused", "--server", &address];
            let cli = crate::cli::Cli::try_parse_from(start.iter().chain(arguments)).unwrap();
            let crate::cli::Command::Log(Command::List(args)) = cli.command else { panic!("another command") };
            let environment = Environment::of([("TOLLGATE_KEY", "tg_x")]);
            let context = Context { out: crate::cli::out::Out::of_process(false, &environment), environment };
            let client = args.server.connect(&context).unwrap();
            let (page, _) = block_on(list(&args, &client)).unwrap();
            assert_eq!((page.items.len(), page.next.as_deref()), (1, next));
            let requests: Vec<_> = asked.iter().map(|query| format!("GET /v1/{query} HTTP/1.1")).collect();
            assert_eq!(server.join().unwrap(), requests);
        };
        let first = "entries?limit=1&outcome=refused";
        let second = "entries?limit=1&after=c1&outcome=refused";
        check(&["--limit", "1"], &[("", "\"c1\""), (&found, "\"c2\"")], &[first, second], Some("c2"));
        let (first, second) = (first.replace("=1", "=100"), second.replace("=1", "=100"));
        check(&[], &[(&found, "\"c1\""), ("", "null")], &[&first, &second.replace("100", "99")], None);
    }

    #[test]
    fn an_entry_is_told_with_its_rule_its_cause_and_what_went_wrong() {
        let check = |json: &str, expected: &[&str]| {
            let (head, rest) = told(&entry(json));
            assert_eq!(head, "12.0      2026-11-30T01:48:50Z  stripe/subscription/sub_1");
            assert_eq!(rest, expected);
        };
        let webhook = "webhook customer.subscription.updated evt_1";
        check(
            r#""machine":"stripe/subscription","from":"trialing","to":"active","outcome":"advanced","rule":"advance""#,
            &["trialing -> active, advanced by rule `advance`: a declared step leads there", webhook],
        );
        check(
            r#""machine":"stripe/subscription","to":"active","outcome":"created","rule":"new_rule""#,
            &["new -> active, created by rule `new_rule`", webhook],
        );
        check(
            r#""machine":"other","from":"a","to":"a","outcome":"refused","rule":"terminal","reason":{"code":"ambiguous","detail":"why"}"#,
            &["stays a, refused by rule `terminal`: the state is final", &format!("{webhook}, of other"), "why"],
        );
    }
}
