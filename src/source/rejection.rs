//! Why a delivery is turned away at the door.

use std::time::Duration;

use crate::domain::Timestamp;

/// Why a delivery is turned away before anything else looks at it. Says nothing of secrets or of what would match.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Rejection {
    /// There is no signature that could be checked.
    #[error("header `{header}`: {detail}")]
    Missing {
        /// The header.
        header: String,
        /// What is missing.
        detail: &'static str,
    },
    /// A header is not of the form that the scheme has.
    #[error("header `{header}`: {detail}")]
    Malformed {
        /// The header.
        header: String,
        /// What is wrong with it.
        detail: &'static str,
    },
    /// No signature matches any secret that counts now.
    #[error("no signature matches; compare the endpoint's signing secret, and pass the body on unchanged")]
    Mismatch,
    /// The signature is right, but was made too long ago.
    #[error("signed at {signed_at}, {} s ago; at most {} s are accepted", by.as_secs(), tolerance.as_secs())]
    TooOld {
        /// The signed timestamp.
        signed_at: Timestamp,
        /// How long ago.
        by: Duration,
        /// The tolerance.
        tolerance: Duration,
    },
    /// The signature is right, but its timestamp lies too far ahead.
    #[error("signed at {signed_at}, {} s ahead; at most {} s are accepted", by.as_secs(), tolerance.as_secs())]
    TooNew {
        /// The signed timestamp.
        signed_at: Timestamp,
        /// How far ahead.
        by: Duration,
        /// The tolerance.
        tolerance: Duration,
    },
}

impl Rejection {
    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "signature_missing",
            Self::Malformed { .. } => "signature_malformed",
            Self::Mismatch => "signature_mismatch",
            Self::TooOld { .. } => "timestamp_too_old",
            Self::TooNew { .. } => "timestamp_too_new",
        }
    }
}
