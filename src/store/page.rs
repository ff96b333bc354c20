//! How answers are cut into pages, the same for every engine.

use std::collections::HashSet;

use super::keys::DueKey;
use super::{Due, Error};
use crate::domain::query::{EntityFilter, Page};
use crate::domain::{Entity, StateName, Timestamp};

/// The item of a cursor that stands behind everything of its record.
pub(super) const FEED_END: u32 = u32::MAX;

/// The first `limit` (at least one) of what is found; `next` is the cursor of the last if more follows.
pub(super) fn of<T, C>(found: impl Iterator<Item = T>, limit: usize, cursor: impl Fn(&T) -> C) -> Page<T, C> {
    let limit = limit.max(1);
    let mut items: Vec<T> = found.take(limit.saturating_add(1)).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let next = if more { items.last().map(cursor) } else { None };
    Page { items, next }
}

/// Whether an entity matches every part of a filter.
pub(super) fn matches(filter: &EntityFilter, entity: &Entity) -> bool {
    let key = &entity.key;
    let in_state = |state: &StateName| entity.ladder().machines.values().any(|machine| machine.state == *state);
    filter.source.as_ref().is_none_or(|source| key.source == *source)
        && filter.kind.as_ref().is_none_or(|kind| key.kind == *kind)
        && filter.id.as_deref().is_none_or(|id| *key.id == *id)
        && filter.partition.as_ref().is_none_or(|partition| key.partition == *partition)
        && filter.state.as_ref().is_none_or(in_state)
}

/// What is due at `now`, from what is due at all in the order of time.
pub(super) fn due(
    sorted: impl Iterator<Item = Result<DueKey, Error>>,
    now: Timestamp,
    limit: usize,
) -> Result<Due, Error> {
    let mut answer = Due::default();
    let mut named = HashSet::new();
    for due in sorted {
        let due = due?;
        if due.at <= now && named.contains(&due.entity) {
            continue;
        }
        if due.at > now || answer.entities.len() >= limit {
            answer.next = Some(due.at);
            break;
        }
        named.insert(due.entity.clone());
        answer.entities.push(due.entity);
    }
    Ok(answer)
}
