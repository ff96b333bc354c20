//! Cursors: where a list goes on, as text that a client passes back unchanged.
//!
//! A cursor says its version, the list and the store that it belongs to, and ends with a checksum, so that one that is
//! mangled, or was given out over other data, is refused instead of silently skipping what lies between. It is no
//! secret and grants nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::problem::Problem;
use super::query::Query;
use crate::code;
use crate::domain::query::EntityCursor;
use crate::domain::{Lsn, Position};
use crate::engine::Engine;

/// The version of the form; one byte in front.
const VERSION: u8 = 2;

/// How much of a store's id stands in a cursor: enough that two stores of one user never look alike.
const TAG_BYTES: usize = 4;

/// The list that a cursor belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum List {
    /// `/v1/entities`.
    Entities,
    /// `/v1/entries` and the entries of one entity.
    Entries,
    /// `/v1/transitions`.
    Transitions,
    /// `/v1/dead-letters`.
    DeadLetters,
}

impl List {
    const ALL: [Self; 4] = [Self::Entities, Self::Entries, Self::Transitions, Self::DeadLetters];

    const fn tag(self) -> u8 {
        match self {
            Self::Entities => b'n',
            Self::Entries => b'e',
            Self::Transitions => b't',
            Self::DeadLetters => b'd',
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Entities => "entities",
            Self::Entries => "entries",
            Self::Transitions => "transitions",
            Self::DeadLetters => "dead letters",
        }
    }
}

/// The cursors of one store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursors {
    store: [u8; TAG_BYTES],
    /// The last LSN that is durable: none that was given out is beyond it.
    end: Lsn,
}

impl Cursors {
    /// Those of the store behind an engine, as far as it has come.
    pub(crate) fn of(engine: &Engine) -> Self {
        Self::new(engine.store_id(), engine.status().store.synced)
    }

    pub(crate) const fn new(store: [u8; 16], end: Lsn) -> Self {
        let [a, b, c, d, ..] = store;
        Self { store: [a, b, c, d], end }
    }

    /// The cursor of a list by position.
    pub(crate) fn write_position(self, list: List, position: Position) -> String {
        self.write(list, &position.to_bytes())
    }

    /// The cursor of the list of entities. None if the key can't be written, which no key of ours is.
    pub(crate) fn write_entity(self, cursor: &EntityCursor) -> Option<String> {
        postcard::to_allocvec(cursor).ok().map(|bytes| self.write(List::Entities, &bytes))
    }

    /// Where a list by position goes on, if the query says so.
    pub(crate) fn after(self, list: List, query: &Query) -> Result<Option<Position>, Problem> {
        query.text("after").map(|text| self.read_position(list, text)).transpose()
    }

    /// Reads a cursor of a list by position.
    pub(crate) fn read_position(self, list: List, text: &str) -> Result<Position, Problem> {
        let bytes = self.read(list, text)?.try_into().map_err(|_| mangled())?;
        let position = Position::from_bytes(bytes);
        if position.lsn > self.end {
            let detail = format!(
                "the cursor is at {position}, but the store ends at {}: it was restored from an older backup, and what \
                 the cursor had passed is not in it",
                self.end.0
            );
            return Err(Problem::new(code::CURSOR_INVALID, detail));
        }
        Ok(position)
    }

    /// Reads a cursor of the list of entities.
    pub(crate) fn read_entity(self, text: &str) -> Result<EntityCursor, Problem> {
        postcard::from_bytes(&self.read(List::Entities, text)?).map_err(|_| mangled())
    }

    fn write(self, list: List, payload: &[u8]) -> String {
        let mut bytes = vec![VERSION, list.tag()];
        bytes.extend_from_slice(&self.store);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn read(self, list: List, text: &str) -> Result<Vec<u8>, Problem> {
        let (store, payload) = taken_apart(list, text)?;
        if store != self.store {
            let detail = "the cursor was given out over another store: the data directory was wiped, or is another one";
            return Err(Problem::new(code::CURSOR_INVALID, detail));
        }
        Ok(payload)
    }
}

/// The store and the payload of a cursor of this list.
fn taken_apart(list: List, text: &str) -> Result<([u8; TAG_BYTES], Vec<u8>), Problem> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| mangled())?;
    let Some((rest, checksum)) = bytes.split_last_chunk::<4>() else { return Err(mangled()) };
    if crc32fast::hash(rest).to_be_bytes() != *checksum {
        return Err(mangled());
    }
    let [version, tag, payload @ ..] = rest else { return Err(mangled()) };
    if *version != VERSION {
        let detail = format!("the cursor has version {version}, this server reads version {VERSION}");
        return Err(Problem::new(code::CURSOR_INVALID, detail));
    }
    match List::ALL.into_iter().find(|list| list.tag() == *tag) {
        Some(found) if found == list => {
            let (store, payload) = payload.split_first_chunk::<TAG_BYTES>().ok_or_else(mangled)?;
            Ok((*store, payload.to_vec()))
        }
        Some(other) => {
            let detail = format!("the cursor is one of {}, not of {}", other.as_str(), list.as_str());
            Err(Problem::new(code::CURSOR_INVALID, detail))
        }
        None => Err(mangled()),
    }
}

fn mangled() -> Problem {
    Problem::new(code::CURSOR_INVALID, "the cursor is not one of ours, or was changed on its way")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{EntityKey, Kind, Mode, Partition, SourceName};

    const OURS: Cursors = Cursors { store: [1, 2, 3, 4], end: Lsn(7_000_000_000) };

    const HERE: Position = Position { lsn: Lsn(7_000_000_000), item: 3 };

    #[test]
    fn a_cursor_comes_back_as_it_went_out() {
        for list in [List::Entries, List::Transitions, List::DeadLetters] {
            assert_eq!(OURS.read_position(list, &OURS.write_position(list, HERE)).unwrap(), HERE);
        }
        let key = EntityKey {
            partition: Partition { account: Some("acct:1".into()), mode: Mode::Test },
            source: SourceName::new("stripe"),
            kind: Kind::new("invoice"),
            id: "in/1 ü".into(),
        };
        assert_eq!(OURS.read_entity(&OURS.write_entity(&key).unwrap()).unwrap(), key);
    }

    #[test]
    fn a_cursor_of_another_list_is_refused_by_name() {
        let problem = OURS.read_position(List::Transitions, &OURS.write_position(List::Entries, HERE)).unwrap_err();
        assert_eq!(problem.to_string(), "cursor_invalid: the cursor is one of entries, not of transitions");
    }

    #[test]
    fn a_cursor_of_another_store_or_beyond_the_end_is_refused_with_what_happened() {
        let check = |cursors: Cursors, expected: &str| {
            let problem = cursors.read_position(List::Transitions, &OURS.write_position(List::Transitions, HERE));
            assert_eq!(problem.unwrap_err().to_string(), format!("cursor_invalid: the cursor {expected}"));
        };
        let wiped = "was given out over another store: the data directory was wiped, or is another one";
        check(Cursors { store: [1, 2, 3, 5], ..OURS }, wiped);
        check(
            Cursors { end: Lsn(6_999_999_999), ..OURS },
            "is at 7000000000.3, but the store ends at 6999999999: it was restored from an older backup, and what the \
             cursor had passed is not in it",
        );
        let entity = OURS.write(List::Entities, b"x");
        assert!(Cursors { store: [0; 4], ..OURS }.read_entity(&entity).unwrap_err().to_string().contains(wiped));
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let text = OURS.write_position(List::Transitions, HERE);
        for (place, _) in text.char_indices() {
            let mut changed = text.clone();
            let other = if &text[place..=place] == "A" { "B" } else { "A" };
            changed.replace_range(place..=place, other);
            assert!(OURS.read_position(List::Transitions, &changed).is_err(), "{changed}");
        }
        for short in ["", "A", "AQ", "!", "1.0", &text[1..], &text[..text.len() - 1]] {
            assert!(OURS.read_position(List::Transitions, short).is_err(), "{short}");
        }
    }
}
