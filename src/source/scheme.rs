//! A checked signature scheme: which headers it reads, how they are taken apart, and which bytes are signed.
//!
//! Texts that are signed (id, timestamp) are used as they came, never printed anew from what was read.

use super::problem::Problems;
use super::rejection::Rejection;
use super::spec::{Encoding, HeaderForm, HeaderNames, Mac, SignatureSpec, TimeUnit};
use super::window::Freshness;
use crate::domain::Timestamp;
use crate::domain::suggest::{did_you_mean, nearest};

/// The longest header that is looked at, in bytes.
pub(super) const HEADER_LEN_MAX: usize = 8 * 1024;
/// The most signatures of one header that are looked at.
const SIGNATURES_MAX: usize = 32;

/// A checked signature scheme.
#[derive(Debug)]
pub(super) struct Scheme {
    /// The header names, in lower case.
    pub(super) headers: Vec<HeaderNames>,
    pub(super) form: HeaderForm,
    pub(super) template: Vec<Segment>,
    pub(super) mac: Mac,
    pub(super) encoding: Encoding,
    pub(super) unit: Option<TimeUnit>,
    pub(super) freshness: Freshness,
}

/// A piece of the signed bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Segment {
    /// This text.
    Text(String),
    /// The id's text.
    Id,
    /// The timestamp's text.
    Timestamp,
    /// The raw body.
    Body,
}

/// The headers of a request that belong to the scheme.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selected<'a> {
    pub(super) id: Option<&'a str>,
    pub(super) timestamp: Option<&'a str>,
    pub(super) signature: &'a str,
    pub(super) header: &'a str,
}

/// The timestamp and the signatures of a header, as text.
type Parts<'a> = (Option<&'a str>, Vec<&'a str>);

/// What a request's headers say.
#[derive(Debug)]
pub(super) struct Read<'a> {
    pub(super) id: Option<&'a str>,
    /// The signed timestamp's text and meaning.
    pub(super) timestamp: Option<(&'a str, Timestamp)>,
    pub(super) signatures: Vec<Vec<u8>>,
}

impl Scheme {
    /// Checks a scheme; what is wrong goes to the problems.
    pub(super) fn compile(spec: &SignatureSpec, problems: &mut Problems) -> Self {
        let template = template(spec, problems);
        let scheme = Self {
            headers: spec.headers.iter().map(lower_case).collect(),
            form: spec.parse.clone(),
            template,
            mac: spec.mac,
            encoding: spec.encoding,
            unit: spec.timestamp_unit,
            freshness: Freshness::compile(spec, problems),
        };
        scheme.check(spec, problems);
        scheme
    }

    /// Whether the signed bytes have this piece.
    pub(super) fn signs(&self, segment: &Segment) -> bool {
        self.template.contains(segment)
    }

    fn check(&self, spec: &SignatureSpec, problems: &mut Problems) {
        if self.headers.is_empty() {
            problems.add("signature.headers", "it is empty; name at least the header of the signature");
        }
        let in_header = self.form.has_timestamp();
        for names in &self.headers {
            for name in [names.id.as_ref(), names.timestamp.as_ref(), Some(&names.signature)].into_iter().flatten() {
                problems.check_header_name("signature.headers", name);
            }
            match (self.signs(&Segment::Timestamp), in_header, names.timestamp.is_some()) {
                (true, false, false) => problems.add(
                    "signature.signed",
                    "nothing gives `{timestamp}`; name it in `signature.parse` or `signature.headers`",
                ),
                (true, true, true) => problems.add("signature.headers", "the timestamp is named twice; leave one"),
                (false, true, _) | (false, _, true) => problems.add(
                    "signature.signed",
                    "the timestamp is read but not signed, so it proves nothing; put `{timestamp}` in, or do not read it",
                ),
                (true, true, false) | (true, false, true) | (false, false, false) => {}
            }
            if self.signs(&Segment::Id) != names.id.is_some() {
                problems.add("signature.headers", "an id header is needed exactly if `{id}` is signed");
            }
        }
        if self.signs(&Segment::Timestamp) != self.unit.is_some() {
            problems.add("signature.timestamp_unit", "it is needed exactly if `{timestamp}` is signed");
        }
        if spec.key_decode.is_empty() {
            problems.add("signature.key_decode", "it is empty; expected some of `utf8`, `base64`, `hex`");
        }
        if spec.key_len_min == 0 || spec.key_len_min > spec.key_len_max {
            problems.add("signature.key_len_min", "it must be at least 1 and at most `key_len_max`");
        }
        self.form.check(problems);
    }

    /// The headers that count: those of the first set that is complete.
    pub(super) fn select<'a>(&'a self, headers: &'a [(String, String)]) -> Result<Selected<'a>, Rejection> {
        let came = |name: &str| headers.iter().any(|(given, _)| given == name);
        let complete = |names: &&HeaderNames| wanted(names).all(came);
        let Some(names) = self.headers.iter().find(complete) else { return Err(self.incomplete(&came)) };
        let only = |name: &Option<String>| name.as_deref().map(|name| only(headers, name)).transpose();
        Ok(Selected {
            id: only(&names.id)?,
            timestamp: only(&names.timestamp)?,
            signature: self::only(headers, &names.signature)?,
            header: &names.signature,
        })
    }

    /// Which header is missing: of the set that nearly came its first, or if none did, each set's signature.
    fn incomplete(&self, came: &impl Fn(&str) -> bool) -> Rejection {
        let given = |names: &&HeaderNames| wanted(names).filter(|name| came(name)).count();
        // Of sets that are equally near, the first.
        let nearest = self.headers.iter().rev().max_by_key(given).filter(|names| given(names) > 0);
        let header = nearest.and_then(|names| wanted(names).find(|name| !came(name))).map_or_else(
            || self.headers.iter().map(|names| names.signature.as_str()).collect::<Vec<_>>().join("` or `"),
            str::to_owned,
        );
        Rejection::Missing { header, detail: "it did not come" }
    }

    /// Takes the request's headers apart.
    pub(super) fn read<'a>(&'a self, headers: &'a [(String, String)]) -> Result<Read<'a>, Rejection> {
        let selected = self.select(headers)?;
        let malformed = |detail| Rejection::Malformed { header: selected.header.to_owned(), detail };
        let (stamp, signatures) = self.form.split(selected.signature, self.encoding).map_err(malformed)?;
        if signatures.is_empty() {
            let header = selected.header.to_owned();
            return Err(Rejection::Missing { header, detail: "it has no signature of a scheme that counts here" });
        }
        if signatures.len() > SIGNATURES_MAX {
            return Err(malformed("it has more than 32 signatures"));
        }
        // One that cannot be decoded is passed over: a sender may add forms that we do not know.
        let signatures: Vec<_> = signatures.into_iter().filter_map(|text| self.encoding.decode(text)).collect();
        if signatures.is_empty() {
            return Err(malformed("no signature in it is well formed"));
        }
        if let (Some(id), Some(stop)) = (selected.id, self.id_ends_with())
            && (id.is_empty() || id.contains(stop))
        {
            return Err(malformed("the signed id is empty, or holds the character that ends it"));
        }
        let stamp = stamp.or(selected.timestamp);
        let timestamp = match (stamp, self.unit) {
            (Some(text), Some(unit)) => {
                Some((text, unit.read_signed(text).ok_or_else(|| malformed("the signed timestamp cannot be read"))?))
            }
            (None, Some(_)) => return Err(malformed("it has no timestamp")),
            (_, None) => None,
        };
        Ok(Read { id: selected.id, timestamp, signatures })
    }

    /// The character that separates the id from what follows it: inside an id it would let the signed bytes be
    /// read in two ways.
    fn id_ends_with(&self) -> Option<char> {
        let after = self.template.iter().skip_while(|segment| **segment != Segment::Id).nth(1)?;
        match after {
            Segment::Text(text) => text.chars().next(),
            Segment::Id | Segment::Timestamp | Segment::Body => None,
        }
    }
}

impl HeaderForm {
    fn has_timestamp(&self) -> bool {
        match self {
            Self::Pairs { timestamp, .. } => timestamp.is_some(),
            Self::List { timestamp_first, .. } => *timestamp_first,
            Self::Plain { .. } => false,
        }
    }

    fn check(&self, problems: &mut Problems) {
        match self {
            Self::Pairs { separator, signatures, .. } => {
                if separator.is_empty() || separator.contains('=') {
                    problems.add("signature.parse.separator", "it must not be empty or hold `=`");
                }
                if signatures.is_empty() {
                    problems.add("signature.parse.signatures", "it is empty; name what holds a signature");
                }
            }
            Self::List { separator, label_separator, labels, .. } => {
                if separator.is_empty() {
                    problems.add("signature.parse.separator", "it must not be empty");
                }
                if label_separator.is_empty() != labels.is_empty() {
                    problems.add("signature.parse.labels", "`labels` and `label_separator` need each other");
                }
            }
            Self::Plain { .. } => {}
        }
    }

    /// The timestamp and the signatures that count, as text.
    fn split<'a>(&self, text: &'a str, encoding: Encoding) -> Result<Parts<'a>, &'static str> {
        match self {
            Self::Pairs { separator, timestamp, signatures } => {
                let pairs = text.split(separator.as_str()).map(|pair| split_pair(pair, encoding));
                pick_pairs(&pairs.collect::<Result<Vec<_>, _>>()?, timestamp.as_deref(), signatures)
            }
            Self::List { separator, label_separator, labels, timestamp_first } => {
                let mut elements = text.split(separator.as_str());
                let stamp = if *timestamp_first { elements.next() } else { None };
                let labelled = |element: &'a str| {
                    if labels.is_empty() {
                        return Some(element);
                    }
                    let (label, signature) = element.split_once(label_separator.as_str())?;
                    labels.iter().any(|accepted| accepted == label).then_some(signature)
                };
                Ok((stamp, elements.filter_map(labelled).collect()))
            }
            Self::Plain { prefix } => {
                let signature = text.strip_prefix(prefix.as_str()).ok_or("it does not start as it should")?;
                Ok((None, vec![signature]))
            }
        }
    }
}

/// A name and its value: exactly one `=`, but for those that pad base64 at the end.
fn split_pair(pair: &str, encoding: Encoding) -> Result<(&str, &str), &'static str> {
    let (name, value) = pair.split_once('=').ok_or("it holds a part that is not `name=value`")?;
    let bare = match encoding {
        Encoding::Hex => value,
        Encoding::Base64 => value.trim_end_matches('='),
    };
    if bare.contains('=') { Err("it holds a part with more than one `=`") } else { Ok((name, value)) }
}

/// The values that are asked for; other names are passed over.
fn pick_pairs<'a>(
    pairs: &[(&'a str, &'a str)],
    timestamp: Option<&str>,
    signatures: &[String],
) -> Result<Parts<'a>, &'static str> {
    let mut stamps = pairs.iter().filter(|(name, _)| timestamp == Some(*name)).map(|(_, value)| *value);
    let stamp = stamps.next();
    if stamps.next().is_some() {
        return Err("it holds the timestamp twice");
    }
    let counts = |name: &str| signatures.iter().any(|accepted| accepted == name);
    let found = pairs.iter().filter(|(name, _)| counts(name)).map(|(_, value)| *value).collect();
    Ok((stamp, found))
}

/// The value of a header that must come once and be of bounded length.
fn only<'a>(headers: &'a [(String, String)], name: &str) -> Result<&'a str, Rejection> {
    let malformed = |detail| Rejection::Malformed { header: name.to_owned(), detail };
    let mut values = headers.iter().filter(|(given, _)| given == name).map(|(_, value)| value.as_str());
    let value = values.next().unwrap_or_default();
    if values.next().is_some() {
        return Err(malformed("it came more than once"));
    }
    if value.len() > HEADER_LEN_MAX {
        return Err(malformed("it is longer than 8 KiB"));
    }
    Ok(value)
}

/// The headers of a set.
fn wanted(names: &HeaderNames) -> impl Iterator<Item = &str> {
    [names.id.as_deref(), names.timestamp.as_deref(), Some(names.signature.as_str())].into_iter().flatten()
}

fn lower_case(names: &HeaderNames) -> HeaderNames {
    HeaderNames {
        id: names.id.as_ref().map(|name| name.to_ascii_lowercase()),
        timestamp: names.timestamp.as_ref().map(|name| name.to_ascii_lowercase()),
        signature: names.signature.to_ascii_lowercase(),
    }
}

/// Reads the template of the signed bytes.
fn template(spec: &SignatureSpec, problems: &mut Problems) -> Vec<Segment> {
    const KEY: &str = "signature.signed";
    let mut segments = Vec::new();
    let mut rest = spec.signed.as_str();
    while let Some((text, behind)) = rest.split_once('{') {
        let Some((word, after)) = behind.split_once('}') else {
            problems.add(KEY, "a `{` has no `}`");
            return segments;
        };
        push_text(&mut segments, text);
        match word {
            "id" => segments.push(Segment::Id),
            "timestamp" => segments.push(Segment::Timestamp),
            "body" => segments.push(Segment::Body),
            "url" => match &spec.url {
                Some(url) => push_text(&mut segments, url),
                None => problems.add("signature.url", "it is needed, since `{url}` is signed"),
            },
            other => {
                let near = did_you_mean(nearest(other, ["id", "timestamp", "url", "body"]));
                problems.add(KEY, format!("`{{{other}}}` is not known{near}"));
            }
        }
        rest = after;
    }
    push_text(&mut segments, rest);
    for segment in [Segment::Body, Segment::Id, Segment::Timestamp] {
        let count = segments.iter().filter(|given| **given == segment).count();
        if count > 1 || (count == 0 && segment == Segment::Body) {
            problems.add(KEY, "`{body}` must stand in it once, `{id}` and `{timestamp}` at most once");
        }
    }
    let ends_open = |pair: &[Segment]| pair.first() == Some(&Segment::Id) && !matches!(pair, [_, Segment::Text(_)]);
    if segments.windows(2).any(ends_open) {
        problems.add(KEY, "`{id}` needs a separator behind it, else the signed bytes can be read in two ways");
    }
    segments
}

fn push_text(segments: &mut Vec<Segment>, text: &str) {
    if !text.is_empty() {
        segments.push(Segment::Text(text.to_owned()));
    }
}
