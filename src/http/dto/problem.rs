//! Errors as they are answered: RFC 9457 problem documents.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A problem document.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `urn:tollgate:error:CODE`.
    #[serde(rename = "type")]
    #[schema(examples("urn:tollgate:error:entity_not_found"))]
    pub kind: String,
    /// What went wrong, the same for every answer of this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong with this request.
    pub detail: String,
    /// The stable code, which the error reference explains.
    #[schema(examples("entity_not_found"))]
    pub code: String,
    /// What to do.
    pub fix: String,
    /// Names this one failure, for a search in the server's log; only when the server is at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The partitions to choose from, when several have the entity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<String>,
}
