//! Orders: a shuffle that a seed repeats.

use crate::cli::failure::Failure;

/// A seed that nobody chose.
pub(super) fn any_seed() -> Result<u64, Failure> {
    let mut bytes = [0_u8; 4];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    // Four bytes, so that a person can type it.
    Ok(u64::from(u32::from_le_bytes(bytes)))
}

/// Shuffles (Fisher and Yates): every order is as likely as any other, and the same for the same seed.
pub(super) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        let span = u64::try_from(last).unwrap_or(u64::MAX).saturating_add(1);
        // The bias of a remainder is below one in 2^40 for as many items as fit in memory.
        let chosen = usize::try_from(next(&mut state) % span).unwrap_or(last);
        items.swap(last, chosen);
    }
}

/// The next number of the generator `SplitMix64` (Steele, Lea and Flood, 2014).
const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shuffled(seed: u64) -> Vec<u8> {
        let mut items: Vec<u8> = (0..4).collect();
        shuffle(&mut items, seed);
        items
    }

    #[test]
    fn a_seed_repeats_its_order() {
        assert_eq!(shuffled(7), shuffled(7));
    }

    #[test]
    fn every_order_comes_up() {
        let orders: BTreeSet<_> = (0..1000).map(shuffled).collect();
        assert_eq!(orders.len(), 24);
    }

    #[test]
    fn the_generator_gives_the_published_numbers() {
        let mut state = 1_234_567;
        let first: Vec<_> = (0..3).map(|_| next(&mut state)).collect();
        assert_eq!(first, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn nothing_and_one_thing_stay_as_they_are() {
        shuffle::<u8>(&mut [], 1);
        let mut one = [5];
        shuffle(&mut one, 1);
        assert_eq!(one, [5]);
    }
}
