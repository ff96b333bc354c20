//! Reading every file of seen ids, to see whether it is what was written.

use std::sync::Arc;

use crate::store::Error;
use crate::store::disk::{Disk, failed};
use crate::store::journal::StoreId;

use super::bucket::{BucketFile, Pairs, Span, Trouble};
use super::open::{buckets, is_forgotten_whole};

/// What is wrong with a file of a folder: its place, and what it is. Changes nothing.
pub(super) fn check(disk: &dyn Disk, store_id: StoreId) -> Result<Vec<(String, String)>, Error> {
    let mut found = Vec::new();
    for (_, _, name) in buckets(disk)? {
        let wrong = wrong(disk, &name, store_id);
        let wrong = wrong.map_err(|error| failed(format!("reading `{}`", disk.place(&name)), &error))?;
        found.extend(wrong.map(|why| (format!("`{}`", disk.place(&name)), why)));
    }
    if let Some((name, why)) = is_forgotten_whole(disk, store_id)? {
        found.push((format!("`{}`", disk.place(name)), why.to_owned()));
    }
    Ok(found)
}

/// What is wrong with a bucket's file, if anything is.
fn wrong(disk: &dyn Disk, name: &str, store_id: StoreId) -> std::io::Result<Option<String>> {
    let file = match BucketFile::open(disk, name, store_id)? {
        Ok(file) => Arc::new(file),
        Err(why) => return Ok(Some(why)),
    };
    let Span { first, last, .. } = file.span();
    let (mut left, mut pairs) = (file.count(), Pairs::new(file));
    loop {
        match pairs.next() {
            Ok(Some((_, entry))) if (first..=last).contains(&entry.position.lsn) => left = left.saturating_sub(1),
            Ok(Some(_)) => return Ok(Some("it has an id of a record that it is not about".to_owned())),
            Ok(None) if left > 0 => return Ok(Some("it has fewer ids than its header says".to_owned())),
            Ok(None) => return Ok(None),
            Err(Trouble::Garbled) => return Ok(Some("the checksum of a block is wrong".to_owned())),
            Err(Trouble::Io(error)) => return Err(error),
        }
    }
}
