//! `tollgate send`: signs payloads as a source does and posts them, as the provider would.

mod event_id;
mod line;
mod order;
pub(super) mod payload;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::StreamExt as _;

use super::Context;
use super::client::{Client, ServerArgs, block_on};
use super::failure::Failure;
use super::signer::{Signer, SignerArgs, fresh_id, id_of};
use line::{Line, Tally};
use payload::Payload;

const EXAMPLES: &str = "\
Examples:
  tollgate send --source stripe event.json
  # all payloads of a folder, each three times, in a random order
  tollgate send --source stripe --repeat 3 --shuffle payloads/
  # as if signed long ago: refused
  tollgate send --source stripe --at 2026-11-30T01:48:50Z event.json
  cat event.json | tollgate send --source standard -

The secret comes from where the source's own does, for example STRIPE_WEBHOOK_SECRET. Sending a payload \
again makes a duplicate; --new-ids makes it a new event.

Each delivery is one line, with --json one JSON document. Exit code 1 if any was refused or could not be \
sent.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    signer: SignerArgs,

    #[command(flatten)]
    server: ServerArgs,

    /// Send everything this many times, with the same event ids
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,

    /// Send in a random order
    #[arg(long)]
    shuffle: bool,

    /// Shuffle into the order that this number gave before
    #[arg(long, value_name = "N", requires = "shuffle")]
    seed: Option<u64>,

    /// Give each delivery an event id of its own; all other bytes stay
    #[arg(long)]
    new_ids: bool,

    /// Have this many deliveries under way at once; 1 keeps their order
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    concurrency: u16,

    /// Count a refusal (4xx) as a success
    #[arg(long)]
    allow_refused: bool,

    /// Files, folders (their .json files, by name) or - for the standard input
    #[arg(value_name = "PAYLOAD", required = true)]
    payloads: Vec<PathBuf>,
}

/// What a delivery is made with.
struct Sender<'a> {
    signer: Signer,
    client: Client,
    new_ids: bool,
    context: &'a Context,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let signer = args.signer.signer(context)?;
    let payloads: Vec<Arc<Payload>> = payload::all(&args.payloads)?.into_iter().map(Arc::new).collect();
    let mut deliveries: Vec<_> = (0..args.repeat).flat_map(|_| payloads.iter().cloned()).collect();
    if args.shuffle {
        let seed = args.seed.map_or_else(order::any_seed, Ok)?;
        order::shuffle(&mut deliveries, seed);
        if args.seed.is_none() {
            context.out.note(&format!("the same order again: --shuffle --seed {seed}"));
        }
    }
    let sender = Sender { signer, client: args.server.connect()?, new_ids: args.new_ids, context };
    let began = Instant::now();
    let tally = block_on(sender.send_all(deliveries, args.concurrency))?;
    let summary = tally.summary(began.elapsed());
    if context.out.is_json() {
        context.out.note(&summary);
    } else {
        context.out.line(&summary)?;
    }
    if tally.is_failed(args.allow_refused) { Err(Failure::told(1)) } else { Ok(()) }
}

impl Sender<'_> {
    /// Sends, and writes a line for each in the order they were to be sent in.
    async fn send_all(&self, deliveries: Vec<Arc<Payload>>, concurrency: u16) -> Result<Tally, Failure> {
        let sending = deliveries.into_iter().map(|payload| async move { self.send(&payload).await });
        let mut answers = futures_util::stream::iter(sending).buffered(usize::from(concurrency));
        let mut tally = Tally::default();
        while let Some(line) = answers.next().await {
            tally.count(&line);
            if self.context.out.is_json() {
                self.context.out.document(&line)?;
            } else {
                self.context.out.line(&line.text())?;
            }
        }
        Ok(tally)
    }

    async fn send(&self, payload: &Payload) -> Line {
        match self.try_send(payload).await {
            Ok(line) => line,
            Err(failure) => Line::not_sent(payload.shown(), &failure),
        }
    }

    async fn try_send(&self, payload: &Payload) -> Result<Line, Failure> {
        let read = payload.read()?;
        let (id, body) = if self.new_ids { self.renew(payload, read)? } else { (id_of(&read), read) };
        let mut headers = self.signer.headers(&id, &body, self.signer.at());
        headers.push(("content-type".to_owned(), "application/json".to_owned()));
        let reply = self.client.deliver(self.signer.name(), &headers, body).await?;
        Ok(Line::of(payload.shown(), reply))
    }

    /// A new id for the message, and new ones for the events in the body.
    fn renew(&self, payload: &Payload, body: Bytes) -> Result<(String, Bytes), Failure> {
        let id = fresh_id("msg_")?;
        let (pointers, items) = self.signer.id_pointers();
        let renewed = match std::str::from_utf8(&body) {
            Ok(text) => event_id::renew(text, &pointers, items)?,
            Err(_) => None,
        };
        if renewed.is_none() && !self.signer.has_id_header() {
            let at = pointers.join("`, `");
            self.context.out.note(&format!("{}: no event id stands at `{at}`; it is sent as it is", payload.shown()));
        }
        Ok((id, renewed.map_or(body, Bytes::from)))
    }
}
