//! A planted fault: a view that is ahead of its journal is believed.
//!
//! The product's view takes only what is synced, and a journal that has less than the view is refused. So both are done for
//! it here: when the power goes, the view gets all that was written, synced or not, and says of itself that it has only
//! what the journal has.

use std::path::Path;
use std::sync::Arc;

use super::crash::Platters;
use crate::store::steps::{belittle, catch_up, last_of};
use crate::store::{Disks, Error, Layout, Options};

impl Platters {
    fn copy(&self) -> Self {
        let (files, journal, seen) = (self.files.copy(), self.journal.copy(), self.seen.copy());
        let copy = Self { files, journal, seen, ..Self::default() };
        copy.view.put(self.view.content());
        copy
    }

    fn bare(&self) -> (Layout, Disks) {
        let layout = Layout::on(Path::new("sim"), Arc::new(self.files.clone()), Arc::new(self.view.clone()));
        (layout, Disks { journal: Arc::new(self.journal.clone()), seen: Arc::new(self.seen.clone()) })
    }

    /// These disks with a view that has all that was written. None if that cannot be had, since the disks are broken.
    pub(crate) fn with_view_ahead(&self, options: &Options) -> Option<Self> {
        let copy = self.copy();
        let (layout, disks) = copy.bare();
        catch_up(&layout, &disks, options).ok()?;
        Some(copy)
    }

    /// Puts the view of `ahead` here, as one that says it has what the journal has, if it has more. Answers whether.
    pub(crate) fn believe(&self, ahead: &Self, options: &Options) -> Result<bool, Error> {
        let last = last_of(&self.copy().bare().1, options)?;
        let lies = belittle(&ahead.view, last)?;
        if lies {
            self.view.put(ahead.view.content());
        }
        Ok(lies)
    }
}
