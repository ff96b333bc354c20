//! What an entity's actor does once it is woken: turns until nothing is left.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::{Entity, EntityKey};
use crate::store::Epoch;

use super::run::Running;
use super::turn::Next;

/// The longest pause before a turn is tried again that the store could not take.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Turns until nothing is left. Answers the entity as it is then.
pub(super) async fn work(
    running: Arc<Running>,
    key: EntityKey,
    epoch: Epoch,
    mut held: Option<Entity>,
) -> Option<Entity> {
    let _busy = running.busy();
    let mut pauses = 0;
    while !running.is_stopping() {
        match running.core.turn(&key, epoch, &mut held).await {
            Ok(Next::Idle) => break,
            Ok(Next::Again) => pauses = 0,
            // A turn may have asked the upstream before the store refused it: each is further apart than the last.
            Ok(Next::After(pause)) => {
                let pause = pause.saturating_mul(1 << pauses).min(PAUSE_MAX);
                pauses = (pauses + 1).min(16);
                tokio::select! {
                    biased;
                    () = running.stopped() => {}
                    () = tokio::time::sleep(pause) => {}
                }
            }
            Err(error) => {
                running.fail(&error.to_string());
                return None;
            }
        }
    }
    held
}
