//! Tests of sources as a whole: declaration and bytes in, events out.

mod ahead;
mod batches;
mod declarations;
mod door;
mod fields;
mod laws;
mod mapping;
mod pointers;
mod schemes;
mod secrets;
mod shipped;
mod unreadable;
mod upstream;

use std::sync::Arc;

use super::spec::SourceSpec;
use super::*;
use crate::domain::{Admit, Event, FieldName};

/// A secret of the form that Standard Webhooks has: 32 bytes.
const STANDARD_SECRET: &str = "whsec_dG9sbGdhdGUtdGVzdC1zZWNyZXQtMDEyMzQ1Njc4OTA=";
/// A secret for the schemes that take one as it is.
const PLAIN_SECRET: &str = "whsec_tollgate_test_secret";
/// When the tests' deliveries come in.
const NOW: Timestamp = Timestamp::from_secs(1_780_000_000);

fn spec(toml: &str) -> SourceSpec {
    toml::from_str(toml).unwrap_or_else(|e| panic!("{e}"))
}

fn shipped_spec(name: &str) -> SourceSpec {
    let (_, toml) = SHIPPED.iter().find(|(shipped, _)| *shipped == name).unwrap();
    spec(toml)
}

fn with_secrets(texts: &[&str]) -> Secrets {
    Secrets { signing: texts.iter().map(|text| SigningSecret::new(text)).collect(), ..Secrets::default() }
}

fn compile(spec: &SourceSpec, secrets: &[&str]) -> Source {
    Source::compile(spec, &with_secrets(secrets)).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// A shipped source with a test secret.
fn shipped(name: &str) -> Source {
    let secret = if matches!(name, "standard" | "flexprice") { STANDARD_SECRET } else { PLAIN_SECRET };
    compile(&shipped_spec(name), &[secret])
}

/// Every problem of a declaration, one a line.
fn problems(spec: &SourceSpec, secrets: &Secrets) -> String {
    let found = Source::compile(spec, secrets).err().unwrap_or_default();
    found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The single event of a body, through the whole door: signed, verified, delivered.
fn deliver(source: &Source, body: &str) -> Item {
    let headers = source.sign(0, "msg_1", body.as_bytes(), NOW);
    let verified = source.verify(&headers, body.as_bytes(), NOW).unwrap();
    let delivery = source.deliver(&verified, &headers, Bytes::from(body.to_owned()), NOW);
    let [item] = <[Item; 1]>::try_from(delivery.items).unwrap();
    item
}

fn claim(event: &Event) -> String {
    let claims: Vec<_> = event.claims.iter().map(|(machine, claim)| format!("{machine} {claim}")).collect();
    claims.join(", ")
}

fn field(event: &Event, name: &str) -> Option<String> {
    event.fields.get(&FieldName::new(name)).map(|value| value.as_str().to_owned())
}

/// What becomes of an item, as a word; of a dead letter with its code and detail.
fn fate(item: &Item) -> String {
    match &item.admit {
        Admit::Queue => "queue".to_owned(),
        Admit::Record => "record".to_owned(),
        Admit::DeadLetter(Reason::MappingFailed { detail }) => format!("mapping_failed: {detail}"),
        Admit::DeadLetter(Reason::BodyNotJson { detail }) => format!("body_not_json: {detail}"),
        Admit::DeadLetter(other) => panic!("{other:?}"),
    }
}
