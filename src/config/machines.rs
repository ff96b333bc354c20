//! The machines of a configuration: the shipped ones, and those of the directory that it names.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::domain::MachineName;
use crate::domain::name::is_valid;
use crate::machine::{MachineFile, Problem, Registry};

/// The longest machine file in bytes; the longest shipped one has about 7,000.
const FILE_LEN_MAX: u64 = 262_144;
/// The most machine files that a directory may hold: a directory given by mistake ends the walk soon.
const FILES_MAX: usize = 1_000;
/// The deepest folder that is looked into. A name has two parts, so this is only there to end a loop of links.
const DEPTH_MAX: usize = 4;

/// The shipped machines, overridden or extended by the files below a directory.
///
/// A file's path below the directory, without `.toml`, is its machine's name. Other files and hidden ones
/// are not looked at.
///
/// # Errors
/// Every problem of every file, file by file.
pub fn load(dir: Option<&Path>) -> Result<Registry, Vec<Problem>> {
    let mut problems = Vec::new();
    let files = dir.map(|dir| read(dir, &mut problems)).unwrap_or_default();
    match Registry::load(files) {
        Ok(registry) if problems.is_empty() => Ok(registry),
        loaded => {
            problems.extend(loaded.err().unwrap_or_default());
            problems.sort();
            Err(problems)
        }
    }
}

/// The machine files below a directory, as far as they can be read.
fn read(dir: &Path, problems: &mut Vec<Problem>) -> Vec<MachineFile> {
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
