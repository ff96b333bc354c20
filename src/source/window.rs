//! Freshness: which signed timestamps are neither too old nor too new.

use std::time::Duration;

use super::problem::Problems;
use super::rejection::Rejection;
use super::spec::{SignatureSpec, TimeUnit, Window};
use crate::domain::Timestamp;

/// Which signed timestamps are fresh.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Freshness {
    /// All.
    Always,
    /// Those not older than this, and not further ahead either if it is two-sided.
    Within { tolerance: Duration, two_sided: bool },
}

impl Freshness {
    /// Checks the window and the tolerance against each other.
    pub(super) fn compile(spec: &SignatureSpec, problems: &mut Problems) -> Self {
        const KEY: &str = "signature.tolerance_s";
        let signed = spec.signed.contains("{timestamp}");
        let two_sided = match spec.window {
            Window::None => {
                if spec.tolerance_s.is_some() {
                    problems.add(KEY, "it says nothing with the window `none`; remove it, or choose a window");
                }
                return Self::Always;
            }
            Window::OneSided => false,
            Window::TwoSided => true,
        };
        if !signed {
            problems.add("signature.window", "no timestamp is signed, so only `none` is possible");
        }
        let seconds = spec.tolerance_s.unwrap_or(0);
        if seconds == 0 {
            problems.add(KEY, "it must be at least 1; to accept any age, set the window to `none`");
        }
        Self::Within { tolerance: Duration::from_secs(seconds), two_sided }
    }

    /// Judges a signed timestamp. The two are compared in the timestamp's own unit, as the providers' libraries do:
    /// a timestamp in whole seconds is as old as the whole seconds that passed since.
    pub(super) fn judge(self, unit: TimeUnit, signed_at: Timestamp, now: Timestamp) -> Result<(), Rejection> {
        let Self::Within { tolerance, two_sided } = self else { return Ok(()) };
        let now = unit.round_down(now);
        if now.since(signed_at) > tolerance {
            return Err(Rejection::TooOld { signed_at, by: now.since(signed_at), tolerance });
        }
        if two_sided && signed_at.since(now) > tolerance {
            return Err(Rejection::TooNew { signed_at, by: signed_at.since(now), tolerance });
        }
        Ok(())
    }
}
