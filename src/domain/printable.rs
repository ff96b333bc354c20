//! Text of strangers as it may stand in a log or on a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with control characters and marks of writing direction written out (`\u{a}`): an id with a line feed must
/// not forge a line of the log, nor one with an escape move the cursor.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_hidden(c) {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// Whether a character is none to be seen: a control character, a break of lines, one without width, or one that turns
/// the order of text.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_forge_a_line_or_move_the_cursor_is_written_out() {
        let rows = [
            ("sub_1", "sub_1"),
            ("Zoë/ü 漢", "Zoë/ü 漢"),
            ("a\n2026 ERROR b", "a\\u{a}2026 ERROR b"),
            ("\u{1b}[2J\0\r", "\\u{1b}[2J\\u{0}\\u{d}"),
            ("a\u{202e}b\u{feff}", "a\\u{202e}b\\u{feff}"),
        ];
        for (text, expected) in rows {
            assert_eq!(printable(text), expected);
        }
    }
}
