//! Opening an embedded store: the journal says what is true, and the seen ids, the view and the pending window are
//! brought to where it ends.

use std::sync::Arc;

use super::disk::{Disk, OsDisk};
use super::ids::SeenIds;
use super::journal::{Journal, Recovery, StoreId};
use super::layout::{Fixed, Layout};
use super::rebuild;
use super::records;
use super::redo;
use super::replay::Replay;
use super::seen::Seen;
use super::view::{Meta, View};
use super::{Error, Options};
use crate::domain::Lsn;

/// Shards of a new store, unless another count is asked for.
const SHARDS: u16 = 64;

/// A store that is open, before its threads are started.
pub(super) struct Opened {
    pub(super) journal: Journal,
    pub(super) ids: SeenIds,
    pub(super) replay: Replay,
}

/// Where the bytes of the journal and of the seen ids lie: folders, except in tests.
#[derive(Clone)]
pub(crate) struct Disks {
    pub(crate) journal: Arc<dyn Disk>,
    pub(crate) seen: Arc<dyn Disk>,
}

impl Disks {
    /// The folders of a directory.
    pub(super) fn of(layout: &Layout) -> Result<Self, Error> {
        let (journal, seen) = (OsDisk::new(&layout.journal())?, OsDisk::new(&layout.seen())?);
        Ok(Self { journal: Arc::new(journal), seen: Arc::new(seen) })
    }
}

/// Opens, or creates, what lies in a locked directory.
pub(super) fn open(layout: &Layout, disks: &Disks, options: &Options) -> Result<Opened, Error> {
    match attempt(layout, disks, options) {
        // The damage of a view may show only when it is used; the second time it is built anew.
        Err(_) if layout.condemned().is_some() => attempt(layout, disks, options),
        opened => opened,
    }
}

fn attempt(layout: &Layout, disks: &Disks, options: &Options) -> Result<Opened, Error> {
    let fixed = layout.read_settings()?;
    let view = existing_view(layout, fixed.as_ref(), options)?.unwrap_or_else(|unusable| {
        match unusable {
            Unusable::Unfinished => tracing::info!("a rebuild of the view was not finished: it is begun again"),
            Unusable::Damaged(why) => tracing::warn!(why, "the view cannot be used and is built anew"),
        }
        None
    });
    let (journal, recovery) = open_journal(disks, options, fixed.as_ref(), view.as_ref())?;
    let shards = settle_fixed(layout, fixed, &recovery, options)?;
    let view = match view {
        Some(view) if records::mark(&journal.reader(), view.meta().applied)? == Some(view.meta().mark) => view,
        Some(view) => {
            // Another copy of the journal was put in place, which went on in another way: the seen ids are of that too.
            tracing::warn!("the view is of another copy of the journal; it and the seen ids are made anew");
            view.close();
            Seen::clear(&*disks.seen)?;
            fresh_view(layout, &recovery, options)?
        }
        None => fresh_view(layout, &recovery, options)?,
    };
    let disk = Arc::clone(&disks.seen);
    let (seen, found) = Seen::open_on(disk, recovery.store_id, recovery.last, options.seen_for)?;
    for why in found.garbled {
        tracing::warn!(why, "a file of seen ids was set aside");
    }
    let mut ids = SeenIds::new(seen, journal.reader());
    ids.heal()?;
    let mut ids_from = found.replay_from;
    rebuild::clear(layout)?;
    if !view.meta().complete {
        rebuild::build(layout, options, &journal.reader(), &view, Some((&mut ids, ids_from)))?;
        ids_from = Lsn(u64::MAX);
        prove_small(&view, options)?;
    }
    let mut replay = Replay::new(layout, options, shards, journal.reader(), view)?;
    let read = replay.read(Some(&mut ids), ids_from);
    if matches!(read, Err(Error::Corrupt { .. })) {
        // A view that is damaged without a word makes the journal seem to contradict itself. If that is the case this
        // finds it, and the view is built anew.
        replay.shared.with_view(View::prove)?;
    }
    read?;
    Ok(Opened { journal, ids, replay })
}

/// The last LSN of which anything beside the journal knows that it was synced. A view takes nothing that is not, and a
/// file of seen ids is written of a segment that is sealed: neither is ever ahead of its journal by a crash, so if one is,
/// somebody took records away. Who restores an older copy on purpose removes both.
fn vouched(disks: &Disks, fixed: Option<&Fixed>, view: Option<&View>) -> Result<Lsn, Error> {
    let shown = view.map_or(Lsn(0), |view| view.meta().applied);
    let mut id = [0; 16];
    match fixed.map(|fixed| hex::decode_to_slice(&fixed.store_id, &mut id)) {
        Some(Ok(())) => Ok(shown.max(Seen::reaches(&*disks.seen, StoreId(id))?)),
        // Without an id nothing says whose files they are; that is told when the journal's is known.
        Some(Err(_)) | None => Ok(shown),
    }
}

/// Opens the journal of a store with these settings and this view, and says what was cut off its end.
pub(super) fn open_journal(
    disks: &Disks,
    options: &Options,
    fixed: Option<&Fixed>,
    view: Option<&View>,
) -> Result<(Journal, Recovery), Error> {
    if fixed.is_some() && !Journal::is_there(&*disks.journal)? {
        // A new one would be another store's. The settings are written behind the first segment, so there was one.
        let detail = "no `.segment` file is there, but there was one; put the files back from a backup, or begin anew in another \
            data directory";
        return Err(Error::Corrupt { place: disks.journal.place(""), detail: detail.to_owned() });
    }
    let vouched = vouched(disks, fixed, view)?;
    let (journal, recovery) = Journal::open_on(Arc::clone(&disks.journal), options.journal, vouched)?;
    if let Some(cut) = &recovery.cut {
        tracing::warn!(lsn = cut.lsn.0, bytes = cut.bytes, why = %cut.why, "torn end of the journal cut off");
    }
    Ok((journal, recovery))
}

/// The view that is there, if there is one, or why it cannot be used and is to be built anew.
pub(super) type Existing = Result<Option<View>, Unusable>;

/// Why a view cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// Its process ended while it was built: nothing is wrong.
    #[error("its rebuild was not finished")]
    Unfinished,
    /// It is not what it should be.
    #[error("{0}")]
    Damaged(String),
}

/// Opens the view that is there.
///
/// # Errors
/// [`Error::Full`]: without space nothing can be said of it, and a view that is good must not be thrown away.
pub(super) fn existing_view(layout: &Layout, fixed: Option<&Fixed>, options: &Options) -> Result<Existing, Error> {
    if !layout.trees().exists() {
        return Ok(Ok(None));
    }
    if let Some(why) = layout.condemned() {
        return Ok(Err(Unusable::Damaged(why)));
    }
    let open = || {
        let view = View::open(layout.trees().open(options.view_cache_bytes)?, Meta::default())?;
        redo::complete(layout.files(), &view, options)?;
        prove_small(&view, options)?;
        Ok(view)
    };
    let view = match open() {
        Ok(view) => view,
        Err(Error::Full) => return Err(Error::Full),
        Err(error) if lacks_room(layout, options) => {
            tracing::warn!(%error, "the view does not open, and there is no room");
            return Err(Error::Full);
        }
        Err(error) => return Ok(Err(Unusable::Damaged(error.to_string()))),
    };
    let meta = view.meta();
    let unusable = if !meta.complete {
        Unusable::Unfinished
    } else if fixed.is_none_or(|fixed| fixed.store_id != hex::encode(meta.store_id)) {
        Unusable::Damaged("it is of another store".to_owned())
    } else {
        return Ok(Ok(Some(view)));
    };
    view.close();
    Ok(Err(unusable))
}

/// Whether so little room is left that whatever uses the view may have failed for that: sled panics at some calls.
fn lacks_room(layout: &Layout, options: &Options) -> bool {
    layout.files().space().is_ok_and(|space| !space.has_room(options.journal.reserve_bytes))
}

/// Proves a view whole if that takes no time.
fn prove_small(view: &View, options: &Options) -> Result<(), Error> {
    if view.meta().pairs <= options.prove_at_once_pairs { view.prove() } else { Ok(()) }
}

/// A new view, in place of whatever lies there.
pub(super) fn fresh_view(layout: &Layout, recovery: &Recovery, options: &Options) -> Result<View, Error> {
    layout.trees().set_aside()?;
    let meta = Meta { store_id: recovery.store_id.0, scan_from: Lsn(1), ..Meta::default() };
    let view = View::open(layout.trees().open(options.view_cache_bytes)?, meta)?;
    // Written out before anything else, so that one whose process ends on the way says that it is not finished.
    view.apply(&[], meta).and_then(|()| view.flush())?;
    layout.acquit_view()?;
    Ok(view)
}

/// Compares what is fixed with what is asked, or fixes it in a new store. Answers the count of shards.
fn settle_fixed(layout: &Layout, fixed: Option<Fixed>, recovery: &Recovery, options: &Options) -> Result<u16, Error> {
    let corrupt = |detail: String| Error::Corrupt { place: layout.settings().display().to_string(), detail };
    let Some(fixed) = fixed else {
        if recovery.last > Lsn(0) {
            let detail = format!("the file is missing, but the journal has {} records; restore it", recovery.last.0);
            return Err(corrupt(detail));
        }
        let shards = options.shards.unwrap_or(SHARDS).max(1);
        layout.write_settings(&Fixed::new(recovery.store_id.0, shards))?;
        return Ok(shards);
    };
    if fixed.store_id != recovery.store_id.to_string() {
        let detail = format!("it is of store {}, the journal is of store {}", fixed.store_id, recovery.store_id);
        return Err(corrupt(detail));
    }
    layout.keep_settings()?;
    match options.shards {
        Some(asked) if asked != fixed.shards => Err(Error::OtherShards { stored: fixed.shards, asked }),
        Some(_) | None => Ok(fixed.shards),
    }
}
