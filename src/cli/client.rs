//! Talking to a server. The only file of the command line that names the HTTP client.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use reqwest::{Method, RequestBuilder, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;

use super::Context;
use super::failure::Failure;
use crate::code;
use crate::http::dto;

/// The longest that connecting may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// The longest that an answer may take: well over the half minute that a server may hold one back.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The variable that has the key.
const KEY_VARIABLE: &str = "TOLLGATE_KEY";

/// Which server is meant.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct ServerArgs {
    /// The server's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_parser = address)]
    pub(super) server: Url,
}

/// Which server is meant, and the key to it.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct KeyedArgs {
    #[command(flatten)]
    server: ServerArgs,

    /// A file with the key, such as `data/operator.key` [default: the key in the variable `TOLLGATE_KEY`]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// A server that one talks to.
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<SecretString>,
}

/// An answer: what it means, and the text it came as.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) value: T,
    pub(super) text: String,
}

/// A server's answer to a webhook.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// What became of its events, or why it was turned away.
    pub(super) outcome: Result<dto::Admitted, dto::Problem>,
}

/// Runs what talks to a server to its end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| unreachable(&format!("can't wait for answers: {error}")))?.block_on(work)
}

/// Reads the address of a server.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    url.ok_or_else(|| "expected an address such as `http://127.0.0.1:8080`".to_owned())
}

impl KeyedArgs {
    /// The server, with the key to it.
    pub(super) fn connect(&self, context: &Context) -> Result<Client, Failure> {
        let key = match &self.key_file {
            Some(file) => read_key(file)?,
            None => match context.environment.get(KEY_VARIABLE) {
                Some(key) => key.trim().to_owned(),
                None => return Err(keyless()),
            },
        };
        if key.is_empty() {
            return Err(keyless());
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            let detail = "the key has spaces or line breaks within it: is it several keys, or another file?";
            return Err(Failure::new(code::KEY_INVALID, detail));
        }
        let client = self.server.connect()?;
        Ok(Client { key: Some(SecretString::from(key)), ..client })
    }
}

fn keyless() -> Failure {
    let detail = format!("neither the variable `{KEY_VARIABLE}` nor `--key-file` gives a key");
    let fix = "The first start of a server wrote a key: try `--key-file data/operator.key`. Or make one with \
        `tollgate key create`.";
    Failure::new(code::KEY_MISSING, detail).with_fix(fix)
}

fn read_key(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| Failure::of_file("reading", file, &error))?;
    Ok(text.trim().to_owned())
}

impl ServerArgs {
    /// The server of this process at this address.
    pub(super) fn here(address: SocketAddr) -> Result<Self, Failure> {
        Ok(Self { server: Url::parse(&format!("http://{address}")).map_err(|error| unreachable(&error.to_string()))? })
    }

    /// The server, without a key.
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        // Only the first call of a process installs it; a later one finds it there.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let agent = concat!("tollgate/", env!("CARGO_PKG_VERSION"));
        let mut builder = reqwest::Client::builder().user_agent(agent).redirect(reqwest::redirect::Policy::none());
        builder = builder.connect_timeout(CONNECT_WITHIN).timeout(ANSWER_WITHIN);
        if is_here(&self.server) {
            // A proxy of the environment is for the world outside; it would look for the server on its own machine.
            builder = builder.no_proxy();
        }
        let http =
            builder.build().map_err(|error| unreachable(&format!("can't ask a server: {}", describe(&error))))?;
        Ok(Client { http, base: self.server.clone(), key: None })
    }
}

fn is_here(url: &Url) -> bool {
    url.host_str().is_some_and(|host| host == "localhost" || host.starts_with("127.") || host == "[::1]")
}

impl Client {
    /// Asks. Each step of the path is one, whatever characters it has.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, String)],
    ) -> Result<Answer<T>, Failure> {
        let mut url = at(&self.base, path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query.iter().map(|(name, value)| (*name, value.as_str())));
        }
        self.ask(Method::GET, url).await
    }

    /// Commands.
    pub(super) async fn post<T: DeserializeOwned>(&self, path: &[&str]) -> Result<Answer<T>, Failure> {
        self.ask(Method::POST, at(&self.base, path)).await
    }

    /// Posts a webhook. An error is that no answer came.
    pub(super) async fn deliver(
        &self,
        source: &str,
        headers: &[(String, String)],
        body: Bytes,
    ) -> Result<Reply, Failure> {
        let mut request = self.http.post(webhook(&self.base, source)).body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let (status, text) = self.send(request).await?;
        let outcome = match status {
            200 => serde_json::from_str(&text).map_err(|_| unreadable(status)),
            _ => Err(problem(status, &text)),
        };
        Ok(Reply { status, outcome })
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, url: Url) -> Result<Answer<T>, Failure> {
        let mut request = self.http.request(method, url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose_secret());
        }
        let (status, text) = self.send(request).await?;
        if status != 200 {
            return Err(Failure::of_problem(problem(status, &text)));
        }
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Answer { value, text }),
            Err(_) => Err(Failure::of_problem(unreadable(status))),
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<(u16, String), Failure> {
        let lost =
            |error: &reqwest::Error| unreachable(&format!("`{}` doesn't answer: {}", self.base, describe(error)));
        let response = request.send().await.map_err(|error| lost(&error))?;
        let status = response.status().as_u16();
        Ok((status, response.text().await.map_err(|error| lost(&error))?))
    }
}

/// The address of a source's webhooks.
pub(super) fn webhook(base: &Url, source: &str) -> Url {
    at(base, &["webhooks", source])
}

fn at(base: &Url, path: &[&str]) -> Url {
    let mut url = base.clone();
    url.set_query(None);
    url.set_fragment(None);
    // An address with a host has a path.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}

/// The problem document of an answer; ours if the answer has none.
fn problem(status: u16, text: &str) -> dto::Problem {
    serde_json::from_str(text).unwrap_or_else(|_| unreadable(status))
}

fn unreadable(status: u16) -> dto::Problem {
    let code = code::ANSWER_UNREADABLE;
    dto::Problem {
        kind: code.urn(),
        title: code.title.to_owned(),
        status,
        detail: format!("the answer with status {status} is no document of ours"),
        code: code.id.to_owned(),
        fix: code.fix.to_owned(),
        instance: None,
        partitions: Vec::new(),
    }
}

fn unreachable(detail: &str) -> Failure {
    Failure::new(code::SERVER_UNREACHABLE, detail)
}

/// What went wrong, down to the operating system's words.
fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let mut deepest: &dyn std::error::Error = error;
    while let Some(cause) = deepest.source() {
        deepest = cause;
    }
    deepest.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host() {
        let check = |text: &str, fits: bool| assert_eq!(address(text).is_ok(), fits, "{text}");
        check("http://127.0.0.1:8080", true);
        check("https://tollgate.example/billing/", true);
        for wrong in ["", "localhost:8080", "127.0.0.1:8080", "ftp://host", "http://", "unix:/run/x"] {
            check(wrong, false);
        }
    }

    #[test]
    fn a_step_of_a_path_stays_one_step() {
        let check = |base: &str, path: &[&str], expected: &str| {
            assert_eq!(at(&Url::parse(base).unwrap(), path).as_str(), expected);
        };
        check("http://h:1", &["v1", "entities", "s", "k", "a/b ü?"], "http://h:1/v1/entities/s/k/a%2Fb%20%C3%BC%3F");
        check("http://h/base/?x=1#y", &["healthz"], "http://h/base/healthz");
        check("http://h/base", &["webhooks", "stripe"], "http://h/base/webhooks/stripe");
    }

    #[test]
    fn only_a_server_of_this_machine_is_reached_past_the_proxy() {
        let check = |text: &str, here: bool| assert_eq!(is_here(&Url::parse(text).unwrap()), here, "{text}");
        check("http://127.0.0.1:8080", true);
        check("http://localhost", true);
        check("http://[::1]:1", true);
        check("http://localhost.example", false);
        check("https://tollgate.example", false);
    }

    #[test]
    fn an_answer_that_is_no_problem_document_is_still_an_error() {
        assert_eq!(problem(502, "<html>Bad Gateway</html>").code, "answer_unreadable");
        let text = serde_json::to_string(&unreadable(500)).unwrap();
        assert_eq!(problem(500, &text), unreadable(500));
    }
}
