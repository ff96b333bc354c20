//! The nearest right name, for errors that say what was probably meant.

use super::name::NAME_LEN_MAX;

/// The candidate that `word` was probably meant to be: one edit in three letters away (rounded), case aside. Of a
/// name of one or two letters one at least must be right.
///
/// Of several equally near ones the first is taken.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // What is far longer than a name is none, and would take long to compare.
    let word_len = word.chars().count();
    if word_len > 2 * NAME_LEN_MAX {
        return None;
    }
    let word = word.to_lowercase();
    let is_near = |distance: usize, len: usize| distance <= len.saturating_add(1) / 3 && distance < len;
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| is_near(*distance, word_len.max(candidate.chars().count())))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// What an error ends with: `` (did you mean `active`?)``, or nothing.
#[must_use]
pub fn did_you_mean(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_about_one_edit_in_three_letters_away() {
        let names = ["active", "past_due", "paused", "stale", "to", "id", "q"];
        for (word, expected) in [
            ("activ", Some("active")),
            ("ACTIVE", Some("active")),
            ("pastdue", Some("past_due")),
            ("pasued", Some("paused")),
            ("stail", Some("stale")),
            ("too", Some("to")),
            ("ids", Some("id")),
            ("xy", None),
            ("x", None),
            ("", None),
            ("settled", None),
            (&"a".repeat(1_000), None),
        ] {
            assert_eq!(nearest(word, names), expected, "{word}");
        }
    }

    #[test]
    fn an_error_names_what_was_found_and_nothing_else() {
        assert_eq!(did_you_mean(Some("active")), " (did you mean `active`?)");
        assert_eq!(did_you_mean(None), "");
    }
}
