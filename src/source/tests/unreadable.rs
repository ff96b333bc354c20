//! Bodies and types that cannot be read.

use super::*;

#[test]
fn a_body_that_is_no_json_object_is_a_dead_letter() {
    let check = |body: &[u8], expected: &str| {
        let source = shipped("standard");
        let headers = source.sign(0, "msg_1", body, NOW);
        assert!(source.verify(&headers, body, NOW).is_ok());
        let items = source.map(&headers, body, NOW);
        let [item] = &items[..] else { panic!("{items:?}") };
        let found = fate(item);
        assert!(found.starts_with(&format!("body_not_json: {expected}")), "{found}");
        assert_eq!((item.event.id.as_str(), &*item.event.event_type, &item.event.entity), ("msg_1", "", &None));
    };
    check(b"", "EOF while parsing a value at line 1 column 0");
    check(b"hello", "expected value at line 1 column 1");
    check(b"{\"id\":1", "EOF while parsing an object at line 1 column 7");
    check(b"{\"id\":1} x", "trailing characters at line 1 column 10");
    check(b"{'id':1}", "key must be a string at line 1 column 2");
    check(b"{\"id\":01}", "invalid number at line 1 column 8");
    check(b"{\"id\":NaN}", "expected value at line 1 column 7");
    check(b"\xef\xbb\xbf{}", "expected value at line 1 column 1");
    check(b"{\"id\":\"\xff\"}", "not UTF-8 from byte 7 on");
    check(b"p_signature=x&alert_id=1", "expected value at line 1 column 1");
    check(b"[]", "expected an object, found a list");
    check(b" \"x\"", "expected an object, found a string");
    check(b"1e999", "expected an object, found a number");
    check(b"null", "expected an object, found null");
    check(b"true", "expected an object, found true or false");
    let deep = "[".repeat(100_000);
    check(deep.as_bytes(), "EOF while parsing a list");
}

#[test]
fn a_type_that_cannot_be_read_is_a_dead_letter() {
    let check = |json: &str, expected: &str| {
        let item = deliver(&shipped("standard"), &format!(r#"{{"type":{json},"data":{{"id":"pay_1"}}}}"#));
        assert_eq!(fate(&item), expected);
    };
    check("7", "mapping_failed: `/type`: found `7`, expected a type of at most 255 bytes");
    check(r#"["a"]"#, "mapping_failed: `/type`: found `[\"a\"]`, expected a type of at most 255 bytes");
    check("null", "record");
}
