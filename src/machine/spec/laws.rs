//! Laws of reading: no text makes it panic, and every problem has its place.

use proptest::prelude::*;

use super::tests::{GOOD, parse_order};

/// Pieces of which soups of almost-TOML are made.
fn piece() -> impl Strategy<Value = String> {
    let fixed = [
        "name",
        "version",
        "states",
        "transitions",
        "policies",
        "from",
        "to",
        "event",
        "initial",
        "terminal",
        "gone",
        "doc",
        "on_gap",
        " = ",
        "=",
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        ", ",
        ".",
        "\n",
        "\r\n",
        "\"",
        "\"\"\"",
        "'",
        "#",
        "true",
        "1",
        "-0x1",
        "1e9",
        "inf",
        "2026-01-01T00:00:00Z",
        "\"a\"",
        "\"b\"",
        "\"\\u00e9\"",
        "\"\\q\"",
        "é",
        "\u{feff}",
        "\0",
    ];
    prop_oneof![8 => proptest::sample::select(fixed.to_vec()).prop_map(str::to_owned), 1 => any::<String>()]
}

proptest! {
    #[test]
    fn any_text_gives_a_machine_or_problems_with_places(text in any::<String>()) {
        check_any(&text)?;
    }

    #[test]
    fn almost_toml_gives_a_machine_or_problems_with_places(pieces in proptest::collection::vec(piece(), 0..60)) {
        check_any(&pieces.concat())?;
    }

    #[test]
    fn a_good_file_with_a_piece_changed_gives_a_machine_or_problems_with_places(
        at in 0..GOOD.len(), len in 0_usize..40, piece in piece(),
    ) {
        let end = (at + len).min(GOOD.len());
        check_any(&format!("{}{piece}{}", &GOOD[..at], &GOOD[end..]))?;
    }
}

fn check_any(text: &str) -> Result<(), TestCaseError> {
    if let Err(problems) = parse_order(text) {
        prop_assert!(!problems.is_empty());
        for problem in problems {
            let line = text.split('\n').nth(problem.line - 1);
            prop_assert!(line.is_some_and(|line| problem.column <= line.chars().count() + 1), "{problem}");
        }
    }
    Ok(())
}
