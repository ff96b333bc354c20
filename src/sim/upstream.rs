//! The simulated upstream: it moves with the history, and its reads lag, its clock is off, it errs, is slow or is away.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::account::Account;
use super::plan::Plan;
use super::truth::Thing;
use crate::domain::Timestamp;
use crate::engine::clock::Clock;
use crate::engine::upstream::{Answered, Unanswered, Upstream};
use crate::source::Request;
use crate::store::disk::sim::Dice;

/// The upstream of every source.
pub(crate) struct SimUpstream {
    pub(crate) things: Arc<Vec<Thing>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) account: Account,
    pub(crate) dice: Mutex<Dice>,
    pub(crate) read_lag_ms: u64,
    pub(crate) date_off_ms: i64,
    pub(crate) fails: u64,
    /// When it is away.
    pub(crate) outages: Vec<(Timestamp, Timestamp)>,
    /// Whether it fails no more.
    pub(crate) calm: Arc<AtomicBool>,
    /// Whether all its answers take long.
    sluggish: bool,
    /// How many questions a second are answered, and how many came in which second.
    rate: Option<u64>,
    second: Mutex<(i64, u64)>,
    /// How often each thing was asked for, but for what came too soon after others.
    pub(crate) asked: Mutex<Vec<u64>>,
}

impl SimUpstream {
    pub(crate) fn new(
        plan: &Plan,
        things: Arc<Vec<Thing>>,
        clock: Arc<dyn Clock>,
        account: Account,
        calm: Arc<AtomicBool>,
    ) -> Self {
        let mut dice = Dice(plan.seed ^ 0x00f5_7ea3);
        let outage = |_| {
            let from = clock.now().plus(Duration::from_millis(dice.roll(60_000)));
            (from, from.plus(Duration::from_millis(1000 + dice.roll(90_000))))
        };
        let outages = (0..plan.outages).map(outage).collect();
        let asked = Mutex::new(vec![0; things.len()]);
        let (read_lag_ms, date_off_ms, fails) = (plan.read_lag_ms, plan.date_off_ms, plan.upstream_fails);
        Self {
            things,
            clock,
            account,
            dice: Mutex::new(dice),
            read_lag_ms,
            date_off_ms,
            fails,
            outages,
            calm,
            sluggish: plan.sluggish,
            rate: plan.upstream_rate,
            second: Mutex::default(),
            asked,
        }
    }

    fn roll(&self, sides: u64) -> u64 {
        self.dice.lock().unwrap().roll(sides)
    }

    async fn wait(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn is_away(&self) -> bool {
        let now = self.clock.now();
        !self.calm.load(Ordering::SeqCst) && self.outages.iter().any(|(from, to)| (*from..*to).contains(&now))
    }

    /// Whether more is asked in this second than is answered. It has this limit in calm too.
    fn is_over_rate(&self) -> bool {
        let (now, mut second) = (self.clock.now().secs(), self.second.lock().unwrap());
        *second = if second.0 == now { (now, second.1 + 1) } else { (now, 1) };
        self.rate.is_some_and(|rate| second.1 > rate)
    }

    /// Fails in a manner of its own, or not.
    async fn fail(&self, request: &Request, thing: &Thing) -> Option<Result<Answered, Unanswered>> {
        if self.calm.load(Ordering::SeqCst) || self.roll(100) >= self.fails {
            return None;
        }
        let status = |status: u16, body: &'static str, retry_after| {
            let body = Bytes::from_static(body.as_bytes());
            Ok(Answered { status, body, date: None, to_headers: Duration::ZERO, retry_after })
        };
        Some(match self.roll(6) {
            0 => {
                self.account.count("upstream too slow");
                tokio::time::sleep(request.timeout).await;
                Err(Unanswered("no answer within the timeout".to_owned()))
            }
            1 => {
                self.account.count("upstream 429");
                status(429, "", (self.roll(2) == 0).then(|| Duration::from_secs(1 + self.roll(5))))
            }
            2 => {
                self.account.count("upstream 503 with a time");
                status(503, "", Some(Duration::from_secs(2)))
            }
            3 => {
                self.account.count("upstream 500");
                status(500, "oops", None)
            }
            // A second one would make it gone where that is a state.
            4 if thing.gone.is_none() => {
                self.account.count("upstream 404 of something that is there");
                status(404, "{}", None)
            }
            _ => {
                self.account.count("upstream answer malformed");
                status(200, "<html>", None)
            }
        })
    }
}

#[async_trait]
impl Upstream for SimUpstream {
    async fn ask(&self, request: &Request) -> Result<Answered, Unanswered> {
        let id = request.url.rsplit('/').next().unwrap();
        let nth = self.things.iter().position(|thing| thing.id == id).unwrap();
        self.account.count("fetch");
        let (there, back) = (self.roll(150), self.roll(150));
        self.wait(there).await;
        if self.is_over_rate() {
            self.account.count("upstream limit met");
            let retry_after = Some(Duration::from_secs(1 + self.roll(3)));
            return Ok(Answered {
                status: 429,
                body: Bytes::new(),
                date: None,
                to_headers: Duration::ZERO,
                retry_after,
            });
        }
        self.asked.lock().unwrap()[nth] += 1;
        if self.is_away() {
            self.account.count("upstream away");
            return Err(Unanswered("could not connect".to_owned()));
        }
        if let Some(failed) = self.fail(request, &self.things[nth]).await {
            return failed;
        }
        let now = self.clock.now();
        let read_at = now.minus(Duration::from_millis(self.roll(self.read_lag_ms + 1)));
        let step = self.things[nth].step_at(read_at);
        let (status, body) = match self.things[nth].answer(step) {
            Some(body) => (200, body),
            None => (404, "{}".to_owned()),
        };
        self.account.say(|| format!("upstream: {id} {status} {body}, as of {} ms ago", now.since(read_at).as_millis()));
        // A slow answer was true when it was begun, and is dated when its head is written.
        let slow = match self.roll(2) {
            _ if self.sluggish => 4000 + self.roll(5000),
            0 => self.roll(9000),
            _ => 0,
        };
        self.wait(slow).await;
        if self.things[nth].step_at(self.clock.now()) > step {
            self.account.count("move during a slow answer");
        }
        let stamped = self.clock.now().nanos() + self.date_off_ms * 1_000_000;
        let date = Timestamp::from_secs(Timestamp::from_nanos(stamped).secs());
        self.wait(back).await;
        let to_headers = Duration::from_millis(there + back + slow);
        Ok(Answered { status, body: Bytes::from(body), date: Some(date), to_headers, retry_after: None })
    }
}
