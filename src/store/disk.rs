//! The seam to the file system: the few calls that the journal and the seen ids make, so that tests can put a disk
//! under them that tears writes, loses what was not synced, fills up and fails.

use std::io;

/// One flat folder of files.
pub trait Disk: Send + Sync + 'static {
    /// The names of its files, in any order.
    ///
    /// # Errors
    /// The operating system's.
    fn list(&self) -> io::Result<Vec<String>>;
}
