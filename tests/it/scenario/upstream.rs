//! A scripted upstream: it answers what the story says, to whom the story says.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use secrecy::{ExposeSecret as _, SecretString};
use tollgate::domain::{Lsn, Timestamp};
use tollgate::engine::clock::{Clock as _, ManualClock};
use tollgate::engine::upstream::{Answered, Unanswered, Upstream};
use tollgate::source::{Request, Secrets};
use tollgate::store::Store;

use super::story::Answer;

const KEY: &str = "sk_live_story";
const KEY_TEST: &str = "sk_test_story";

/// The keys that the upstream knows.
pub(crate) fn keys() -> Secrets {
    Secrets {
        api_key: Some(KEY.to_owned().into()),
        api_key_test: Some(KEY_TEST.to_owned().into()),
        ..Secrets::default()
    }
}

/// A question: the path, and as whom it is asked.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Question {
    path: String,
    account: Option<String>,
    test: bool,
}

/// A question that was asked, after which record, and what came of it.
pub(crate) struct Asked {
    pub(crate) after: Lsn,
    pub(crate) question: Question,
    pub(crate) came: String,
}

/// The upstream of a story.
pub(crate) struct Script {
    answers: Mutex<BTreeMap<Question, Answer>>,
    asked: Mutex<Vec<Asked>>,
    clock: ManualClock,
    store: Arc<dyn Store>,
}

impl Script {
    pub(crate) fn new(clock: ManualClock, store: Arc<dyn Store>) -> Self {
        Self { answers: Mutex::default(), asked: Mutex::default(), clock, store }
    }

    /// From now on this is the answer.
    pub(crate) fn answer(&self, answer: &Answer) {
        self.answers.lock().unwrap().insert(Question::of(answer), answer.clone());
    }

    /// What was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

#[async_trait]
impl Upstream for Script {
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered> {
        let question = Question::asked(request);
        let answer = self.answers.lock().unwrap().get(&question).cloned().filter(|answer| answer.status != 0);
        let came = answer.as_ref().map_or("no answer".to_owned(), |answer| format!("status {}", answer.status));
        let after = self.store.status().synced;
        self.asked.lock().unwrap().push(Asked { after, question, came });
        let Answer { status, body, .. } = answer.ok_or_else(|| Unanswered("could not connect".to_owned()))?;
        Ok(Answered {
            status,
            body: Bytes::from(body),
            date: Some(Timestamp::from_secs(self.clock.now().secs())),
            to_headers: Duration::ZERO,
            retry_after: None,
        })
    }
}

impl Question {
    pub(crate) fn of(answer: &Answer) -> Self {
        let Answer { path, account, test, status: _, body: _ } = answer;
        Self { path: path.clone(), account: account.clone(), test: *test }
    }

    fn asked(request: &Request) -> Self {
        let header = |name: &str| request.headers.iter().find(|(header, _)| header == name);
        let shown = |(_, value): &(String, SecretString)| value.expose_secret().to_owned();
        let keys: Vec<String> = request.headers.iter().map(shown).collect();
        let test = keys.iter().any(|value| value.contains(KEY_TEST));
        assert!(test || keys.iter().any(|value| value.contains(KEY)), "a question without a key");
        Self {
            path: request.url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap(),
            account: header("stripe-account").map(shown),
            test,
        }
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path)?;
        if let Some(account) = &self.account {
            write!(f, " for {account}")?;
        }
        if self.test { write!(f, " with the test key") } else { Ok(()) }
    }
}
