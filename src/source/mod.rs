//! Sources: the bytes of a delivery become verified events. Pure: no clock, no network, no environment.
//!
//! Everything that is particular to a provider is data (`config/sources/*.toml`, the form is in [`spec`]). A
//! [`Source`] is that data checked once, with its secrets:
//!
//! 1. [`Source::verify`] judges the signature over the raw bytes, before anything looks into them.
//! 2. [`Source::deliver`] (or [`Source::map`]) reads the body once and finds its events.
//! 3. [`Source::upstream`] says how to ask for an entity, and [`Source::read_snapshot`] reads the answer.
//!
//! [`Source::sign`] is the sender's side, for `tollgate send`, the demo and tests.

mod mapping;
mod object;
mod pattern;
mod pointer;
mod problem;
mod reference;
mod rejection;
mod scheme;
mod secret;
mod shipped;
mod signature;
mod snapshot;
pub mod spec;
mod time_unit;
mod upstream;
mod value;
mod window;

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::domain::{Delivery, EntityKey, Item, Kind, MachineName, Reason, Snapshot, SourceName, Timestamp};

pub use mapping::ITEMS_MAX;
pub use object::{FIELD_DEPTH_MAX, FIELD_LEN_MAX};
pub use problem::Problem;
pub use rejection::Rejection;
pub use secret::{SECRETS_MAX, Secrets, SigningSecret, Unreadable};
pub use shipped::SHIPPED;
pub use signature::Verified;
pub use upstream::{Request, Upstream};

use mapping::Mapping;
use problem::Problems;
use scheme::HEADER_LEN_MAX;
use signature::Signature;
use snapshot::AnswerPlan;
use spec::SourceSpec;

/// A system that sends webhooks: its declaration, checked, with its secrets.
#[derive(Debug)]
pub struct Source {
    name: SourceName,
    doc: String,
    signature: Signature,
    mapping: Mapping,
    machines: BTreeMap<Kind, Vec<MachineName>>,
    upstream: Option<Upstream>,
    answers: BTreeMap<Kind, AnswerPlan>,
    /// The headers that a delivery keeps, in lower case.
    kept: Vec<String>,
}

impl Source {
    /// Checks a declaration and its secrets.
    ///
    /// # Errors
    /// Every problem at once.
    pub fn compile(spec: &SourceSpec, secrets: &Secrets) -> Result<Self, Vec<Problem>> {
        let mut problems = Problems::of(spec.name.as_str());
        let signature = Signature::compile(&spec.signature, &secrets.signing, &mut problems);
        let mapping = Mapping::compile(spec, &signature.scheme, &mut problems);
        let upstream = Upstream::compile(spec, secrets, &mut problems);
        let lookups = spec.entities.iter().filter_map(|(kind, entity)| Some((kind, entity, entity.upstream.as_ref()?)));
        let answers = lookups
            .map(|(kind, entity, lookup)| (kind.clone(), AnswerPlan::compile(kind, entity, lookup, &mut problems)))
            .collect();
        let name = problems.check_source_name(&spec.name);
        problems.into_result()?;
        let machines = mapping.kinds().map(|(kind, machines)| (kind.clone(), machines)).collect();
        let signing = signature.scheme.headers.iter();
        let signing =
            signing.flat_map(|names| [names.id.clone(), names.timestamp.clone(), Some(names.signature.clone())]);
        let kept = signing.flatten().chain(mapping.headers().map(str::to_owned));
        let kept = kept.chain(["content-type".to_owned()]).collect();
        Ok(Self { name, doc: spec.doc.clone(), signature, mapping, machines, upstream, answers, kept })
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &SourceName {
        &self.name
    }

    /// What it is, for people.
    #[must_use]
    pub fn doc(&self) -> &str {
        &self.doc
    }

    /// The kinds of entities that its events are about, by name.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.machines.keys()
    }

    /// The machines of a kind, by name; none if there is no such kind.
    #[must_use]
    pub fn machines_of(&self, kind: &Kind) -> &[MachineName] {
        self.machines.get(kind).map_or(&[], Vec::as_slice)
    }

    /// A warning for people if every signing secret has expired, so that no delivery can be accepted any more.
    #[must_use]
    pub fn expired(&self, now: Timestamp) -> Option<String> {
        self.signature.expired(now)
    }

    /// Judges the signature of the raw bytes. Header names must be in lower case.
    ///
    /// # Errors
    /// Why the delivery is turned away.
    pub fn verify(&self, headers: &[(String, String)], body: &[u8], now: Timestamp) -> Result<Verified, Rejection> {
        self.signature.verify(headers, body, now)
    }

    /// The events of a verified body: never fails, never empty. What cannot be read is a dead letter.
    #[must_use]
    pub fn map(&self, headers: &[(String, String)], body: &[u8], received_at: Timestamp) -> Vec<Item> {
        self.map_hashed(headers, body, Sha256::digest(body).into(), received_at)
    }

    /// The delivery of a verified request: its events, the headers that matter and the hash of its body.
    #[must_use]
    pub fn deliver(
        &self,
        verified: &Verified,
        headers: &[(String, String)],
        body: Bytes,
        received_at: Timestamp,
    ) -> Delivery {
        let body_sha256 = Sha256::digest(&body).into();
        let items = self.map_hashed(headers, &body, body_sha256, received_at);
        let matters =
            |name: &str, value: &str| self.kept.iter().any(|kept| kept == name) && value.len() <= HEADER_LEN_MAX;
        Delivery {
            source: self.name.clone(),
            received_at,
            headers: headers.iter().filter(|(name, value)| matters(name, value)).cloned().collect(),
            body,
            body_sha256,
            secret: verified.secret,
            items,
        }
    }

    /// The headers that a sender would sign a body with, by the secret at this place; empty if there is none.
    #[must_use]
    pub fn sign(&self, secret: u16, id: &str, body: &[u8], at: Timestamp) -> Vec<(String, String)> {
        self.signature.sign(secret, id, body, at)
    }

    /// Where the current state can be asked for; none without an address or without the key that it needs.
    #[must_use]
    pub const fn upstream(&self) -> Option<&Upstream> {
        self.upstream.as_ref()
    }

    /// Reads the upstream's answer about an entity. Its order key is the object's version or time of change; without
    /// either it is `clock`, the instant before which the answer was surely true.
    ///
    /// # Errors
    /// [`Reason::UpstreamInvalid`] if the answer cannot be used.
    pub fn read_snapshot(&self, key: &EntityKey, body: &[u8], clock: Timestamp) -> Result<Snapshot, Reason> {
        match self.answers.get(&key.kind) {
            Some(plan) => plan.read(key, body, clock),
            None => Err(Reason::UpstreamInvalid { detail: format!("`{}` cannot be asked for", key.kind) }),
        }
    }

    fn map_hashed(
        &self,
        headers: &[(String, String)],
        body: &[u8],
        body_sha256: [u8; 32],
        received_at: Timestamp,
    ) -> Vec<Item> {
        self.mapping.map(headers, self.signature.select(headers), body, body_sha256, received_at)
    }
}

#[cfg(any(test, fuzzing))]
#[allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a broken law is told by a panic"
)]
pub(crate) mod fuzz;
#[cfg(test)]
mod tests;
