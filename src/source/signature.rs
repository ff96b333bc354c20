//! Signatures: whether one of a request matches one of the source's secrets, and how a request is signed.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::ExposeSecret as _;
use sha2::Sha256;

use super::problem::Problems;
use super::rejection::Rejection;
use super::scheme::{Read, Scheme, Segment, Selected};
use super::secret::{self, Key, SigningSecret};
use super::spec::{Encoding, HeaderForm, Mac, SignatureSpec};
use crate::domain::Timestamp;

/// What a delivery's signature proves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verified {
    /// Which of the source's secrets matched, from 0: tells when an old one can go.
    pub secret: u16,
    /// The signed id, if the scheme signs one.
    pub id: Option<String>,
    /// The signed timestamp, if the scheme signs one.
    pub signed_at: Option<Timestamp>,
}

/// A scheme with the keys of one source.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) scheme: Scheme,
    keys: Vec<Key>,
}

impl Signature {
    /// Checks the scheme and the secrets.
    pub(super) fn compile(spec: &SignatureSpec, secrets: &[SigningSecret], problems: &mut Problems) -> Self {
        Self { scheme: Scheme::compile(spec, problems), keys: secret::keys(spec, secrets, problems) }
    }

    /// What is wrong if every secret has expired.
    pub(super) fn expired(&self, now: Timestamp) -> Option<String> {
        secret::expired(&self.keys, now)
    }

    /// Verifies the raw bytes. The code comes first and the timestamp second, so that a stranger learns nothing of
    /// our clock; each key costs one pass over the body, however many signatures came.
    pub(super) fn verify(
        &self,
        headers: &[(String, String)],
        body: &[u8],
        now: Timestamp,
    ) -> Result<Verified, Rejection> {
        let read = self.scheme.read(headers)?;
        let counting = self.keys.iter().enumerate().filter(|(_, key)| key.counts_at(now));
        let mut matching = counting.filter(|(_, key)| self.matches(key, &read, body));
        let (index, _) = matching.next().ok_or(Rejection::Mismatch)?;
        if let (Some(unit), Some((_, signed_at))) = (self.scheme.unit, read.timestamp) {
            self.scheme.freshness.judge(unit, signed_at, now)?;
        }
        Ok(Verified {
            secret: u16::try_from(index).unwrap_or(u16::MAX),
            id: read.id.map(str::to_owned),
            signed_at: read.timestamp.map(|(_, at)| at),
        })
    }

    /// The headers that belong to the scheme, without judging them.
    pub(super) fn select<'a>(&'a self, headers: &'a [(String, String)]) -> Option<Selected<'a>> {
        self.scheme.select(headers).ok()
    }

    /// The headers that a sender with this secret would send; empty if there is no such secret.
    pub(super) fn sign(&self, secret: u16, id: &str, body: &[u8], at: Timestamp) -> Vec<(String, String)> {
        let key = self.keys.get(usize::from(secret)).and_then(|key| key.bytes.first());
        let (Some(key), Some(names)) = (key, self.scheme.headers.first()) else { return Vec::new() };
        let stamp = self.scheme.unit.map(|unit| unit.write(at)).unwrap_or_default();
        let Some(mac) = self.mac(key.expose_secret(), Some(id), Some(&stamp), body) else { return Vec::new() };
        let code = self.scheme.encoding.encode(&mac.finalize().into_bytes());
        let mut headers = Vec::new();
        if let Some(name) = &names.id {
            headers.push((name.clone(), id.to_owned()));
        }
        if let Some(name) = &names.timestamp {
            headers.push((name.clone(), stamp.clone()));
        }
        headers.push((names.signature.clone(), self.scheme.form.join(&stamp, &code)));
        headers
    }

    fn matches(&self, key: &Key, read: &Read<'_>, body: &[u8]) -> bool {
        key.bytes.iter().any(|bytes| {
            let stamp = read.timestamp.map(|(text, _)| text);
            let mac = self.mac(bytes.expose_secret(), read.id, stamp, body);
            // `verify_slice` refuses another length and compares in constant time.
            mac.is_some_and(|mac| read.signatures.iter().any(|given| mac.clone().verify_slice(given).is_ok()))
        })
    }

    /// The code over the signed bytes.
    fn mac(&self, key: &[u8], id: Option<&str>, stamp: Option<&str>, body: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = match self.scheme.mac {
            Mac::HmacSha256 => Hmac::<Sha256>::new_from_slice(key).ok()?,
        };
        for segment in &self.scheme.template {
            mac.update(match segment {
                Segment::Text(text) => text.as_bytes(),
                Segment::Id => id?.as_bytes(),
                Segment::Timestamp => stamp?.as_bytes(),
                Segment::Body => body,
            });
        }
        Some(mac)
    }
}

impl HeaderForm {
    /// The signature header as a sender writes it.
    fn join(&self, stamp: &str, code: &str) -> String {
        match self {
            Self::Pairs { separator, timestamp, signatures } => {
                let stamp = timestamp.iter().map(|name| format!("{name}={stamp}"));
                let code = signatures.iter().take(1).map(|name| format!("{name}={code}"));
                stamp.chain(code).collect::<Vec<_>>().join(separator)
            }
            Self::List { separator, label_separator, labels, timestamp_first } => {
                let label = labels.first().map_or("", String::as_str);
                let first = if *timestamp_first { format!("{stamp}{separator}") } else { String::new() };
                format!("{first}{label}{label_separator}{code}")
            }
            Self::Plain { prefix } => format!("{prefix}{code}"),
        }
    }
}

impl Encoding {
    fn encode(self, code: &[u8]) -> String {
        match self {
            Self::Hex => hex::encode(code),
            Self::Base64 => STANDARD.encode(code),
        }
    }

    /// Strictly: one code has one text.
    pub(super) fn decode(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Hex if text.bytes().any(|b| b.is_ascii_uppercase()) => None,
            Self::Hex => hex::decode(text).ok(),
            Self::Base64 => STANDARD.decode(text).ok(),
        }
    }
}
