//! References: where a fact of an event stands, in the item, in the whole body or in a header.

use super::pointer::{Captured, Pointer, Slot, Trie};
use super::problem::Problems;
use super::scheme::{Scheme, Segment, Selected};
use super::value::Value;

/// Where a fact of an event stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Reference {
    /// In the item.
    Item(Slot),
    /// In the body around the items.
    Body(Slot),
    /// In the header that carries the signed id: in the one that was verified, whatever else came.
    SignedId,
    /// In the header that carries the signed timestamp.
    SignedTimestamp,
    /// In a header that nothing vouches for.
    Header(String),
}

/// The pointers of a source. A body that is one event has only items: it is the item itself.
#[derive(Debug)]
pub(super) struct Tries {
    pub(super) item: Trie,
    pub(super) body: Trie,
    /// Where the list of items lies in the body, if there is one.
    pub(super) items: Option<Slot>,
}

/// What was found of one event.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) headers: &'a [(String, String)],
    /// The headers that the signature covers.
    pub(super) signed: Option<Selected<'a>>,
    pub(super) body: Option<&'a Captured<'a>>,
    pub(super) item: &'a Captured<'a>,
}

impl Tries {
    /// No pointers but that of the list of items.
    pub(super) fn new(items: Option<&str>, problems: &mut Problems) -> Self {
        let mut body = Trie::new();
        let pointer = items.map(|text| problems.take("event.items", Pointer::parse(text)).unwrap_or_default());
        let items = pointer.map(|pointer| body.add(&pointer));
        Self { item: Trie::new(), body, items }
    }

    /// Adds the pointers of a list of places.
    pub(super) fn add(
        &mut self,
        key: &str,
        texts: &[String],
        scheme: &Scheme,
        trust: bool,
        problems: &mut Problems,
    ) -> Vec<Reference> {
        let mut one = |text: &String| match text.split_once(':') {
            Some(("header", name)) => Some(header(key, name, scheme, trust, problems)),
            Some(("body", pointer)) => {
                let pointer = problems.take(key, Pointer::parse(pointer))?;
                Some(match self.items {
                    Some(_) => Reference::Body(self.body.add(&pointer)),
                    None => Reference::Item(self.item.add(&pointer)),
                })
            }
            Some(_) | None => {
                let pointer = problems.take(key, Pointer::parse(text))?;
                Some(Reference::Item(self.item.add(&pointer)))
            }
        };
        texts.iter().filter_map(&mut one).collect()
    }

    /// A reference as its file has it.
    pub(super) fn describe(&self, reference: &Reference, signed: Option<Selected<'_>>) -> String {
        match reference {
            Reference::Item(slot) => format!("`{}`", self.item.pointer(*slot)),
            Reference::Body(slot) => format!("`body:{}`", self.body.pointer(*slot)),
            Reference::Header(name) => format!("`header:{name}`"),
            Reference::SignedId | Reference::SignedTimestamp => {
                signed.map_or_else(|| "a signed header".to_owned(), |s| format!("a header beside `{}`", s.header))
            }
        }
    }
}

impl<'a> Found<'a> {
    /// The first value that is there and not null, and where it stands.
    pub(super) fn first<'r>(&self, references: &'r [Reference]) -> Option<(&'r Reference, Value<'a>)> {
        self.each(references).next()
    }

    /// The values that are there and not null, in the order of the places.
    pub(super) fn each<'r>(&self, references: &'r [Reference]) -> impl Iterator<Item = (&'r Reference, Value<'a>)> {
        let values = references.iter().filter_map(|reference| Some((reference, self.get(reference)?)));
        values.filter(|(_, value)| !value.is_null())
    }

    fn get(&self, reference: &Reference) -> Option<Value<'a>> {
        match reference {
            Reference::Item(slot) => self.item.get(*slot).map(Value::Json),
            Reference::Body(slot) => self.body.and_then(|body| body.get(*slot)).map(Value::Json),
            Reference::SignedId => self.signed.and_then(|signed| signed.id).map(Value::Header),
            Reference::SignedTimestamp => self.signed.and_then(|signed| signed.timestamp).map(Value::Header),
            Reference::Header(name) => {
                let header = self.headers.iter().find(|(given, _)| given == name);
                header.map(|(_, value)| Value::Header(value))
            }
        }
    }
}

/// A header by name. One that the signature covers is taken from the very headers that were verified: a copied
/// request with an added header of a set that is not used must not change its id.
fn header(key: &str, name: &str, scheme: &Scheme, trust: bool, problems: &mut Problems) -> Reference {
    let name = name.to_ascii_lowercase();
    let named = |part: &Option<String>| part.as_ref() == Some(&name);
    if scheme.signs(&Segment::Id) && scheme.headers.iter().any(|names| named(&names.id)) {
        return Reference::SignedId;
    }
    if scheme.signs(&Segment::Timestamp) && scheme.headers.iter().any(|names| named(&names.timestamp)) {
        return Reference::SignedTimestamp;
    }
    problems.check_header_name(key, &name);
    if !trust {
        let why = "anybody who copies a request can change it; if that is acceptable, set `trust_unsigned_headers`";
        problems.add(key, format!("header `{name}` is not signed: {why}"));
    }
    Reference::Header(name)
}
