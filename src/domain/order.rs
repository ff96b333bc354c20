//! Order keys: what says whether one fact about an entity is newer than another.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::time::Timestamp;

/// Where a fact stands in the order of its entity's history.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum OrderKey {
    /// A number that the source raises with every change of the object.
    Version(u64),
    /// An instant, and whose clock gave it.
    Time {
        /// The instant.
        at: Timestamp,
        /// Whose time it is.
        of: TimeOf,
    },
}

/// Whose time an order key is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum TimeOf {
    /// The source's time of the event (`created`, `occurred_at`).
    Event,
    /// The object's own `updated_at`.
    Object,
    /// The clock of a fetch: the instant before which the answer was surely true.
    Clock,
    /// Our time of receiving: the event said no time of its own, so this proves nothing.
    Receipt,
}

/// How one order key stands to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// Surely later.
    Newer,
    /// The same instant or version.
    Equal,
    /// Surely earlier.
    Older,
    /// The two cannot be told apart.
    Unsure,
}

impl OrderKey {
    /// A key of the source's event time.
    #[must_use]
    pub const fn event(at: Timestamp) -> Self {
        Self::Time { at, of: TimeOf::Event }
    }

    /// A key of a fetch's clock.
    #[must_use]
    pub const fn clock(at: Timestamp) -> Self {
        Self::Time { at, of: TimeOf::Clock }
    }

    /// How this key stands to `other`.
    ///
    /// Two versions compare alone. Two times of one kind (event with event, object with object) compare
    /// exactly. A time of a fetch's clock, or an event's time against an object's, is unsure within `skew`:
    /// different clocks made them. A time of receipt and a version against a time are always unsure.
    #[must_use]
    pub fn compare(&self, other: &Self, skew: Duration) -> Order {
        match (self, other) {
            (Self::Version(a), Self::Version(b)) => Order::of(a.cmp(b)),
            (Self::Time { at: a, of: of_a }, Self::Time { at: b, of: of_b }) => {
                let one_clock = of_a == of_b && matches!(of_a, TimeOf::Event | TimeOf::Object);
                let receipt = matches!((of_a, of_b), (TimeOf::Receipt, _) | (_, TimeOf::Receipt));
                if receipt || (!one_clock && a.distance(*b) <= skew) { Order::Unsure } else { Order::of(a.cmp(b)) }
            }
            (Self::Version(_), Self::Time { .. }) | (Self::Time { .. }, Self::Version(_)) => Order::Unsure,
        }
    }

    /// How this key stands to `other` when nobody can be asked: by the bare numbers.
    ///
    /// A version against a time stays unsure, since no number relates them.
    #[must_use]
    pub fn compare_bare(&self, other: &Self) -> Order {
        match (self, other) {
            (Self::Version(a), Self::Version(b)) => Order::of(a.cmp(b)),
            (Self::Time { at: a, .. }, Self::Time { at: b, .. }) => Order::of(a.cmp(b)),
            (Self::Version(_), Self::Time { .. }) | (Self::Time { .. }, Self::Version(_)) => Order::Unsure,
        }
    }

    /// The greater of the two by the bare numbers; `self` when they cannot be related.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.compare_bare(&self) == Order::Newer { other } else { self }
    }
}

impl OrderKey {
    /// The key of what an answer changed that was held under this key: never an earlier instant.
    ///
    /// The instant of a fetch's clock stays one, also where the held one is later: an event that is newer than the held
    /// key may still be older than what was answered.
    #[must_use]
    pub fn moved_by(self, answer: Self) -> Self {
        match (self, answer) {
            (Self::Time { at: held, .. }, Self::Time { at, of: TimeOf::Clock }) => Self::clock(at.max(held)),
            (Self::Time { .. } | Self::Version(_), Self::Time { .. } | Self::Version(_)) => self.max(answer),
        }
    }

    /// The key of what two facts agree on: what is surely newer than it is newer than both.
    ///
    /// If they can't be told apart since one is of a fetch's clock, the key stays of that clock: an event between the two
    /// may be from before either.
    #[must_use]
    pub fn joined(self, other: Self, skew: Duration) -> Self {
        let is_clock = |key: &Self| matches!(key, Self::Time { of: TimeOf::Clock, .. });
        let is_receipt = |key: &Self| matches!(key, Self::Time { of: TimeOf::Receipt, .. });
        let unsure = self.compare(&other, skew) == Order::Unsure && !is_receipt(&self) && !is_receipt(&other);
        match (self, other) {
            (Self::Time { at: a, .. }, Self::Time { at: b, .. }) if unsure && (is_clock(&self) || is_clock(&other)) => {
                Self::clock(a.max(b))
            }
            (Self::Time { .. } | Self::Version(_), Self::Time { .. } | Self::Version(_)) => self.max(other),
        }
    }
}

impl Order {
    fn of(ordering: std::cmp::Ordering) -> Self {
        match ordering {
            std::cmp::Ordering::Less => Self::Older,
            std::cmp::Ordering::Equal => Self::Equal,
            std::cmp::Ordering::Greater => Self::Newer,
        }
    }
}

impl TimeOf {
    /// The word used in logs and answers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Object => "object",
            Self::Clock => "clock",
            Self::Receipt => "receipt",
        }
    }
}

impl fmt::Display for OrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version}"),
            Self::Time { at, of } => write!(f, "{at} ({})", of.as_str()),
        }
    }
}
