//! Whether decisions wait for room on the disk.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether decisions wait for room on the disk: told once when it begins and once when it ends, however many wait and
/// however often they try.
#[derive(Debug, Default)]
pub struct Room(AtomicBool);

impl Room {
    /// Whether a decision could not be written for want of room, and none could since.
    #[must_use]
    pub fn is_lacking(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A decision could not be written for want of room.
    pub(super) fn lacks(&self) {
        if !self.0.swap(true, Ordering::Relaxed) {
            tracing::warn!("the disk is full: what was taken is decided when there is room");
        }
    }

    /// A decision was written.
    pub(super) fn found(&self) {
        // Mostly there is nothing to tell: then all turns only read.
        if self.is_lacking() && self.0.swap(false, Ordering::Relaxed) {
            tracing::info!("there is room again: deciding");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_time_without_room_is_one_line_when_it_begins_and_one_when_it_ends() {
        let log = tempfile::NamedTempFile::new().unwrap();
        let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(log.reopen().unwrap())).finish();
        let room = Room::default();
        tracing::subscriber::with_default(subscriber, || {
            room.found();
            for _ in 0..3 {
                room.lacks();
                assert!(room.is_lacking());
            }
            room.found();
            room.found();
            assert!(!room.is_lacking());
        });
        let log = std::fs::read_to_string(log.path()).unwrap();
        let lines: Vec<_> = log.lines().collect();
        assert!(matches!(lines[..], [begin, end] if begin.contains("is full") && end.contains("again")), "{log}");
    }
}
