//! The seam to the file system: the few calls that the journal and the seen ids make, so that tests can put a disk
//! under them that tears writes, loses what was not synced, fills up and fails.
//!
//! [`OsDisk`] is the real one. It is thin on purpose: what is tested above it must be what runs.

#[cfg(any(test, fuzzing))]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a simulated disk is a test's")]
#[cfg_attr(not(test), allow(dead_code, reason = "a fuzzer needs only some of its faults"))]
pub(crate) mod sim;

use std::any::Any;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Error;

/// Held as long as nobody else may open the folder.
pub type Lock = Arc<dyn Any + Send + Sync>;

/// One flat folder of files.
pub trait Disk: Send + Sync + 'static {
    /// A file in it, or the folder itself for an empty name, in words for people.
    fn place(&self, name: &str) -> String;

    /// The names of its files, in any order.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self) -> io::Result<Vec<String>>;

    /// A new empty file; one of that name is emptied.
    ///
    /// # Errors
    /// The operating system's.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// A file that exists, to read and write.
    ///
    /// # Errors
    /// The operating system's; not found if it doesn't exist.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Renames a file and replaces what had the name. Durable after [`Disk::sync`].
    ///
    /// # Errors
    /// The operating system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Durable after [`Disk::sync`].
    ///
    /// # Errors
    /// The operating system's.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes names durable: what was created, renamed and removed.
    ///
    /// # Errors
    /// The operating system's.
    fn sync(&self) -> io::Result<()>;

    /// How much room there is.
    ///
    /// # Errors
    /// The operating system's.
    fn space(&self) -> io::Result<Space>;

    /// Takes the folder for this process; none if another has it.
    ///
    /// # Errors
    /// The operating system's.
    fn lock(&self) -> io::Result<Option<Lock>>;
}

/// The room on a disk, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Space {
    /// What can still be written.
    pub free: u64,
    /// What the disk has in all.
    pub total: u64,
}

impl Space {
    /// Whether so much stays free, or a quarter of a small disk.
    #[must_use]
    pub fn has_room(self, reserve_bytes: u64) -> bool {
        self.free >= reserve_bytes.min(self.total / 4)
    }
}

/// One open file. Reading and writing name their place, so that one handle serves many threads.
pub trait File: Send + Sync {
    /// How many bytes it has.
    ///
    /// # Errors
    /// The operating system's.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from there; answers fewer bytes only where the file ends.
    ///
    /// # Errors
    /// The operating system's.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes all of `bytes` there.
    ///
    /// # Errors
    /// The operating system's: then any part of it may have been written.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;

    /// Makes what was written durable.
    ///
    /// # Errors
    /// The operating system's: then nothing is known of what was written since the last time.
    fn sync(&self) -> io::Result<()>;

    /// Cuts it, or extends it by zeros that reserve no space.
    ///
    /// # Errors
    /// The operating system's.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Reserves space up to `size` and extends it by zeros to that, so that writing there can't run out of space.
    ///
    /// # Errors
    /// The operating system's; no space left is one of them, and then the content is as it was.
    fn allocate(&self, size: u64) -> io::Result<()>;
}

/// A folder of the operating system.
#[derive(Debug)]
pub struct OsDisk {
    folder: PathBuf,
}

struct OsFile {
    file: fs::File,
    /// Whether its size was changed since it was synced: that needs the full sync.
    resized: AtomicBool,
}

/// The file whose lock stands for the folder's.
const LOCK_FILE: &str = "lock";

/// Zeros for file systems that can't reserve space otherwise.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

impl OsDisk {
    /// The folder, created if it doesn't exist.
    ///
    /// # Errors
    /// [`Error::Full`], [`Error::Io`].
    pub fn new(folder: &Path) -> Result<Self, Error> {
        let create = || {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            match folder.parent().filter(|parent| !parent.as_os_str().is_empty()) {
                Some(parent) => fs::File::open(parent)?.sync_all(),
                None => Ok(()),
            }
        };
        create().map_err(|error| failed(format!("creating `{}`", folder.display()), &error))?;
        Ok(Self::at(folder))
    }

    /// The folder, which need not exist yet.
    #[must_use]
    pub fn at(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }
}

impl Disk for OsDisk {
    fn place(&self, name: &str) -> String {
        let path = if name.is_empty() { self.folder.clone() } else { self.folder.join(name) };
        path.display().to_string()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            // A name that is not text is none of ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file =
            fs::File::options().read(true).write(true).create(true).truncate(true).open(self.folder.join(name))?;
        Ok(Arc::new(OsFile { file, resized: AtomicBool::new(true) }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let file = fs::File::options().read(true).write(true).open(self.folder.join(name))?;
        Ok(Arc::new(OsFile { file, resized: AtomicBool::new(true) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.folder.join(from), self.folder.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.folder.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        fs::File::open(&self.folder)?.sync_all()
    }

    fn space(&self) -> io::Result<Space> {
        let stats = fs4::statvfs(&self.folder)?;
        Ok(Space { free: stats.available_space(), total: stats.total_space() })
    }

    fn lock(&self) -> io::Result<Option<Lock>> {
        let path = self.folder.join(LOCK_FILE);
        let file = fs::File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Arc::new(file))),
            Err(fs::TryLockError::WouldBlock) => Ok(None),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

impl File for OsFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match self.file.read_at(rest, at.saturating_add(wide(done))) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        if self.resized.load(Ordering::Acquire) {
            self.file.sync_all()?;
            self.resized.store(false, Ordering::Release);
            return Ok(());
        }
        self.file.sync_data()
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.resized.store(true, Ordering::Release);
        self.file.set_len(size)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        self.resized.store(true, Ordering::Release);
        let before = self.size()?;
        let mut done = fs4::FileExt::allocate(&self.file, size);
        if done.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Unsupported) {
            done = self.write_zeros(before, size);
        }
        if done.is_ok() && self.size()? < size {
            // The blocks were there already, only the end was not.
            done = self.file.set_len(size);
        }
        if done.is_err() {
            // What was reserved before space ran out goes back.
            self.file.set_len(before)?;
        }
        done
    }
}

impl OsFile {
    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let n = usize::try_from(to - at).unwrap_or(usize::MAX).min(ZEROS.len());
            self.file.write_all_at(ZEROS.get(..n).unwrap_or_default(), at)?;
            at += wide(n);
        }
        Ok(())
    }
}

/// What the store says of a failed call: that space is out, or what was tried and the system's words.
pub(super) fn failed(action: impl Into<String>, error: &io::Error) -> Error {
    if is_full(error) { Error::Full } else { Error::Io { action: action.into(), detail: error.to_string() } }
}

/// A length as a number for offsets: no platform has lengths that don't fit.
pub(crate) fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Whether this is for want of space, so that it may work later.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
