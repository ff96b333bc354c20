//! The load: one thread, keep-alive connections over loopback, one request at a time on each.
//!
//! It is written for little work, since it takes its share of the same processors as what it measures: no runtime, one
//! system call to write and one to read.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Poll, Token};

use super::event::Events;
use crate::domain::Timestamp;
use crate::source::Source;

/// How long the load runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// How often the backlog is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long nothing is done when nothing is to be done yet.
const NAP: Duration = Duration::from_micros(50);

/// How long is waited at the end for answers that are under way, when their latencies are measured.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The largest answer that is read.
const ANSWER_MAX: usize = 16 << 10;

/// When requests begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pace {
    /// As soon as a connection is free.
    Closed,
    /// So many a second, whatever the answers do: waiting for a free connection counts as latency.
    Open(f64),
}

/// What is asked of the server.
pub(super) struct Load<'a> {
    pub(super) address: SocketAddr,
    pub(super) path: &'a str,
    pub(super) source: &'a Source,
    pub(super) now: &'a dyn Fn() -> Timestamp,
    pub(super) connections: usize,
    pub(super) pace: Pace,
    pub(super) measured: Duration,
    /// How long is waited at the end for what is under way, at [`Pace::Open`].
    pub(super) patience: Duration,
    /// How many events are acknowledged and not decided.
    pub(super) backlog: &'a dyn Fn() -> u64,
    /// No request begins while the backlog is longer.
    pub(super) backlog_max: u64,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) seconds: f64,
    /// Answers 200.
    pub(super) acknowledged: u64,
    /// Other answers by status; 0 for connections that broke.
    pub(super) refused: BTreeMap<u16, u64>,
    /// How many microseconds each answer took, sorted; of one that did not come, how long it was waited for. None are kept
    /// at full load, where they say only how many wait.
    pub(super) latencies: Vec<u32>,
    /// The backlog at the beginning and at the end.
    pub(super) backlog: (u64, u64),
}

struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    written: usize,
    answer: Vec<u8>,
    /// When the request was due.
    due: Instant,
}

/// One run of the load.
struct Running<'a, 'e> {
    load: &'a Load<'a>,
    events: &'e mut Events,
    poll: Poll,
    connections: Vec<Connection>,
    /// Those that wait for a request, the longest first: the server would close one that it never hears of.
    idle: VecDeque<usize>,
    measured: Measured,
    from: Instant,
    next_due: Instant,
    held: bool,
    looked: Instant,
    /// Whether what is measured is over: answers are waited for, and nothing begins.
    over: bool,
}

impl Measured {
    /// Acknowledgements a second.
    #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "counts of a few minutes")]
    pub(super) fn rate(&self) -> f64 {
        self.acknowledged as f64 / self.seconds
    }

    /// Decisions a second: what was acknowledged, less what the backlog grew by.
    #[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "counts of a few minutes")]
    pub(super) fn decided_rate(&self) -> f64 {
        let decided = (self.acknowledged + self.backlog.0).saturating_sub(self.backlog.1);
        decided as f64 / self.seconds
    }

    /// Takes another stretch of the same load to this one.
    pub(super) fn join(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.acknowledged += other.acknowledged;
    }

    /// The latency that this share of the answers did not exceed, in milliseconds.
    pub(super) fn latency_ms(&self, per_mille: usize) -> f64 {
        let at = (self.latencies.len() * per_mille).div_ceil(1000).saturating_sub(1);
        self.latencies.get(at).map_or(0.0, |micros| f64::from(*micros) / 1000.0)
    }
}

impl Load<'_> {
    /// Runs it to its end.
    pub(super) fn run(&self, events: &mut Events) -> io::Result<Measured> {
        let mut poll = Poll::new()?;
        let mut connections = Vec::with_capacity(self.connections);
        for number in 0..self.connections {
            connections.push(Connection::open(self.address, &mut poll, number)?);
        }
        let now = Instant::now();
        let mut running = Running {
            load: self,
            events,
            poll,
            idle: (0..connections.len()).collect(),
            connections,
            measured: Measured::default(),
            from: now + WARM_UP,
            next_due: now,
            held: false,
            looked: now,
            over: false,
        };
        running.run()?;
        Ok(running.measured)
    }
}

impl Running<'_, '_> {
    fn run(&mut self) -> io::Result<()> {
        let mut ready = mio::Events::with_capacity(self.connections.len().max(1));
        let end = self.from + self.load.measured;
        let mut began = false;
        loop {
            let now = Instant::now();
            if now >= end {
                break;
            }
            if !began && now >= self.from {
                began = true;
                self.measured.backlog.0 = (self.load.backlog)();
            }
            if now.duration_since(self.looked) >= LOOK_EVERY {
                self.looked = now;
                self.held = (self.load.backlog)() > self.load.backlog_max;
            }
            self.begin_requests(now)?;
            self.wait(&mut ready)?;
            for event in &ready {
                self.go_on(event.token().0)?;
            }
        }
        self.measured.backlog.1 = (self.load.backlog)();
        self.measured.seconds = self.from.elapsed().as_secs_f64();
        self.over = true;
        if let Pace::Open(rate) = self.load.pace {
            self.outwait(&mut ready, end)?;
            self.overdue(end, Duration::from_secs_f64(1.0 / rate));
        }
        self.measured.latencies.sort_unstable();
        Ok(())
    }

    /// Waits for the answers that are under way: the slowest are among them.
    fn outwait(&mut self, ready: &mut mio::Events, end: Instant) -> io::Result<()> {
        while self.idle.len() < self.connections.len() && Instant::now() < end + self.load.patience {
            self.wait(ready)?;
            for event in &*ready {
                self.go_on(event.token().0)?;
            }
        }
        Ok(())
    }

    /// What was due before the end and has no answer took as long as until now, at least.
    fn overdue(&mut self, end: Instant, step: Duration) {
        let now = Instant::now();
        let under_way = self.connections.iter().filter(|connection| !connection.out.is_empty());
        let never_begun = std::iter::successors(Some(self.next_due), |due| Some(*due + step));
        let due = under_way.map(|connection| connection.due).chain(never_begun.take_while(|due| *due < end));
        self.measured.latencies.extend(due.map(|due| micros(now.duration_since(due))));
    }

    /// Begins every request that is due and has a connection.
    fn begin_requests(&mut self, now: Instant) -> io::Result<()> {
        while !self.held && !self.idle.is_empty() {
            let due = match self.load.pace {
                Pace::Closed => now,
                Pace::Open(_) if self.next_due > now => break,
                Pace::Open(rate) => {
                    let due = self.next_due;
                    self.next_due += Duration::from_secs_f64(1.0 / rate);
                    due
                }
            };
            let Some(number) = self.idle.pop_front() else { break };
            let Some(connection) = self.connections.get_mut(number) else { continue };
            self.events.request(self.load.source, self.load.path, (self.load.now)(), &mut connection.out);
            (connection.written, connection.due) = (0, due);
            connection.answer.clear();
            self.go_on(number)?;
        }
        Ok(())
    }

    fn wait(&mut self, ready: &mut mio::Events) -> io::Result<()> {
        let busy = self.idle.len() < self.connections.len();
        let soon = matches!(self.load.pace, Pace::Open(_)) && !self.idle.is_empty() && !self.held && !self.over;
        if soon || !busy {
            self.poll.poll(ready, Some(Duration::ZERO))?;
            if ready.is_empty() {
                std::thread::sleep(NAP);
            }
            return Ok(());
        }
        match self.poll.poll(ready, Some(LOOK_EVERY)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            polled => polled,
        }
    }

    /// Writes what is left of a request, and reads what there is of its answer.
    fn go_on(&mut self, number: usize) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(number) else { return Ok(()) };
        let status = match connection.go_on() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status,
            Err(_) => {
                *connection = Connection::open(self.load.address, &mut self.poll, number)?;
                0
            }
        };
        let now = Instant::now();
        if now >= self.from {
            if status == 200 {
                self.measured.acknowledged += u64::from(!self.over);
                if matches!(self.load.pace, Pace::Open(_)) {
                    self.measured.latencies.push(micros(now.duration_since(connection.due)));
                }
            } else {
                *self.measured.refused.entry(status).or_default() += 1;
            }
        }
        self.idle.push_back(number);
        Ok(())
    }
}

fn micros(took: Duration) -> u32 {
    u32::try_from(took.as_micros()).unwrap_or(u32::MAX)
}

impl Connection {
    fn open(address: SocketAddr, poll: &mut Poll, number: usize) -> io::Result<Self> {
        let mut stream = TcpStream::from_std({
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nonblocking(true)?;
            stream
        });
        stream.set_nodelay(true)?;
        poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
        let out = Vec::new();
        Ok(Self { stream, out, written: 0, answer: Vec::with_capacity(ANSWER_MAX), due: Instant::now() })
    }

    /// The status of the answer, once it is there.
    fn go_on(&mut self) -> io::Result<Option<u16>> {
        if self.out.is_empty() {
            return Ok(None);
        }
        while let Some(rest) = self.out.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            if self.written == self.out.len() {
                // The answer cannot be there yet: the next wait tells.
                return Ok(None);
            }
        }
        let mut part = [0_u8; 2048];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => self.answer.extend_from_slice(part.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            if let Some(status) = status_of(&self.answer)? {
                self.out.clear();
                return Ok(Some(status));
            }
            if self.answer.len() > ANSWER_MAX {
                return Err(io::Error::other("the answer is too long"));
            }
        }
    }
}

/// The status of an answer that is there as a whole.
fn status_of(answer: &[u8]) -> io::Result<Option<u16>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head_len) = head.parse(answer).map_err(io::Error::other)? else { return Ok(None) };
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok()).unwrap_or(0);
    Ok(head.code.filter(|_| answer.len() >= head_len + length))
}

#[cfg(test)]
mod tests;
