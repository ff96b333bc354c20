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
//! view.redo      what is being written to the view
//! view.damaged   why the view is to be built anew; gone once it was
//! rebuild.*      what a view is built of, while it is built or the store is checked
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Error;
use super::disk::{Disk, Lock, OsDisk, is_full};
use super::sled_tree::SledTrees;
use super::tree::Trees;

/// The form of the directory that this program writes.
const FORMAT: u32 = 1;

/// The most shards that a store can have.
const SHARDS_MAX: u16 = 512;

/// The head of the settings file.
const HEAD: &str =
    "# Written when the store was created. The journal is numbered and cut by these: do not change them.\n";

/// The settings file.
const SETTINGS: &str = "store.toml";

/// The note on a view that is to be built anew.
const DAMAGED: &str = "view.damaged";

/// Where the parts of a store lie.
#[derive(Clone)]
pub(crate) struct Layout {
    dir: PathBuf,
    /// The files that stand in the directory itself.
    files: Arc<dyn Disk>,
    view: Arc<dyn Trees>,
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
        Self::on(dir, Arc::new(OsDisk::at(dir)), Arc::new(SledTrees::new(dir.join("view"))))
    }

    /// A layout whose small files and whose view lie elsewhere than in the folder that it speaks of.
    pub(crate) fn on(dir: &Path, files: Arc<dyn Disk>, view: Arc<dyn Trees>) -> Self {
        Self { dir: dir.to_owned(), files, view }
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

    /// Where the files lie that a view is built of.
    pub(super) fn scratch(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.files)
    }

    pub(super) fn settings(&self) -> PathBuf {
        self.dir.join(SETTINGS)
    }

    /// The files that stand in the directory itself.
    pub(super) fn files(&self) -> &dyn Disk {
        &*self.files
    }

    /// What keeps the view.
    pub(super) fn trees(&self) -> &dyn Trees {
        &*self.view
    }

    /// Takes the directory for this process, until the lock is dropped. It must exist.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        let lock = self.files.lock().map_err(|error| io_error("locking", &self.dir, &error))?;
        lock.ok_or_else(|| Error::Locked { path: self.dir.display().to_string() })
    }

    /// The settings; none in a new store.
    pub(super) fn read_settings(&self) -> Result<Option<Fixed>, Error> {
        let path = self.settings();
        let text = match self.read_whole(SETTINGS) {
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
        self.write_whole(SETTINGS, &format!("{HEAD}{text}")).map_err(|error| io_error("writing", &path, &error))
    }

    /// The settings that are there are from now on. Whoever wrote them may have died before it synced their folder: then the
    /// system shows them, and forgets them when the power goes.
    pub(super) fn keep_settings(&self) -> Result<(), Error> {
        self.files.sync().map_err(|error| io_error("keeping", &self.settings(), &error))
    }

    /// Notes that the view is to be built anew when the store is opened next.
    pub(super) fn condemn_view(&self, why: &str) {
        if let Err(error) = self.write_whole(DAMAGED, why) {
            tracing::warn!(error = %error, "the note on the damaged view was not written");
        }
    }

    /// Why the view is to be built anew, if it is.
    pub(super) fn condemned(&self) -> Option<String> {
        self.read_whole(DAMAGED).ok()
    }

    /// The view is good again.
    pub(super) fn acquit_view(&self) -> Result<(), Error> {
        match self.files.remove(DAMAGED) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(io_error("removing", &self.dir.join(DAMAGED), &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn read_whole(&self, name: &str) -> io::Result<String> {
        let file = self.files.open(name)?;
        let mut bytes = vec![0; usize::try_from(file.size()?).unwrap_or(usize::MAX)];
        let len = file.read_at(&mut bytes, 0)?;
        bytes.truncate(len);
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Replaces a file by one with this text, whole or not at all.
    fn write_whole(&self, name: &str, text: &str) -> io::Result<()> {
        let draft = format!("{name}.draft");
        let file = self.files.create(&draft)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        self.files.rename(&draft, name)?;
        self.files.sync()
    }
}

/// Moves a directory out of the way, in place of one that was moved before.
pub(super) fn set_aside(path: &Path) -> Result<(), Error> {
    let aside = path.with_extension("aside");
    remove(&aside)?;
    match fs::rename(path, &aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("renaming", path, &error)),
        Ok(()) | Err(_) => Ok(()),
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
    if is_full(error) {
        return Error::Full;
    }
    Error::Io { action: format!("{action} `{}`", path.display()), detail: error.to_string() }
}
