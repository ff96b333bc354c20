//! Cursors: where a list goes on, as text that a client passes back unchanged.
//!
//! A cursor says its version and the list that it belongs to, and ends with a checksum, so that a mangled one is
//! refused instead of silently skipping what lies between. It is no secret and grants nothing.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::problem::Problem;
use crate::code;
use crate::domain::Position;
use crate::domain::query::EntityCursor;

/// The version of the form; one byte in front.
const VERSION: u8 = 1;

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

/// The cursor of a list by position.
pub(crate) fn write_position(list: List, position: Position) -> String {
    write(list, &position.to_bytes())
}

/// The cursor of the list of entities. None if the key can't be written, which no key of ours is.
pub(crate) fn write_entity(cursor: &EntityCursor) -> Option<String> {
    postcard::to_allocvec(cursor).ok().map(|bytes| write(List::Entities, &bytes))
}

/// Reads a cursor of a list by position.
pub(crate) fn read_position(list: List, text: &str) -> Result<Position, Problem> {
    read(list, text)?.try_into().map(Position::from_bytes).map_err(|_| mangled())
}

/// Reads a cursor of the list of entities.
pub(crate) fn read_entity(text: &str) -> Result<EntityCursor, Problem> {
    postcard::from_bytes(&read(List::Entities, text)?).map_err(|_| mangled())
}

fn write(list: List, payload: &[u8]) -> String {
    let mut bytes = vec![VERSION, list.tag()];
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn read(list: List, text: &str) -> Result<Vec<u8>, Problem> {
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
        Some(found) if found == list => Ok(payload.to_vec()),
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
    use crate::domain::{EntityKey, Kind, Lsn, Mode, Partition, SourceName};

    const HERE: Position = Position { lsn: Lsn(7_000_000_000), item: 3 };

    #[test]
    fn a_cursor_comes_back_as_it_went_out() {
        for list in [List::Entries, List::Transitions, List::DeadLetters] {
            assert_eq!(read_position(list, &write_position(list, HERE)).unwrap(), HERE);
        }
        let key = EntityKey {
            partition: Partition { account: Some("acct:1".into()), mode: Mode::Test },
            source: SourceName::new("stripe"),
            kind: Kind::new("invoice"),
            id: "in/1 ü".into(),
        };
        assert_eq!(read_entity(&write_entity(&key).unwrap()).unwrap(), key);
    }

    #[test]
    fn a_cursor_of_another_list_is_refused_by_name() {
        let problem = read_position(List::Transitions, &write_position(List::Entries, HERE)).unwrap_err();
        assert_eq!(problem.to_string(), "cursor_invalid: the cursor is one of entries, not of transitions");
    }

    #[test]
    fn every_changed_character_is_noticed() {
        let text = write_position(List::Transitions, HERE);
        for (place, _) in text.char_indices() {
            let mut changed = text.clone();
            let other = if &text[place..=place] == "A" { "B" } else { "A" };
            changed.replace_range(place..=place, other);
            assert!(read_position(List::Transitions, &changed).is_err(), "{changed}");
        }
        for short in ["", "A", "AQ", "!", "1.0", &text[1..], &text[..text.len() - 1]] {
            assert!(read_position(List::Transitions, short).is_err(), "{short}");
        }
    }
}
