//! How the current state of an entity is asked for. Nothing is sent from here.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret as _, SecretString};

use super::problem::Problems;
use super::secret::Secrets;
use super::spec::{Auth, LookupSpec, SourceSpec, UpstreamSpec};
use crate::domain::suggest::{did_you_mean, nearest};
use crate::domain::{EntityKey, Kind, Mode};

/// What stands for the entity's id in a path.
const ID: &str = "{id}";
/// What stands for the entity's account in a path or a header.
const ACCOUNT: &str = "{account}";

/// A source's API, as far as reads of entities go.
#[derive(Debug)]
pub struct Upstream {
    live: Access,
    test: Access,
    auth: Auth,
    auth_header: String,
    headers: Vec<(String, String)>,
    paths: BTreeMap<Kind, String>,
    rate_per_s: u32,
    timeout: Duration,
}

/// One read to send.
#[derive(Debug)]
pub struct Request {
    /// The address, without secrets.
    pub url: String,
    /// The headers, lower-case names.
    pub headers: Vec<(String, SecretString)>,
    /// How long the answer may take.
    pub timeout: Duration,
}

#[derive(Debug)]
struct Access {
    base_url: String,
    api_key: Option<SecretString>,
}

impl Upstream {
    /// Checks the upstream; what is wrong goes to the problems. None if no kind can be asked for, or the key that it
    /// needs is missing.
    pub(super) fn compile(spec: &SourceSpec, secrets: &Secrets, problems: &mut Problems) -> Option<Self> {
        let lookups: Vec<_> =
            spec.entities.iter().filter_map(|(kind, entity)| Some((kind, entity.upstream.as_ref()?))).collect();
        let Some(upstream) = &spec.upstream else {
            for (kind, _) in lookups {
                problems.add(format!("entities.{kind}.upstream"), "it needs a section `upstream` with the address");
            }
            return None;
        };
        check(upstream, problems);
        for key in [&secrets.api_key, &secrets.api_key_test].into_iter().flatten() {
            let key = key.expose_secret();
            if key.is_empty() || !key.bytes().all(|b| b.is_ascii_graphic()) {
                problems
                    .add("upstream.api_key_env", "the key is empty, or holds spaces or other than ASCII; copy it anew");
            }
        }
        let mut paths = BTreeMap::new();
        for (kind, lookup) in lookups {
            check_path(kind, lookup, problems);
            paths.insert(kind.clone(), lookup.path.clone());
        }
        let keyless = upstream.auth != Auth::None && secrets.api_key.is_none() && secrets.api_key_test.is_none();
        if paths.is_empty() || keyless {
            return None;
        }
        let trimmed = |url: &str| url.trim_end_matches('/').to_owned();
        let test_url = upstream.base_url_test.as_ref().unwrap_or(&upstream.base_url);
        let test_key = secrets.api_key_test.as_ref().or(secrets.api_key.as_ref()).cloned();
        Some(Self {
            live: Access { base_url: trimmed(&upstream.base_url), api_key: secrets.api_key.clone() },
            test: Access { base_url: trimmed(test_url), api_key: test_key },
            auth: upstream.auth,
            auth_header: upstream.auth_header.as_deref().unwrap_or("authorization").to_ascii_lowercase(),
            headers: upstream.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect(),
            paths,
            rate_per_s: upstream.rate_per_s,
            timeout: Duration::from_millis(upstream.timeout_ms),
        })
    }

    /// The read that asks for an entity; none if its kind cannot be asked for, its mode has no key, or its id or
    /// account cannot stand in an address.
    #[must_use]
    pub fn request(&self, key: &EntityKey) -> Option<Request> {
        let path = self.paths.get(&key.kind)?;
        let access = match key.partition.mode {
            Mode::Live => &self.live,
            Mode::Test => &self.test,
        };
        let account = key.partition.account.as_deref();
        let headers = self.headers.iter().filter(|(_, value)| account.is_some() || !value.contains(ACCOUNT));
        let for_account = path.contains(ACCOUNT) || self.headers.iter().any(|(_, value)| value.contains(ACCOUNT));
        if (self.auth != Auth::None && access.api_key.is_none())
            || (path.contains(ACCOUNT) && account.is_none())
            || is_step(&key.id)
            || (for_account && !account.is_none_or(is_writable))
        {
            return None;
        }
        let account = account.unwrap_or_default();
        let path = path.replace(ID, &percent_encoded(&key.id)).replace(ACCOUNT, &percent_encoded(account));
        let mut all = vec![("accept".to_owned(), SecretString::from("application/json"))];
        all.extend(self.credentials(access));
        all.extend(headers.map(|(name, value)| (name.clone(), SecretString::from(value.replace(ACCOUNT, account)))));
        Some(Request { url: format!("{}{path}", access.base_url), headers: all, timeout: self.timeout })
    }

    /// How many reads a second we allow ourselves.
    #[must_use]
    pub const fn rate_per_s(&self) -> u32 {
        self.rate_per_s
    }

    /// How long an answer may take.
    #[must_use]
    pub const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The header that carries the key.
    fn credentials(&self, access: &Access) -> Option<(String, SecretString)> {
        let key = access.api_key.as_ref()?.expose_secret();
        let value = match self.auth {
            Auth::Bearer => format!("Bearer {key}"),
            Auth::Basic if key.contains(':') => format!("Basic {}", STANDARD.encode(key)),
            Auth::Basic => format!("Basic {}", STANDARD.encode(format!("{key}:"))),
            Auth::Header => key.to_owned(),
            Auth::None => return None,
        };
        Some((self.auth_header.clone(), SecretString::from(value)))
    }
}

fn check(spec: &UpstreamSpec, problems: &mut Problems) {
    let urls = [("upstream.base_url", Some(&spec.base_url)), ("upstream.base_url_test", spec.base_url_test.as_ref())];
    for (key, url) in urls {
        if let Some(url) = url {
            let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
            if rest.is_none_or(|rest| rest.is_empty() || !rest.bytes().all(|b| b.is_ascii_graphic()))
                || url.contains(['?', '#', '@', '\\'])
            {
                let expected = "expected `https://HOST` with an optional port and path, without user, `?` and `#`";
                // The address is not shown: what makes it wrong may be a password.
                problems.add(key, format!("this is not a base address; {expected}"));
            }
        }
    }
    if (spec.auth == Auth::Header) != spec.auth_header.is_some() {
        problems.add("upstream.auth_header", "it is needed exactly if `auth` is `header`");
    }
    for name in spec.headers.keys().chain(&spec.auth_header) {
        problems.check_header_name("upstream.headers", name);
    }
    for (name, value) in &spec.headers {
        check_braces(&format!("upstream.headers.{name}"), value, &["account"], problems);
        if !value.bytes().all(|b| b.is_ascii_graphic() || b == b' ') {
            problems.add(format!("upstream.headers.{name}"), "it holds other than printable ASCII");
        }
    }
    if spec.rate_per_s == 0 {
        problems.add("upstream.rate_per_s", "it must be at least 1");
    }
    if spec.timeout_ms == 0 {
        problems.add("upstream.timeout_ms", "it must be at least 1");
    }
}

fn check_path(kind: &Kind, lookup: &LookupSpec, problems: &mut Problems) {
    let key = format!("entities.{kind}.upstream.path");
    if !lookup.path.starts_with('/') || lookup.path.matches(ID).count() != 1 {
        problems.add(&key, format!("`{}` must start with `/` and hold `{{id}}` once", lookup.path));
    }
    check_braces(&key, &lookup.path, &["id", "account"], problems);
}

/// Reports words between braces that stand for nothing.
fn check_braces(key: &str, template: &str, words: &[&str], problems: &mut Problems) {
    for part in template.split('{').skip(1) {
        let word = part.split_once('}').map_or(part, |(word, _)| word);
        if !words.contains(&word) {
            let near = did_you_mean(nearest(word, words.iter().copied()));
            problems.add(key, format!("`{{{word}}}` is not known{near}"));
        }
    }
}

/// Whether a text would be taken as a step within the path: encoding does not help against that.
fn is_step(text: &str) -> bool {
    matches!(text, "." | "..")
}

/// Whether a text from an event may stand in a header, where nothing is encoded, and in a path.
fn is_writable(text: &str) -> bool {
    !is_step(text) && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Text with all but letters, digits and `-_.~` as percent codes.
fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex::encode_upper([byte]));
        }
        out
    })
}
