//! Opening what is there: the chain of segments, the check of the last one, and the cut of a torn end.

use std::io;
use std::sync::Arc;

use crate::domain::Lsn;

use super::super::Error;
use super::super::disk::{Disk, File, failed, wide};
use super::format::{GROUP_HEADER_LEN, GROUP_MAGIC, GroupHeader, GroupKind, SegmentHeader};
use super::segment::{Extent, Segment, begin, corrupt, file_name, first_of, read_footer, read_header};
use super::walk::{Step, Walk};
use super::{Cut, StoreId};

/// Files under this ending were never finished.
pub(super) const UNFINISHED: &str = ".tmp";

/// An open segment's file ends in at least so many zeros: if it doesn't, its end is missing.
pub(super) const ZEROS_MIN: u64 = 64;

/// How much is read at once.
const CHUNK: usize = 256 << 10;
static ZEROS: [u8; CHUNK] = [0; CHUNK];

/// What was found.
pub(super) struct Found {
    /// All segments.
    pub(super) segments: Vec<Arc<Segment>>,
    /// The last of them.
    pub(super) last: Arc<Segment>,
    /// The file of the last segment if it is not sealed.
    pub(super) open: Option<Arc<dyn File>>,
    pub(super) clean: bool,
    pub(super) cut: Option<Cut>,
}

/// One file while it is looked at.
struct Looked {
    name: String,
    file: Arc<dyn File>,
    header: SegmentHeader,
}

/// What was walked over of a segment.
struct Walked {
    extent: Extent,
    /// The kind of the last group.
    kind: GroupKind,
    /// Why the walk ended before the end.
    flaw: Option<&'static str>,
}

/// What lies behind the last valid item of an open segment.
struct Rest {
    /// The end of the last byte that is not zero; the walk's end if there is none.
    end: u64,
    /// Where a group stands that was written when the walk's end had been synced.
    proof: Option<u64>,
}

/// Looks at the folder; none if it holds no segment. What it answers is synced.
pub(super) fn recover(disk: &Arc<dyn Disk>, vouched: Lsn) -> Result<Option<Found>, Error> {
    let firsts = first_lsns(&**disk)?;
    let Some((last, sealed)) = firsts.split_last() else {
        return if vouched > Lsn(0) { Err(lacking(&**disk, "", Lsn(0), 0, vouched)) } else { Ok(None) };
    };
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    for (first, next) in sealed.iter().zip(firsts.iter().skip(1)) {
        let looked = look_at(&**disk, *first)?;
        follows(&**disk, segments.last(), &looked)?;
        let extent = sealed_extent(&**disk, &looked, *next)?;
        segments.push(Arc::new(Segment::new(looked.header, extent)));
    }
    let last = look_at(&**disk, *last)?;
    follows(&**disk, segments.last(), &last)?;
    let (walked, cut) = check_last(&**disk, &last, vouched)?;
    let Walked { extent, kind, flaw: _ } = walked;
    let clean = extent.sealed || kind == GroupKind::Closed;
    // The process may have died between a write and its sync; the system may yet.
    let synced = last.file.sync().and_then(|()| disk.sync());
    synced.map_err(|error| failed(format!("syncing `{}`", disk.place(&last.name)), &error))?;
    let open = (!extent.sealed).then(|| last.file.clone());
    let last = Arc::new(Segment::new(last.header, extent));
    segments.push(last.clone());
    Ok(Some(Found { segments, last, open, clean, cut }))
}

/// The segments by their names, in order. Removes what was never finished.
pub(super) fn first_lsns(disk: &dyn Disk) -> Result<Vec<Lsn>, Error> {
    let listing = |error: io::Error| failed(format!("listing `{}`", disk.place("")), &error);
    let mut firsts = Vec::new();
    for name in disk.list().map_err(listing)? {
        if name.ends_with(UNFINISHED) {
            disk.remove(&name).map_err(|error| failed(format!("removing `{}`", disk.place(&name)), &error))?;
        }
        firsts.extend(first_of(&name));
    }
    firsts.sort_unstable();
    Ok(firsts)
}

fn look_at(disk: &dyn Disk, first: Lsn) -> Result<Looked, Error> {
    let name = file_name(first);
    let read = disk.open(&name).and_then(|file| Ok((read_header(&*file)?, file)));
    let (header, file) = read.map_err(|error| failed(format!("opening `{}`", disk.place(&name)), &error))?;
    let header = header.map_err(|detail| corrupt(disk, &name, 0, detail))?;
    if header.first != first {
        let detail = format!("it begins at LSN {}, which is not its name", header.first.0);
        return Err(corrupt(disk, &name, 0, detail));
    }
    Ok(Looked { name, file, header })
}

/// Whether a segment continues the one before it.
fn follows(disk: &dyn Disk, before: Option<&Arc<Segment>>, looked: &Looked) -> Result<(), Error> {
    let header = &looked.header;
    let wrong = |detail: String| Err(corrupt(disk, &looked.name, 0, detail));
    let expected = before.map_or(Lsn(1), |segment| Lsn(segment.extent().last.0 + 1));
    if header.first != expected {
        return wrong(format!("it begins at LSN {}, but LSN {} is missing", header.first.0, expected.0));
    }
    let Some(before) = before else { return Ok(()) };
    if before.header.store_id != header.store_id {
        return wrong("it is a segment of another store".to_owned());
    }
    if header.incarnation < before.extent().incarnation {
        return wrong("it is older than the segment before it".to_owned());
    }
    Ok(())
}

/// The extent of a segment that is not the last: from its index, or by a walk if that is damaged.
fn sealed_extent(disk: &dyn Disk, looked: &Looked, next: Lsn) -> Result<Extent, Error> {
    if let Some(extent) = footer(disk, looked)? {
        return Ok(extent);
    }
    let Walked { mut extent, flaw, kind: _ } = walk(disk, looked, u64::MAX)?;
    // The index can be made anew; frames that are missing before the next segment can't.
    if extent.last.0 + 1 != next.0 {
        let detail = format!("{}; LSN {} is missing", flaw.unwrap_or("it ends early"), extent.last.0 + 1);
        return Err(corrupt(disk, &looked.name, extent.end, detail));
    }
    extent.sealed = true;
    Ok(extent)
}

fn footer(disk: &dyn Disk, looked: &Looked) -> Result<Option<Extent>, Error> {
    read_footer(&*looked.file, &looked.header).map_err(|error| reading(disk, looked, &error))
}

fn reading(disk: &dyn Disk, looked: &Looked, error: &io::Error) -> Error {
    failed(format!("reading `{}`", disk.place(&looked.name)), error)
}

/// Walks over all items up to `end`, which is the file's end if that is nearer.
fn walk(disk: &dyn Disk, looked: &Looked, end: u64) -> Result<Walked, Error> {
    let Looked { file, header, .. } = looked;
    let size = file.size().map_err(|error| reading(disk, looked, &error))?;
    let mut walk = Walk::new(file.clone(), header.store_id, begin(header), end.min(size), CHUNK);
    let mut walked = Walked { extent: Extent::empty(header), kind: GroupKind::Frames, flaw: None };
    loop {
        let place = walk.place();
        match walk.step().map_err(|error| reading(disk, looked, &error))? {
            Step::Group(header) => walked.kind = header.kind,
            Step::Frame { .. } => {}
            Step::End => break,
            Step::Bad(why) => {
                walked.flaw = Some(why);
                break;
            }
        }
        walked.extent.note(place);
    }
    walked.extent.reach(walk.place());
    walked.extent.bytes = walked.extent.end;
    Ok(walked)
}

/// Checks the last segment in full and cuts off a torn end.
fn check_last(disk: &dyn Disk, looked: &Looked, vouched: Lsn) -> Result<(Walked, Option<Cut>), Error> {
    if let Some(extent) = footer(disk, looked)? {
        let walked = walk(disk, looked, extent.end)?;
        let whole = (walked.extent.end, walked.extent.last) == (extent.end, extent.last);
        if let Some(why) = walked.flaw.or((!whole).then_some("the segment's index tells of more than is there")) {
            return Err(corrupt(disk, &looked.name, walked.extent.end, why));
        }
        if vouched > extent.last {
            return Err(lacking(disk, &looked.name, extent.last, extent.end, vouched));
        }
        return Ok((Walked { extent, ..walked }, None));
    }
    let mut walked = walk(disk, looked, u64::MAX)?;
    let end = walked.extent.end;
    let incarnation = walked.extent.incarnation;
    let rest = Rest::look(looked, end, incarnation).map_err(|error| reading(disk, looked, &error))?;
    let stray = (rest.end > end).then_some("neither a group nor zeros stand here");
    let reached = walked.extent.last;
    let Some(why) = walked.flaw.take().or(stray) else {
        // What was reserved is zeros, and so is a group that somebody wiped; or the file was cut, or those behind it are
        // gone. Only who saw what was there can tell.
        let lacks = vouched > reached;
        return if lacks { Err(lacking(disk, &looked.name, reached, end, vouched)) } else { Ok((walked, None)) };
    };
    let lsn = Lsn(reached.0 + 1);
    if let Some(proof) = rest.proof {
        let detail = format!("{why}; the group at byte {proof} proves that LSN {} was synced", lsn.0);
        return Err(corrupt(disk, &looked.name, end, detail));
    }
    if vouched > reached {
        let detail = format!("{why}; it was synced: {}", known(vouched));
        return Err(corrupt(disk, &looked.name, end, detail));
    }
    looked.file.set_size(end).map_err(|error| failed(format!("cutting `{}`", disk.place(&looked.name)), &error))?;
    let cut = Cut { lsn, bytes: rest.end - end, why: format!("`{}` at byte {end}: {why}", disk.place(&looked.name)) };
    Ok((walked, Some(cut)))
}

/// Records that were synced are not there.
fn lacking(disk: &dyn Disk, name: &str, last: Lsn, end: u64, vouched: Lsn) -> Error {
    corrupt(disk, name, end, format!("the journal ends here, at LSN {}, but it was longer: {}", last.0, known(vouched)))
}

/// Who knows of an LSN, and what to do.
fn known(vouched: Lsn) -> String {
    format!(
        "the view or the seen ids have LSN {}. Put the newest `.segment` files back from a backup; if the journal was \
         replaced by an older copy on purpose, remove `view` and `seen`: they are made anew",
        vouched.0
    )
}

impl Rest {
    /// Reads all that lies behind `end`, and looks for a group that proves it synced.
    fn look(looked: &Looked, end: u64, incarnation: u64) -> io::Result<Self> {
        let size = looked.file.size()?;
        let mut rest = Self { end, proof: None };
        let mut buffer = vec![0; CHUNK];
        let overlap = GROUP_HEADER_LEN - 1;
        let step = wide(CHUNK - overlap);
        let mut from = end;
        while from < size && rest.proof.is_none() {
            let read = looked.file.read_at(&mut buffer, from)?;
            let bytes = buffer.get(..read).unwrap_or_default();
            // Comparing with zeros is much faster than looking at each byte, and mostly there are only zeros.
            if ZEROS.get(..read) != Some(bytes) {
                let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                rest.end = rest.end.max(from + wide(used));
                rest.proof = groups_in(bytes, from, looked.header.store_id, incarnation, end).next();
            }
            from += step;
        }
        Ok(rest)
    }
}

/// The offsets of valid groups in `bytes`, which stand at `from`, that were written when `end` had been synced.
fn groups_in(bytes: &[u8], from: u64, store_id: StoreId, incarnation: u64, end: u64) -> impl Iterator<Item = u64> {
    let fits =
        move |group: &GroupHeader| group.store_id == store_id && group.incarnation >= incarnation && group.synced > end;
    bytes.windows(GROUP_HEADER_LEN).enumerate().filter_map(move |(at, window)| {
        window.strip_prefix(&GROUP_MAGIC)?;
        GroupHeader::decode(window).filter(fits)?;
        u64::try_from(at).ok().map(|at| from + at)
    })
}
