//! The form of `config/sources/*.toml`: everything that is particular to a provider, as data.
//!
//! Nothing here is checked beyond its shape; [`Source::compile`](super::Source::compile) reports what does not fit
//! together. Maps instead of lists of tables wherever there is a natural key, so that a configuration layer can
//! set one value of a shipped file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::domain::{FieldName, Kind, MachineName, SourceName};

/// A source as its file declares it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceSpec {
    /// Its name: the last part of the webhook's path.
    pub name: SourceName,
    /// What it is, for people.
    #[serde(default)]
    pub doc: String,
    /// The environment variable that holds the signing secrets, separated by commas.
    #[serde(default)]
    pub secrets_env: Option<String>,
    /// The file that holds the signing secrets, one a line.
    #[serde(default)]
    pub secrets_file: Option<String>,
    /// How deliveries are signed.
    pub signature: SignatureSpec,
    /// Where an event's own facts lie.
    pub event: EventSpec,
    /// Events that only name an object and say "look".
    #[serde(default)]
    pub thin: Option<ThinSpec>,
    /// The kinds of entities, and which events are about them.
    #[serde(default)]
    pub entities: BTreeMap<Kind, EntitySpec>,
    /// Where the current state can be asked for.
    #[serde(default)]
    pub upstream: Option<UpstreamSpec>,
}

/// A signature scheme as a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignatureSpec {
    /// The headers; the first set of which all are present is used.
    pub headers: Vec<HeaderNames>,
    /// How the signature header is taken apart.
    pub parse: HeaderForm,
    /// How a secret becomes the bytes of a key; with several, a secret may be meant either way.
    pub key_decode: Vec<KeyDecode>,
    /// What stands before the base64 or hex text of a secret and is no part of it.
    #[serde(default)]
    pub key_prefix: String,
    /// The fewest bytes that a key may have.
    #[serde(default = "key_len_min")]
    pub key_len_min: usize,
    /// The most bytes that a key may have.
    #[serde(default = "key_len_max")]
    pub key_len_max: usize,
    /// The signed bytes: text with `{id}`, `{timestamp}`, `{url}` and `{body}`.
    pub signed: String,
    /// The message authentication code.
    #[serde(default)]
    pub mac: Mac,
    /// How the code is written in the header.
    pub encoding: Encoding,
    /// The unit of the signed timestamp.
    #[serde(default)]
    pub timestamp_unit: Option<TimeUnit>,
    /// Which timestamps are fresh.
    pub window: Window,
    /// How far the timestamp may lie from our clock, in seconds.
    #[serde(default)]
    pub tolerance_s: Option<u64>,
    /// What `{url}` stands for: the address that the provider has for this endpoint.
    #[serde(default)]
    pub url: Option<String>,
}

/// The names of the headers that belong together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderNames {
    /// The header of the signed id.
    #[serde(default)]
    pub id: Option<String>,
    /// The header of the signed timestamp, if it is not inside the signature header.
    #[serde(default)]
    pub timestamp: Option<String>,
    /// The header of the signatures.
    pub signature: String,
}

/// How the signature header is taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case", deny_unknown_fields)]
pub enum HeaderForm {
    /// Named values: `t=1,v1=aa,v1=bb`. Names that are not listed are ignored.
    Pairs {
        /// What stands between the pairs.
        separator: String,
        /// The name of the timestamp.
        #[serde(default)]
        timestamp: Option<String>,
        /// The names of the signatures.
        signatures: Vec<String>,
    },
    /// A list: `v1,aa v1,bb` (labelled), or `1700000000000,aa,bb` (the timestamp first).
    List {
        /// What stands between the elements.
        separator: String,
        /// What stands between an element's label and its signature; empty without labels.
        #[serde(default)]
        label_separator: String,
        /// The labels whose signatures count; others are ignored.
        #[serde(default)]
        labels: Vec<String>,
        /// Whether the first element is the timestamp.
        #[serde(default)]
        timestamp_first: bool,
    },
    /// One signature.
    Plain {
        /// What stands before it, for example `sha256=`.
        #[serde(default)]
        prefix: String,
    },
}

/// How a secret becomes the bytes of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyDecode {
    /// The whole text as it is, with any prefix.
    Utf8,
    /// Standard base64 with padding, behind the prefix.
    Base64,
    /// Hexadecimal digits, behind the prefix.
    Hex,
}

/// A message authentication code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mac {
    /// HMAC with SHA-256.
    #[default]
    HmacSha256,
}

/// How bytes are written as text.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Encoding {
    /// Lower-case hexadecimal digits.
    Hex,
    /// Standard base64 with padding.
    Base64,
}

/// How an instant is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeUnit {
    /// Seconds since the Unix epoch; in a body also with a fraction.
    UnixS,
    /// Milliseconds since the Unix epoch.
    UnixMs,
    /// RFC 3339 with a zone.
    Rfc3339,
    /// RFC 3339 without a zone, meant as UTC.
    NaiveUtc,
}

/// Which signed timestamps are fresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// Those not older than the tolerance.
    OneSided,
    /// Those neither older nor further ahead than the tolerance.
    TwoSided,
    /// All: the scheme signs no timestamp, or the provider retries with the first one.
    None,
}

/// Where an event's own facts lie. Each is a list of places tried in order: `/pointer` (within the item),
/// `body:/pointer` (within the whole body, where it holds several items) or `header:name`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventSpec {
    /// The list of items, if one delivery holds several events.
    #[serde(default)]
    pub items: Option<String>,
    /// The event's id.
    #[serde(default)]
    pub id: Vec<String>,
    /// The event's type.
    #[serde(default, rename = "type")]
    pub event_type: Vec<String>,
    /// When it happened.
    #[serde(default)]
    pub time: Vec<String>,
    /// How that is written.
    #[serde(default)]
    pub time_unit: Option<TimeUnit>,
    /// The source's account.
    #[serde(default)]
    pub account: Vec<String>,
    /// Whether this is live traffic: `true` or `false`.
    #[serde(default)]
    pub live: Vec<String>,
    /// Whether `header:` may name headers that the signature does not cover.
    #[serde(default)]
    pub trust_unsigned_headers: bool,
}

/// Events that carry no object but name one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThinSpec {
    /// The pointer that tells a thin event.
    pub marker: String,
    /// The text that stands there in a thin event.
    pub value: String,
    /// The named object's id.
    pub id: Vec<String>,
    /// The named object's type; an entity's `thin` lists those that mean it.
    #[serde(rename = "type")]
    pub object_type: Vec<String>,
    /// When it happened.
    #[serde(default)]
    pub time: Vec<String>,
    /// How that is written.
    #[serde(default)]
    pub time_unit: Option<TimeUnit>,
}

/// One kind of entity. Pointers are relative to `object`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntitySpec {
    /// The types of the events that are about it; `*` stands for one or more characters other than `.`.
    #[serde(default)]
    pub types: Vec<String>,
    /// The object types of thin events that mean it.
    #[serde(default)]
    pub thin: Vec<String>,
    /// Where the object lies in the event.
    #[serde(default)]
    pub object: String,
    /// Its id.
    pub id: Vec<String>,
    /// Its version: a number that rises with every change.
    #[serde(default)]
    pub version: Vec<String>,
    /// When it last changed.
    #[serde(default)]
    pub updated_at: Vec<String>,
    /// How that is written.
    #[serde(default)]
    pub updated_at_unit: Option<TimeUnit>,
    /// The fields to keep, each with the places to try in order.
    #[serde(default)]
    pub fields: BTreeMap<FieldName, Vec<String>>,
    /// What an event says of each machine.
    pub machines: BTreeMap<MachineName, MachineSpec>,
    /// Where its current state can be asked for.
    #[serde(default)]
    pub upstream: Option<LookupSpec>,
}

/// What an event says of one machine. A claim is `observed:STATE`, `happened:NAME`, `happened` (the event's own
/// type), `none` or `hint`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Where the object's state lies.
    #[serde(default)]
    pub state: Vec<String>,
    /// By type: the claim whatever the object's state is.
    #[serde(default, rename = "override")]
    pub overrides: BTreeMap<String, String>,
    /// By type: the claim if the object has no state.
    #[serde(default)]
    pub fallback: BTreeMap<String, String>,
}

/// How one entity is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupSpec {
    /// The path behind the base address, with `{id}` and, if need be, `{account}`.
    pub path: String,
    /// Where the object lies in the answer.
    #[serde(default)]
    pub object: String,
    /// Its version.
    #[serde(default)]
    pub version: Vec<String>,
    /// When it last changed.
    #[serde(default)]
    pub updated_at: Vec<String>,
    /// How that is written.
    #[serde(default)]
    pub updated_at_unit: Option<TimeUnit>,
}

/// Where the current state can be asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamSpec {
    /// The address that paths are put behind.
    pub base_url: String,
    /// The same for entities of the test mode, if it differs.
    #[serde(default)]
    pub base_url_test: Option<String>,
    /// The environment variable that holds the API key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// The same for entities of the test mode, if it differs.
    #[serde(default)]
    pub api_key_test_env: Option<String>,
    /// How the key is presented.
    pub auth: Auth,
    /// The header that takes the key, for `header`.
    #[serde(default)]
    pub auth_header: Option<String>,
    /// Further headers; the value may hold `{account}`, and is left out for entities without one.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How many reads a second we allow ourselves.
    pub rate_per_s: u32,
    /// How long an answer may take, in milliseconds.
    pub timeout_ms: u64,
}

/// How an API key is presented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `Authorization: Basic`, the key as user name with an empty password, or as `user:password`.
    Basic,
    /// The key alone in `auth_header`.
    Header,
    /// No key.
    None,
}

/// 16 bytes: what is shorter can be guessed.
const fn key_len_min() -> usize {
    16
}

/// Far above any real key; a bound so that a wrong file is noticed.
const fn key_len_max() -> usize {
    512
}
