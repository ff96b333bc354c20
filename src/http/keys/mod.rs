//! Bearer keys: who may read, operate and (later) ingest.
//!
//! A key is shown once, when it is made; what stays is its SHA-256 in `keys.json` of the data directory, beside its
//! name and scopes. A key has 256 random bits, so a plain hash is enough: there is nothing to guess from.
//!
//! [`create`], [`list`] and [`revoke`] work on the file, also while a server runs: its [`Ring`] notices.

mod file;
mod ring;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use ring::Ring;

use crate::code::{self, Code};
use crate::domain::suggest::{did_you_mean, nearest};
use crate::domain::{Timestamp, name};
use file::File;

/// What a key may do. No scope implies another, so that a leaked one opens as little as possible.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// See entities, entries, machines, dead letters and metrics.
    Read,
    /// Replay and discard dead letters.
    Operate,
    /// Send usage. No endpoint asks for it yet.
    Ingest,
}

/// A key as it is kept: without what opens the door.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Key {
    /// Its name, which entries of its commands carry. Unique for ever.
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: [u8; 32],
    /// What it may do.
    pub scopes: BTreeSet<Scope>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked, if it was.
    pub revoked_at: Option<Timestamp>,
}

/// What can go wrong with keys.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is malformed.
    #[error("`{name}` can't name a key: use 1 to 64 of letters, digits and `_ - . /`, starting with a letter or digit")]
    NameInvalid {
        /// The name.
        name: String,
    },
    /// The name is in use.
    #[error("a key named `{name}` exists{}; choose another name", if *revoked { " (revoked)" } else { "" })]
    NameTaken {
        /// The name.
        name: String,
        /// Whether that key was revoked.
        revoked: bool,
    },
    /// No key has the name.
    #[error("no key is named `{name}`{}", did_you_mean(nearest.as_deref()))]
    NotFound {
        /// The name.
        name: String,
        /// The nearest name there is.
        nearest: Option<String>,
    },
    /// The key was revoked before.
    #[error("key `{name}` was revoked at {at}")]
    Revoked {
        /// The name.
        name: String,
        /// When.
        at: Timestamp,
    },
    /// The file of keys is not what we wrote.
    #[error("`{}` can't be read: {detail}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The operating system refused.
    #[error("{action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// The operating system's words.
        source: std::io::Error,
    },
}

impl Error {
    /// The row of the table of codes.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::NameInvalid { .. } => code::KEY_NAME_INVALID,
            Self::NameTaken { .. } => code::KEY_NAME_TAKEN,
            Self::NotFound { .. } => code::KEY_NOT_FOUND,
            Self::Revoked { .. } => code::KEY_REVOKED,
            Self::Invalid { .. } => code::KEYS_FILE_INVALID,
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => code::DISK_FULL,
            Self::Io { .. } => code::FILE_FAILED,
        }
    }
}

/// Makes a key of this name. What is returned opens the door and is never shown again.
///
/// # Errors
/// [`Error::NameInvalid`], [`Error::NameTaken`], or the file can't be read or written.
pub fn create(data: &Path, name: &str, scopes: &BTreeSet<Scope>, now: Timestamp) -> Result<SecretString, Error> {
    if !name::is_valid(name) {
        return Err(Error::NameInvalid { name: name.to_owned() });
    }
    File::change(data, |keys| {
        if let Some(held) = keys.iter().find(|key| key.name == name) {
            return Err(Error::NameTaken { name: name.to_owned(), revoked: held.revoked_at.is_some() });
        }
        let token =
            mint().map_err(|source| Error::Io { action: "read random bytes for", path: data.into(), source })?;
        keys.push(Key {
            name: name.to_owned(),
            sha256: sha256(token.expose_secret()),
            scopes: scopes.clone(),
            created_at: now,
            revoked_at: None,
        });
        Ok(token)
    })
}

/// All keys, revoked ones too, in the order they were made.
///
/// # Errors
/// The file can't be read.
pub fn list(data: &Path) -> Result<Vec<Key>, Error> {
    File::read(data)
}

/// Revokes a key: a running server refuses it within a second.
///
/// # Errors
/// [`Error::NotFound`], [`Error::Revoked`], or the file can't be read or written.
pub fn revoke(data: &Path, name: &str, now: Timestamp) -> Result<Key, Error> {
    File::change(data, |keys| {
        let nearest = nearest(name, keys.iter().map(|key| key.name.as_str())).map(ToOwned::to_owned);
        let Some(key) = keys.iter_mut().find(|key| key.name == name) else {
            return Err(Error::NotFound { name: name.to_owned(), nearest });
        };
        if let Some(at) = key.revoked_at {
            return Err(Error::Revoked { name: name.to_owned(), at });
        }
        key.revoked_at = Some(now);
        Ok(key.clone())
    })
}

/// On the first start, when there is no key at all: makes one with every scope, named `operator`, and writes it to
/// `operator.key` in the data directory. Answers that file's path if it was made now.
///
/// # Errors
/// The files can't be read or written.
pub fn first_start(data: &Path, now: Timestamp) -> Result<Option<PathBuf>, Error> {
    if !list(data)?.is_empty() {
        return Ok(None);
    }
    let token = mint().map_err(|source| Error::Io { action: "read random bytes for", path: data.into(), source })?;
    let path = data.join("operator.key");
    // This file first: after a crash in between, the next start finds no key and writes both anew.
    file::write_private(&path, format!("{}\n", token.expose_secret()).as_bytes())?;
    File::change(data, |keys| {
        keys.push(Key {
            name: "operator".to_owned(),
            sha256: sha256(token.expose_secret()),
            scopes: Scope::ALL.into(),
            created_at: now,
            revoked_at: None,
        });
        Ok(())
    })?;
    Ok(Some(path))
}

fn mint() -> Result<SecretString, std::io::Error> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(SecretString::from(format!("tg_{}", hex::encode(bytes))))
}

fn sha256(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 3] = [Self::Read, Self::Operate, Self::Ingest];

    /// The word of it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Ingest => "ingest",
        }
    }

    /// Reads the word of a scope.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests;
