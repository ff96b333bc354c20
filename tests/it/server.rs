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
        let mut server = Self::spawn(data, environment);
        server.until_ready();
        server
    }

    /// Starts a server on this data directory, and waits for nothing.
    pub(crate) fn spawn(data: &Path, environment: &[(&str, String)]) -> Self {
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
        Self { child, address, data: data.to_path_buf() }
    }

    /// Waits until it is ready.
    pub(crate) fn until_ready(&mut self) {
        let began = Instant::now();
        while self.get("/readyz").is_none_or(|(status, _)| status != 200) {
            assert!(!self.has_ended(), "the server ended before it was ready");
            assert!(began.elapsed() < Duration::from_secs(60), "the server did not become ready");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM.
    pub(crate) fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    /// Waits until it has ended; answers its exit code.
    pub(crate) fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The most memory that it had so far, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// What `tollgate store check` says of a data directory that no server has open: whether it is sound, and why not.
    pub(crate) fn check(data: &Path) -> (bool, String) {
        let checked =
            Command::new(env!("CARGO_BIN_EXE_tollgate")).args(["store", "check", "--data"]).arg(data).output().unwrap();
        (checked.status.success(), String::from_utf8_lossy(&checked.stderr).into_owned())
    }

    /// Reads a document with the operator's key. None if the server does not answer.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, Value)> {
        let key = std::fs::read_to_string(self.data.join("operator.key")).unwrap_or_default();
        let head = format!("GET {path} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {}\r\n", key.trim());
        let answer = exchange(self.address, &closing(&head, b""))?;
        Some((answer.status, answer.json()))
    }

    /// Every move of the feed from the start.
    pub(crate) fn feed(&self) -> Vec<Value> {
        let (mut out, mut after) = (Vec::new(), String::new());
        loop {
            let (status, page) = self.get(&format!("/v1/transitions?limit=500{after}")).expect("an answer");
            assert_eq!(status, 200, "{page}");
            let items = page["items"].as_array().unwrap();
            if items.is_empty() {
                return out;
            }
            out.extend(items.iter().cloned());
            after = format!("&after={}", page["next"].as_str().unwrap());
        }
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
            let text = exchange(self.address, &closing(&head, b"")).expect("an answer").text;
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
    let answer = exchange(address, &closing(&head, body))?;
    Some((answer.status, answer.json()))
}

/// An answer, taken apart.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) text: String,
}

impl Answer {
    /// The body as JSON; null if it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    /// The value of a header, whose name is given in lower case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = |line: &&str| line.to_ascii_lowercase().starts_with(&format!("{name}:"));
        self.head.lines().find(named).and_then(|line| line.split_once(':')).map(|(_, value)| value.trim())
    }
}

/// A request, after which the connection is closed.
fn closing(head: &str, body: &[u8]) -> Vec<u8> {
    [format!("{head}connection: close\r\n\r\n").as_bytes(), body].concat()
}

/// Sends a request that closes its connection, and reads the answer. None if no whole one came.
pub(crate) fn exchange(address: SocketAddr, request: &[u8]) -> Option<Answer> {
    let mut stream = connect(address)?;
    stream.write_all(request).ok()?;
    read_answer(&mut stream)
}

/// A connection that does not wait for ever.
pub(crate) fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
    Some(stream)
}

/// Reads one answer, the last of its connection; none if it is not whole.
pub(crate) fn read_answer(stream: &mut TcpStream) -> Option<Answer> {
    next_answer(stream, &mut Vec::new())
}

/// Reads the next answer of a connection; `read` holds what was read beyond it.
pub(crate) fn next_answer(stream: &mut TcpStream, read: &mut Vec<u8>) -> Option<Answer> {
    let mut chunk = [0; 16 << 10];
    loop {
        if let Some((answer, used)) = whole(read) {
            read.drain(..used);
            return Some(answer);
        }
        match stream.read(&mut chunk).ok()? {
            0 => return None,
            more => read.extend_from_slice(&chunk[..more]),
        }
    }
}

/// The answer that these bytes begin with, if it is whole, and its length. A chunked one ends with its last chunk.
fn whole(bytes: &[u8]) -> Option<(Answer, usize)> {
    let (head, body) = std::str::from_utf8(bytes).ok()?.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?.parse().ok()?;
    let mut answer = Answer { status, head: head.to_owned(), text: String::new() };
    let length = answer.header("content-length").and_then(|text| text.parse::<usize>().ok());
    let Some(length) = length else {
        answer.text = unchunk(body)?;
        return Some((answer, bytes.len()));
    };
    body.get(..length)?.clone_into(&mut answer.text);
    Some((answer, head.len() + 4 + length))
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
