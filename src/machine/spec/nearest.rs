//! The nearest right name, for errors that say what was probably meant.

use crate::domain::name::NAME_LEN_MAX;

/// The candidate that `word` was probably meant to be: at most one edit in three letters away, case aside.
///
/// Of several equally near ones the first is taken.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word_len = word.chars().count();
    if word_len > 2 * NAME_LEN_MAX {
        return None;
    }
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (word_len.max(candidate.chars().count()) / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
