//! A store that stopped for want of room. The journal is full before the disk is, but somebody else may take what was
//! left for the view, all at once. Then everything is answered 503 until there is room, and the store is opened again.

use std::sync::Arc;
use std::time::Duration;

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

/// The store, opened again once there is room; none if a signal came before: then there is nothing left to stop.
///
/// # Errors
/// `failure` if it did not end for want of room; why the store does not open.
pub(super) async fn reopened(
    loaded: &Loaded,
    failure: Failure,
    signals: &mut Signals,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    let for_want_of_room = failure.to_string().contains(&Error::Full.to_string());
    if !for_want_of_room && has_room(loaded)? {
        return Err(failure);
    }
    tracing::error!(%failure, "the disk is full: everything is answered 503 until there is room");
    let refusing = http::refuse(code::DISK_FULL, loaded.config.server.listen)?;
    let mut tries = 0;
    let opened = loop {
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
        let config = loaded.config.clone();
        let opening = tokio::task::spawn_blocking(move || open(&config)).await;
        match opening.map_err(|error| Failure::new(code::ENGINE_STOPPED, error.to_string()))? {
            Ok(store) => break Ok(Some(store)),
            Err(failure) if tries >= TRIES => break Err(failure),
            Err(failure) => {
                tracing::warn!(%failure, "the store does not open yet");
                tries += 1;
            }
        }
    };
    refusing.stop().await;
    opened
}

/// Whether as much is free as the journal wants to leave.
fn has_room(loaded: &Loaded) -> Result<bool, Failure> {
    let disk = OsDisk::new(&loaded.config.paths.data)?;
    let failed = |error| Failure::of_file("asking for the room of", &loaded.config.paths.data, &error);
    Ok(disk.space().map_err(failed)?.has_room(loaded.config.store.reserve.0))
}
