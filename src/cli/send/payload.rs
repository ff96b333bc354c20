//! Payloads: where the bytes to send come from.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::cli::failure::Failure;
use crate::code;

/// What stands for the standard input.
const STDIN: &str = "-";

/// The bytes of one delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::cli) enum Payload {
    /// In a file, read when it is sent: a folder may hold more than memory does.
    File(PathBuf),
    /// From the standard input.
    Stdin(Bytes),
}

impl Payload {
    /// A file, or `-` for the standard input.
    pub(in crate::cli) fn of(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() != STDIN {
            return Ok(Self::File(path.to_owned()));
        }
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().read_to_end(&mut bytes);
        read.map_err(|error| Failure::new(code::FILE_FAILED, format!("reading the standard input: {error}")))?;
        Ok(Self::Stdin(bytes.into()))
    }

    /// The bytes.
    pub(in crate::cli) fn read(&self) -> Result<Bytes, Failure> {
        match self {
            Self::File(path) => {
                let bytes = std::fs::read(path).map_err(|error| Failure::of_file("reading", path, &error))?;
                Ok(bytes.into())
            }
            Self::Stdin(bytes) => Ok(bytes.clone()),
        }
    }

    /// What it is called.
    pub(in crate::cli) fn shown(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Stdin(_) => STDIN.to_owned(),
        }
    }
}

/// The payloads that are meant: files as they are named, the `.json` files of folders by name.
pub(super) fn all(paths: &[PathBuf]) -> Result<Vec<Payload>, Failure> {
    let mut payloads = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = payloads.len();
            folder(path, &mut payloads)?;
            if payloads.len() == before {
                let detail = format!("folder `{}` holds no `.json` file", path.display());
                return Err(Failure::new(code::USAGE, detail));
            }
        } else {
            payloads.push(Payload::of(path)?);
        }
    }
    Ok(payloads)
}

fn folder(path: &Path, payloads: &mut Vec<Payload>) -> Result<(), Failure> {
    let failed = |error| Failure::of_file("reading the folder", path, &error);
    let entries = std::fs::read_dir(path).map_err(failed)?;
    let mut found: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>().map_err(failed)?;
    found.sort();
    for path in found {
        if path.is_dir() && !path.is_symlink() {
            folder(&path, payloads)?;
        } else if path.extension().is_some_and(|extension| extension == "json") {
            payloads.push(Payload::File(path));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_means_its_json_files_by_name_and_a_file_means_itself() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("b")).unwrap();
        for name in ["c.json", "a.json", "b/1.json", "b/2.txt", "notes.md"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        let named = dir.path().join("notes.md");
        let payloads = all(&[dir.path().to_owned(), named]).unwrap();
        let read: Vec<_> = payloads.iter().map(|payload| payload.read().unwrap()).collect();
        assert_eq!(read, ["a.json", "b/1.json", "c.json", "notes.md"]);
    }

    #[test]
    fn a_folder_without_payloads_is_a_slip() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().to_owned()];
        assert_eq!(all(&paths).unwrap_err().exit(), 2);
    }
}
