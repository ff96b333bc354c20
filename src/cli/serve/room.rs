//! A store that stopped, or did not open, for want of room. The journal is full before the disk is, but somebody else may
//! take what was left for the view, all at once. Then everything is answered 503 until there is room, and the store is
//! opened again.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::assemble::Loaded;
use super::super::failure::Failure;
use super::super::store::open;
use super::Signals;
use crate::code;
use crate::http;
use crate::store::disk::{Disk as _, OsDisk};
use crate::store::{Error, Store};

/// How often it is looked whether there is room.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often a store is opened in vain, although there is room, before its error is believed: what the last one held
/// may be given free a moment later.
const TRIES: u32 = 20;

/// The store; none if a signal came before it was open. What opens it then ends with the process, as in a crash, which
/// loses nothing.
///
/// # Errors
/// Why the store does not open.
pub(super) async fn opened(loaded: &Loaded, signals: &mut Signals) -> Result<Option<Arc<dyn Store>>, Failure> {
    let (tell, told) = oneshot::channel();
    let config = loaded.config.clone();
    // A thread of its own: the runtime would wait at its end for one of those that it keeps for what takes long.
    let opening = thread::Builder::new().name("store-opening".to_owned()).spawn(move || drop(tell.send(open(&config))));
    opening.map_err(|error| Failure::new(code::ENGINE_STOPPED, format!("starting a thread: {error}")))?;
    tokio::select! {
        biased;
        signal = signals.next() => {
            tracing::info!(signal, "stopping");
            Ok(None)
        }
        store = told => {
            let ended = |_| Failure::new(code::ENGINE_STOPPED, "opening the store panicked");
            store.map_err(ended).flatten().map(Some)
        }
    }
}

/// The store, opened again once there is room; none if a signal came before: then there is nothing left to stop.
///
/// # Errors
/// `failure` if it was not for want of room; why the store does not open.
pub(super) async fn reopened(
    loaded: &Loaded,
    failure: Failure,
    signals: &mut Signals,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    if !is_lacking(&failure) && has_room(loaded)? {
        return Err(failure);
    }
    tracing::error!(%failure, "the disk is full: everything is answered 503 until there is room");
    let refusing = http::refuse(code::DISK_FULL, loaded.config.server.listen)?;
    let mut tries = 0;
    let found = loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            signal = signals.next() => {
                tracing::info!(signal, "stopping");
                break Ok(None);
            }
        }
        if !has_room(loaded)? {
            continue;
        }
        match opened(loaded, signals).await {
            Ok(store) => break Ok(store),
            // It needs more than the journal wants to leave: a new view, mostly.
            Err(failure) if is_lacking(&failure) => {}
            Err(failure) if tries >= TRIES => break Err(failure),
            Err(failure) => {
                tracing::warn!(%failure, "the store does not open yet");
                tries += 1;
            }
        }
    };
    refusing.stop().await;
    found
}

/// Whether something failed for want of room.
pub(super) fn is_lacking(failure: &Failure) -> bool {
    let (id, what, _) = failure.parts();
    id == code::DISK_FULL.id || what.contains(&Error::Full.to_string())
}

/// Whether as much is free as the journal wants to leave.
fn has_room(loaded: &Loaded) -> Result<bool, Failure> {
    let disk = match OsDisk::new(&loaded.config.paths.data) {
        // There is not even room for the directory.
        Err(Error::Full) => return Ok(false),
        disk => disk?,
    };
    let failed = |error| Failure::of_file("asking for the room of", &loaded.config.paths.data, &error);
    Ok(disk.space().map_err(failed)?.has_room(loaded.config.store.reserve.0))
}
