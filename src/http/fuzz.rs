//! What must hold of cursors and query strings for any text.

use super::cursor::{Cursors, List};
use super::query::{LIMIT_MAX, Query, WAIT_MAX};
use crate::domain::{EntityKey, Kind, Lsn, Mode, Partition, Position, SourceName};
use crate::fuzz::Input;

const CURSORS: [Cursors; 2] = [Cursors::new([0; 16], Lsn(1 << 40)), Cursors::new([7; 16], Lsn(3))];
const LISTS: [List; 3] = [List::Entries, List::Transitions, List::DeadLetters];
const KNOWN: [&str; 9] = ["source", "kind", "partition", "state", "outcome", "rule", "limit", "wait", "after"];

/// A query string is read or refused in words, and so is each of its parameters. A cursor that is taken is one that
/// we would write again.
pub fn queries(data: &[u8]) {
    let mut input = Input::new(data);
    let cursors = *input.pick(&CURSORS);
    let list = *input.pick(&LISTS);
    let text = String::from_utf8_lossy(input.rest());
    cursor(cursors, list, &text);
    let Ok(query) = Query::parse(&text, &KNOWN) else { return };
    assert!(query.limit().is_ok_and(|limit| (1..=LIMIT_MAX).contains(&limit)) || query.text("limit").is_some());
    assert!(query.wait().is_ok_and(|wait| wait <= WAIT_MAX) || query.text("wait").is_some());
    for refused in [
        query.name("source").err(),
        query.name("kind").err(),
        query.partition().err(),
        query.outcome().err(),
        query.rule().err(),
        query.limit().err(),
        query.wait().err(),
        cursors.after(list, &query).err(),
    ]
    .into_iter()
    .flatten()
    {
        // The client's text is cut, so that an answer stays small whatever came.
        assert!((10..2000).contains(&refused.to_string().len()), "{refused}");
    }
    if let Some(partition) = query.partition().ok().flatten() {
        assert_eq!(Partition::parse(&partition.to_string()), Some(partition.clone()), "{partition:?}");
    }
    if let Some(after) = query.text("after") {
        cursor(cursors, list, after);
    }
}

fn cursor(cursors: Cursors, list: List, text: &str) {
    if let Ok(position) = cursors.read_position(list, text) {
        assert_eq!(cursors.write_position(list, position), text);
    }
    if let Ok(key) = cursors.read_entity(text) {
        let written = cursors.write_entity(&key).unwrap();
        assert_eq!(cursors.read_entity(&written).unwrap(), key);
    }
}

/// Cursors of each list, and queries with each parameter.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let position = Position { lsn: Lsn(2), item: 1 };
    let key = EntityKey {
        partition: Partition { account: Some("acct:1".into()), mode: Mode::Test },
        source: SourceName::new("stripe"),
        kind: Kind::new("invoice"),
        id: "in/1 ü".into(),
    };
    let mut texts = vec![
        "source=stripe&kind=invoice&limit=7&wait=30s&outcome=advanced&rule=tie".to_owned(),
        "partition=acct_1%3Atest&limit=0&wait=31&outcome=advance&state=a%20b".to_owned(),
        "sorce=%ff&source=a&source=a".to_owned(),
        CURSORS[0].write_entity(&key).unwrap(),
    ];
    texts.extend(LISTS.iter().flat_map(|list| CURSORS.map(|cursors| cursors.write_position(*list, position))));
    texts.push(format!("after={}", CURSORS[0].write_position(List::Entries, position)));
    let seed = |(place, text): (usize, String)| {
        let head = [u8::try_from(place & 1).unwrap(), u8::try_from(place / 2 % 3).unwrap()];
        (format!("{place:02}"), [&head[..], text.as_bytes()].concat())
    };
    texts.into_iter().enumerate().map(seed).collect()
}
