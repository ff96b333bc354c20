//! Machine files: TOML text becomes a checked machine, or the list of everything that is wrong with it.
//!
//! ```toml
//! name = "shop/order"                    # the file's path below its directory, without .toml
//! version = 1                            # raised with every change
//! doc = "An order of the shop."
//! states = [
//!   { name = "placed", initial = true, doc = "Waits for payment." },   # initial: may be seen first
//!   { name = "paid" },
//!   { name = "shipped", terminal = true },                             # terminal: final
//!   { name = "deleted", terminal = true, gone = true },                # gone: the upstream answers 404
//! ]
//! transitions = [
//!   { from = ["placed"], to = "paid", event = "order.paid" },          # taken by that happening as well
//!   { from = ["paid"], to = "shipped" },                               # taken when the state is observed
//!   { from = ["placed", "paid"], to = "deleted" },
//! ]
//!
//! [policies]                             # may be left out
//! on_gap = "fetch"                       # or "accept"
//! on_divergence = "flag"                 # or "accept"
//! ```
//!
//! `read` takes the text apart by hand, so that one mistake does not hide the next; `check` holds the rules that
//! concern more than one place. A mistake whose right name is clear is reported and then read as that name:
//! what follows from it is not reported a second time.

mod check;
mod problem;
mod read;

pub use check::{AmbiguousHappening, ambiguous_happenings};
pub use problem::Problem;

use sha2::{Digest, Sha256};

use super::graph::Machine;
use crate::domain::MachineName;
use problem::Report;

/// The most states that a machine may have: relations are kept for every pair.
pub const STATES_MAX: usize = 256;

/// Reads the machine `expected` from the text of its file.
///
/// # Errors
/// Every problem of the text, in the order of the file.
pub fn parse(file: &str, text: &str, expected: &MachineName) -> Result<Machine, Vec<Problem>> {
    let mut report = Report::new(file, text);
    let draft = read::read(text, &mut report);
    let machine =
        if report.has_syntax_errors() { None } else { check::check(draft, digest(text), expected, &mut report) };
    let problems = report.finish();
    match machine {
        Some(machine) if problems.is_empty() => Ok(machine),
        Some(_) | None => Err(problems),
    }
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
