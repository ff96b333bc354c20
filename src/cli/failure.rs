//! How a command ends badly: a code of the table, what was wrong, and what to do.

use std::fmt;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::code::{self, Code};
use crate::http::{self, dto, keys};
use crate::{config, engine, store};

/// Why a command did not do what it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    exit: u8,
    /// None if the command's own output has told everything.
    document: Option<Box<Document>>,
}

/// A failure as `--json` prints it. A server's problem document has the same keys, where both have them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Document {
    code: String,
    title: String,
    /// The HTTP status, if a server answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// What was wrong, in one or more lines of their own.
    details: Vec<String>,
    fix: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    partitions: Vec<String>,
}

impl Failure {
    /// A failure of this code.
    #[must_use]
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self::of_all(code, vec![detail.into()])
    }

    /// Several things of one code, all told at once.
    #[must_use]
    pub fn of_all(code: Code, details: Vec<String>) -> Self {
        let document = Document {
            code: code.id.to_owned(),
            title: code.title.to_owned(),
            status: None,
            details,
            fix: code.fix.to_owned(),
            instance: None,
            partitions: Vec::new(),
        };
        Self { exit: code.exit_code(), document: Some(Box::new(document)) }
    }

    /// What a server answered instead of what was asked for.
    #[must_use]
    pub fn of_problem(problem: dto::Problem) -> Self {
        let document = Document {
            code: problem.code,
            title: problem.title,
            status: Some(problem.status),
            details: vec![problem.detail],
            fix: problem.fix,
            instance: problem.instance,
            partitions: problem.partitions,
        };
        Self { exit: 1, document: Some(Box::new(document)) }
    }

    /// The same with other words on what to do, where the table's don't fit the command.
    #[must_use]
    pub fn with_fix(mut self, fix: &str) -> Self {
        if let Some(document) = &mut self.document {
            fix.clone_into(&mut document.fix);
        }
        self
    }

    /// A failure that the command's own output has told already.
    #[must_use]
    pub const fn told(exit: u8) -> Self {
        Self { exit, document: None }
    }

    /// A file that could not be read or written.
    #[must_use]
    pub fn of_file(action: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(code::FILE_FAILED, format!("{action} `{}`: {error}", path.display()))
    }

    /// The HTTP status, if a server answered.
    pub(super) fn status(&self) -> Option<u16> {
        self.document.as_deref()?.status
    }

    /// The exit code.
    #[must_use]
    pub const fn exit(&self) -> u8 {
        self.exit
    }

    /// Its code, what was wrong, and what to do.
    pub(super) fn parts(&self) -> (String, String, String) {
        let parts = |document: &Document| (document.code.clone(), document.details.join("; "), document.fix.clone());
        self.document.as_deref().map(parts).unwrap_or_default()
    }

    /// As one JSON document; none if it was told already.
    pub(super) fn json(&self) -> Option<String> {
        // A document of strings always serializes.
        self.document.as_ref().and_then(|document| serde_json::to_string(document).ok())
    }
}

impl fmt::Display for Failure {
    /// One line on what happened, or a title and a line for each if it is several things; and one on what to do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(document) = &self.document else { return Ok(()) };
        let Document { code, title, status, details, fix, instance, partitions } = &**document;
        let code = status.map_or_else(|| format!("[{code}]"), |status| format!("[{code}, HTTP {status}]"));
        match details.as_slice() {
            [one] => write!(f, "{one} {code}")?,
            several => {
                write!(f, "{title} {code}")?;
                several.iter().try_for_each(|detail| write!(f, "\n  {detail}"))?;
            }
        }
        if !partitions.is_empty() {
            write!(f, "\n  partitions: {}", partitions.join(", "))?;
        }
        if let Some(instance) = instance {
            write!(f, "\n  instance: {instance}")?;
        }
        write!(f, "\nfix: {fix}")
    }
}

impl std::error::Error for Failure {}

impl From<Vec<config::Problem>> for Failure {
    fn from(problems: Vec<config::Problem>) -> Self {
        let first = problems.first().map_or(code::CONFIG_INVALID, |problem| *problem.code);
        let all_same = problems.iter().all(|problem| *problem.code == first);
        let code = if all_same { first } else { code::CONFIG_INVALID };
        Self::of_all(code, problems.iter().map(ToString::to_string).collect())
    }
}

impl From<keys::Error> for Failure {
    fn from(error: keys::Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<http::Error> for Failure {
    fn from(error: http::Error) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Self {
        Self::new(code::of(error.code()), error.to_string())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        Self::new(code::of(error.code()), error.to_string())
    }
}

impl From<io::Error> for Failure {
    /// The standard output is gone. A reader that has seen enough, as `head` has, is no failure.
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::told(0);
        }
        Self::new(code::FILE_FAILED, format!("writing the output: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_detail_stands_in_the_first_line_and_several_in_lines_of_their_own() {
        let check = |failure: Failure, expected: &str| assert_eq!(failure.to_string(), expected);
        check(
            Failure::new(code::KEY_NOT_FOUND, "no key is named `auditer` (did you mean `auditor`?)"),
            "no key is named `auditer` (did you mean `auditor`?) [key_not_found]\n\
             fix: See `tollgate key list`.",
        );
        check(
            Failure::of_all(code::SECRET_INVALID, vec!["a".to_owned(), "b".to_owned()]).with_fix("Try c."),
            "a secret can't be used [secret_invalid]\n  a\n  b\nfix: Try c.",
        );
    }

    #[test]
    fn what_a_server_answered_is_told_with_its_status_and_choices() {
        let problem = dto::Problem {
            kind: "urn:tollgate:error:partition_ambiguous".to_owned(),
            title: "several partitions have an entity of this id".to_owned(),
            status: 409,
            detail: "`s/k/1` is in several partitions".to_owned(),
            code: "partition_ambiguous".to_owned(),
            fix: "Name one.".to_owned(),
            instance: None,
            partitions: vec!["live".to_owned(), "test".to_owned()],
        };
        let failure = Failure::of_problem(problem);
        assert_eq!(
            failure.to_string(),
            "`s/k/1` is in several partitions [partition_ambiguous, HTTP 409]\n  partitions: live, test\nfix: Name one."
        );
        assert_eq!(failure.exit(), 1);
        let json: serde_json::Value = serde_json::from_str(&failure.json().unwrap()).unwrap();
        assert_eq!((json["code"].as_str(), json["status"].as_u64()), (Some("partition_ambiguous"), Some(409)));
    }

    #[test]
    fn exit_codes_come_from_the_table() {
        let check = |code: Code, exit: u8| assert_eq!(Failure::new(code, "x").exit(), exit, "{}", code.id);
        check(code::USAGE, 2);
        check(code::CONFIG_INVALID, 2);
        check(code::MACHINE_INVALID, 2);
        check(code::SERVER_UNREACHABLE, 1);
        check(code::STORE_CORRUPT, 1);
        assert_eq!(Failure::told(1).json(), None);
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_failure() {
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)), Failure::told(0));
        assert_eq!(Failure::from(io::Error::from(io::ErrorKind::StorageFull)).exit(), 1);
    }
}
