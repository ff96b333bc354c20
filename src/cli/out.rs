//! Writing: what was asked for to the standard output, everything else to the standard error stream.
//!
//! Colours are always written, and taken out again by anstream unless it is a terminal and `NO_COLOR` is not set.
//!
//! Much of what is told was made up by whoever sent a webhook. Nothing that a terminal would obey, or that would turn
//! the order of what is read, gets out: it is written out, as everywhere.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, Width, presets};
use owo_colors::OwoColorize as _;
use serde::Serialize;

use super::failure::Failure;
use crate::config::Environment;
use crate::domain::printable::is_hidden;

pub(super) use crate::domain::printable;

/// How wide a terminal is taken to be that doesn't say.
const WIDTH_USUAL: u16 = 80;

/// A terminal that is narrower says nothing of how wide a table may be.
const WIDTH_MIN: u16 = 40;

/// The colours that our own text has.
const COLORS: [&str; 8] =
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[22m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m", "\u{1b}[39m"];

/// How a command writes.
#[derive(Debug)]
pub(super) struct Out {
    json: bool,
    color: ColorChoice,
    /// How wide the terminal is; none if the output is read by a program, which wants whole lines.
    width: Option<u16>,
}

impl Out {
    /// The streams of this process.
    pub(super) fn of_process(json: bool, environment: &Environment) -> Self {
        let asked = environment.get("COLUMNS").and_then(|columns| columns.parse().ok());
        let found = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
        let width = if io::stdout().is_terminal() { found().or(asked).or(Some(WIDTH_USUAL)) } else { asked };
        let color = if environment.allows_color() { ColorChoice::Auto } else { ColorChoice::Never };
        Self { json, color, width: width.filter(|width| *width >= WIDTH_MIN) }
    }

    /// Whether JSON was asked for.
    pub(super) const fn is_json(&self) -> bool {
        self.json
    }

    /// Writes a line, or several.
    pub(super) fn line(&self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(AutoStream::new(io::stdout().lock(), self.color), "{}", tame(text))?)
    }

    /// Writes a JSON document as one line.
    pub(super) fn document<T: Serialize>(&self, document: &T) -> Result<(), Failure> {
        self.line(&serde_json::to_string(document).map_err(io::Error::other)?)
    }

    /// Writes a table; says `none` if it has no rows.
    pub(super) fn table(&self, head: &[&str], rows: &[Vec<String>], none: &str) -> Result<(), Failure> {
        if rows.is_empty() {
            return self.line(none);
        }
        let text = table(self.width, head, rows);
        let (head, rest) = text.split_once('\n').unwrap_or((&text, ""));
        self.line(&format!("{}\n{rest}", head.bold()))
    }

    /// Writes a table whose last column names its row; if it doesn't fit, each row as its name with the rest below.
    pub(super) fn named(&self, head: &[&str], rows: &[Vec<String>], none: &str) -> Result<(), Failure> {
        let wide = table(None, head, rows).lines().map(|line| line.chars().count()).max().unwrap_or(0);
        if self.width.is_none_or(|width| wide <= usize::from(width)) {
            return self.table(head, rows, none);
        }
        rows.iter().try_for_each(|row| self.line(&block(head, row)))
    }

    /// Writes lines of prose, indented, and wrapped only to fit a terminal.
    pub(super) fn prose(&self, indent: usize, text: &str) -> Result<(), Failure> {
        let indent_text = " ".repeat(indent);
        let width = self.width.map(|width| usize::from(width).saturating_sub(indent));
        wrap(width, &printable(text)).iter().try_for_each(|line| self.line(&format!("{indent_text}{line}")))
    }

    /// Writes names with their values.
    pub(super) fn pairs(&self, pairs: &[(&str, String)]) -> Result<(), Failure> {
        let rows: Vec<_> = pairs.iter().map(|(name, value)| vec![(*name).to_owned(), value.clone()]).collect();
        self.line(&table(self.width, &[], &rows))
    }

    /// Says how to go on with a list.
    pub(super) fn more(&self, next: Option<&str>) {
        if let Some(next) = next {
            self.note(&format!("next: --after {next}"));
        }
    }

    /// Tells the person something beside what was asked for. Whoever has no terminal misses it, and that is all.
    pub(super) fn note(&self, text: &str) {
        let _ = writeln!(AutoStream::new(io::stderr().lock(), self.color), "{}", tame(text));
    }

    /// Tells why the command ends.
    pub(super) fn failure(&self, failure: &Failure) {
        let Some(json) = failure.json() else { return };
        if self.json {
            return self.note(&json);
        }
        let text = failure.to_string();
        let (what, fix) = text.rsplit_once("\nfix: ").unwrap_or((&text, ""));
        self.note(&format!("{} {what}\n{} {fix}", "error:".red().bold(), "fix:".green().bold()));
    }
}

/// Lines with nothing in them that a terminal obeys but our own colours.
fn tame(text: &str) -> Cow<'_, str> {
    if !text.contains(|c| is_hidden(c) && c != '\n') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let color = COLORS.into_iter().find(|color| rest.starts_with(color));
        let taken = match (color, c) {
            (Some(color), _) => {
                out.push_str(color);
                color.len()
            }
            (None, '\n' | '\t') => {
                out.push(c);
                1
            }
            (None, c) => {
                // In the form that JSON has for it too, for a JSON document must stay one. Writing to a String can't fail.
                let _ = if is_hidden(c) { write!(out, "\\u{:04x}", u32::from(c)) } else { out.write_char(c) };
                c.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    Cow::Owned(out)
}

/// Rows without borders, so that they can be cut and searched by line; cells are wrapped only to fit a terminal.
fn table(width: Option<u16>, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !head.is_empty() {
        table.set_header(head.iter().copied());
    }
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| printable(cell))));
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    let last = table.column_count().saturating_sub(1);
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if place == last { 0 } else { 2 }));
        // A head that is broken in two can't be told from a row.
        if let Some(head) = head.get(place) {
            let narrowest = u16::try_from(head.len()).unwrap_or(0) + if place == last { 0 } else { 2 };
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(narrowest)));
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Words in lines of at most this width. A longer word has a line of its own.
fn wrap(width: Option<usize>, text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let length = |text: &str| text.chars().count();
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if width.is_none_or(|width| length(line) + 1 + length(word) <= width) => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// A row as two lines.
fn block(head: &[&str], row: &[String]) -> String {
    let Some((name, rest)) = row.split_last() else { return String::new() };
    let rest = head.iter().zip(rest).map(|(head, cell)| format!("{head} {}", printable(cell)));
    let name = printable(name);
    format!("{name}\n  {}", rest.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn a_table_has_aligned_columns_and_no_trailing_space() {
        let text = table(None, &["state", "entity"], &rows(&[&["active", "a/b/1"], &["past_due", "a/b/22"]]));
        assert_eq!(text, "state     entity\nactive    a/b/1\npast_due  a/b/22");
    }

    #[test]
    fn nothing_that_a_terminal_obeys_gets_out() {
        let check = |text: &str, expected: &str| assert_eq!(printable(text), expected);
        check("sub_1 ü \u{5d0}", "sub_1 ü \u{5d0}");
        check("a\u{1b}[2Jb\nc\r\u{7f}\u{9b}", "a\\u{1b}[2Jb\\u{a}c\\u{d}\\u{7f}\\u{9b}");
        check("\u{202e}evil\u{2066}\u{200f}", "\\u{202e}evil\\u{2066}\\u{200f}");
        check(&"x".red().to_string(), "\\u{1b}[31mx\\u{1b}[39m");
        let text = table(None, &["a", "b"], &rows(&[&["x\ny", "\u{1b}]0;t\u{7}"]]));
        assert_eq!(text, "a        b\nx\\u{a}y  \\u{1b}]0;t\\u{7}");
        assert_eq!(block(&["a", "b"], &["\u{7}", "\u{8}"].map(str::to_owned)), "\\u{8}\n  a \\u{7}");
        assert_eq!(tame("a\n\u{1b}[5mb\u{1b}]c\u{202e}"), "a\n\\u001b[5mb\\u001b]c\\u202e");
        for ours in ["x".red().to_string(), "x".bold().to_string(), "x".dimmed().to_string(), "x".yellow().to_string()]
        {
            assert_eq!(tame(&ours), ours);
        }
        let json = serde_json::to_string("\u{202e}\u{9b}").unwrap();
        assert_eq!(serde_json::from_str::<String>(&tame(&json)).unwrap(), "\u{202e}\u{9b}", "JSON stays what it is");
    }

    #[test]
    fn prose_is_wrapped_at_words() {
        let check = |width: Option<usize>, expected: &[&str]| assert_eq!(wrap(width, "a bc def ghijk"), expected);
        check(None, &["a bc def ghijk"]);
        check(Some(8), &["a bc def", "ghijk"]);
        check(Some(4), &["a bc", "def", "ghijk"]);
    }

    #[test]
    fn a_row_that_is_too_wide_is_told_in_two_lines() {
        let row = ["active", "2", "a/b/1"].map(str::to_owned);
        assert_eq!(block(&["state", "version", "entity"], &row), "a/b/1\n  state active, version 2");
    }

    #[test]
    fn cells_are_wrapped_only_to_fit_a_terminal() {
        let long = rows(&[&["one", "some words that go on for quite a while, longer than a line"]]);
        assert_eq!(table(None, &["a", "b"], &long).lines().count(), 2);
        let narrow = table(Some(40), &["a", "b"], &long);
        assert!(narrow.lines().count() > 2 && narrow.lines().all(|line| line.len() <= 40), "{narrow}");
    }
}
