//! Patterns over event types, the most specific first.

use super::problem::Problems;

/// The most `*` in one pattern: matching tries every split.
const STARS_MAX: usize = 2;

/// Values by pattern. `*` stands for one or more characters other than `.`, so `charge.*` is no `charge.dispute.closed`.
///
/// Of several patterns that match, one without `*` wins, else the one with the most other characters, else the
/// one that sorts first.
#[derive(Debug)]
pub(super) struct Patterns<T> {
    entries: Vec<(String, T)>,
}

impl<T> Patterns<T> {
    /// Orders the patterns; one that is there twice, empty or has too many `*` is a problem.
    pub(super) fn compile(key: &str, mut entries: Vec<(String, T)>, problems: &mut Problems) -> Self {
        entries.sort_by_cached_key(|(pattern, _)| {
            let stars = pattern.matches('*').count();
            (stars > 0, std::cmp::Reverse(pattern.len() - stars), pattern.clone())
        });
        for (pattern, _) in &entries {
            if pattern.is_empty() || pattern.matches('*').count() > STARS_MAX {
                problems.add(key, format!("`{pattern}` is not a pattern; it needs text, and at most {STARS_MAX} `*`"));
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
}
