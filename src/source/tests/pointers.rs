//! Pointers over raw text.

use proptest::prelude::*;
use serde_json::Value;

use crate::source::pointer::{Pointer, Trie};

/// What each pointer finds in a text.
fn find(text: &str, pointers: &[&str]) -> Result<Vec<Option<String>>, String> {
    let mut trie = Trie::new();
    let slots: Vec<_> = pointers.iter().map(|text| trie.add(&Pointer::parse(text).unwrap())).collect();
    let found = trie.walk(text).map_err(|e| e.to_string())?;
    Ok(slots.iter().map(|slot| found.get(*slot).map(str::to_owned)).collect())
}

#[test]
fn pointers_find_what_rfc_6901_says() {
    let text = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"k\"l":6," ":7,"m~n":8,"0":{"1":9}}"#;
    let check = |pointer: &str, expected: Option<&str>| {
        assert_eq!(find(text, &[pointer]), Ok(vec![expected.map(str::to_owned)]), "{pointer}");
    };
    check("", Some(text));
    check("/foo", Some(r#"["bar","baz"]"#));
    check("/foo/0", Some("\"bar\""));
    check("/foo/1", Some("\"baz\""));
    check("/foo/2", None);
    check("/foo/00", None);
    check("/foo/-", None);
    check("/foo/0/x", None);
    check("/", Some("0"));
    check("/a~1b", Some("1"));
    check("/c%d", Some("2"));
    check("/k\"l", Some("6"));
    check("/ ", Some("7"));
    check("/m~0n", Some("8"));
    check("/0/1", Some("9"));
    check("/nope/x", None);
}

#[test]
fn pointers_that_are_none_say_why() {
    let check = |text: &str, expected: &str| assert_eq!(Pointer::parse(text).unwrap_err(), expected);
    check("id", "`id` is not a JSON pointer; it must start with `/`");
    check("/a~2", "`/a~2` holds a `~` that is not part of `~0` (which means `~`) or `~1` (which means `/`)");
    check("/a~", "`/a~` holds a `~` that is not part of `~0` (which means `~`) or `~1` (which means `/`)");
    check(&"/a".repeat(17), &format!("`{}` has 17 steps, at most 16 are followed", "/a".repeat(17)));
    assert_eq!(Pointer::parse("/a~1b/m~0n").unwrap().to_string(), "/a~1b/m~0n");
}

#[test]
fn of_equal_keys_the_last_counts() {
    let check = |text: &str, expected: [Option<&str>; 2]| {
        let expected = expected.map(|found| found.map(str::to_owned)).to_vec();
        assert_eq!(find(text, &["/a/x", "/a/y"]), Ok(expected), "{text}");
    };
    check(r#"{"a":{"x":1},"a":{"x":2}}"#, [Some("2"), None]);
    // The last `a` replaces the first whole, as it does in JavaScript.
    check(r#"{"a":{"x":1,"y":1},"a":{"x":2}}"#, [Some("2"), None]);
    check(r#"{"a":{"x":1},"a":null}"#, [Some("null"), Some("null")]);
    check(r#"{"a":null,"a":{"x":1}}"#, [Some("1"), None]);
    check(r#"{"a":{"x":1},"a":7}"#, [None, None]);
    check(r#"{"a":{"x":1},"\u0061":{"y":2}}"#, [None, Some("2")]);
    check(r#"{"a":{"x":1,"x":2,"y":3}}"#, [Some("2"), Some("3")]);
}

#[test]
fn a_pointer_that_leads_through_a_null_finds_it() {
    let check = |text: &str, expected: [Option<&str>; 3]| {
        let expected = expected.map(|found| found.map(str::to_owned)).to_vec();
        assert_eq!(find(text, &["/a", "/a/b/c", "/d/0/e"]), Ok(expected), "{text}");
    };
    check(r#"{"a":null,"d":null}"#, [Some("null"), Some("null"), Some("null")]);
    check(r#"{"a":{"b":null},"d":[null]}"#, [Some(r#"{"b":null}"#), Some("null"), Some("null")]);
    check(r#"{"a":{},"d":[]}"#, [Some("{}"), None, None]);
    check(r#"{"a":"null","d":"null"}"#, [Some("\"null\""), None, None]);
}

#[test]
fn a_value_and_what_lies_in_it_can_both_be_found() {
    let found = find(r#"{"customer":{"id":"cus_1"}}"#, &["/customer", "/customer/id", "/customer/id"]).unwrap();
    assert_eq!(
        found,
        [Some(r#"{"id":"cus_1"}"#.to_owned()), Some("\"cus_1\"".to_owned()), Some("\"cus_1\"".to_owned())]
    );
    assert_eq!(find(r#"{"customer":"{\"id\":1}"}"#, &["/customer/id"]), Ok(vec![None]));
}

#[test]
fn legal_json_of_no_interest_never_fails() {
    for odd in ["1e999", "\"\\ud800\"", "-0", "{\"\\udfff\":1}", "[1e999]", "1E400"] {
        let text = format!(r#"{{"a":{odd},"\ud800":1,"b":{{"c":2}}}}"#);
        assert_eq!(find(&text, &["/a/x/y", "/b/c"]), Ok(vec![None, Some("2".to_owned())]), "{text}");
        assert_eq!(find(&text, &["/a"]), Ok(vec![Some(odd.to_owned())]));
    }
}

#[test]
fn depth_costs_no_stack() {
    let deep = format!("{}{}", "{\"x\":[".repeat(200_000), "]}".repeat(200_000));
    let text = format!(r#"{{"skipped":{deep},"a":{deep},"b":1}}"#);
    let found = find(&text, &["/a", "/b", "/c/d"]).unwrap();
    assert_eq!(found, [Some(deep), Some("1".to_owned()), None]);
    assert!(find(&"[".repeat(1_000_000), &["/a"]).is_err());
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|n| Value::from(f64::from(n) / 8.0)),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[ab01~/é]{0,2}", inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// What a pointer finds in a tree: as RFC 6901 says, but that a null on the way is found.
fn walk_tree<'v>(value: &'v Value, pointer: &str) -> Option<&'v Value> {
    let ends = pointer.match_indices('/').map(|(at, _)| &pointer[..at]).chain([pointer]);
    let mut way = ends.map(|start| value.pointer(start));
    way.find(|found| found.is_none_or(Value::is_null)).flatten().or_else(|| value.pointer(pointer))
}

proptest! {
    #[test]
    fn the_walk_agrees_with_a_tree_of_values(
        value in json(),
        steps in proptest::collection::vec(proptest::collection::vec("[ab01~/é]{0,2}", 0..4), 1..6),
        pretty in any::<bool>(),
    ) {
        let escaped = |step: &String| format!("/{}", step.replace('~', "~0").replace('/', "~1"));
        let pointers: Vec<String> = steps.iter().map(|steps| steps.iter().map(escaped).collect()).collect();
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let found = find(&text, &pointers.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
        for (pointer, found) in pointers.iter().zip(found) {
            let found: Option<Value> = found.map(|json| serde_json::from_str(&json).unwrap());
            prop_assert_eq!(found.as_ref(), walk_tree(&value, pointer), "{}", pointer);
        }
    }

    #[test]
    fn any_text_is_found_in_or_refused(text in ".{0,200}") {
        let ours = find(&text, &["/a/b", "/a", "/0/1"]).is_ok();
        prop_assert_eq!(ours, serde_json::from_str::<&serde_json::value::RawValue>(&text).is_ok());
    }
}
