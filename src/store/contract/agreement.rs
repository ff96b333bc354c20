//! Memory and embedded agree on any sequence of calls.
