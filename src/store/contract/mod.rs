//! The contract of a store, sentence by sentence, run on every engine: in memory, embedded, and embedded with a
//! restart or a crash between what is written and what is read.

pub(crate) mod facts;

mod agreement;
mod appending;
mod deciding;
mod gate;
mod reading;
mod rig;
mod waiting;

pub(crate) use rig::{Bench, Rig, copy, options};

/// Runs each test on every engine.
macro_rules! contract {
    ($($name:ident),+ $(,)?) => {
        contract!(@engine memory, $($name),+);
        contract!(@engine embedded, $($name),+);
        contract!(@engine reopened, $($name),+);
        contract!(@engine crashed, $($name),+);
    };
    (@engine $engine:ident, $($name:ident),+) => {
        mod $engine {
            $(
                #[tokio::test]
                async fn $name() {
                    super::$name(&mut crate::store::contract::Rig::$engine()).await;
                }
            )+
        }
    };
}
use contract;
