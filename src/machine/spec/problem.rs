//! Problems of a machine file: what can be wrong, in words, and where it stands.

use std::fmt;

use super::STATES_MAX;
use crate::domain::suggest::{did_you_mean, nearest};

/// Something wrong with a machine file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Problem {
    /// The file, as its reader named it.
    pub file: String,
    /// The line, from 1; 0 if the file as a whole is meant.
    pub line: usize,
    /// The character of the line, from 1; 0 if the file as a whole is meant.
    pub column: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Problem {
    /// A problem of the file as a whole.
    #[must_use]
    pub fn of_file(file: &str, message: String) -> Self {
        Self { file: file.to_owned(), line: 0, column: 0, message }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            return write!(f, "{}: {}", self.file, self.message);
        }
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)
    }
}

impl std::error::Error for Problem {}

/// Where a key stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    File,
    State,
    Transition,
    Policies,
}

/// Everything that can be wrong within a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("invalid TOML: {0}")]
    Syntax(String),
    #[error("key {key} is unknown {part}{hint}", key = quoted(.key), part = .part.words(), hint = hint(.key, .known))]
    UnknownKey { key: String, part: Part, known: &'static [&'static str] },
    #[error("key `{key}` is missing {part}", part = .part.words())]
    MissingKey { key: &'static str, part: Part },
    #[error("`{key}` must be {expected}, not {found}")]
    WrongType { key: &'static str, expected: &'static str, found: &'static str },
    #[error("`from` must be an array of strings, not a string: write `from = [{state:?}]`")]
    BareFrom { state: String },
    #[error("`from` names no state: list at least one")]
    EmptyFrom,
    #[error(
        "{what} name {name} is malformed: use 1 to 64 of `A-Z a-z 0-9 _ - . /`, starting with a letter or digit",
        name = quoted(.name)
    )]
    BadName { what: &'static str, name: String },
    #[error("machine name `{name}` does not match the file's path: it must be `{expected}`")]
    NameMismatch { name: String, expected: String },
    #[error("version `{0}` is out of range: use a whole number from 1 to {max}", max = u32::MAX)]
    BadVersion(String),
    #[error("`{key}` cannot be {value}: use {known}{hint}",
        value = quoted(.value), known = listed(.known, " or "), hint = suggestion(.value, .known))]
    BadPolicy { key: &'static str, value: String, known: Vec<&'static str> },
    #[error("no state is declared: list at least one")]
    NoStates,
    #[error("{0} states are declared: at most {max} are allowed", max = STATES_MAX)]
    TooManyStates(usize),
    #[error("state `{state}` is already declared on line {line}")]
    DuplicateState { state: String, line: usize },
    #[error("no state is initial: mark those in which an entity may be seen first with `initial = true`")]
    NoInitial,
    #[error("state `{0}` is unreachable from every initial state: give it an edge or mark it `initial = true`")]
    Unreachable(String),
    #[error("state `{0}` has no way out: declare it terminal or give it an edge")]
    Stuck(String),
    #[error("state `{state}` cannot be gone as well: `{first}` on line {line} is, and a machine has one gone state")]
    SecondGone { state: String, first: String, line: usize },
    #[error("gone state `{0}` is not terminal: add `terminal = true`")]
    GoneNotTerminal(String),
    #[error("state {state} is not declared in `{machine}`{hint}", state = quoted(.state), hint = did_you_mean(.nearest.as_deref()))]
    Undeclared { state: String, machine: String, nearest: Option<String> },
    #[error("transition from `{0}` to itself: the current state is never a move, so drop it")]
    SelfLoop(String),
    #[error("transition from `{from}` to `{to}` is already declared on line {line}")]
    DuplicateTransition { from: String, to: String, line: usize },
    #[error(
        "transition from `{from}` to `{to}` is declared on line {line} too, and one of the two names no event: \
        any edge may be observed, so keep the one with the event"
    )]
    RedundantTransition { from: String, to: String, line: usize },
}

impl Part {
    fn words(self) -> &'static str {
        match self {
            Self::File => "at the top level",
            Self::State => "in a state",
            Self::Transition => "in a transition",
            Self::Policies => "in `policies`",
        }
    }
}

impl Fault {
    fn is_syntax(&self) -> bool {
        matches!(self, Self::Syntax(_))
    }
}

/// The problems found so far in one file.
pub(super) struct Report<'t> {
    file: &'t str,
    text: &'t str,
    /// The byte at which each line starts.
    lines: Vec<usize>,
    found: Vec<(usize, Fault)>,
}

impl<'t> Report<'t> {
    pub(super) fn new(file: &'t str, text: &'t str) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
        Self { file, text, lines: std::iter::once(0).chain(starts).collect(), found: Vec::new() }
    }

    /// Adds what is wrong at this byte of the text.
    pub(super) fn add(&mut self, at: usize, fault: Fault) {
        self.found.push((at, fault));
    }

    pub(super) fn has_syntax_errors(&self) -> bool {
        self.found.iter().any(|(_, fault)| fault.is_syntax())
    }

    /// The line of this byte, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }

    /// All problems in the order of the text.
    ///
    /// Beside syntax errors only what is sure is told: of each line the first one, since the next come from reading
    /// on somehow; and of the rest what [`Report::is_sure`] says.
    pub(super) fn finish(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|(at, _)| *at);
        let broken: Vec<usize> =
            self.found.iter().filter(|(_, fault)| fault.is_syntax()).map(|(at, _)| self.line(*at)).collect();
        let mut problems: Vec<Problem> = Vec::new();
        for (at, fault) in &self.found {
            let line = self.line(*at);
            let is_told = if fault.is_syntax() {
                problems.last().is_none_or(|last| last.line != line)
            } else {
                broken.is_empty() || self.is_sure(line, fault, &broken)
            };
            if is_told {
                problems.push(self.problem(*at, fault));
            }
        }
        problems.dedup();
        problems
    }

    /// Whether a fault holds though these lines have syntax errors.
    ///
    /// A missing key may stand in a part that could not be read. From the first error on a key may have slipped out
    /// of its table; and if something was left open to the end of the text, nothing is where it seems to be.
    fn is_sure(&self, line: usize, fault: &Fault, broken: &[usize]) -> bool {
        let is_before = broken.first().is_some_and(|first| line < *first);
        let left_open = broken.last().is_some_and(|last| *last >= self.line(self.text.trim_end().len()));
        let slips = matches!(fault, Fault::UnknownKey { .. }) || left_open || broken.contains(&line);
        !matches!(fault, Fault::MissingKey { .. }) && (is_before || !slips)
    }

    fn problem(&self, at: usize, fault: &Fault) -> Problem {
        let line = self.line(at);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..at).unwrap_or("").trim_start_matches('\u{feff}');
        let column = before.chars().count().saturating_add(1);
        Problem { file: self.file.to_owned(), line, column, message: fault.to_string() }
    }
}

/// Text from a file in backticks, without what would garble a terminal.
fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    format!("`{shown}`")
}

fn listed(names: &[&str], last: &str) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((end, [])) => end.clone(),
        Some((end, rest)) => format!("{}{last}{end}", rest.join(", ")),
        None => String::new(),
    }
}

fn suggestion(word: &str, known: &[&'static str]) -> String {
    did_you_mean(nearest(word, known.iter().copied()))
}

/// The nearest known key, or all of them.
fn hint(key: &str, known: &[&'static str]) -> String {
    let near = suggestion(key, known);
    if near.is_empty() { format!(": use {}", listed(known, " or ")) } else { near }
}
