//! The keys of the view, as bytes whose order is the order that readers want.
//!
//! A text within a key ends with two zero bytes, and a zero byte within it is followed by `0xff`: so the order of keys
//! is the order of texts, and no text is the beginning of another's key.

use std::ops::Range;
use std::sync::Arc;

use super::Error;
use crate::domain::query::EntityFilter;
use crate::domain::{EntityKey, Kind, Lsn, MachineName, Mode, Partition, Position, SourceName, Timestamp};

/// A key.
pub(super) type Key = Vec<u8>;

/// The tables within the view's one tree, by the first byte of their keys. A byte is never used again: a retired
/// table stays listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    /// What the view is, and up to where: one key.
    Meta,
    /// Entities: entity -> snapshot, and the newest commits.
    Entity,
    /// Older commits of an entity: entity, last LSN -> LSNs.
    Commits,
    /// Entities by state: state, entity -> nothing.
    State,
    /// Events that wait for a retry: entity, position -> due, attempts.
    Retry,
    /// What is due: time, sort, entity, position (of a retry) -> nothing.
    Due,
    /// Dead letters: position -> attempts.
    Dead,
    /// Machines that were recorded: name -> version, SHA-256.
    Machine,
    /// The parts of a value that is too large for one key: key, part -> bytes.
    Part,
}

/// What a key of [`Table::Due`] says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct DueKey {
    pub(super) at: Timestamp,
    pub(super) entity: EntityKey,
    /// The retry; none for a check.
    pub(super) retry: Option<Position>,
}

impl Table {
    /// The first byte of its keys.
    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Meta => b'.',
            Self::Entity => b'e',
            Self::Commits => b'c',
            Self::State => b's',
            Self::Retry => b'r',
            Self::Due => b't',
            Self::Dead => b'd',
            Self::Machine => b'm',
            Self::Part => b'x',
        }
    }

    /// The table of a key.
    pub(super) fn of(key: &[u8]) -> Option<Self> {
        const ALL: [Table; 9] = [
            Table::Meta,
            Table::Entity,
            Table::Commits,
            Table::State,
            Table::Retry,
            Table::Due,
            Table::Dead,
            Table::Machine,
            Table::Part,
        ];
        ALL.into_iter().find(|table| key.first() == Some(&table.code()))
    }

    /// All keys of the table.
    pub(super) fn all(self) -> Range<Key> {
        prefixed(&[self.code()])
    }

    fn key(self) -> Key {
        vec![self.code()]
    }

    /// A key with room for an entity and so many bytes more: made for every event, it does not grow step by step.
    fn key_about(self, entity: &EntityKey, more: usize) -> Key {
        let texts = [entity.source.as_str(), entity.kind.as_str(), &entity.id];
        let account = entity.partition.account.as_deref().map_or(0, str::len);
        // Each of the four ends with two bytes; the table and the mode have one each.
        let len = texts.iter().map(|text| text.len()).sum::<usize>() + account + 4 * 2 + 2 + more;
        let mut key = Vec::with_capacity(len);
        key.push(self.code());
        key
    }
}

/// The range of keys that begin with `prefix`.
pub(super) fn prefixed(prefix: &[u8]) -> Range<Key> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            break;
        }
    }
    prefix.to_vec()..end
}

/// The key of the view's own figures.
pub(super) fn meta() -> Key {
    Table::Meta.key()
}

/// All keys but those of the view's own figures and of the parts of values.
pub(super) fn everything() -> Range<Key> {
    vec![Table::Commits.code()]..vec![Table::Part.code()]
}

/// The key of an entity.
pub(super) fn entity(entity: &EntityKey) -> Key {
    let mut key = Table::Entity.key_about(entity, 0);
    put_entity(&mut key, entity);
    key
}

/// The keys of the older commits of an entity from `from` on.
pub(super) fn commits_from(entity: &EntityKey, from: Lsn) -> Range<Key> {
    let range = prefixed(&commits_of(entity));
    commits(entity, from)..range.end
}

/// The key of older commits of an entity, the last of which is `last`.
pub(super) fn commits(entity: &EntityKey, last: Lsn) -> Key {
    let mut key = commits_of(entity);
    key.extend_from_slice(&last.0.to_be_bytes());
    key
}

/// The key that lists an entity under a state of it.
pub(super) fn state(state: &str, entity: &EntityKey) -> Key {
    let mut key = Table::State.key_about(entity, state.len() + 2);
    put_text(&mut key, state);
    put_entity(&mut key, entity);
    key
}

/// The key of an event that waits for a retry.
pub(super) fn retry(entity: &EntityKey, position: Position) -> Key {
    let mut key = Table::Retry.key();
    put_entity(&mut key, entity);
    key.extend_from_slice(&position.to_bytes());
    key
}

/// The keys of all retries of an entity.
pub(super) fn retries(entity: &EntityKey) -> Range<Key> {
    let mut key = Table::Retry.key();
    put_entity(&mut key, entity);
    prefixed(&key)
}

/// The key of what is due.
pub(super) fn due(due: &DueKey) -> Key {
    let mut key = due_from(due.at);
    key.push(u8::from(due.retry.is_some()));
    put_entity(&mut key, &due.entity);
    if let Some(position) = due.retry {
        key.extend_from_slice(&position.to_bytes());
    }
    key
}

/// The key of a dead letter.
pub(super) fn dead(position: Position) -> Key {
    let mut key = Table::Dead.key();
    key.extend_from_slice(&position.to_bytes());
    key
}

/// The key of a machine.
pub(super) fn machine(name: &MachineName) -> Key {
    let mut key = Table::Machine.key();
    key.extend_from_slice(name.as_str().as_bytes());
    key
}

/// The key of part `part` of the value of `key`.
pub(super) fn part(key: &[u8], part: u16) -> Key {
    let mut out = Table::Part.key();
    out.extend_from_slice(key);
    out.extend_from_slice(&part.to_be_bytes());
    out
}

/// The keys under which the entities of a filter stand, behind `after`: by state if one is asked for. The parts of
/// the filter that the order of keys cannot narrow are left to the reader.
pub(super) fn matching(filter: &EntityFilter, after: Option<&EntityKey>) -> Range<Key> {
    let mut prefix = match &filter.state {
        Some(_) => Table::State.key(),
        None => Table::Entity.key(),
    };
    if let Some(state) = &filter.state {
        put_text(&mut prefix, state.as_str());
    }
    let base = prefix.len();
    let parts = [filter.source.as_ref().map(SourceName::as_str), filter.kind.as_ref().map(Kind::as_str)];
    let parts = parts.into_iter().chain([filter.id.as_deref()]);
    parts.map_while(|part| part).for_each(|part| put_text(&mut prefix, part));
    let mut range = prefixed(&prefix);
    if let Some(after) = after {
        prefix.truncate(base);
        put_entity(&mut prefix, after);
        // The key behind it: no key of a table is the beginning of another.
        prefix.push(0);
        range.start = range.start.max(prefix);
    }
    range
}

/// The entity that a key of [`Table::Entity`], [`Table::State`] or [`Table::Retry`] names.
pub(super) fn read_entity(key: &[u8]) -> Result<EntityKey, Error> {
    let mut rest = key.get(1..).unwrap_or_default();
    if key.first() == Some(&Table::State.code()) {
        take_text(&mut rest).ok_or_else(|| malformed(key))?;
    }
    take_entity(&mut rest).ok_or_else(|| malformed(key))
}

/// What a key of [`Table::Due`] says.
pub(super) fn read_due(key: &[u8]) -> Result<DueKey, Error> {
    let read = || {
        let (at, mut rest) = key.get(1..)?.split_first_chunk::<8>()?;
        let at = Timestamp::from_nanos((u64::from_be_bytes(*at) ^ SIGN).cast_signed());
        let is_retry = take_byte(&mut rest)? == 1;
        let entity = take_entity(&mut rest)?;
        let retry = if is_retry { Some(Position::from_bytes(rest.try_into().ok()?)) } else { None };
        Some(DueKey { at, entity, retry })
    };
    read().ok_or_else(|| malformed(key))
}

/// The position at the end of a key of [`Table::Retry`] or [`Table::Dead`].
pub(super) fn read_position(key: &[u8]) -> Result<Position, Error> {
    key.last_chunk().map(|bytes| Position::from_bytes(*bytes)).ok_or_else(|| malformed(key))
}

/// The name that a key of [`Table::Machine`] ends with.
pub(super) fn read_machine(key: &[u8]) -> Result<MachineName, Error> {
    let name = key.get(1..).and_then(|name| std::str::from_utf8(name).ok());
    name.map(MachineName::new).ok_or_else(|| malformed(key))
}

/// What readers see entities ordered by: source, kind, id, account, mode.
pub(super) fn entity_order(entity: &EntityKey) -> Key {
    let mut key = Vec::new();
    put_entity(&mut key, entity);
    key
}

const SIGN: u64 = 1 << 63;

fn commits_of(entity: &EntityKey) -> Key {
    let mut key = Table::Commits.key();
    put_entity(&mut key, entity);
    key
}

fn due_from(at: Timestamp) -> Key {
    let mut key = Table::Due.key();
    // With the sign turned, the order of bytes is the order of times.
    key.extend_from_slice(&(at.nanos().cast_unsigned() ^ SIGN).to_be_bytes());
    key
}

fn put_text(key: &mut Key, text: &str) {
    for (place, part) in text.as_bytes().split(|byte| *byte == 0).enumerate() {
        if place > 0 {
            key.extend_from_slice(&[0, 0xff]);
        }
        key.extend_from_slice(part);
    }
    key.extend_from_slice(&[0, 0]);
}

fn put_entity(key: &mut Key, entity: &EntityKey) {
    for text in [entity.source.as_str(), entity.kind.as_str(), &entity.id] {
        put_text(key, text);
    }
    put_text(key, entity.partition.account.as_deref().unwrap_or_default());
    key.push(match (entity.partition.mode, entity.partition.account.is_some()) {
        (Mode::Live, false) => b'l',
        (Mode::Test, false) => b't',
        (Mode::Live, true) => b'L',
        (Mode::Test, true) => b'T',
    });
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(*byte)
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let mut text = Vec::new();
    loop {
        let byte = take_byte(rest)?;
        if byte == 0 && take_byte(rest)? == 0 {
            return String::from_utf8(text).ok();
        }
        text.push(byte);
    }
}

fn take_entity(rest: &mut &[u8]) -> Option<EntityKey> {
    let source = SourceName::new(&take_text(rest)?);
    let kind = Kind::new(&take_text(rest)?);
    let id = Arc::from(take_text(rest)?);
    let account = take_text(rest)?;
    let (mode, has_account) = match take_byte(rest)? {
        b'l' => (Mode::Live, false),
        b't' => (Mode::Test, false),
        b'L' => (Mode::Live, true),
        b'T' => (Mode::Test, true),
        _ => return None,
    };
    let account = has_account.then(|| Arc::from(account));
    Some(EntityKey { partition: Partition { account, mode }, source, kind, id })
}

fn malformed(key: &[u8]) -> Error {
    Error::Corrupt { place: "view".to_owned(), detail: format!("the key {} is malformed", hex::encode(key)) }
}

#[cfg(test)]
mod tests;
