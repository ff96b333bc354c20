//! Checking a store that is closed, and building its view anew.
//!
//! A check reads the whole journal, folds it as a rebuild does, and compares what comes of it with the view pair by pair:
//! so an entity is proved to be the fold of its entries, and every list and count to be what the journal implies. The files
//! of seen ids are read too. Only the comparison needs room on the disk, for what it folds: without it the rest is told.

use std::iter::Peekable;
use std::path::Path;
use std::sync::Arc;

use super::change::Counts;
use super::disk::Lock;
use super::journal::Reader;
use super::keys::{self, Key, Table};
use super::layout::{Fixed, Layout, remove};
use super::lock::unpoisoned;
use super::open::{Disks, Opened, existing_view, open, open_journal};
use super::rebuild::{self, Folded, Merge};
use super::records::Record;
use super::replay::Replay;
use super::seen::Seen;
use super::shared::Shared;
use super::view::View;
use super::{Error, Options};
use crate::domain::Lsn;

/// How many pairs are compared at a time.
const PAIRS: usize = 1000;

/// How many problems are listed; more are counted.
const PROBLEMS_MAX: usize = 1000;

/// What a check or a rebuild found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The last record.
    pub last: Lsn,
    /// Deliveries, and the events in them.
    pub deliveries: u64,
    /// Events in the deliveries.
    pub events: u64,
    /// Commands of operators.
    pub commands: u64,
    /// Decisions.
    pub commits: u64,
    /// Entries in the decisions.
    pub entries: u64,
    /// Entities.
    pub entities: u64,
    /// Events without a decision.
    pub pending: u64,
    /// Events that wait for a retry.
    pub retries: u64,
    /// Dead letters.
    pub dead_letters: u64,
    /// What is wrong: nothing, in a sound store.
    pub problems: Vec<Problem>,
    /// How many problems there are besides those listed.
    pub more_problems: u64,
    /// Whether there was no room to compare the view with the journal; all else was read.
    pub lacks_room: bool,
}

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Where.
    pub place: String,
    /// What, and what to do.
    pub detail: String,
}

/// Checks the store in a directory; nobody may have it open. Tells [`Options::progress`] how far it has come.
///
/// # Errors
/// [`Error::Locked`], [`Error::Io`]; [`Error::Corrupt`] only if no store is there.
pub fn check(dir: &Path, options: &Options) -> Result<Report, Error> {
    let layout = Layout::new(dir);
    let (_lock, fixed) = existing(&layout)?;
    let disks = Disks::of(&layout)?;
    let mut report = Report::default();
    let view = match existing_view(&layout, Some(&fixed), options) {
        Err(Error::Full) => {
            report.lacks_room = true;
            None
        }
        found => found?.unwrap_or_else(|why| {
            report
                .add(layout.view().display().to_string(), format!("{why}; it is built anew when the store is opened"));
            None
        }),
    };
    let (journal, recovery) = match open_journal(&disks, options, Some(&fixed), view.as_ref()) {
        Ok(opened) => opened,
        Err(Error::Corrupt { place, detail }) => {
            report.add(place, detail);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    if fixed.store_id != recovery.store_id.to_string() {
        report.add(layout.settings().display().to_string(), "it is of another store than the journal".to_owned());
    }
    report.last = recovery.last;
    for (place, why) in Seen::check(&*disks.seen, recovery.store_id)? {
        report.add(place, format!("{why}; remove it, and it is made anew from the journal"));
    }
    let is_read = report.read(&journal.reader());
    let proved = is_read
        && match report.prove(&layout, options, fixed.shards, &journal.reader(), view) {
            Err(Error::Full) => {
                report.lacks_room = true;
                false
            }
            proved => proved?,
        };
    if !proved {
        tracing::warn!("the view was not compared");
    }
    journal.close()?;
    Ok(report)
}

/// Drops the view and builds it anew from the journal; nobody may have the store open. Tells [`Options::progress`] how
/// far it has come.
///
/// # Errors
/// [`Error::Locked`], [`Error::Corrupt`], [`Error::Full`], [`Error::Io`].
pub fn rebuild(dir: &Path, options: &Options) -> Result<Report, Error> {
    let layout = Layout::new(dir);
    let (_lock, fixed) = existing(&layout)?;
    // The old view may be all that proves the journal's end to be whole: it is asked before it goes.
    let view = existing_view(&layout, Some(&fixed), options)?.unwrap_or_default();
    let disks = Disks::of(&layout)?;
    let (journal, _) = open_journal(&disks, options, Some(&fixed), view.as_ref())?;
    if let Some(view) = view {
        view.close();
    }
    journal.close()?;
    remove(&layout.view())?;
    let Opened { journal, replay, mut ids } = open(&layout, &Disks::of(&layout)?, options)?;
    let mut report = Report { last: journal.synced(), ..Report::default() };
    report.count(replay.shared.state().counts);
    ids.settle();
    close(&replay.shared)?;
    journal.close()?;
    Ok(report)
}

/// Locks a directory and reads its settings. Nothing is created where no store is.
fn existing(layout: &Layout) -> Result<(Lock, Fixed), Error> {
    let nothing = || Error::Corrupt {
        place: layout.settings().display().to_string(),
        detail: "no store is there; name its directory with --data".to_owned(),
    };
    if !layout.settings().exists() {
        return Err(nothing());
    }
    let lock = layout.lock()?;
    Ok((lock, layout.read_settings()?.ok_or_else(nothing)?))
}

/// Closes the view of a store that was opened without threads.
fn close(shared: &Shared) -> Result<(), Error> {
    shared.with_view(View::flush)?;
    if let Some(view) = unpoisoned(shared.view.write()).take() {
        view.close();
    }
    Ok(())
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, place: String, detail: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(Problem { place, detail });
        } else {
            self.more_problems += 1;
        }
    }

    /// Reads every record of the journal; answers whether all could be.
    fn read(&mut self, reader: &Reader) -> bool {
        let count = |len: usize| u64::try_from(len).unwrap_or(u64::MAX);
        for frame in reader.scan(Lsn(1)) {
            match frame.and_then(|(lsn, bytes)| Record::decode(lsn, bytes)) {
                Ok(Record::Delivery(delivery)) => {
                    self.deliveries += 1;
                    self.events += count(delivery.items.len());
                }
                Ok(Record::Command(_)) => self.commands += 1,
                Ok(Record::Commit(commit)) => {
                    self.commits += 1;
                    self.entries += count(commit.entries.len());
                }
                Err(Error::Corrupt { place, detail }) => {
                    self.add(place, detail);
                    return false;
                }
                Err(error) => {
                    self.add("journal".to_owned(), error.to_string());
                    return false;
                }
            }
        }
        true
    }

    /// Folds the journal, brings the view to its end and compares the two. Answers false if the records contradict each
    /// other.
    fn prove(
        &mut self,
        layout: &Layout,
        options: &Options,
        shards: u16,
        reader: &Reader,
        view: Option<View>,
    ) -> Result<bool, Error> {
        let proof = match rebuild::fold(layout, options, reader, None) {
            Ok(proof) => proof,
            Err(Error::Corrupt { place, detail }) => {
                self.add(place, detail);
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.count(proof.counts());
        if let Some(view) = view {
            let shown = caught_up(layout, options, shards, reader, view);
            match shown.and_then(|view| self.compare(&view, &proof)) {
                Err(Error::Corrupt { place, detail }) => {
                    self.add(place, format!("{detail}; rebuild it with `tollgate store rebuild`"));
                }
                other => other?,
            }
        }
        options.tell(self.last.0, self.last.0);
        Ok(true)
    }

    fn count(&mut self, counts: Counts) {
        let Counts { pending, retries, checks, dead_letters, entities } = counts;
        let mut count = |count: i64, of: &str| {
            u64::try_from(count).unwrap_or_else(|_| {
                self.add("journal".to_owned(), format!("it implies {count} {of}"));
                0
            })
        };
        let _ = count(checks, "checks");
        let counted = (count(entities, "entities"), count(pending, "events without a decision"));
        let others = (count(retries, "retries"), count(dead_letters, "dead letters"));
        (self.entities, self.pending) = counted;
        (self.retries, self.dead_letters) = others;
    }

    fn compare(&mut self, view: &Shared, proof: &Folded) -> Result<(), Error> {
        let (is, must) = (view.state().counts, proof.counts());
        if is != must {
            self.add("view".to_owned(), format!("it counts {is:?}, the journal implies {must:?}"));
        }
        let scan_from = view.with_view(|view| Ok(view.meta().scan_from))?;
        if let Some(waits) = proof.waits().filter(|waits| *waits < scan_from) {
            let detail = format!("it would pass over the undecided event at record {}", waits.0);
            self.add("view".to_owned(), format!("it says to read on from record {}: {detail}", scan_from.0));
        } else if scan_from > Lsn(self.last.0 + 1) {
            let detail = format!("it says to read on from record {}, the journal ends at {}", scan_from.0, self.last.0);
            self.add("view".to_owned(), detail);
        }
        view.with_view(View::prove)?;
        let mut meant = proof.pairs()?.peekable();
        let mut range = keys::everything();
        loop {
            let shown = view.with_view(|view| view.range(&range, PAIRS))?;
            let end = shown.last().filter(|_| shown.len() == PAIRS).map(|(key, _)| key.clone());
            for (key, held) in shown {
                while let Some(missing) = next_if(&mut meant, |next| *next < key)? {
                    self.add(named(&missing.0), "the view lacks it".to_owned());
                }
                match next_if(&mut meant, |next| *next == key)? {
                    Some((_, value)) if value == held => {}
                    Some(_) => self.add(named(&key), "the view differs from what the journal implies".to_owned()),
                    None => self.add(named(&key), "the view has it, the journal does not imply it".to_owned()),
                }
            }
            let Some(mut end) = end else { break };
            end.push(0);
            range.start = end;
        }
        while let Some(missing) = next_if(&mut meant, |_| true)? {
            self.add(named(&missing.0), "the view lacks it".to_owned());
        }
        close(view)
    }
}

/// The next pair if its key is meant.
fn next_if(meant: &mut Peekable<Merge>, is_meant: impl FnOnce(&Key) -> bool) -> Result<Option<(Key, Vec<u8>)>, Error> {
    meant.next_if(|next| next.as_ref().map_or(true, |(key, _)| is_meant(key))).transpose()
}

/// The view, brought to the end of the journal.
fn caught_up(
    layout: &Layout,
    options: &Options,
    shards: u16,
    reader: &Reader,
    view: View,
) -> Result<Arc<Shared>, Error> {
    let mut replay = Replay::new(layout, options, shards, reader.clone(), view)?;
    replay.read(None, Lsn(u64::MAX))?;
    replay.applier.catch_up()?;
    Ok(replay.shared)
}

/// A key in words.
fn named(key: &[u8]) -> String {
    let entity = || keys::read_entity(key).map_or_else(|_| hex::encode(key), |entity| entity.to_string());
    let position = || keys::read_position(key).map_or_else(|_| hex::encode(key), |position| position.to_string());
    match Table::of(key) {
        Some(Table::Entity) => format!("entity `{}`", entity()),
        Some(Table::Commits) => format!("the commits of `{}`", entity()),
        Some(Table::State) => format!("the state list of `{}`", entity()),
        Some(Table::Retry) => format!("the retry of {} of `{}`", position(), entity()),
        Some(Table::Dead) => format!("the dead letter {}", position()),
        Some(Table::Due | Table::Machine | Table::Meta | Table::Part) | None => {
            format!("view, key {}", hex::encode(key))
        }
    }
}
