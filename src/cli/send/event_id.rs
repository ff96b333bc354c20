//! New event ids in a recorded payload: the id's value is replaced in the raw text, and every other byte stays, since
//! a payload that was taken apart and written anew would no longer be what the source sends.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::value::RawValue;

use crate::cli::failure::Failure;
use crate::cli::signer::fresh_id;

/// The text with new ids: of the event, or of each event in the list `items`. None if it has no id at the pointers.
pub(super) fn renew(text: &str, pointers: &[&str], items: Option<&str>) -> Result<Option<String>, Failure> {
    let whole = 0..text.len();
    let events = items.map_or_else(|| Vec::from([whole]), |list| elements(text, list));
    let mut ids: Vec<Range<usize>> = events.iter().filter_map(|event| id_of(text, event, pointers)).collect();
    if ids.is_empty() {
        return Ok(None);
    }
    // From the end, so that the places of the others stay true.
    ids.sort_by_key(|id| std::cmp::Reverse(id.start));
    let mut renewed = text.to_owned();
    for id in ids {
        let old = text.get(id.clone()).and_then(|json| serde_json::from_str::<String>(json).ok());
        let fresh = fresh_id(old.as_deref().unwrap_or_default())?;
        renewed.replace_range(id, &serde_json::to_string(&fresh).map_err(std::io::Error::other)?);
    }
    Ok(Some(renewed))
}

/// Where the id of an event stands: at the first pointer that leads to something.
fn id_of(text: &str, event: &Range<usize>, pointers: &[&str]) -> Option<Range<usize>> {
    let event = text.get(event.clone())?;
    let found = pointers.iter().filter_map(|pointer| follow(event, pointer)).find(|value| *value != "null")?;
    place(text, found)
}

/// Where the elements of a list stand.
fn elements(text: &str, pointer: &str) -> Vec<Range<usize>> {
    let list = follow(text, pointer).and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok());
    list.unwrap_or_default().iter().filter_map(|element| place(text, element.get())).collect()
}

/// What a JSON pointer (RFC 6901) leads to, as it is written. Of equal keys the last counts.
fn follow<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    let mut at = json;
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        let object = || serde_json::from_str::<BTreeMap<String, &'a RawValue>>(at).ok()?.get(&step).copied();
        let list = || serde_json::from_str::<Vec<&'a RawValue>>(at).ok()?.get(step.parse::<usize>().ok()?).copied();
        at = object().or_else(list)?.get();
    }
    Some(at)
}

/// Where a part stands in its whole.
fn place(whole: &str, part: &str) -> Option<Range<usize>> {
    let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    let range = start..start.checked_add(part.len())?;
    // Says so itself, should the part be no part after all.
    (whole.get(range.clone()) == Some(part)).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Renews, and puts `NEW` in place of what differs from run to run.
    fn renewed(text: &str, pointers: &[&str], items: Option<&str>) -> Option<String> {
        let told = |part: &str| match part.split_at_checked(24) {
            Some((digits, rest)) if digits.chars().all(|c| c.is_ascii_hexdigit()) => format!("NEW{rest}"),
            _ => part.to_owned(),
        };
        let renewed = renew(text, pointers, items).unwrap()?;
        Some(renewed.split("evt_").map(told).collect::<Vec<_>>().join("evt_"))
    }

    #[test]
    fn only_the_ids_value_is_replaced() {
        let check = |text: &str, pointers: &[&str], expected: Option<&str>| {
            assert_eq!(renewed(text, pointers, None).as_deref(), expected, "{text}");
        };
        let kept = "{ \"a\":1.50,\t\"id\" : \"evt_1\", \"data\":{\"id\":\"evt_1\"},\"u\":\"\\u00e9\" }\n";
        check(kept, &["/id"], Some(&kept.replacen("evt_1", "evt_NEW", 1)));
        check(r#"{"data":{"id":"evt_1"}}"#, &["/id", "/data/id"], Some(r#"{"data":{"id":"evt_NEW"}}"#));
        check(r#"{"id":null,"key":"evt_1"}"#, &["/id", "/key"], Some(r#"{"id":null,"key":"evt_NEW"}"#));
        check(r#"{"id":17}"#, &["/id"], Some(r#"{"id":"evt_NEW"}"#));
        check(r#"{"a/b":{"~":["x","evt_1"]}}"#, &["/a~1b/~0/1"], Some(r#"{"a/b":{"~":["x","evt_NEW"]}}"#));
        check(r#"{"id":"a","id":"evt_1"}"#, &["/id"], Some(r#"{"id":"a","id":"evt_NEW"}"#));
        check(r#"{"type":"x"}"#, &["/id"], None);
        check("not json", &["/id"], None);
        check(r#"{"id":"evt_1"}"#, &[], None);
    }

    #[test]
    fn each_event_of_a_list_gets_its_own() {
        let text = r#"{"id":"b","events":[{"id":"evt_1"}, {"id":"evt_1"},{}]}"#;
        let expected = r#"{"id":"b","events":[{"id":"evt_NEW"}, {"id":"evt_NEW"},{}]}"#;
        assert_eq!(renewed(text, &["/id"], Some("/events")).as_deref(), Some(expected));
        let ids = renew(text, &["/id"], Some("/events")).unwrap().unwrap();
        let json: serde_json::Value = serde_json::from_str(&ids).unwrap();
        assert_ne!(json["events"][0]["id"], json["events"][1]["id"]);
    }
}
