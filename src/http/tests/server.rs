//! The server over real sockets: what a test without one can't show.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::code;
use crate::http::{Server, Settings, refuse, serve};

struct Running {
    server: Server,
    engine: Engine,
    token: String,
    _data: TempDir,
}

/// Longer than any of these tests takes.
const PATIENT: Duration = Duration::from_secs(60);

/// A server on a free port that waits so long for the head and the body of a request.
async fn run(head_timeout: Duration, body_timeout: Duration) -> Running {
    let engine = engine(&ManualClock::new(NOON)).await;
    let data = TempDir::new().unwrap();
    let token = keys_in(&data)["all"].clone();
    let settings = Settings {
        listen: "127.0.0.1:0".parse().unwrap(),
        workers: 1,
        body_limit: 1000,
        bodies_max: 1500,
        head_timeout,
        body_timeout,
        keep_alive: Duration::from_secs(60),
        disconnect_timeout: Duration::from_secs(1),
        connections_max: 10,
        stop_timeout: Duration::from_secs(5),
    };
    let server = serve(engine.clone(), Ring::open(data.path(), NOON).unwrap(), &settings).unwrap();
    Running { server, engine, token, _data: data }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// Sends text, and reads until the server closes.
    async fn exchange(&self, text: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        read(&mut stream).await
    }
}

async fn read(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

fn has(answer: &str, status: &str, code: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{answer}");
}

const POST: &str = "POST /webhooks/standard HTTP/1.1\r\nhost: t\r\n";

#[actix_web::test]
async fn a_declared_length_over_the_limit_is_refused_before_the_body_comes() {
    let running = run(PATIENT, PATIENT).await;
    has(&running.exchange(&format!("{POST}content-length: 1001\r\n\r\n")).await, "413", "body_too_large");
    running.server.stop().await;
}

#[actix_web::test]
async fn a_body_without_a_declared_length_is_cut_at_the_limit() {
    let running = run(PATIENT, PATIENT).await;
    let chunk = format!("258\r\n{}\r\n", "x".repeat(600));
    let text = format!("{POST}transfer-encoding: chunked\r\n\r\n{chunk}{chunk}");
    has(&running.exchange(&text).await, "413", "body_too_large");
    running.server.stop().await;
}

#[actix_web::test]
async fn a_body_that_nobody_asked_for_is_not_read_to_its_end() {
    let running = run(PATIENT, PATIENT).await;
    let text = "POST /v1/dead-letters/1.0/replay HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n";
    has(&running.exchange(text).await, "401", "key_missing");
    has(&running.exchange(&text.replace("/v1/", "/v2/")).await, "404", "route_not_found");
    let with = |line: &str| text.replace("POST /v1/dead-letters/1.0/replay", line);
    has(&running.exchange(&with("PUT /webhooks/standard")).await, "405", "method_not_allowed");
    has(&running.exchange(&with("POST /webhooks/a/b")).await, "404", "route_not_found");
    has(&running.exchange(&with("POST /webhooks/acme")).await, "404", "source_not_found");
    has(&running.exchange(&with("POST /healthz")).await, "405", "method_not_allowed");
    let healthy = running.exchange(&with("GET /healthz")).await;
    assert!(healthy.starts_with("HTTP/1.1 200"), "{healthy}");
    running.server.stop().await;
}

#[actix_web::test]
async fn bodies_that_would_take_too_much_together_are_put_off() {
    let running = run(PATIENT, PATIENT).await;
    let body = "x".repeat(900);
    let mut slow = running.connect().await;
    slow.write_all(format!("{POST}content-length: 1000\r\n\r\n{body}").as_bytes()).await.unwrap();
    let whole = format!("{POST}connection: close\r\ncontent-length: 900\r\n\r\n{body}");
    // The first body takes its room once the server has read it.
    let mut busy = running.exchange(&whole).await;
    while !busy.contains("\"code\":\"busy\"") {
        has(&busy, "401", "signature_missing");
        busy = running.exchange(&whole).await;
    }
    has(&busy, "503", "busy");
    assert!(busy.to_lowercase().contains("retry-after: 1"), "{busy}");
    // What an answer had taken is given back.
    slow.write_all("x".repeat(100).as_bytes()).await.unwrap();
    slow.shutdown().await.unwrap();
    has(&read(&mut slow).await, "401", "signature_missing");
    has(&running.exchange(&whole).await, "401", "signature_missing");
    running.server.stop().await;
}

#[actix_web::test]
async fn a_body_that_was_read_leaves_its_connection_open() {
    let running = run(PATIENT, PATIENT).await;
    let read = format!("{POST}transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n");
    let answers = running.exchange(&format!("{read}{POST}content-length: 1001\r\n\r\n")).await;
    assert_eq!(answers.matches("HTTP/1.1 401").count(), 1, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 413").count(), 1, "{answers}");
    running.server.stop().await;
}

#[actix_web::test]
async fn a_sender_that_trickles_is_cut_off() {
    let running = run(PATIENT, Duration::from_millis(100)).await;
    has(&running.exchange(&format!("{POST}content-length: 10\r\n\r\nx")).await, "408", "body_timeout");
    running.server.stop().await;
    let running = run(Duration::from_secs(1), PATIENT).await;
    let head = running.exchange("POST /webhooks/standard HTTP/1.1\r\nhost").await;
    assert!(head.starts_with("HTTP/1.1 408"), "{head}");
    running.server.stop().await;
}

#[actix_web::test]
async fn a_body_that_breaks_off_leaves_nothing() {
    let running = run(PATIENT, PATIENT).await;
    let mut stream = running.connect().await;
    stream.write_all(format!("{POST}content-length: 10\r\n\r\nx").as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    drop(read(&mut stream).await);
    assert_eq!(running.engine.status().store.pending, 0);
    running.server.stop().await;
}

#[actix_web::test]
async fn a_stop_ends_the_waiting_of_followers_and_finishes_their_answers() {
    let running = run(PATIENT, PATIENT).await;
    let mut stream = running.connect().await;
    let request =
        format!("GET /v1/transitions?wait=30 HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {}\r\n\r\n", running.token);
    stream.write_all(request.as_bytes()).await.unwrap();
    // Idle connections must not hold up the stop either.
    let idle = running.connect().await;
    while running.server.in_flight() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let address = running.server.address();
    running.server.stop().await;
    let answer = read(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"items\":[]"), "{answer}");
    assert!(answer.to_lowercase().contains("connection: close"), "{answer}");
    drop(idle);
    assert!(TcpStream::connect(address).await.is_err());
}

#[actix_web::test]
async fn an_address_that_is_taken_is_named() {
    let running = run(PATIENT, PATIENT).await;
    let settings = Settings { listen: running.server.address(), ..settings_like() };
    let data = TempDir::new().unwrap();
    let error = serve(running.engine.clone(), Ring::open(data.path(), NOON).unwrap(), &settings).unwrap_err();
    assert_eq!(error.code(), crate::code::LISTEN_FAILED);
    assert!(error.to_string().starts_with(&format!("can't listen on `{}`: ", settings.listen)), "{error}");
    running.server.stop().await;
}

fn settings_like() -> Settings {
    Config::load(&Inputs::default()).unwrap().server.settings()
}

#[actix_web::test]
async fn a_server_that_only_refuses_says_why_and_when_to_come_again() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let refusing = refuse(code::DISK_FULL, address).unwrap();
    let ask = async |request: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        read(&mut stream).await
    };
    let post = "POST /webhooks/stripe HTTP/1.1\r\nhost: t\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let answer = ask(post).await;
    has(&answer, "503", "disk_full");
    assert!(answer.contains("retry-after: 30"), "{answer}");
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n");
    has(&ask(&get("/readyz")).await, "503", "disk_full");
    assert!(ask(&get("/healthz")).await.starts_with("HTTP/1.1 200"));
    refusing.stop().await;
    assert!(TcpStream::connect(address).await.is_err(), "the address is free again");
}
