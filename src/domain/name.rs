//! Names: short strings that stand for declared things (sources, kinds, machines, states, fields).
//!
//! A name that comes from our own files is checked with [`is_valid`]; a state that a payload claims is
//! taken as it is, since an undeclared one must survive into its dead letter.
//!
//! A short name lies where it is used and not behind a pointer: all threads read the same few names all the time, and a
//! count of who shares one would be written by all of them.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use super::printable::printable;

/// The longest name in bytes. A bound, so that keys and records have one too.
pub const NAME_LEN_MAX: usize = 64;

/// Whether a declared name is well formed: 1 to 64 of `A-Z a-z 0-9 _ - . /`, starting with a letter or digit.
#[must_use]
pub fn is_valid(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    !name.is_empty()
        && name.len() <= NAME_LEN_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(allowed)
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(SmolStr);

        impl $type {
            /// Takes the text as the name, unchecked.
            #[must_use]
            pub fn new(text: &str) -> Self {
                Self(SmolStr::new(text))
            }

            /// The name's text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&printable(&self.0))
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $type {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    };
}

name!(
    /// An upstream system that sends webhooks, for example `stripe`.
    SourceName
);
name!(
    /// The kind of an entity within its source, for example `subscription`.
    Kind
);
name!(
    /// A machine by its path below `state-machines`, for example `stripe/subscription` or `payment`.
    MachineName
);
name!(
    /// A state of a machine, for example `past_due`.
    StateName
);
name!(
    /// A field of an entity that the mapping keeps, for example `customer`.
    FieldName
);
