//! `tollgate entity`: what is known now.

use super::Context;
use super::args::PageArgs;
use super::client::{KeyedArgs, block_on};
use super::failure::Failure;
use super::instant;
use super::out::printable;
use crate::http::dto::{Check, Entity, OrderKey, Page};

const EXAMPLES: &str = "\
Examples:
  export TOLLGATE_KEY=$(cat data/operator.key)
  tollgate entity list --source stripe --state past_due
  tollgate entity show stripe/subscription/sub_1";

const LIST_EXAMPLES: &str = "\
Examples:
  tollgate entity list --key-file data/operator.key
  tollgate entity list --source stripe --kind subscription --state past_due
  tollgate entity list --json | jq -r '.items[].id'";

const SHOW_EXAMPLES: &str = "\
Examples:
  tollgate entity show stripe/subscription/sub_1 --key-file data/operator.key
  tollgate entity show stripe/subscription/sub_1 --partition test
  tollgate entity show paddle/transaction/txn_1 --json";

#[derive(clap::Subcommand)]
#[command(after_help = EXAMPLES)]
pub(super) enum Command {
    /// List entities by source, kind and state
    #[command(after_help = LIST_EXAMPLES)]
    List(ListArgs),
    /// Show one entity: its states, fields, flags and what it is ordered by
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
}

#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Only of this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// Only of this kind
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,

    /// Only with a machine in this state
    #[arg(long, value_name = "STATE")]
    state: Option<String>,

    /// Only of this account and mode, such as `live`, `test` or `acct_1:test`
    #[arg(long, value_name = "PARTITION")]
    partition: Option<String>,

    #[command(flatten)]
    page: PageArgs,

    #[command(flatten)]
    server: KeyedArgs,
}

#[derive(clap::Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    entity: EntityArg,

    #[command(flatten)]
    partition: PartitionArg,

    #[command(flatten)]
    server: KeyedArgs,
}

/// Which entity is meant.
#[derive(clap::Args)]
pub(super) struct EntityArg {
    /// The entity as SOURCE/KIND/ID
    #[arg(value_name = "ENTITY", value_parser = EntityPath::parse)]
    pub(super) entity: EntityPath,
}

/// In which account and mode an entity is meant.
#[derive(clap::Args)]
pub(super) struct PartitionArg {
    /// Its account and mode, such as `live`, `test` or `acct_1:test`; needed if several have the id
    #[arg(long, value_name = "PARTITION")]
    pub(super) partition: Option<String>,
}

/// An entity by source, kind and id. An id may hold `/`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct EntityPath {
    pub(super) source: String,
    pub(super) kind: String,
    pub(super) id: String,
}

impl EntityPath {
    /// Reads `stripe/subscription/sub_1`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, '/').map(str::to_owned);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(source), Some(kind), Some(id)) if !source.is_empty() && !kind.is_empty() && !id.is_empty() => {
                Ok(Self { source, kind, id })
            }
            _ => Err("expected SOURCE/KIND/ID such as `stripe/subscription/sub_1`".to_owned()),
        }
    }
}

pub(super) fn run(command: &Command, context: &Context) -> Result<(), Failure> {
    match command {
        Command::List(args) => list(args, context),
        Command::Show(args) => show(args, context),
    }
}

fn list(args: &ListArgs, context: &Context) -> Result<(), Failure> {
    let filters =
        [("source", &args.source), ("kind", &args.kind), ("state", &args.state), ("partition", &args.partition)];
    let given = filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    let query: Vec<_> = given.chain(args.page.query()).collect();
    let client = args.server.connect(context)?;
    let answer = block_on(client.get::<Page<Entity>>(&["v1", "entities"], &query))?;
    if context.out.is_json() {
        return context.out.line(&answer.text);
    }
    let page = answer.value;
    let rows: Vec<_> = page.items.iter().map(row).collect();
    context.out.named(&["state", "version", "updated", "entity"], &rows, "no entity is known")?;
    context.out.more(page.next.as_deref());
    Ok(())
}

fn row(entity: &Entity) -> Vec<String> {
    let state = [states(entity)].into_iter().chain(entity.flags.iter().map(|flag| format!("({flag})")));
    vec![
        state.collect::<Vec<_>>().join(" "),
        entity.version.to_string(),
        instant::short(&entity.updated_at),
        name(&entity.source, &entity.kind, &entity.id, &entity.partition),
    ]
}

/// The state; of several machines each with its name.
fn states(entity: &Entity) -> String {
    match (&entity.state, entity.states.len()) {
        (Some(state), 0 | 1) => state.clone(),
        (None, 0) => "-".to_owned(),
        (Some(_) | None, _) => {
            let short = |machine: &str| machine.rsplit('/').next().unwrap_or(machine).to_owned();
            let states = entity.states.iter().map(|(machine, state)| format!("{state} ({})", short(machine)));
            states.collect::<Vec<_>>().join(", ")
        }
    }
}

/// An entity in one word; its partition behind it unless it is the usual one.
pub(super) fn name(source: &str, kind: &str, id: &str, partition: &str) -> String {
    let partition = if partition == "live" { String::new() } else { format!(" ({partition})") };
    printable(&format!("{source}/{kind}/{id}{partition}")).into_owned()
}

fn show(args: &ShowArgs, context: &Context) -> Result<(), Failure> {
    let EntityPath { source, kind, id } = &args.entity.entity;
    let query: Vec<_> = args.partition.partition.iter().map(|partition| ("partition", partition.clone())).collect();
    let client = args.server.connect(context)?;
    let answer = block_on(client.get::<Entity>(&["v1", "entities", source, kind, id], &query))?;
    if context.out.is_json() {
        return context.out.line(&answer.text);
    }
    let entity = answer.value;
    context.out.line(&name(&entity.source, &entity.kind, &entity.id, "live"))?;
    context.out.pairs(&facts(&entity))?;
    if !entity.fields.is_empty() {
        let order = entity.fields_order_key.as_ref().map(|key| format!(", ordered by {}", order_key(key)));
        context.out.line(&format!("\nfields{}", order.unwrap_or_default()))?;
        let fields = entity.fields.iter().map(|(name, value)| (name.as_str(), value.get().to_owned()));
        context.out.pairs(&fields.collect::<Vec<_>>())?;
    }
    Ok(())
}

fn facts(entity: &Entity) -> Vec<(&'static str, String)> {
    let mut facts = vec![("partition", entity.partition.clone())];
    for (machine, held) in &entity.machines {
        facts.push(("state", format!("{}, by {machine} version {}", held.state, held.machine_version)));
        facts.push(("  since", instant::with_local(&held.since)));
        facts.push(("  ordered by", order_key(&held.order_key)));
    }
    facts.push(("version", entity.version.to_string()));
    facts.push(("updated", instant::with_local(&entity.updated_at)));
    if !entity.flags.is_empty() {
        facts.push(("flags", entity.flags.join(", ")));
    }
    facts.extend(entity.check.as_ref().map(|check| ("check", told(check))));
    facts
}

fn told(check: &Check) -> String {
    let answer = check.answer.as_ref().map(|answer| {
        let states: Vec<_> = answer.states.values().cloned().collect();
        if answer.found { states.join(", ") } else { "that it doesn't know it".to_owned() }
    });
    let answer = answer.map(|answer| format!(", the upstream last answered {answer}")).unwrap_or_default();
    format!("due {}, because `{}`{answer}", instant::with_local(&check.due), check.reason)
}

fn order_key(key: &OrderKey) -> String {
    match key {
        OrderKey::Version { version } => format!("version {version}"),
        OrderKey::Time { time, of } => format!("{time} ({of})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_named_by_source_kind_and_id() {
        let check = |text: &str, expected: Option<[&str; 3]>| {
            let expected = expected.map(|[source, kind, id]| EntityPath {
                source: source.to_owned(),
                kind: kind.to_owned(),
                id: id.to_owned(),
            });
            assert_eq!(EntityPath::parse(text).ok(), expected, "{text}");
        };
        check("stripe/subscription/sub_1", Some(["stripe", "subscription", "sub_1"]));
        check("s/k/a/b", Some(["s", "k", "a/b"]));
        for wrong in ["", "sub_1", "stripe/sub_1", "stripe//sub_1", "/k/1", "s/k/"] {
            check(wrong, None);
        }
    }

    #[test]
    fn a_partition_is_told_unless_it_is_the_usual_one() {
        assert_eq!(name("s", "k", "1", "live"), "s/k/1");
        assert_eq!(name("s", "k", "1", "acct_1:test"), "s/k/1 (acct_1:test)");
    }
}
