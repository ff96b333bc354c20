use std::os::unix::fs::PermissionsExt as _;

use super::*;

const NOON: Timestamp = Timestamp::from_secs(1_800_000_000);

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_800_000_000 + secs)
}

fn read() -> BTreeSet<Scope> {
    [Scope::Read].into()
}

#[test]
fn a_key_opens_until_it_is_revoked_and_a_running_server_notices() {
    let data = tempfile::tempdir().unwrap();
    let ring = Ring::open(data.path(), NOON).unwrap();
    let token = create(data.path(), "auditor", &read(), NOON).unwrap();
    let token = token.expose_secret();

    assert_eq!(ring.find(token, NOON), None, "the file is looked at once a second at most");
    let found = ring.find(token, at(1)).unwrap();
    assert_eq!((found.name.as_str(), &found.scopes), ("auditor", &read()));

    revoke(data.path(), "auditor", at(2)).unwrap();
    assert_eq!(ring.find(token, at(3)), None);
}

#[test]
fn nothing_but_the_exact_key_opens() {
    let data = tempfile::tempdir().unwrap();
    let token = create(data.path(), "auditor", &read(), NOON).unwrap();
    let token = token.expose_secret();
    let ring = Ring::open(data.path(), NOON).unwrap();
    for wrong in ["", "tg_", &token.to_uppercase(), &token[..token.len() - 1], &format!("{token} "), &token[3..]] {
        assert_eq!(ring.find(wrong, NOON), None, "{wrong}");
    }
    assert!(ring.find(token, NOON).is_some());
}

#[test]
fn the_file_has_hashes_only_and_belongs_to_its_owner() {
    let data = tempfile::tempdir().unwrap();
    let token = create(data.path(), "auditor", &read(), NOON).unwrap();
    let path = data.path().join("keys.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(!text.contains(token.expose_secret()) && text.contains("\"auditor\""));
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_first_start_writes_an_operator_key_once() {
    let data = tempfile::tempdir().unwrap();
    let path = first_start(data.path(), NOON).unwrap().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let token = std::fs::read_to_string(path).unwrap();
    let key = Ring::open(data.path(), NOON).unwrap().find(token.trim(), NOON).unwrap();
    assert_eq!((key.name.as_str(), key.scopes), ("operator", Scope::ALL.into()));

    revoke(data.path(), "operator", at(1)).unwrap();
    assert_eq!(first_start(data.path(), at(2)).unwrap(), None, "a revoked key is a key: nobody asked for another");
}

#[test]
fn what_cannot_be_done_says_why() {
    let data = tempfile::tempdir().unwrap();
    create(data.path(), "auditor", &read(), NOON).unwrap();
    revoke(data.path(), "auditor", NOON).unwrap();
    let check = |error: Error, code: Code, text: &str| {
        assert_eq!(error.code(), code);
        assert_eq!(error.to_string(), text);
    };
    check(
        create(data.path(), "auditor", &read(), NOON).unwrap_err(),
        code::KEY_NAME_TAKEN,
        "a key named `auditor` exists (revoked); choose another name",
    );
    check(
        create(data.path(), "a b", &read(), NOON).unwrap_err(),
        code::KEY_NAME_INVALID,
        "`a b` can't name a key: use 1 to 64 of letters, digits and `_ - . /`, starting with a letter or digit",
    );
    check(
        revoke(data.path(), "auditer", NOON).unwrap_err(),
        code::KEY_NOT_FOUND,
        "no key is named `auditer` (did you mean `auditor`?)",
    );
    check(
        revoke(data.path(), "auditor", NOON).unwrap_err(),
        code::KEY_REVOKED,
        "key `auditor` was revoked at 2027-01-15T08:00:00Z",
    );
}

#[test]
fn a_garbled_file_is_refused_at_the_start_and_ignored_by_a_running_server() {
    let data = tempfile::tempdir().unwrap();
    let token = create(data.path(), "auditor", &read(), NOON).unwrap();
    let ring = Ring::open(data.path(), NOON).unwrap();
    std::fs::write(data.path().join("keys.json"), "{\"version\":1,").unwrap();
    assert!(ring.find(token.expose_secret(), at(5)).is_some());
    assert_eq!(Ring::open(data.path(), at(5)).unwrap_err().code(), code::KEYS_FILE_INVALID);
    std::fs::write(data.path().join("keys.json"), "{\"version\":9,\"keys\":[]}").unwrap();
    assert!(list(data.path()).unwrap_err().to_string().ends_with("it has version 9, this program reads version 1"));
}

#[test]
fn a_data_folder_that_is_made_here_is_its_owners_alone() {
    let above = tempfile::tempdir().unwrap();
    let data = above.path().join("data");
    create(&data, "anna", &BTreeSet::from([Scope::Read]), Timestamp::EPOCH).unwrap();
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&data).unwrap());
    assert_eq!(mode & 0o777, 0o700);
}
