//! The machines that are loaded: those shipped in the binary, and those of a directory beside them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::graph::Machine;
use super::spec::{self, Problem};
use crate::domain::MachineName;
use crate::domain::name::is_valid;
use crate::domain::suggest;

/// The longest machine file in bytes; the longest shipped one has about 7,000.
const FILE_LEN_MAX: u64 = 262_144;
/// The most machine files that a directory may hold: a directory given by mistake ends the walk soon.
const FILES_MAX: usize = 1_000;
/// The deepest folder that is looked into. A name has two parts, so this is only there to end a loop of links.
const DEPTH_MAX: usize = 4;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../state-machines/", $name, ".toml")))),*]
    };
}

/// The shipped files by machine name. A test compares this table with the directory.
const SHIPPED: &[(&str, &str)] = shipped![
    "credit_wallet",
    "flexprice/wallet",
    "paddle/adjustment",
    "paddle/subscription",
    "paddle/transaction",
    "payment",
    "stripe/charge",
    "stripe/checkout_payment",
    "stripe/checkout_session",
    "stripe/dispute",
    "stripe/invoice",
    "stripe/payment_intent",
    "stripe/refund",
    "stripe/subscription",
];

/// The loaded machines by name.
#[derive(Clone, Debug, Default)]
pub struct Registry(BTreeMap<MachineName, Arc<Machine>>);

impl Registry {
    /// The shipped machines. [`Registry::load`] also says what is wrong with a shipped file; a test keeps that empty.
    #[must_use]
    pub fn shipped() -> Self {
        let mut problems = Vec::new();
        Self::collect(shipped_files(), &mut problems)
    }

    /// The shipped machines, overridden or extended by the files below a directory.
    ///
    /// A file's path below the directory, without `.toml`, is its machine's name. Other files and hidden ones
    /// are not looked at.
    ///
    /// # Errors
    /// Every problem of every file, file by file.
    pub fn load(dir: Option<&Path>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        let mut registry = Self::collect(shipped_files(), &mut problems);
        if let Some(dir) = dir {
            let files = read_dir(dir, &mut problems);
            registry.0.extend(Self::collect(files, &mut problems).0);
        }
        problems.sort();
        if problems.is_empty() { Ok(registry) } else { Err(problems) }
    }

    /// The machine of this name.
    #[must_use]
    pub fn get(&self, name: &MachineName) -> Option<&Arc<Machine>> {
        self.0.get(name)
    }

    /// All machines, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Machine>> {
        self.0.values()
    }

    /// The name that was probably meant by one that is not loaded.
    #[must_use]
    pub fn nearest(&self, name: &str) -> Option<&MachineName> {
        let nearest = suggest::nearest(name, self.0.keys().map(MachineName::as_str))?;
        self.0.get_key_value(nearest).map(|(name, _)| name)
    }

    fn collect(files: impl IntoIterator<Item = MachineFile>, problems: &mut Vec<Problem>) -> Self {
        let parsed = files.into_iter().map(|file| spec::parse(&file.shown, &file.text, &file.name));
        parsed.filter_map(|machine| machine.map_err(|found| problems.extend(found)).ok()).collect()
    }
}

impl FromIterator<Machine> for Registry {
    fn from_iter<T: IntoIterator<Item = Machine>>(machines: T) -> Self {
        Self(machines.into_iter().map(|machine| (machine.name().clone(), Arc::new(machine))).collect())
    }
}

/// A file that is to be parsed.
struct MachineFile {
    /// How problems name it.
    shown: String,
    name: MachineName,
    text: String,
}

fn shipped_files() -> impl Iterator<Item = MachineFile> {
    SHIPPED.iter().map(|(name, text)| MachineFile {
        shown: format!("state-machines/{name}.toml"),
        name: MachineName::new(name),
        text: (*text).to_owned(),
    })
}

fn read_dir(dir: &Path, problems: &mut Vec<Problem>) -> Vec<MachineFile> {
    let mut found = Vec::new();
    walk(dir, "", 1, &mut found, problems);
    if found.len() > FILES_MAX {
        let message = format!("more than {FILES_MAX} machine files: is this the right directory?");
        problems.push(Problem::of_file(&shown(dir), message));
        return Vec::new();
    }
    let mut files = Vec::new();
    for (name, path) in found {
        let shown = shown(&path);
        if !is_valid(&name) {
            let message = format!(
                "`{name}` cannot name a machine: use 1 to 64 of `A-Z a-z 0-9 _ - . /`, starting with a letter or digit"
            );
            problems.push(Problem::of_file(&shown, message));
            continue;
        }
        match read_text(&path) {
            Ok(text) => files.push(MachineFile { shown, name: MachineName::new(&name), text }),
            Err(error) => problems.push(Problem::of_file(&shown, format!("cannot read the file: {error}"))),
        }
    }
    files
}

/// Finds the machine files below a directory, as (name, path), in the order of their names.
fn walk(dir: &Path, prefix: &str, depth: usize, found: &mut Vec<(String, PathBuf)>, problems: &mut Vec<Problem>) {
    let entries = match list(dir) {
        Ok(entries) => entries,
        Err(error) => {
            problems.push(Problem::of_file(&shown(dir), format!("cannot read the directory: {error}")));
            return;
        }
    };
    for path in entries {
        if found.len() > FILES_MAX {
            return;
        }
        let Some(entry) = path.file_name().map(|name| name.to_string_lossy().into_owned()) else { continue };
        if entry.starts_with('.') {
            continue; // editors' files, and the links by which Kubernetes swaps a mounted directory
        }
        if path.is_dir() {
            if depth == DEPTH_MAX {
                let message = format!("folders are nested more than {DEPTH_MAX} deep: move its files up");
                problems.push(Problem::of_file(&shown(&path), message));
                continue;
            }
            walk(&path, &format!("{prefix}{entry}/"), depth.saturating_add(1), found, problems);
        } else if let Some(name) = entry.strip_suffix(".toml") {
            found.push((format!("{prefix}{name}"), path));
        }
    }
}

fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(FILE_LEN_MAX.saturating_add(1)).read_to_string(&mut text)?;
    if u64::try_from(read).is_ok_and(|read| read > FILE_LEN_MAX) {
        let message = format!("it is longer than {FILE_LEN_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod shipped_tests;
