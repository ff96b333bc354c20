//! Temporary files in the store's directory: what is too much for memory waits there for its turn.
//!
//! They are never synced: after a crash they are rubbish, which the next opening removes.

use std::io;
use std::sync::Arc;

use crate::store::Error;
use crate::store::disk::{Disk, File, failed, wide};
use crate::store::layout::Layout;

/// How the names of all of them begin.
const PREFIX: &str = "rebuild.";

/// How much memory all files that are written or read at once may take for their buffers, about.
const BUFFERS_BYTES: usize = 16 << 20;

/// The buffer of one file: larger ones gain nothing, smaller ones cost a call for every few records.
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=256 << 10;

/// The temporary files of one rebuild; they go when it goes.
pub(super) struct Scratch {
    disk: Arc<dyn Disk>,
    buffer_bytes: usize,
}

/// Writes one file from its beginning.
pub(super) struct Writer {
    place: String,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    capacity: usize,
    at: u64,
}

/// Reads one file from its beginning.
pub(super) struct Reader {
    place: String,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    /// What of the buffer is read and not taken yet.
    taken: usize,
    filled: usize,
    at: u64,
    chunk: usize,
}

impl Scratch {
    /// Begins anew; `files` will be open at once.
    pub(super) fn new(layout: &Layout, files: usize) -> Result<Self, Error> {
        let (low, high) = BUFFER_BYTES.into_inner();
        let buffer_bytes = (BUFFERS_BYTES / files.max(1)).clamp(low, high);
        let scratch = Self { disk: layout.scratch(), buffer_bytes };
        scratch.clear()?;
        Ok(scratch)
    }

    /// A new file.
    pub(super) fn create(&self, name: &str) -> Result<Writer, Error> {
        let name = format!("{PREFIX}{name}");
        let place = self.disk.place(&name);
        let file = self.disk.create(&name).map_err(|error| failed(format!("creating `{place}`"), &error))?;
        Ok(Writer { place, file, buffer: Vec::new(), capacity: self.buffer_bytes, at: 0 })
    }

    /// A file that was written.
    pub(super) fn open(&self, name: &str) -> Result<Reader, Error> {
        let name = format!("{PREFIX}{name}");
        let place = self.disk.place(&name);
        let file = self.disk.open(&name).map_err(|error| failed(format!("opening `{place}`"), &error))?;
        Ok(Reader { place, file, buffer: Vec::new(), taken: 0, filled: 0, at: 0, chunk: self.buffer_bytes })
    }

    /// Drops a file that is not needed any more.
    pub(super) fn remove(&self, name: &str) -> Result<(), Error> {
        let name = format!("{PREFIX}{name}");
        self.disk.remove(&name).map_err(|error| failed(format!("removing `{}`", self.disk.place(&name)), &error))
    }

    fn clear(&self) -> Result<(), Error> {
        let remove = || -> io::Result<()> {
            for name in self.disk.list()?.iter().filter(|name| name.starts_with(PREFIX)) {
                self.disk.remove(name)?;
            }
            Ok(())
        };
        remove().map_err(|error| failed(format!("removing `{}*`", self.disk.place(PREFIX)), &error))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = self.clear() {
            tracing::warn!(%error, "temporary files are left until the view is built or checked again");
        }
    }
}

/// Removes what a rebuild left that was cut off.
pub(in crate::store) fn clear(layout: &Layout) -> Result<(), Error> {
    Scratch { disk: layout.scratch(), buffer_bytes: 0 }.clear()
}

impl Writer {
    /// Adds bytes, with their length before them.
    pub(super) fn put(&mut self, parts: &[&[u8]]) -> Result<(), Error> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        let len = u32::try_from(len).map_err(|_| Error::TooLarge { bytes: len, limit: usize::MAX })?;
        self.buffer.extend_from_slice(&len.to_be_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        if self.buffer.len() >= self.capacity { self.write() } else { Ok(()) }
    }

    /// Ends the file.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.write()
    }

    fn write(&mut self) -> Result<(), Error> {
        let written = self.file.write_at(&self.buffer, self.at);
        written.map_err(|error| failed(format!("writing `{}`", self.place), &error))?;
        self.at += wide(self.buffer.len());
        self.buffer.clear();
        Ok(())
    }
}

impl Reader {
    /// The next bytes that were put; none at the end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        if !self.fill(4)? {
            return if self.rest().is_empty() { Ok(None) } else { Err(self.cut()) };
        }
        let len = self.rest().first_chunk().map_or(0, |len| u32::from_be_bytes(*len));
        self.taken += 4;
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if !self.fill(len)? {
            return Err(self.cut());
        }
        let from = self.taken;
        self.taken += len;
        Ok(self.buffer.get(from..from + len))
    }

    fn cut(&self) -> Error {
        Error::Corrupt { place: self.place.clone(), detail: "it ends early".to_owned() }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.taken..self.filled).unwrap_or_default()
    }

    /// Sees to it that `len` bytes are there; answers false where the file ends before.
    fn fill(&mut self, len: usize) -> Result<bool, Error> {
        if self.filled - self.taken >= len {
            return Ok(true);
        }
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        let want = len.max(self.chunk);
        if self.buffer.len() < want {
            self.buffer.resize(want, 0);
        }
        let rest = self.buffer.get_mut(self.filled..).unwrap_or_default();
        let read = self.file.read_at(rest, self.at);
        let read = read.map_err(|error| failed(format!("reading `{}`", self.place), &error))?;
        self.at += wide(read);
        self.filled += read;
        Ok(self.filled >= len)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::store::disk::sim::SimDisk;
    use crate::store::tree::sim::SimTrees;

    #[test]
    fn what_was_put_comes_back_whatever_its_size_and_nothing_is_left_behind() {
        let files = SimDisk::default();
        let layout = Layout::on(Path::new("sim"), Arc::new(files.clone()), Arc::new(SimTrees::default()));
        let sizes = [0, 1, 3, 16 << 10, 0, 700_000, 5, 256 << 10];
        let scratch = Scratch::new(&layout, 2).unwrap();
        let mut writer = scratch.create("a").unwrap();
        for (n, size) in (0_u8..).zip(sizes) {
            writer.put(&[&[n], &vec![n; size]]).unwrap();
        }
        writer.finish().unwrap();
        let mut reader = scratch.open("a").unwrap();
        for (n, size) in (0_u8..).zip(sizes) {
            assert_eq!(reader.next().unwrap(), Some(vec![n; size + 1].as_slice()), "{n}");
        }
        assert_eq!(reader.next().unwrap(), None);
        drop(scratch);
        assert_eq!(files.list().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_file_that_ends_early_is_an_error_and_not_an_end() {
        let layout = Layout::on(Path::new("sim"), Arc::new(SimDisk::default()), Arc::new(SimTrees::default()));
        for keep in 1..8 {
            let scratch = Scratch::new(&layout, 1).unwrap();
            let mut writer = scratch.create("a").unwrap();
            writer.put(&[b"fact"]).unwrap();
            let file = Arc::clone(&writer.file);
            writer.finish().unwrap();
            file.set_size(keep).unwrap();
            let read = scratch.open("a").unwrap().next().map(|_| ());
            assert!(matches!(read, Err(Error::Corrupt { .. })), "{keep}: {read:?}");
        }
    }
}
