//! `tollgate sign`: the headers that a source would sign a payload with.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::Context;
use super::client::{ServerArgs, webhook};
use super::failure::Failure;
use super::send::payload::Payload;
use super::signer::{SignerArgs, id_of};

const EXAMPLES: &str = "\
Examples:
  tollgate sign --source stripe event.json
  tollgate sign --source standard --id msg_1 --at 1796003330 event.json
  tollgate sign --source stripe --curl event.json | sh
  printf '{}' | tollgate sign --source stripe --secret-file secret.txt -

The bytes are signed as they are: an editor that adds a line break at the end changes the signature.";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    signer: SignerArgs,

    /// The message's id, for schemes that sign one [default: made from the payload]
    #[arg(long, value_name = "ID", value_parser = message_id)]
    id: Option<String>,

    /// Print a curl command that posts the payload
    #[arg(long, conflicts_with = "json")]
    curl: bool,

    #[command(flatten)]
    server: ServerArgs,

    /// The payload's file, or - for the standard input
    #[arg(value_name = "PAYLOAD")]
    payload: PathBuf,
}

/// A signed payload as JSON.
#[derive(Serialize)]
struct Signature<'a> {
    source: &'a str,
    signed_at: String,
    headers: BTreeMap<&'a str, &'a str>,
}

/// Reads an id that a header can carry.
fn message_id(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Err("an id can't be empty".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("an id is sent in a header: it can't have spaces, line breaks or letters beyond ASCII".to_owned());
    }
    Ok(text.to_owned())
}

pub(super) fn run(args: &Args, context: &Context) -> Result<(), Failure> {
    let signer = args.signer.signer(context)?;
    let payload = Payload::of(&args.payload)?;
    let body = payload.read()?;
    let id = args.id.clone().unwrap_or_else(|| id_of(&body));
    let at = signer.at();
    let headers = signer.headers(&id, &body, at);
    if context.out.is_json() {
        let headers = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        return context.out.document(&Signature { source: signer.name(), signed_at: at.to_string(), headers });
    }
    if args.curl {
        let url = webhook(&args.server.server, signer.name());
        let file = args.payload.display().to_string();
        return context.out.line(&curl(url.as_str(), &headers, &file));
    }
    headers.iter().try_for_each(|(name, value)| context.out.line(&format!("{name}: {value}")))
}

fn curl(url: &str, headers: &[(String, String)], file: &str) -> String {
    let mut words = vec!["curl -sS -X POST".to_owned(), quoted(url)];
    words.push("-H 'content-type: application/json'".to_owned());
    words.extend(headers.iter().map(|(name, value)| format!("-H {}", quoted(&format!("{name}: {value}")))));
    words.push(format!("--data-binary {}", quoted(&format!("@{file}"))));
    words.join(" \\\n  ")
}

/// A word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_that_a_header_can_carry() {
        assert_eq!(message_id("msg_1").as_deref(), Ok("msg_1"));
        for wrong in ["", "a b", "a\nb", "a\r\nx-y: z", "\u{fc}"] {
            assert!(message_id(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_curl_command_survives_quotes_and_spaces() {
        let headers = [("a-b".to_owned(), "t=1,v1=ff".to_owned())];
        assert_eq!(
            curl("http://h/webhooks/s", &headers, "it's here.json"),
            "curl -sS -X POST \\\n  'http://h/webhooks/s' \\\n  -H 'content-type: application/json' \\\n  \
             -H 'a-b: t=1,v1=ff' \\\n  --data-binary '@it'\\''s here.json'"
        );
    }
}
