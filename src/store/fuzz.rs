//! What must hold of stored bytes, whatever became of them.

mod damage;

pub use super::journal::fuzz::{journal_damage, journal_frames};
pub use super::seen::fuzz::seen_files;

pub(crate) use super::journal::fuzz::{damage_seeds, frame_seeds};
pub(crate) use super::seen::fuzz::seen_seeds;
pub(super) use damage::{Files, damage, damages};

use super::change::{self, Before, Change, Held, Waiting};
use super::gather::arrivals_of;
use super::keys::{self, Table};
use super::records::Record;
use super::view::Meta;
use crate::domain::{Attempt, Entity, Lsn, Position};
use crate::fuzz::Input;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Bytes are a record or a clear error. A record is written and read as itself, and what follows from it for the view
/// is written and read as itself too.
pub fn records(data: &[u8]) {
    let lsn = Lsn(9);
    let Ok(record) = Record::decode(lsn, data.to_vec()) else { return };
    let bytes = record.encode().unwrap();
    assert_eq!(Record::decode(lsn, bytes.clone()).unwrap(), record);
    assert_eq!(Record::decode(lsn, bytes.clone()).unwrap().encode().unwrap(), bytes);
    for item in 0..3 {
        record.pending(Position { lsn, item });
    }
    arrivals_of(lsn, &record, 64);
    for (key, value) in changes(lsn, &record).into_iter().flat_map(|change| change.writes) {
        if let Some(value) = value {
            value_of(&key, &value.bytes().unwrap());
        }
    }
}

/// What a record changes in a view in which everything that it asks for is there.
fn changes(lsn: Lsn, record: &Record) -> Option<Change> {
    match record {
        Record::Delivery(record) => change::of_delivery(lsn, record).ok(),
        Record::Command(record) => change::of_command(lsn, record).ok(),
        Record::Commit(record) => {
            let entity = Entity { version: record.version, ..Entity::unknown(record.entity.clone()) };
            let held = Held { entity, recent: vec![Lsn(1)] };
            let before = vec![Before::Fresh { attempts: Vec::new() }; record.judged.len()];
            change::of_commit(lsn, record, Some(&held), &before).ok()
        }
    }
}

/// A key and a value of the view are read as what they are, or refused; what is read is written and read as itself.
pub fn view_values(data: &[u8]) {
    let mut input = Input::new(data);
    let len = usize::from(input.short());
    let key = input.take(len);
    key_of(key);
    value_of(key, input.rest());
}

fn value_of(key: &[u8], value: &[u8]) {
    match Table::of(key) {
        Some(Table::Meta) => same::<Meta>(key, value),
        Some(Table::Entity) => same::<Held>(key, value),
        Some(Table::Commits) => same::<Vec<Lsn>>(key, value),
        Some(Table::Retry) => same::<Waiting>(key, value),
        Some(Table::Dead) => same::<Vec<Attempt>>(key, value),
        Some(Table::Machine) => same::<(u32, [u8; 32])>(key, value),
        Some(Table::State | Table::Due | Table::Part) | None => {}
    }
}

fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(key: &[u8], value: &[u8]) {
    if let Ok(read) = change::decode::<T>(key, value) {
        let written = change::encode(&read).unwrap();
        assert_eq!(change::decode::<T>(key, &written).unwrap(), read);
    }
}

fn key_of(key: &[u8]) {
    if let Ok(entity) = keys::read_entity(key) {
        assert_eq!(keys::read_entity(&keys::entity(&entity)).unwrap(), entity);
        assert_eq!(keys::read_entity(&keys::state("active\0", &entity)).unwrap(), entity);
        if let Ok(position) = keys::read_position(key) {
            let retry = keys::retry(&entity, position);
            assert_eq!(keys::read_entity(&retry).unwrap(), entity);
            assert_eq!(keys::read_position(&retry).unwrap(), position);
            assert!(keys::retries(&entity).contains(&retry));
        }
    }
    if let Ok(due) = keys::read_due(key) {
        assert_eq!(keys::read_due(&keys::due(&due)).unwrap(), due);
    }
    if let Ok(machine) = keys::read_machine(key) {
        assert_eq!(keys::read_machine(&keys::machine(&machine)).unwrap(), machine);
    }
}

/// The records whose form is held by snapshots.
pub(crate) fn record_seeds() -> Vec<(String, Vec<u8>)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("snapshots/store/records");
    let read = |name: &str| {
        let text = std::fs::read_to_string(folder.join(format!("{name}.snap"))).unwrap();
        let digits = text.rsplit("---").next().unwrap().split_whitespace().collect::<String>();
        (name.to_owned(), hex::decode(digits).unwrap())
    };
    ["commit", "commit_with_one_count", "delivery", "discard", "machine_changed", "replay"].map(read).to_vec()
}

/// All that those records write to the view.
pub(crate) fn view_seeds() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (name, bytes) in record_seeds() {
        let record = Record::decode(Lsn(9), bytes).unwrap();
        let writes = changes(Lsn(9), &record).into_iter().flat_map(|change| change.writes);
        for (n, (key, value)) in writes.enumerate() {
            let len = u16::try_from(key.len()).unwrap().to_be_bytes();
            let bytes = value.map(|value| value.bytes().unwrap()).unwrap_or_default();
            seeds.push((format!("{name}-{n}"), [&len[..], &key, &bytes].concat()));
        }
    }
    let meta = change::encode(&Meta { pairs: 3, sum: u64::MAX, ..Meta::default() }).unwrap();
    seeds.push(("meta".to_owned(), [&[0, 1, b'.'][..], &meta].concat()));
    seeds
}
