//! The nearest right word to a wrong one.

/// The candidate that is most like `word`, if one is like enough to be meant.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(likeness, _)| *likeness >= 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}

/// What an error ends with: `` (did you mean `active`?)``, or nothing.
#[must_use]
pub fn hint(nearest: Option<&str>) -> String {
    nearest.map(|word| format!(" (did you mean `{word}`?)")).unwrap_or_default()
}
