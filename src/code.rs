//! Error codes: the one table of everything that can go wrong, for HTTP, the command line, dead letters and docs.
//!
//! A code is a promise: once released it keeps its meaning, and a row is only ever added. Each row says what to
//! do, since an error that only says "no" costs somebody an evening. `docs/errors.md` is made from this table.

use std::fmt::Write as _;

/// One row of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// The stable name, for programs.
    pub id: &'static str,
    /// Where it is met, and with which number.
    pub status: Status,
    /// What went wrong, in a few words that never change with the request.
    pub title: &'static str,
    /// What to do about it.
    pub fix: &'static str,
}

/// Where a code is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// In an HTTP answer with this status.
    Http(u16),
    /// On a dead letter or an entry: the sender got 200, and the fact is kept.
    DeadLetter,
    /// On the command line, with this exit code: 1 for failed, 2 for usage or configuration.
    Exit(u8),
}

macro_rules! codes {
    ($($name:ident = $id:literal, $status:expr, $title:literal, $fix:literal;)+) => {
        $(
            #[doc = concat!("`", $id, "`: ", $title, ".")]
            pub const $name: Code = Code { id: $id, status: $status, title: $title, fix: $fix };
        )+

        /// The whole table.
        pub const ALL: &[Code] = &[$($name),+];
    };
}

use Status::{DeadLetter, Exit, Http};

codes! {
    // The door: what a webhook sender can be answered.
    SOURCE_NOT_FOUND = "source_not_found", Http(404), "no such source is on",
        "Check the last part of the address. If the source is declared, the server's log says why it is off: usually it has no secret.";
    SIGNATURE_MISSING = "signature_missing", Http(401), "the request is not signed",
        "Send the source's signature header; `tollgate send` makes one.";
    SIGNATURE_MALFORMED = "signature_malformed", Http(401), "the signature header can't be read",
        "Send the header in the form that the source's scheme asks for, unchanged by any proxy.";
    SIGNATURE_MISMATCH = "signature_mismatch", Http(401), "the signature fits none of the source's secrets",
        "Check that the secret is the one of this endpoint, and that nothing between sender and server changes the body.";
    TIMESTAMP_TOO_OLD = "timestamp_too_old", Http(401), "the request was signed too long ago",
        "Check both clocks; if the sender keeps the first signature when it retries, raise the source's tolerance.";
    TIMESTAMP_TOO_NEW = "timestamp_too_new", Http(401), "the request was signed in the future",
        "Check both clocks.";
    BODY_TOO_LARGE = "body_too_large", Http(413), "the body is over the limit",
        "Send less, or raise `server.body_limit`.";
    RECORD_TOO_LARGE = "record_too_large", Http(413), "the record to be written is over the limit",
        "Raise `store.frame_max` and restart, or send fewer events in one delivery.";
    BODY_ENCODED = "body_encoded", Http(415), "the body is compressed",
        "Send the body as it was signed, without `Content-Encoding`.";
    BODY_TIMEOUT = "body_timeout", Http(408), "the body took too long to arrive",
        "Send it faster, or raise `server.body_timeout`.";
    BODY_BROKEN = "body_broken", Http(400), "the body broke off",
        "Send the request again.";
    BUSY = "busy", Http(503), "too much comes in at once",
        "Try again after the time in `Retry-After`; nothing was kept.";
    DISK_FULL = "disk_full", Http(503), "the disk is full",
        "Free some space on the disk of the data directory; senders try again by themselves.";
    STOPPED = "stopped", Http(503), "the server is stopping or has stopped writing",
        "Try again. If it lasts, the server's log says which write failed; restart it once that is mended.";
    PROVING = "proving", Http(503), "the server still checks what its view shows",
        "Wait some seconds: it takes and keeps webhooks meanwhile, and decides them when the check is done.";

    // Reading and operating.
    KEY_MISSING = "key_missing", Http(401), "the request has no key",
        "Send `Authorization: Bearer KEY`; the first start wrote a key to `operator.key` in the data directory.";
    KEY_INVALID = "key_invalid", Http(401), "the key is unknown or was revoked",
        "Make a key with `tollgate key create`.";
    SCOPE_MISSING = "scope_missing", Http(403), "the key may not do this",
        "Use a key with the scope that the detail names, or make one with `tollgate key create`.";
    ROUTE_NOT_FOUND = "route_not_found", Http(404), "nothing is at this address",
        "See `/openapi.json` for what there is; a `/` within an id is written `%2F`.";
    METHOD_NOT_ALLOWED = "method_not_allowed", Http(405), "the address doesn't know this method",
        "Use a method from the `Allow` header.";
    PARAMETER_UNKNOWN = "parameter_unknown", Http(400), "a query parameter is unknown",
        "Leave it out, or use the name that the detail suggests.";
    PARAMETER_INVALID = "parameter_invalid", Http(400), "a parameter can't be read",
        "Send a value of the form that the detail describes.";
    CURSOR_INVALID = "cursor_invalid", Http(400), "the cursor can't be used here",
        "Pass the `next` of an earlier answer of the same address unchanged, or leave `after` out to begin anew.";
    ENTITY_NOT_FOUND = "entity_not_found", Http(404), "no such entity is known",
        "Check source, kind, id and partition; `/v1/entities` lists what is known.";
    PARTITION_AMBIGUOUS = "partition_ambiguous", Http(409), "several partitions have an entity of this id",
        "Name one of the listed partitions with `?partition=`.";
    MACHINE_NOT_FOUND = "machine_not_found", Http(404), "no such machine is loaded",
        "Use a name that `/v1/machines` lists.";
    DEAD_LETTER_NOT_FOUND = "dead_letter_not_found", Http(404), "no dead letter stands there",
        "List the dead letters; this one may have been replayed or discarded.";
    DEAD_LETTER_NOT_REPLAYABLE = "dead_letter_not_replayable", Http(409), "the dead letter can't be judged by any entity",
        "Mend what the detail says, restart, then replay; or discard it.";
    INTERNAL = "internal", Http(500), "something went wrong on our side",
        "Search the server's log for the `instance` of this answer.";

    // What an entry or a dead letter can say.
    UNKNOWN_STATE = "unknown_state", DeadLetter, "the machine doesn't declare the state",
        "Declare the state in the machine's file, restart, then replay.";
    UNKNOWN_MACHINE = "unknown_machine", DeadLetter, "the machine isn't loaded",
        "Add the machine's file, restart, then replay.";
    AMBIGUOUS = "ambiguous", DeadLetter, "the order can't be told without the upstream",
        "Give the source an API key so that it can ask, then replay.";
    UPSTREAM_NOT_FOUND = "upstream_not_found", DeadLetter, "the upstream doesn't know the entity",
        "Check that the API key is of the entity's account and mode, then replay.";
    UPSTREAM_UNAVAILABLE = "upstream_unavailable", DeadLetter, "the upstream could not be asked",
        "Replay once the upstream answers again.";
    UPSTREAM_INVALID = "upstream_invalid", DeadLetter, "the upstream's answer could not be used",
        "Compare the source's `upstream` pointers with what the upstream answers, then replay.";
    EVENT_ID_REUSED = "event_id_reused", DeadLetter, "an event id came again with other content",
        "Ask the sender why; the first stands. Discard this one, or replay it if it is the true one.";
    BODY_NOT_JSON = "body_not_json", DeadLetter, "the verified body is not JSON",
        "Check what the sender sends to this endpoint; discard it once that is mended.";
    MAPPING_FAILED = "mapping_failed", DeadLetter, "the event could not be mapped",
        "Mend the source's pointers in `config/sources`, restart, then replay.";
    PANICKED = "panicked", DeadLetter, "deciding failed",
        "Report the detail as a bug; replay once a version that mends it runs.";

    // The command line and the start of a server.
    USAGE = "usage", Exit(2), "the command line can't be read",
        "See `tollgate help` and the examples of `--help`.";
    CONFIG_INVALID = "config_invalid", Exit(2), "the configuration can't be used",
        "Mend the keys that are named; `tollgate config check` shows the merged result.";
    DEMO_FAILED = "demo_failed", Exit(1), "a story of the demo did not end as it must",
        "The lines marked `WRONG` say how it ended; report them as a bug.";
    SECRET_INVALID = "secret_invalid", Exit(2), "a secret can't be used",
        "Copy it again from the provider, without spaces or quotes around it.";
    SECRETS_FILE_INVALID = "secrets_file_invalid", Exit(2), "the file of secrets can't be used",
        "Let the server read the file, and write one secret a line; or take `secrets_file` out of the source.";
    SECRET_MISSING = "secret_missing", Exit(2), "the source has no signing secret",
        "Set the variable that the detail names to the secret that the provider shows.";
    MACHINE_INVALID = "machine_invalid", Exit(2), "a machine file can't be used",
        "Mend the lines that are named; `tollgate machine check` looks again.";
    KEYS_FILE_INVALID = "keys_file_invalid", Exit(2), "the file of keys can't be read",
        "Restore `keys.json` in the data directory from a backup, or remove it to start with a new operator key.";
    KEY_NAME_INVALID = "key_name_invalid", Exit(2), "the key's name can't be used",
        "Use 1 to 64 of letters, digits and `_ - . /`, starting with a letter or digit.";
    KEY_NAME_TAKEN = "key_name_taken", Exit(1), "a key of this name exists",
        "Choose another name; a revoked key keeps its name, since entries refer to it.";
    KEY_NOT_FOUND = "key_not_found", Exit(1), "no key has this name",
        "See `tollgate key list`.";
    KEY_REVOKED = "key_revoked", Exit(1), "the key was revoked before",
        "Nothing is left to do.";
    DATA_LOCKED = "data_locked", Exit(1), "another process has the data directory open",
        "Stop it, or name another directory with `--data`.";
    STORE_CORRUPT = "store_corrupt", Exit(1), "the store contradicts itself",
        "Restore the named file from a backup; `tollgate store check` looks again.";
    STORE_FAILED = "store_failed", Exit(1), "the store could not be read or written",
        "See the operating system's words in the detail.";
    ENGINE_STOPPED = "engine_stopped", Exit(1), "the server stopped by itself",
        "Mend what the detail says and start it again: everything that was acknowledged is kept.";
    LISTEN_FAILED = "listen_failed", Exit(1), "the address can't be listened on",
        "Choose another with `--listen`, or stop what uses it.";
    FILE_FAILED = "file_failed", Exit(1), "a file could not be read or written",
        "See the operating system's words in the detail.";
    SERVER_UNREACHABLE = "server_unreachable", Exit(1), "the server doesn't answer",
        "Check `--server`, and that `tollgate serve` runs.";
    ANSWER_UNREADABLE = "answer_unreadable", Exit(1), "the server's answer can't be read",
        "Check that `--server` names a Tollgate server of this version.";
}

impl Code {
    /// The `type` of a problem document. A URN, since no host name of ours is promised to stay.
    #[must_use]
    pub fn urn(&self) -> String {
        format!("urn:tollgate:error:{}", self.id)
    }

    /// The HTTP status; 500 for a code that no HTTP answer should carry.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        match self.status {
            Http(status) => status,
            DeadLetter | Exit(_) => 500,
        }
    }

    /// The exit code of a command that ends with this; 1 unless the table says otherwise.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self.status {
            Exit(code) => code,
            Http(_) | DeadLetter => 1,
        }
    }
}

/// The row of this name.
#[must_use]
pub fn find(id: &str) -> Option<&'static Code> {
    ALL.iter().find(|code| code.id == id)
}

/// The row of a name that our own code gave; [`INTERNAL`] if the table lacks it, so that an answer is never lost.
#[must_use]
pub fn of(id: &str) -> Code {
    find(id).copied().unwrap_or(INTERNAL)
}

/// The error reference as Markdown: the text of `docs/errors.md`.
#[must_use]
pub fn reference() -> String {
    let mut out = String::from(INTRODUCTION);
    section(&mut out, "HTTP answers", "status", |code| match code.status {
        Http(status) => Some(status.to_string()),
        DeadLetter | Exit(_) => None,
    });
    section(&mut out, "Dead letters and entries", "answered", |code| match code.status {
        DeadLetter => Some("200".to_owned()),
        Http(_) | Exit(_) => None,
    });
    section(&mut out, "Command line", "exit code", |code| match code.status {
        Exit(exit) => Some(exit.to_string()),
        Http(_) | DeadLetter => None,
    });
    out
}

const INTRODUCTION: &str = "# Errors\n\n\
    Every error has a stable code. HTTP answers carry it in a problem document (RFC 9457): `type` is\n\
    `urn:tollgate:error:CODE`, `code` is the code, `detail` says what was wrong with this request, and `fix` says\n\
    what to do. The command line prints the same code and fix. A 500 says nothing of the inside: its `instance`\n\
    stands in the server's log too.\n\n\
    This file is made from the table in `src/code.rs`.\n";

fn section(out: &mut String, heading: &str, column: &str, number: impl Fn(&Code) -> Option<String>) {
    // Writing to a String can't fail.
    let _ = write!(out, "\n## {heading}\n\n| code | {column} | what | what to do |\n|---|---|---|---|\n");
    for code in ALL {
        if let Some(number) = number(code) {
            let _ = writeln!(out, "| `{}` | {number} | {} | {} |", code.id, code.title, code.fix);
        }
    }
}

#[cfg(test)]
mod tests;
