//! Signing secrets: how they are written, what is refused at once, and the keys they become.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretSlice, SecretString};

use super::problem::Problems;
use super::spec::{KeyDecode, SignatureSpec};
use crate::domain::Timestamp;
use crate::domain::suggest::{did_you_mean, nearest};

/// The most secrets a source may have: each costs a MAC over the body of every forged request.
pub const SECRETS_MAX: usize = 16;
/// What a secret is often wrapped in by mistake.
const QUOTES: [char; 2] = ['\'', '"'];
/// The words that may stand behind a secret.
const WORDS: [&str; 2] = ["not_before", "not_after"];
/// The same, for an error.
const EXPECTED: &str = "`not_before=TIME` or `not_after=TIME` (a secret itself holds no space)";

/// What a source is compiled with beside its declaration.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// The signing secrets, by the places that [`Verified`](super::Verified) names.
    pub signing: Vec<SigningSecret>,
    /// The upstream's API key.
    pub api_key: Option<SecretString>,
    /// The upstream's API key for the test mode, if it has its own.
    pub api_key_test: Option<SecretString>,
}

/// A signing secret, and when it counts.
#[derive(Clone, Debug)]
pub struct SigningSecret {
    /// The secret as the provider shows it.
    pub text: SecretString,
    /// It counts from then on.
    pub not_before: Option<Timestamp>,
    /// It counts no more from then on.
    pub not_after: Option<Timestamp>,
}

/// A list of secrets that cannot be read. Never holds a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unreadable {
    /// A time that is none.
    #[error("secret {place}: `{word}` is not an RFC 3339 time, for example `not_after=2027-01-31T00:00:00Z`")]
    Time {
        /// The secret's place in the list, from 1.
        place: usize,
        /// The word at fault.
        word: String,
    },
    /// A word behind the secret that says nothing.
    #[error("secret {place}: {word} behind the secret is not known{near}; expected {}", EXPECTED)]
    Word {
        /// The secret's place in the list, from 1.
        place: usize,
        /// The word, or, if it may be part of a secret, which one it is.
        word: String,
        /// The word that may have been meant.
        near: String,
    },
}

/// A secret as the bytes of a key.
#[derive(Debug)]
pub(super) struct Key {
    /// One for each way in which the secret can be meant.
    pub(super) bytes: Vec<SecretSlice<u8>>,
    not_before: Option<Timestamp>,
    not_after: Option<Timestamp>,
}

impl SigningSecret {
    /// A secret that always counts.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: SecretString::from(text), not_before: None, not_after: None }
    }

    /// Reads the secrets of an environment variable: separated by commas, each as [`SigningSecret::from_file`] has
    /// it. A secret with a comma in it must come from a file.
    ///
    /// # Errors
    /// A time that cannot be read, or a word behind a secret that is not known.
    pub fn from_variable(text: &str) -> Result<Vec<Self>, Unreadable> {
        text.split(',').enumerate().map(|(i, part)| Self::parse(i + 1, part)).collect()
    }

    /// Reads the secrets of a file: one a line, as `SECRET`, optionally with ` not_before=TIME` and ` not_after=TIME`
    /// behind it: no secret that is read from a list holds a space. Empty lines and lines that start with `#` say nothing.
    ///
    /// # Errors
    /// A time that cannot be read, or a word behind a secret that is not known.
    pub fn from_file(text: &str) -> Result<Vec<Self>, Unreadable> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.enumerate().map(|(i, line)| Self::parse(i + 1, line)).collect()
    }

    fn parse(place: usize, text: &str) -> Result<Self, Unreadable> {
        let (mut rest, mut not_before, mut not_after) = (text, None, None);
        // A space before the secret, or behind it alone, stays: it is refused with the secret.
        while let Some((before, word)) = rest.trim_end().rsplit_once(' ')
            && !before.trim().is_empty()
        {
            let (slot, time) = match word.split_once('=') {
                Some(("not_before", time)) => (&mut not_before, time),
                Some(("not_after", time)) => (&mut not_after, time),
                Some(_) | None => return Err(unknown(place, word, before.split_whitespace().count())),
            };
            let at = Timestamp::parse_rfc3339(time).ok_or_else(|| Unreadable::Time { place, word: word.to_owned() })?;
            *slot = Some(at);
            rest = before.trim_end();
        }
        Ok(Self { text: SecretString::from(rest), not_before, not_after })
    }
}

/// A word that is not known. It is only shown if it was surely meant as one, and not as part of a secret.
fn unknown(place: usize, word: &str, number: usize) -> Unreadable {
    let ends = |c: char| !c.is_ascii_alphabetic() && c != '_' && c != '-';
    let (name, value) = word.split_once(ends).unwrap_or((word, ""));
    let near = did_you_mean(nearest(name, WORDS));
    let meant = !near.is_empty() || Timestamp::parse_rfc3339(value).is_some();
    let word = if meant { format!("`{name}`") } else { format!("word {number}") };
    Unreadable::Word { place, word, near }
}

impl Key {
    /// Whether the secret counts at this instant.
    pub(super) fn counts_at(&self, now: Timestamp) -> bool {
        self.not_before.is_none_or(|from| from <= now) && self.not_after.is_none_or(|until| now < until)
    }
}

/// What is wrong if every secret has expired: whatever comes is refused then, and nothing else would say why.
pub(super) fn expired(keys: &[Key], now: Timestamp) -> Option<String> {
    let ends: Option<Vec<_>> = keys.iter().map(|key| key.not_after.filter(|until| *until <= now)).collect();
    let last = ends?.into_iter().max()?;
    Some(format!(
        "every signing secret has expired, the last at {last}; deliveries are refused until one that counts is set"
    ))
}

/// The keys of the secrets, in their order; what is wrong with a secret goes to the problems.
pub(super) fn keys(spec: &SignatureSpec, secrets: &[SigningSecret], problems: &mut Problems) -> Vec<Key> {
    if secrets.is_empty() {
        problems.add("secrets", "there is no signing secret; set the variable of `secrets_env`, or name a file");
    }
    if secrets.len() > SECRETS_MAX {
        problems.add("secrets", format!("there are {} signing secrets, at most {SECRETS_MAX} fit", secrets.len()));
    }
    let mut keys: Vec<Key> = Vec::new();
    for (i, secret) in secrets.iter().enumerate() {
        let place = format!("secret {}", i + 1);
        let Some(key) = problems.take(&place, key(spec, secret)) else { continue };
        let twin = keys.iter().position(|other| other.bytes.iter().any(|a| key.bytes.iter().any(|b| same(a, b))));
        if let Some(twin) = twin {
            problems.add(&place, format!("it is the same as secret {}; remove one", twin + 1));
        }
        keys.push(key);
    }
    keys
}

fn same(a: &SecretSlice<u8>, b: &SecretSlice<u8>) -> bool {
    a.expose_secret() == b.expose_secret()
}

fn key(spec: &SignatureSpec, secret: &SigningSecret) -> Result<Key, String> {
    let text = secret.text.expose_secret();
    if text.is_empty() {
        return Err("it is empty; remove it, or set it to what the provider shows".to_owned());
    }
    if text.trim() != text {
        return Err("it has spaces or line breaks at an end; remove them".to_owned());
    }
    if let Some(n) = text.chars().position(|c| c != ' ' && !c.is_ascii_graphic()) {
        let why = "is not printable ASCII (it may be invisible); copy the secret anew";
        return Err(format!("its character {} {why}", n + 1));
    }
    if text.starts_with(QUOTES) || text.ends_with(QUOTES) {
        return Err("it stands in quotes, which would be part of it; remove them".to_owned());
    }
    if let (Some(from), Some(until)) = (secret.not_before, secret.not_after)
        && until <= from
    {
        return Err(format!("it never counts: not_after {until} is not later than not_before {from}"));
    }
    let mut bytes = Vec::new();
    let mut wrong = String::new();
    for decode in &spec.key_decode {
        match decoded(spec, *decode, text) {
            Ok(key) => bytes.push(SecretSlice::from(key)),
            Err(why) => wrong = why,
        }
    }
    if bytes.is_empty() {
        return Err(wrong);
    }
    Ok(Key { bytes, not_before: secret.not_before, not_after: secret.not_after })
}

fn decoded(spec: &SignatureSpec, decode: KeyDecode, text: &str) -> Result<Vec<u8>, String> {
    let bare = text.strip_prefix(spec.key_prefix.as_str()).unwrap_or(text);
    let behind = if spec.key_prefix.is_empty() { String::new() } else { format!(" behind `{}`", spec.key_prefix) };
    let key = match decode {
        KeyDecode::Utf8 => text.as_bytes().to_vec(),
        KeyDecode::Base64 => {
            STANDARD.decode(bare).map_err(|_| format!("it is not standard base64 with padding{behind}"))?
        }
        KeyDecode::Hex => hex::decode(bare).map_err(|_| format!("it is not hexadecimal{behind}"))?,
    };
    let (min, max) = (spec.key_len_min, spec.key_len_max);
    if key.len() < min || key.len() > max {
        let why = format!("its key has {} bytes, {min} to {max} are expected; copy it whole", key.len());
        return Err(why);
    }
    Ok(key)
}
