//! A disk that fills up: whatever lies on it finds no room from the same moment on.

use std::io;
use std::sync::{Arc, Mutex};

/// The room of a disk, counted in calls that take some. Clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct Filling(Arc<Mutex<Option<u64>>>);

impl Filling {
    /// So many more calls find room, and none after them; plenty without a number.
    pub(crate) fn after(&self, calls: Option<u64>) {
        *self.0.lock().unwrap() = calls;
    }

    /// Whether no call finds room any more.
    pub(crate) fn is_full(&self) -> bool {
        *self.0.lock().unwrap() == Some(0)
    }

    /// Takes some room.
    pub(crate) fn take(&self) -> io::Result<()> {
        match &mut *self.0.lock().unwrap() {
            Some(0) => Err(io::ErrorKind::StorageFull.into()),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}
