//! Where each field of each thing stands in the files, by walking over their bytes as `docs/format.md` says.

use std::ops::Range;

use crate::domain::Lsn;
use crate::store::fuzz::Files;
use crate::store::records::{Record, StoredAction};

/// A field somewhere.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) file: String,
    pub(super) range: Range<usize>,
    /// What it is a field of, and which.
    pub(super) what: String,
    /// Whether it belongs to the last group or to what follows it.
    pub(super) is_last: bool,
}

const SEGMENT_HEADER: [(&str, usize); 8] = [
    ("magic", 4),
    ("version", 1),
    ("reserved", 3),
    ("store id", 16),
    ("incarnation", 8),
    ("first LSN", 8),
    ("generation", 4),
    ("checksum", 4),
];
const GROUP_HEADER: [(&str, usize); 9] = [
    ("magic", 4),
    ("kind", 1),
    ("reserved", 3),
    ("store id", 16),
    ("incarnation", 8),
    ("first LSN", 8),
    ("known synced", 8),
    ("count", 4),
    ("checksum", 4),
];
const TRAILER: [(&str, usize); 7] =
    [("magic", 4), ("count", 4), ("store id", 16), ("incarnation", 8), ("last LSN", 8), ("end", 8), ("checksum", 4)];
const BUCKET_HEADER: [(&str, usize); 11] = [
    ("magic", 4),
    ("version", 1),
    ("reserved", 3),
    ("store id", 16),
    ("first LSN", 8),
    ("last LSN", 8),
    ("oldest", 8),
    ("newest", 8),
    ("count", 8),
    ("words", 8),
    ("hashes", 4),
];

/// What is walked over.
struct Walk<'a> {
    file: &'a str,
    bytes: &'a [u8],
    at: usize,
    place: &'static str,
    out: Vec<Region>,
}

impl Walk<'_> {
    fn take(&mut self, what: &str, field: &str, len: usize) {
        if len > 0 {
            let what = format!("{} {what}: {field}", self.place);
            let range = self.at..self.at + len;
            self.out.push(Region { file: self.file.to_owned(), range, what, is_last: false });
            self.at += len;
        }
    }

    fn all(&mut self, what: &str, fields: &[(&str, usize)]) {
        for (field, len) in fields {
            self.take(what, field, *len);
        }
    }

    fn number(&self, at: usize) -> usize {
        let bytes = self.bytes[self.at + at..self.at + at + 4].try_into().unwrap();
        usize::try_from(u32::from_be_bytes(bytes)).unwrap()
    }

    fn group(&mut self) {
        let (kind, count) = (self.bytes[self.at + 4], self.number(48));
        let what = match kind {
            1 => "group",
            2 => "mark opened",
            _ => "mark closed",
        };
        self.all(what, &GROUP_HEADER);
        for _ in 0..count {
            self.frame();
        }
    }

    fn frame(&mut self) {
        let (len, head) = (self.number(0), self.number(10));
        let record = Record::decode(Lsn(1), self.bytes[self.at + 8..self.at + 8 + len].to_vec()).unwrap();
        let what = match record {
            Record::Delivery(_) => "delivery",
            Record::Commit(_) => "commit",
            Record::Command(command) => match command.action {
                StoredAction::Replay(_) => "replay",
                StoredAction::Discard { .. } => "discard",
                StoredAction::MachineChanged { .. } => "machine change",
            },
        };
        let fields = [("length", 4), ("checksum", 4), ("record version", 1), ("record kind", 1), ("head length", 4)];
        self.all(what, &fields);
        self.take(what, "head", head);
        self.take(what, "body", len - 6 - head);
    }
}

/// Those of a journal.
pub(super) fn journal_regions(files: &Files) -> Vec<Region> {
    let mut regions = Vec::new();
    let segments: Vec<_> = files.iter().filter(|(name, _)| name.ends_with(".segment")).collect();
    for (file, bytes) in &segments {
        let is_sealed = bytes[bytes.len() - 52..].starts_with(b"TEND");
        let place = if is_sealed { "sealed" } else { "open" };
        let mut walk = Walk { file, bytes, at: 0, place, out: Vec::new() };
        walk.all("segment header", &SEGMENT_HEADER);
        let mut last = 0;
        while bytes[walk.at..].starts_with(b"TGRP") {
            // A mark is nobody's last group: what it vouches for is.
            let is_mark = bytes[walk.at + 4] != 1;
            last = if is_mark { last } else { walk.out.len() };
            walk.group();
        }
        if is_sealed {
            let entries = walk.number(4);
            walk.all("index", &[("magic", 4), ("count", 4), ("entries", 28 * entries)]);
            walk.all("trailer", &TRAILER);
        } else {
            walk.take("zeros", "", bytes.len() - walk.at);
            walk.out.iter_mut().skip(last).for_each(|region| region.is_last = true);
        }
        regions.extend(walk.out);
    }
    for region in &mut regions {
        region.what = region.what.trim_end_matches(": ").to_owned();
    }
    regions
}

/// Those of the seen ids.
pub(super) fn seen_regions(files: &Files) -> Vec<Region> {
    let mut regions = Vec::new();
    for (file, bytes) in files {
        if !bytes.starts_with(b"TSEN") {
            continue;
        }
        let mut walk = Walk { file, bytes, at: 0, place: "bucket", out: Vec::new() };
        walk.all("header", &BUCKET_HEADER);
        walk.take("header", "rest", 4096 - walk.at - 4);
        walk.take("header", "checksum", 4);
        let count = u64::from_be_bytes(bytes[56..64].try_into().unwrap()).div_ceil(93);
        for _ in 0..count {
            walk.all("block", &[("ids", 4092), ("checksum", 4)]);
        }
        walk.take("tail", "first keys", 16 * usize::try_from(count).unwrap());
        walk.take("tail", "filter", bytes.len() - walk.at - 4);
        walk.take("tail", "checksum", 4);
        regions.extend(walk.out);
    }
    regions
}
