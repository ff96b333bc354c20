//! A running server as a child process, and as much HTTP as the tests need.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A secret that the generic source takes.
pub(crate) const STANDARD_SECRET: &str = "whsec_dG9sbGdhdGUta2lsbC10ZXN0LXNlY3JldC0wMDAx";
/// A secret for Stripe.
pub(crate) const STRIPE_SECRET: &str = "whsec_kill_test_secret_0001";

/// A server under test; killed when dropped.
pub(crate) struct Server {
    child: Child,
    address: SocketAddr,
    data: PathBuf,
}

impl Server {
    /// Starts a server on this data directory, and waits until it is ready.
    pub(crate) fn start(data: &Path, environment: &[(&str, String)]) -> Self {
        let address = free_address();
        let child = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["serve", "--listen", &address.to_string(), "--data"])
            .arg(data)
            .env("STANDARD_WEBHOOK_SECRET", STANDARD_SECRET)
            .env("STRIPE_WEBHOOK_SECRET", STRIPE_SECRET)
            .env("TOLLGATE__TELEMETRY__LEVEL", "warn")
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let server = Self { child, address, data: data.to_path_buf() };
        let began = Instant::now();
        while server.get("/readyz").is_none_or(|(status, _)| status != 200) {
            assert!(began.elapsed() < Duration::from_secs(60), "the server did not become ready");
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Reads a document with the operator's key. None if the server does not answer.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, Value)> {
        let key = std::fs::read_to_string(self.data.join("operator.key")).unwrap_or_default();
        let head = format!("GET {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {}\r\n", key.trim());
        exchange(self.address, &head, b"")
    }

    /// All items of a listing, page by page.
    pub(crate) fn all(&self, path: &str) -> Vec<Value> {
        let mut out = Vec::new();
        let mut after = String::new();
        loop {
            let (status, page) = self.get(&format!("{path}?limit=200{after}")).expect("an answer");
            assert_eq!(status, 200, "{page}");
            out.extend(page["items"].as_array().unwrap().iter().cloned());
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return out,
            }
        }
    }

    /// Waits until no event is without a decision.
    pub(crate) fn settle(&self) {
        let began = Instant::now();
        loop {
            let key = std::fs::read_to_string(self.data.join("operator.key")).unwrap();
            let head = format!("GET /metrics HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {}\r\n", key.trim());
            let text = exchange_text(self.address, &head, b"").expect("an answer").1;
            if text.lines().any(|line| line == "tollgate_pending 0") {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "events stay undecided:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Posts a delivery. None if no whole answer came.
pub(crate) fn post(
    address: SocketAddr,
    source: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> Option<(u16, Value)> {
    let mut head = format!("POST /webhooks/{source} HTTP/1.1\r\nhost: t\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    exchange(address, &head, body)
}

fn exchange(address: SocketAddr, head: &str, body: &[u8]) -> Option<(u16, Value)> {
    let (status, text) = exchange_text(address, head, body)?;
    Some((status, serde_json::from_str(&text).unwrap_or(Value::Null)))
}

fn exchange_text(address: SocketAddr, head: &str, body: &[u8]) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    let mut request = format!("{head}connection: close\r\n\r\n").into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:").and_then(|text| text.trim().parse::<usize>().ok())
    });
    // A chunked answer ends with its last chunk; a cut one is no answer.
    match length {
        Some(length) if body.len() < length => None,
        Some(_) => Some((status, body.to_owned())),
        None => Some((status, unchunk(body)?)),
    }
}

fn unchunk(mut body: &str) -> Option<String> {
    let mut out = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(out);
        }
        out.push_str(rest.get(..size)?);
        body = rest.get(size + 2..)?;
    }
}

/// An address that was free a moment ago.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
