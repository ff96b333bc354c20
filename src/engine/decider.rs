//! Deciders: the pure logic of a kind. The engine runs them and knows nothing of what they decide.

use crate::domain::{Decision, Entity, Pending};
use crate::machine::{self, Asked, Context, Reading, Registry};

/// The pure logic of a kind of entity. The ladder is one; usage and wallets will be others.
pub trait Decider: Send + Sync + 'static {
    /// Judges a run of events in order, until one needs the upstream.
    fn decide(&self, entity: &Entity, run: &[Pending], context: &Context) -> Decision;

    /// Judges what the upstream answered for a run (empty for a check).
    fn settle(&self, entity: &Entity, run: &[Pending], asked: Asked, reading: &Reading, context: &Context) -> Decision;
}

/// The ladder over the loaded machines.
#[derive(Clone, Debug)]
pub struct Ladder(pub Registry);

impl Decider for Ladder {
    fn decide(&self, entity: &Entity, run: &[Pending], context: &Context) -> Decision {
        machine::decide(&self.0, entity, run, context)
    }

    fn settle(&self, entity: &Entity, run: &[Pending], asked: Asked, reading: &Reading, context: &Context) -> Decision {
        machine::settle(&self.0, entity, run, asked, reading, context)
    }
}
