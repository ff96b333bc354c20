//! Query parameters: every one is known and well formed, or the request is refused with the nearest right name.

use std::collections::BTreeMap;
use std::time::Duration;

use actix_web::HttpRequest;
use actix_web::web;

use super::problem::{Problem, cut};
use crate::code;
use crate::domain::suggest::{did_you_mean, nearest};
use crate::domain::{Outcome, Partition, Rule, name};

/// The most items that one answer holds.
pub(crate) const LIMIT_MAX: usize = 1000;
/// The items of an answer, unless `limit` says otherwise.
pub(crate) const LIMIT_DEFAULT: usize = 100;
/// The longest that an answer may be waited for.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(30);

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// The parameters, if each is one of `known` and none comes twice.
    pub(crate) fn of(request: &HttpRequest, known: &[&str]) -> Result<Self, Problem> {
        Self::parse(request.query_string(), known)
    }

    /// The parameters of a query string.
    pub(super) fn parse(text: &str, known: &[&str]) -> Result<Self, Problem> {
        let pairs = web::Query::<Vec<(String, String)>>::from_query(text)
            .map_err(|error| Problem::new(code::PARAMETER_INVALID, format!("the query can't be read: {error}")))?;
        let mut parameters = BTreeMap::new();
        for (name, value) in pairs.into_inner() {
            if !known.contains(&name.as_str()) {
                return Err(unknown(&name, known));
            }
            if parameters.insert(name.clone(), value).is_some() {
                return Err(invalid(&name, "it comes twice"));
            }
        }
        Ok(Self(parameters))
    }

    /// The parameter's text, if it was given.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A declared name, for example of a source.
    pub(crate) fn name(&self, parameter: &str) -> Result<Option<&str>, Problem> {
        let text = self.text(parameter);
        text.map(|text| checked_name(parameter, text)).transpose()
    }

    /// How many items are wanted.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.text("limit") else { return Ok(LIMIT_DEFAULT) };
        text.parse()
            .ok()
            .filter(|limit| (1..=LIMIT_MAX).contains(limit))
            .ok_or_else(|| invalid("limit", &format!("`{}` is not a number from 1 to {LIMIT_MAX}", cut(text))))
    }

    /// How long to wait for something to answer: whole seconds.
    pub(crate) fn wait(&self) -> Result<Duration, Problem> {
        let Some(text) = self.text("wait") else { return Ok(Duration::ZERO) };
        let secs = text.strip_suffix('s').unwrap_or(text).parse().ok().map(Duration::from_secs);
        secs.filter(|wait| *wait <= WAIT_MAX)
            .ok_or_else(|| invalid("wait", &format!("`{}` is not a number of seconds from 0 to 30", cut(text))))
    }

    /// The partition.
    pub(crate) fn partition(&self) -> Result<Option<Partition>, Problem> {
        let read = |text: &str| {
            let form = "is not `live`, `test`, `ACCOUNT:live` or `ACCOUNT:test`";
            Partition::parse(text).ok_or_else(|| invalid("partition", &format!("`{}` {form}", cut(text))))
        };
        self.text("partition").map(read).transpose()
    }

    /// The outcome.
    pub(crate) fn outcome(&self) -> Result<Option<Outcome>, Problem> {
        self.word("outcome", &Outcome::ALL, Outcome::as_str)
    }

    /// The rule.
    pub(crate) fn rule(&self) -> Result<Option<Rule>, Problem> {
        self.word("rule", &Rule::ALL, Rule::as_str)
    }

    /// One of a closed set of words.
    fn word<T: Copy>(&self, name: &str, all: &[T], as_str: fn(T) -> &'static str) -> Result<Option<T>, Problem> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let found = all.iter().copied().find(|word| as_str(*word) == text);
        let hint = || did_you_mean(nearest(text, all.iter().map(|word| as_str(*word))));
        found.map(Some).ok_or_else(|| invalid(name, &format!("there is no {name} `{}`{}", cut(text), hint())))
    }
}

/// A declared name from a path or a query.
pub(crate) fn checked_name<'a>(parameter: &str, text: &'a str) -> Result<&'a str, Problem> {
    let form = "is not 1 to 64 of letters, digits and `_ - . /`, starting with a letter or digit";
    if name::is_valid(text) { Ok(text) } else { Err(invalid(parameter, &format!("`{}` {form}", cut(text)))) }
}

/// A parameter that can't be read.
pub(crate) fn invalid(name: &str, detail: &str) -> Problem {
    Problem::new(code::PARAMETER_INVALID, format!("`{name}`: {detail}"))
}

fn unknown(name: &str, known: &[&str]) -> Problem {
    let hint = did_you_mean(nearest(name, known.iter().copied()));
    let name = cut(name);
    let detail = match known {
        [] => format!("`{name}` is unknown: this address takes no parameters"),
        _ => format!("`{name}` is unknown{hint}; this address takes `{}`", known.join("`, `")),
    };
    Problem::new(code::PARAMETER_UNKNOWN, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["source", "partition", "outcome", "rule", "limit", "wait"];

    fn read(text: &str) -> Result<String, Problem> {
        let query = Query::parse(text, &KNOWN)?;
        Ok(format!(
            "{:?} {:?} {:?} {:?} {} {:?}",
            query.name("source")?,
            query.partition()?.map(|partition| partition.to_string()),
            query.outcome()?,
            query.rule()?,
            query.limit()?,
            query.wait()?
        ))
    }

    /// Stored variants are numbered in their order: counting them up finds any that a list forgot.
    #[test]
    fn every_outcome_and_rule_can_be_asked_for() {
        let outcomes: Vec<Outcome> = (0..=u8::MAX).map_while(|n| postcard::from_bytes(&[n]).ok()).collect();
        let rules: Vec<Rule> = (0..=u8::MAX).map_while(|n| postcard::from_bytes(&[n]).ok()).collect();
        assert_eq!(outcomes, Outcome::ALL);
        assert_eq!(rules, Rule::ALL);
    }

    #[test]
    fn parameters_are_read() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).unwrap(), expected, "{text}");
        check("", "None None None None 100 0ns");
        check("source=stripe&limit=7&wait=30", "Some(\"stripe\") None None None 7 30s");
        check("partition=acct_1%3Atest&wait=2s", "None Some(\"acct_1:test\") None None 100 2s");
        check("outcome=advanced_gap_proven&rule=no_target", "None None Some(AdvancedGapProven) Some(NoTarget) 100 0ns");
    }

    #[test]
    fn a_wrong_parameter_is_refused_with_what_would_be_right() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).unwrap_err().to_string(), expected, "{text}");
        check(
            "sorce=stripe",
            "parameter_unknown: `sorce` is unknown (did you mean `source`?); this address takes \
             `source`, `partition`, `outcome`, `rule`, `limit`, `wait`",
        );
        check("limit=1&limit=2", "parameter_invalid: `limit`: it comes twice");
        check("limit=0", "parameter_invalid: `limit`: `0` is not a number from 1 to 1000");
        check("limit=-1", "parameter_invalid: `limit`: `-1` is not a number from 1 to 1000");
        check("wait=31", "parameter_invalid: `wait`: `31` is not a number of seconds from 0 to 30");
        check(
            "partition=prod",
            "parameter_invalid: `partition`: `prod` is not `live`, `test`, `ACCOUNT:live` or `ACCOUNT:test`",
        );
        check(
            "outcome=advance",
            "parameter_invalid: `outcome`: there is no outcome `advance` (did you mean `advanced`?)",
        );
        check(
            "source=a%20b",
            "parameter_invalid: `source`: `a b` is not 1 to 64 of letters, digits and `_ - . /`, \
             starting with a letter or digit",
        );
    }
}
