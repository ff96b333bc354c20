//! Patterns over event types, the most specific first.

use super::problem::Problems;

/// The most `*` in one pattern: matching tries every split.
const STARS_MAX: usize = 2;
/// The longest event type in bytes; one that is longer is a dead letter.
pub(super) const TYPE_LEN_MAX: usize = 255;

/// Values by pattern. `*` stands for one or more characters other than `.`, so `charge.*` is no `charge.dispute.closed`.
///
/// Of several patterns that match, one without `*` wins, else the one with the most other characters, else the
/// one that sorts first.
#[derive(Debug)]
pub(super) struct Patterns<T> {
    entries: Vec<(String, T)>,
}

impl<T> Patterns<T> {
    /// Orders the patterns; one that is there twice or is none is a problem.
    pub(super) fn compile(key: &str, mut entries: Vec<(String, T)>, problems: &mut Problems) -> Self {
        entries.sort_by_cached_key(|(pattern, _)| {
            let stars = pattern.matches('*').count();
            (stars > 0, std::cmp::Reverse(pattern.len() - stars), pattern.clone())
        });
        for (pattern, _) in &entries {
            if let Some(why) = fault(pattern) {
                problems.add(key, format!("`{pattern}` is not a pattern; {why}"));
            }
        }
        for pair in entries.windows(2) {
            if let [(a, _), (b, _)] = pair
                && a == b
            {
                problems.add(key, format!("the pattern `{a}` is there twice; leave one"));
            }
        }
        Self { entries }
    }

    /// The value of the most specific pattern that matches.
    pub(super) fn find(&self, text: &str) -> Option<&T> {
        self.entries.iter().find(|(pattern, _)| matches(pattern, text)).map(|(_, value)| value)
    }
}

/// What is wrong with a pattern. One that no event type has is refused: its rule would silently never apply.
fn fault(pattern: &str) -> Option<String> {
    if pattern.is_empty() || pattern.matches('*').count() > STARS_MAX {
        return Some(format!("it needs text, and at most {STARS_MAX} `*`"));
    }
    if pattern.contains("**") {
        return Some("write one `*`; there is none that also stands for `.`".to_owned());
    }
    if pattern.split('.').any(str::is_empty) {
        return Some("no type starts or ends with `.` or has two in a row; remove the one too many".to_owned());
    }
    if pattern.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("no type holds spaces or control characters; remove them".to_owned());
    }
    (pattern.len() > TYPE_LEN_MAX).then(|| format!("no type has more than {TYPE_LEN_MAX} bytes; shorten it"))
}

fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == text };
    let Some(rest) = text.strip_prefix(head) else { return false };
    rest.char_indices()
        .take_while(|(_, c)| *c != '.')
        .any(|(i, c)| rest.get(i + c.len_utf8()..).is_some_and(|behind| matches(tail, behind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_part_of_one_segment() {
        let check = |pattern, text, expected| assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        check("charge.*", "charge.succeeded", true);
        check("charge.*", "charge.dispute.created", false);
        check("charge.*", "charge.", false);
        check("charge.dispute.*", "charge.dispute.created", true);
        check("subscription_*", "subscription_created", true);
        check("*.created", "invoice.created", true);
        check("*.*", "a.b", true);
        check("*.*", "a.b.c", false);
        check("a*c", "abbc", true);
        check("a*c", "ac", false);
        check("invoice.paid", "invoice.paid", true);
        check("invoice.paid", "Invoice.paid", false);
        check("é*", "éa", true);
    }

    #[test]
    fn the_most_specific_pattern_wins() {
        let check = |patterns: &[&'static str], text, expected| {
            let entries = patterns.iter().map(|pattern| ((*pattern).to_owned(), *pattern)).collect();
            let mut problems = Problems::of("test");
            let found = Patterns::compile("types", entries, &mut problems).find(text).copied();
            assert_eq!((found, problems.into_result()), (expected, Ok(())), "{text}");
        };
        check(&["*", "invoice.*", "invoice.paid"], "invoice.paid", Some("invoice.paid"));
        check(&["*.*", "*.paid", "invoice.*"], "invoice.paid", Some("invoice.*"));
        check(&["invoice.p*", "invoice.*d"], "invoice.paid", Some("invoice.*d"));
        check(&["charge.*", "charge.refund.*"], "charge.refund.updated", Some("charge.refund.*"));
        check(&["charge.*"], "invoice.paid", None);
    }

    #[test]
    fn a_pattern_that_can_never_match_is_refused() {
        let check = |pattern: &str, expected: &str| {
            let mut problems = Problems::of("test");
            let _ = Patterns::compile("types", vec![(pattern.to_owned(), ())], &mut problems);
            let found = problems.into_result().err().unwrap_or_default();
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            let expected = format!("source `test`: types: `{pattern}` is not a pattern; {expected}");
            assert!(matches!(&found[..], [one] if one.starts_with(&expected)), "{pattern}: {found:?}");
        };
        check("", "it needs text");
        check("*.*.*", "it needs text, and at most 2 `*`");
        check("**", "write one `*`");
        check("charge.**", "write one `*`");
        for dots in [".", "a..b", ".a", "a.", "*..*", "*."] {
            check(dots, "no type starts or ends with `.`");
        }
        for spaced in [" a", "a ", "a b", "a\n", "a\u{0}"] {
            check(spaced, "no type holds spaces");
        }
        check(&"a".repeat(256), "no type has more than 255 bytes");
    }
}
