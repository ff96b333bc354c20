//! Signing as a source does: what `send` and `sign` share.

use std::path::PathBuf;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::Context;
use super::args::ConfigArgs;
use super::failure::Failure;
use super::instant;
use crate::code;
use crate::config::{Config, Declared};
use crate::domain::Timestamp;
use crate::domain::suggest::{did_you_mean, nearest};
use crate::engine::clock::{Clock as _, SystemClock};
use crate::source::{Secrets, SigningSecret, Source};

/// The JSON pointer or header that a place begins with.
const HEADER: &str = "header:";

/// How many bytes of randomness, or of a hash, an id is made of.
const ID_BYTES: usize = 12;

/// As which source to sign, with what, and when.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct SignerArgs {
    /// The source to sign as: its scheme, and its secret from where the configuration says
    #[arg(long, value_name = "NAME")]
    pub(super) source: String,

    /// A file with the signing secret, in place of the source's own
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,

    /// Sign as if it were this time: RFC 3339, or seconds since 1970 [default: now]
    #[arg(long, value_name = "TIME", value_parser = instant::parse)]
    at: Option<Timestamp>,

    #[command(flatten)]
    config: ConfigArgs,
}

/// Signs as a source does.
pub(super) struct Signer {
    source: Arc<Source>,
    declared: Declared,
    at: Option<Timestamp>,
}

impl SignerArgs {
    /// The signer.
    pub(super) fn signer(&self, context: &Context) -> Result<Signer, Failure> {
        let config = self.config.load(context, Vec::new())?;
        let Some(declared) = config.sources.get(self.source.as_str()) else {
            let nearest = nearest(&self.source, config.sources.keys().map(crate::domain::SourceName::as_str));
            let detail = format!("no source `{}` is declared{}", self.source, did_you_mean(nearest));
            return Err(Failure::new(code::USAGE, detail));
        };
        let declared = declared.clone();
        let source = match &self.secret_file {
            Some(file) => of_file(&declared, file)?,
            None => of_environment(&config, declared.clone(), context)?,
        };
        Ok(Signer { source, declared, at: self.at })
    }
}

/// The source with the secrets of a file.
fn of_file(declared: &Declared, file: &std::path::Path) -> Result<Arc<Source>, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::of_file("reading", file, &error))?;
    let wrong = |detail: String| Failure::new(code::SECRET_INVALID, format!("file `{}`: {detail}", file.display()));
    let signing = SigningSecret::from_file(&text).map_err(|error| wrong(error.to_string()))?;
    let secrets = Secrets { signing, ..Secrets::default() };
    let source = Source::compile(&declared.spec, &secrets);
    source.map(Arc::new).map_err(|problems| {
        let details = problems.iter().map(|problem| format!("{}: {}", problem.key, problem.message));
        wrong(details.collect::<Vec<_>>().join("; "))
    })
}

/// The source with the secrets that the configuration names; what is wrong with other sources is no hindrance.
fn of_environment(config: &Config, declared: Declared, context: &Context) -> Result<Arc<Source>, Failure> {
    let name = declared.spec.name.clone();
    let alone = Config { sources: [(name.clone(), declared)].into(), ..config.clone() };
    let sources = alone.sources(&context.environment)?;
    let off = sources.off.first().map(|off| off.why.clone()).unwrap_or_default();
    sources
        .on
        .get(&name)
        .cloned()
        .ok_or_else(|| Failure::new(code::SECRET_MISSING, format!("source `{name}`: {off}, or give `--secret-file`")))
}

impl Signer {
    /// The source's name.
    pub(super) fn name(&self) -> &str {
        self.source.name().as_str()
    }

    /// The time to sign at.
    pub(super) fn at(&self) -> Timestamp {
        self.at.unwrap_or_else(|| SystemClock.now())
    }

    /// The headers of a delivery. `id` is the message's id, for schemes that have one.
    pub(super) fn headers(&self, id: &str, body: &[u8], at: Timestamp) -> Vec<(String, String)> {
        let mut headers = self.source.sign(0, id, body, at);
        for name in self.declared.spec.event.id.iter().filter_map(|place| place.strip_prefix(HEADER)) {
            // An event's id may be in a header that no signature covers.
            if headers.iter().all(|(given, _)| !given.eq_ignore_ascii_case(name)) && !self.is_signed(name) {
                headers.push((name.to_owned(), id.to_owned()));
            }
        }
        headers
    }

    /// Where an event's id stands in the body: JSON pointers, tried in order, and the list of events they start in.
    pub(super) fn id_pointers(&self) -> (Vec<&str>, Option<&str>) {
        let event = &self.declared.spec.event;
        let pointers = event.id.iter().filter(|place| !place.contains(':')).map(String::as_str);
        (pointers.collect(), event.items.as_deref())
    }

    /// Whether an event's id may stand in a header, beside the body.
    pub(super) fn has_id_header(&self) -> bool {
        self.declared.spec.event.id.iter().any(|place| place.starts_with(HEADER))
    }

    /// Whether the scheme has a header of this name, in whichever of its sets.
    fn is_signed(&self, name: &str) -> bool {
        let sets = &self.declared.spec.signature.headers;
        sets.iter()
            .flat_map(|set| [set.id.as_deref(), set.timestamp.as_deref()])
            .flatten()
            .any(|given| given.eq_ignore_ascii_case(name))
    }
}

/// The id of a message: the same for the same bytes, so that sending a payload again makes a duplicate, as it does
/// with sources whose payloads hold their id.
pub(super) fn id_of(body: &[u8]) -> String {
    let digest: [u8; 32] = Sha256::digest(body).into();
    format!("msg_{}", hex::encode(digest.get(..ID_BYTES).unwrap_or(&digest)))
}

/// An id that no event had yet, in the form of an old one: `evt_1` becomes `evt_` and random digits.
pub(super) fn fresh_id(old: &str) -> Result<String, Failure> {
    let mut bytes = [0_u8; ID_BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    let head = old.rfind('_').and_then(|end| old.get(..=end)).unwrap_or("evt_");
    Ok(format!("{head}{}", hex::encode(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bytes_have_equal_ids() {
        assert_eq!(id_of(b"{}"), id_of(b"{}"));
        assert_ne!(id_of(b"{}"), id_of(b"{ }"));
        assert_eq!(id_of(b"{}").len(), "msg_".len() + 2 * ID_BYTES);
    }

    #[test]
    fn a_fresh_id_keeps_the_form_of_the_old() {
        let check = |old: &str, head: &str| {
            let fresh = fresh_id(old).unwrap();
            assert!(fresh.starts_with(head) && fresh.len() == head.len() + 2 * ID_BYTES, "{fresh}");
            assert_ne!(fresh, fresh_id(old).unwrap());
        };
        check("evt_1NG8Du2eZvKYlo2CUI79vXWy", "evt_");
        check("pdl_evt_01", "pdl_evt_");
        check("17", "evt_");
    }
}
