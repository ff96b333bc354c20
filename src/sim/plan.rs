//! What a seed stands for: how the world is, how small the bounds are, what goes wrong.

use std::collections::BTreeMap;
use std::time::Duration;

use super::planted::Planted;
use crate::domain::SourceName;
use crate::engine::settings::Settings;
use crate::machine::Schedule as Retries;
use crate::store::Options;
use crate::store::disk::sim::Dice;

/// How the clocks of upstreams are, against `clock_skew`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clocks {
    /// Clock error, read lag and one second together stay within it.
    Within,
    /// They do not: nothing is promised of final states.
    Beyond,
}

/// What a seed stands for.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one thing goes wrong, whatever the others do")]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) clocks: Clocks,
    /// Whether an upstream can be asked. Without one the keys are strict.
    pub(crate) asked: bool,
    pub(crate) entities: u64,
    pub(crate) read_lag_ms: u64,
    /// How far the upstream's `Date` is off.
    pub(crate) date_off_ms: i64,
    /// In how many of a hundred requests and answers the network loses one.
    pub(crate) lost: u64,
    /// In how many of a hundred answers the upstream fails, in a manner of its own.
    pub(crate) upstream_fails: u64,
    /// How often the upstream is away for a while.
    pub(crate) outages: u64,
    /// How many times the process dies.
    pub(crate) crashes: u64,
    /// How many times it is asked to stop in order.
    pub(crate) drains: u64,
    pub(crate) disk_errors: bool,
    pub(crate) disk_full: bool,
    /// Whether the view is lost, replaced by an older one or damaged between two lives.
    pub(crate) view_meddled: bool,
    /// Whether the decider panics now and then.
    pub(crate) panics: bool,
    /// Whether senders give an event up soon.
    pub(crate) gives_up: bool,
    pub(crate) operator: bool,
    /// Whether all begins at once, and what is sent twice comes together.
    pub(crate) burst: bool,
    /// Whether answers of the upstream take long, and things move meanwhile.
    pub(crate) sluggish: bool,
    /// How many questions a second the upstream answers.
    pub(crate) upstream_rate: Option<u64>,
    /// Whether sealed segments are pruned.
    pub(crate) prunes: bool,
    /// How many times slower than usual the process works.
    pub(crate) slow: u64,
    pub(crate) options: Options,
    pub(crate) settings: Settings,
    /// The fault that is planted, to see that it is found.
    pub(crate) planted: Option<Planted>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let mut dice = Dice(seed ^ 0x7011_6a7e);
        let mut one_in = |n: u64| dice.roll(n) == 0;
        let clocks = if one_in(5) { Clocks::Beyond } else { Clocks::Within };
        let asked = !one_in(4);
        let (meddled, panics, gives_up, operator) = (one_in(4), one_in(6), one_in(6), one_in(3));
        let (burst, slow) = (one_in(2), if one_in(3) { 15 } else { 1 });
        let (sluggish, prunes) = (asked && one_in(2), one_in(2));
        let (disk_errors, disk_full, dies) = (one_in(4), one_in(5), !one_in(4));
        let within = |dice: &mut Dice, from: u64, to: u64| from + dice.roll(to - from + 1);
        let (lag, off) = match clocks {
            Clocks::Within => [(0, 0), (0, 3000), (2000, 0), (2000, 1900)][usize::try_from(dice.roll(4)).unwrap()],
            Clocks::Beyond => [(8000, 0), (2000, 6000)][usize::try_from(dice.roll(2)).unwrap()],
        };
        let off = i64::try_from(dice.roll(2 * off + 1)).unwrap() - i64::try_from(off).unwrap();
        Self {
            seed,
            clocks,
            asked,
            entities: within(&mut dice, 1, if burst { 8 } else { 5 }),
            read_lag_ms: lag,
            date_off_ms: off,
            lost: [0, 5, 30][usize::try_from(dice.roll(3)).unwrap()],
            upstream_fails: [0, 10, 40][usize::try_from(dice.roll(3)).unwrap()],
            outages: dice.roll(3),
            crashes: if dies { within(&mut dice, 1, 6) } else { 0 },
            drains: dice.roll(3),
            disk_errors,
            disk_full,
            view_meddled: meddled,
            panics,
            gives_up,
            operator,
            burst,
            sluggish,
            upstream_rate: [None, None, Some(1), Some(3)][usize::try_from(dice.roll(4)).unwrap()],
            prunes,
            slow,
            options: options(&mut dice),
            settings: settings(&mut dice),
            planted: None,
        }
    }
}

/// Options that are met: every bound is small in some seeds.
fn options(dice: &mut Dice) -> Options {
    let mut pick = |values: &[usize]| values[usize::try_from(dice.roll(u64::try_from(values.len()).unwrap())).unwrap()];
    let mut options = Options {
        shards: Some(u16::try_from(pick(&[1, 2, 4])).unwrap()),
        waiting: pick(&[2, 8, 64]),
        group_bytes: pick(&[1, 2000, 100_000]),
        window_events: pick(&[1, 3, 10, 1000]),
        window_decoded_bytes: pick(&[0, 3000, 1 << 20]),
        entities_bytes: pick(&[1, 2000, 1 << 20]),
        overlay_bytes: pick(&[1, 4000, 1 << 20]),
        batch_keys: pick(&[1, 3, 200]),
        // In what order several threads come to the disks the dice do not say.
        rebuild_threads: 1,
        prove_at_once_pairs: if pick(&[0, 1]) == 0 { 0 } else { 1 << 20 },
        ..Options::default()
    };
    options.journal.segment_bytes = u64::try_from(pick(&[1500, 4000, 60_000])).unwrap();
    options
}

fn settings(dice: &mut Dice) -> Settings {
    let mut pick = |values: &[u64]| values[usize::try_from(dice.roll(u64::try_from(values.len()).unwrap())).unwrap()];
    Settings {
        clock_skew: Duration::from_secs(5),
        confirm_after: Duration::from_secs(15),
        retry: Retries { first: Duration::from_secs(pick(&[1, 5])), max: Duration::from_secs(60), attempts: 8 },
        retry_by_source: BTreeMap::<SourceName, Retries>::new(),
        turn_events_max: usize::try_from(pick(&[1, 3, 100])).unwrap(),
        actors_max: usize::try_from(pick(&[1, 4, 100])).unwrap(),
        idle_after: Duration::from_secs(pick(&[1, 30])),
        tick: Duration::from_millis(pick(&[200, 1000])),
        fetches_max: usize::try_from(pick(&[1, 4])).unwrap(),
        breaker_failures: u32::try_from(pick(&[2, 5])).unwrap(),
        breaker_open: Duration::from_secs(pick(&[2, 10])),
    }
}
