//! The data directory: where the parts of an embedded store lie, its settings file, its lock, and what is done with a
//! view that cannot be used.
//!
//! ```text
//! store.toml     format, store id, shards: written once
//! lock           held while a process has the store open
//! journal/       the truth
//! seen/          the seen ids
//! view/          what the journal implies; may be deleted while the store is closed
//! view.aside/    the last view that could not be used
//! view.damaged   why the view is to be built anew; gone once it was
//! check/         a second view, while the store is checked
//! ```

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Error;

/// The form of the directory that this program writes.
const FORMAT: u32 = 1;

/// The most shards that a store can have.
const SHARDS_MAX: u16 = 512;

/// The head of the settings file.
const HEAD: &str =
    "# Written when the store was created. The journal is numbered and cut by these: do not change them.\n";

/// Where the parts of a store lie.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    dir: PathBuf,
}

/// What is fixed when a store is created.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fixed {
    format: u32,
    pub(super) store_id: String,
    pub(super) shards: u16,
}

impl Fixed {
    pub(super) fn new(store_id: [u8; 16], shards: u16) -> Self {
        Self { format: FORMAT, store_id: hex::encode(store_id), shards }
    }
}

impl Layout {
    pub(super) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    pub(super) fn journal(&self) -> PathBuf {
        self.dir.join("journal")
    }

    pub(super) fn seen(&self) -> PathBuf {
        self.dir.join("seen")
    }

    pub(super) fn view(&self) -> PathBuf {
        self.dir.join("view")
    }

    /// The layout of a folder within, for a view that stands beside the real one.
    pub(super) fn beside(&self, name: &str) -> Self {
        Self { dir: self.dir.join(name) }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn settings(&self) -> PathBuf {
        self.dir.join("store.toml")
    }

    /// Creates the directory and takes it for this process, until the file is dropped. What is kept there is nobody
    /// else's to read: payloads name customers.
    pub(super) fn lock(&self) -> Result<File, Error> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(|error| io_error("creating", &self.dir, &error))?;
        let path = self.dir.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|error| io_error("opening", &path, &error))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: self.dir.display().to_string() }),
            Err(TryLockError::Error(error)) => Err(io_error("locking", &path, &error)),
        }
    }

    /// The settings; none in a new store.
    pub(super) fn read_settings(&self) -> Result<Option<Fixed>, Error> {
        let path = self.settings();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("reading", &path, &error)),
        };
        let corrupt = |detail: String| Error::Corrupt { place: path.display().to_string(), detail };
        let fixed: Fixed = toml::from_str(&text).map_err(|error| corrupt(error.message().to_owned()))?;
        if fixed.format != FORMAT {
            return Err(corrupt(format!("format {} is unknown, this tollgate reads {FORMAT}", fixed.format)));
        }
        if !(1..=SHARDS_MAX).contains(&fixed.shards) {
            return Err(corrupt(format!("it has {} shards, expected 1 to {SHARDS_MAX}", fixed.shards)));
        }
        Ok(Some(fixed))
    }

    /// Writes the settings; they are durable when it returns.
    pub(super) fn write_settings(&self, fixed: &Fixed) -> Result<(), Error> {
        let path = self.settings();
        let corrupt =
            |error: toml::ser::Error| Error::Corrupt { place: path.display().to_string(), detail: error.to_string() };
        let text = toml::to_string(fixed).map_err(corrupt)?;
        self.write_whole(&path, &format!("{HEAD}{text}")).map_err(|error| io_error("writing", &path, &error))
    }

    /// Notes that the view is to be built anew when the store is opened next.
    pub(super) fn condemn_view(&self, why: &str) {
        if let Err(error) = self.write_whole(&self.damaged(), why) {
            tracing::warn!(error = %error, "the note on the damaged view was not written");
        }
    }

    /// Why the view is to be built anew, if it is.
    pub(super) fn condemned(&self) -> Option<String> {
        fs::read_to_string(self.damaged()).ok()
    }

    /// Moves the view out of the way, in place of one that was moved before.
    pub(super) fn set_view_aside(&self) -> Result<(), Error> {
        let (view, aside) = (self.view(), self.dir.join("view.aside"));
        remove(&aside)?;
        match fs::rename(&view, &aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("renaming", &view, &error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The view is good again.
    pub(super) fn acquit_view(&self) -> Result<(), Error> {
        remove(&self.damaged())
    }

    fn damaged(&self) -> PathBuf {
        self.dir.join("view.damaged")
    }

    /// Replaces a file by one with this text, whole or not at all.
    fn write_whole(&self, path: &Path, text: &str) -> io::Result<()> {
        let draft = path.with_extension("draft");
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        File::open(&self.dir)?.sync_all()
    }
}

/// Removes a directory with all that is in it, or a file that stands in its place.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("removing", path, &error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn io_error(action: &str, path: &Path, error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::StorageFull {
        return Error::Full;
    }
    Error::Io { action: format!("{action} `{}`", path.display()), detail: error.to_string() }
}
