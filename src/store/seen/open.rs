//! Opening what is there: which buckets stand, which stretches are missing, and what was forgotten.

use std::io;
use std::sync::Arc;

use crate::domain::Lsn;
use crate::store::Error;
use crate::store::disk::{Disk, failed};
use crate::store::journal::StoreId;

use super::Gap;
use super::bucket::{Bucket, BucketFile, Span};

/// Files under this ending were never finished.
pub(super) const UNFINISHED: &str = ".tmp";

/// Files under this ending could not be used.
const GARBLED: &str = ".garbled";

/// The file that says up to which LSN all ids are forgotten.
const FORGOTTEN_FILE: &str = "forgotten";
const FORGOTTEN_MAGIC: [u8; 4] = *b"TSFO";
const FORGOTTEN_VERSION: u8 = 1;
const FORGOTTEN_LEN: usize = 36;

/// What was found.
pub(super) struct Found {
    pub(super) buckets: Vec<Bucket>,
    pub(super) gaps: Vec<Gap>,
    pub(super) sealed: Lsn,
    pub(super) garbled: Vec<String>,
}

/// Looks at the folder. `last` is the journal's last LSN.
pub(super) fn open(disk: &Arc<dyn Disk>, store_id: StoreId, last: Lsn) -> Result<Found, Error> {
    let disk = &**disk;
    let forgotten = read_forgotten(disk, store_id)?;
    if forgotten > last {
        // An older copy of the journal was put in place: what it will hold beyond its end is not forgotten.
        write_forgotten(disk, store_id, last)?;
    }
    let sealed = forgotten.min(last);
    let mut found = Found { buckets: Vec::new(), gaps: Vec::new(), sealed, garbled: Vec::new() };
    for (from, to, name) in names(disk)? {
        if to <= found.sealed || to > last {
            // Forgotten, merged into another, or of the journal that an older copy has replaced.
            remove(disk, &name)?;
            continue;
        }
        let opened = BucketFile::open(disk, &name, store_id);
        let opened = opened.map_err(|error| failed(format!("opening `{}`", disk.place(&name)), &error))?;
        let overlaps = found.buckets.last().is_some_and(|before| from <= before.span().last);
        match opened.and_then(|file| if overlaps { Err("it overlaps another".to_owned()) } else { Ok(file) }) {
            Ok(file) => {
                found.miss(from);
                found.sealed = to;
                found.buckets.push(Bucket::File(Arc::new(file)));
            }
            Err(why) => {
                set_aside(disk, &name)?;
                found.garbled.push(format!("`{}`: {why}", disk.place(&name)));
            }
        }
    }
    // What was removed must not come back when the journal has grown over it.
    disk.sync().map_err(|error| failed(format!("syncing `{}`", disk.place("")), &error))?;
    Ok(found)
}

/// Removes every file of ids, and what says which are forgotten.
pub(super) fn clear(disk: &dyn Disk) -> Result<(), Error> {
    for (_, _, name) in names(disk)? {
        remove(disk, &name)?;
    }
    remove(disk, FORGOTTEN_FILE)?;
    // Whatever is removed must not come back behind what is written in its place.
    disk.sync().map_err(|error| failed(format!("syncing `{}`", disk.place("")), &error))
}

/// The last LSN that a whole file has ids of.
pub(super) fn reaches(disk: &dyn Disk, store_id: StoreId) -> Result<Lsn, Error> {
    let mut ends: Vec<_> = buckets(disk)?.into_iter().map(|(_, last, name)| (last, name)).collect();
    ends.sort_unstable();
    for (last, name) in ends.into_iter().rev() {
        let opened = BucketFile::open(disk, &name, store_id);
        if opened.map_err(|error| failed(format!("opening `{}`", disk.place(&name)), &error))?.is_ok() {
            return Ok(last);
        }
    }
    Ok(Lsn(0))
}

impl Found {
    /// What lies between the last bucket and `next` is a gap.
    fn miss(&mut self, next: Lsn) {
        let first = Lsn(self.sealed.0 + 1);
        if next > first {
            self.gaps.push(Gap { first, last: Lsn(next.0 - 1) });
        }
    }
}

/// The buckets by name. Removes what was never finished.
fn names(disk: &dyn Disk) -> Result<Vec<(Lsn, Lsn, String)>, Error> {
    for name in list(disk)?.iter().filter(|name| name.ends_with(UNFINISHED)) {
        remove(disk, name)?;
    }
    buckets(disk)
}

/// The buckets by name: by their first LSN, and the widest first, so that what was merged into it comes behind it.
pub(super) fn buckets(disk: &dyn Disk) -> Result<Vec<(Lsn, Lsn, String)>, Error> {
    let span = |name: String| Span::of_name(&name).map(|(first, last)| (first, last, name));
    let mut buckets: Vec<_> = list(disk)?.into_iter().filter_map(span).collect();
    buckets.sort_unstable_by_key(|(first, last, _)| (*first, std::cmp::Reverse(*last)));
    Ok(buckets)
}

fn list(disk: &dyn Disk) -> Result<Vec<String>, Error> {
    disk.list().map_err(|error| failed(format!("listing `{}`", disk.place("")), &error))
}

fn remove(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    match disk.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(failed(format!("removing `{}`", disk.place(name)), &error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Takes a file out of use, and leaves it for whoever wants to know what happened to it.
pub(super) fn set_aside(disk: &dyn Disk, name: &str) -> Result<(), Error> {
    let aside = disk.rename(name, &format!("{name}{GARBLED}"));
    aside.map_err(|error| failed(format!("setting `{}` aside", disk.place(name)), &error))
}

/// Notes that all ids up to an LSN are forgotten.
pub(super) fn write_forgotten(disk: &dyn Disk, store_id: StoreId, through: Lsn) -> Result<(), Error> {
    let mut bytes = Vec::with_capacity(FORGOTTEN_LEN);
    bytes.extend_from_slice(&FORGOTTEN_MAGIC);
    bytes.extend_from_slice(&[FORGOTTEN_VERSION, 0, 0, 0]);
    bytes.extend_from_slice(&store_id.0);
    bytes.extend_from_slice(&through.0.to_be_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    let unfinished = format!("{FORGOTTEN_FILE}{UNFINISHED}");
    let written = disk.create(&unfinished).and_then(|file| {
        file.write_at(&bytes, 0)?;
        file.sync()?;
        disk.rename(&unfinished, FORGOTTEN_FILE)?;
        disk.sync()
    });
    written.map_err(|error| failed(format!("writing `{}`", disk.place(FORGOTTEN_FILE)), &error))
}

/// Up to which LSN all ids are forgotten; 0 if the note is missing or wrong: then they are found again in the journal.
fn read_forgotten(disk: &dyn Disk, store_id: StoreId) -> Result<Lsn, Error> {
    Ok(forgotten(disk, store_id)?.and_then(Result::ok).unwrap_or_default())
}

/// The name of the note on what is forgotten and what is wrong with it, if there is one and something is.
pub(super) fn is_forgotten_whole(
    disk: &dyn Disk,
    store_id: StoreId,
) -> Result<Option<(&'static str, &'static str)>, Error> {
    Ok(forgotten(disk, store_id)?.and_then(Result::err).map(|why| (FORGOTTEN_FILE, why)))
}

/// What the note says, or what is wrong with it, if there is one.
fn forgotten(disk: &dyn Disk, store_id: StoreId) -> Result<Option<Result<Lsn, &'static str>>, Error> {
    let mut bytes = [0; FORGOTTEN_LEN];
    let read = match disk.open(FORGOTTEN_FILE).and_then(|file| file.read_at(&mut bytes, 0)) {
        Ok(read) => read,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(format!("reading `{}`", disk.place(FORGOTTEN_FILE)), &error)),
    };
    let (head, rest) = bytes.split_at(8);
    let (id, rest) = rest.split_at(16);
    let (through, sum) = rest.split_at(8);
    let body = bytes.get(..FORGOTTEN_LEN - 4).unwrap_or_default();
    let is_whole = read == FORGOTTEN_LEN && sum == crc32fast::hash(body).to_be_bytes();
    let is_ours = head.starts_with(&FORGOTTEN_MAGIC) && head.get(4) == Some(&FORGOTTEN_VERSION) && id == store_id.0;
    let through = through.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
    let wrong = "it is not what was written: old ids are found again in the journal";
    Ok(Some(if is_whole && is_ours { Ok(Lsn(through)) } else { Err(wrong) }))
}
