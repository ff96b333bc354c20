//! Whether the server lives, and whether it should get traffic.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The server lives.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`: a dead server answers nothing.
    pub status: String,
    /// The server's version.
    pub version: String,
}

/// Whether the server should get traffic. Says nothing of amounts, since anybody may ask.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ready`, or `stopping` with status 503.
    pub status: String,
}
