//! `keys.json`: read whole, written whole, never half.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Error, Key, Scope};
use crate::domain::Timestamp;

/// The version of the form; a file of a newer one is refused, not guessed at.
const VERSION: u32 = 1;

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    version: u32,
    keys: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    sha256: String,
    scopes: BTreeSet<Scope>,
    created_at: String,
    revoked_at: Option<String>,
}

impl File {
    /// Where the file stands.
    pub(super) fn path(data: &Path) -> PathBuf {
        data.join("keys.json")
    }

    /// The keys; none if there is no file.
    pub(super) fn read(data: &Path) -> Result<Vec<Key>, Error> {
        let path = Self::path(data);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(Error::Io { action: "read", path, source }),
        };
        let invalid = |detail: String| Error::Invalid { path: path.clone(), detail };
        let file: Self = serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if file.version != VERSION {
            return Err(invalid(format!("it has version {}, this program reads version {VERSION}", file.version)));
        }
        let key = |line: Line| Key::try_from(line).map_err(&invalid);
        file.keys.into_iter().map(key).collect()
    }

    /// Changes the keys under a lock, so that two commands at once don't lose one's change.
    pub(super) fn change<T>(data: &Path, change: impl FnOnce(&mut Vec<Key>) -> Result<T, Error>) -> Result<T, Error> {
        create_private(data).map_err(|source| Error::Io { action: "create", path: data.into(), source })?;
        let path = data.join("keys.lock");
        let io = |source| Error::Io { action: "lock", path: path.clone(), source };
        let lock = private(fs::OpenOptions::new().create(true).truncate(false)).open(&path).map_err(io)?;
        lock.lock().map_err(io)?;
        let mut keys = Self::read(data)?;
        let answer = change(&mut keys)?;
        let file = Self { version: VERSION, keys: keys.into_iter().map(Line::from).collect() };
        let path = Self::path(data);
        let mut text = serde_json::to_vec_pretty(&file)
            .map_err(|error| Error::Invalid { path: path.clone(), detail: error.to_string() })?;
        text.push(b'\n');
        write_private(&path, &text)?;
        Ok(answer)
    }
}

/// Writes a file that only its owner may read: aside first, synced, then renamed over the old one.
pub(super) fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { action, path, source }
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private(folder).map_err(io("create", folder))?;
    let aside = path.with_extension("new");
    // A leftover of a crash may have other rights; a new file has ours from its first byte on.
    if let Err(error) = fs::remove_file(&aside)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(io("remove", &aside)(error));
    }
    let mut file = private(fs::OpenOptions::new().create_new(true)).open(&aside).map_err(io("create", &aside))?;
    file.write_all(content).map_err(io("write", &aside))?;
    file.sync_all().map_err(io("sync", &aside))?;
    fs::rename(&aside, path).map_err(io("rename", &aside))?;
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(io("sync", folder))
}

fn private(options: &mut fs::OpenOptions) -> &mut fs::OpenOptions {
    options.write(true).mode(0o600)
}

impl From<Key> for Line {
    fn from(key: Key) -> Self {
        Self {
            name: key.name,
            sha256: hex::encode(key.sha256),
            scopes: key.scopes,
            created_at: key.created_at.to_string(),
            revoked_at: key.revoked_at.map(|at| at.to_string()),
        }
    }
}

impl TryFrom<Line> for Key {
    type Error = String;

    fn try_from(line: Line) -> Result<Self, String> {
        let mut sha256 = [0; 32];
        hex::decode_to_slice(&line.sha256, &mut sha256)
            .map_err(|_| format!("`sha256` of key `{}` is not 64 hexadecimal digits", line.name))?;
        let time = |text: &str| {
            Timestamp::parse_rfc3339(text).ok_or_else(|| format!("`{text}` of key `{}` is not RFC 3339", line.name))
        };
        let created_at = time(&line.created_at)?;
        let revoked_at = line.revoked_at.as_deref().map(time).transpose()?;
        Ok(Self { name: line.name, sha256, scopes: line.scopes, created_at, revoked_at })
    }
}

/// A folder that only its owner may read, with those above it.
fn create_private(folder: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
