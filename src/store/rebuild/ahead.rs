//! Reading ahead: one thread makes items while another uses them.

use std::sync::mpsc;
use std::thread;

use crate::store::Error;

/// About how many bytes of items go from one thread to the other at once.
const BATCH_BYTES: usize = 256 << 10;

/// How many such batches may wait.
const BATCHES: usize = 4;

/// What takes room in memory.
pub(super) trait Weigh {
    /// How many bytes it takes, about.
    fn weight(&self) -> usize;
}

impl<K, V: AsRef<[u8]>> Weigh for (K, V) {
    fn weight(&self) -> usize {
        size_of::<Self>() + self.1.as_ref().len()
    }
}

/// Uses all items in order, up to the first error. They are made on a thread of their own, unless there are `few`.
pub(super) fn ahead<T: Weigh + Send>(
    few: bool,
    mut items: impl Iterator<Item = Result<T, Error>> + Send,
    mut consume: impl FnMut(T) -> Result<(), Error>,
) -> Result<(), Error> {
    if few {
        return items.try_for_each(|item| consume(item?));
    }
    thread::scope(|scope| {
        let (give, take) = mpsc::sync_channel(BATCHES);
        scope.spawn(move || {
            loop {
                let batch = batch(&mut items);
                // Nobody takes it any more after an error.
                if batch.is_empty() || give.send(batch).is_err() {
                    return;
                }
            }
        });
        take.into_iter().flatten().try_for_each(|item| consume(item?))
    })
}

fn batch<T: Weigh>(items: &mut impl Iterator<Item = Result<T, Error>>) -> Vec<Result<T, Error>> {
    let (mut batch, mut bytes) = (Vec::new(), 0);
    while bytes < BATCH_BYTES {
        let Some(item) = items.next() else { break };
        bytes += item.as_ref().map_or(0, Weigh::weight);
        batch.push(item);
    }
    batch
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stopped() -> Error {
        Error::Stopped { reason: "enough".to_owned() }
    }

    /// What was used of a thousand items, and whether it ended well, if the item or the use of that number fails.
    fn used(few: bool, failing_item: u32, failing_use: u32) -> (Vec<u32>, bool) {
        let items = (0..1000).map(|n| if n == failing_item { Err(stopped()) } else { Ok((n, vec![0; 5000])) });
        let mut used = Vec::new();
        let ended = ahead(few, items, |(n, _)| {
            used.push(n);
            if n == failing_use { Err(stopped()) } else { Ok(()) }
        });
        (used, ended.is_ok())
    }

    #[test]
    fn items_are_used_in_order_up_to_the_first_error_of_either_side() {
        for few in [true, false] {
            assert_eq!(used(few, 2000, 2000), ((0..1000).collect(), true), "{few}");
            assert_eq!(used(few, 700, 2000), ((0..700).collect(), false), "{few}");
            assert_eq!(used(few, 700, 300), ((0..=300).collect(), false), "{few}");
        }
    }
}
