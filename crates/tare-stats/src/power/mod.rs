//! What a run will show, before it is carried out: from how ratios varied in a calibration and in earlier runs, and
//! from what deploying and measuring cost, how wide intervals will be after how long, and when they are narrow.
//!
//! How long each deployment is best measured follows from the same: T. Kalibera and R. Jones, ISMM (2013). Where
//! deployments differ much, time is better spent on more of them; where deploying is dear, on measuring each longer.

mod length;
mod seen;
mod spread;
mod width;

pub use length::best_length_s;
pub use seen::{Seen, seen};
pub use spread::{MeanSquare, Range, Spread};
pub use width::expected_half_width;

use crate::family::Family;
use serde::Serialize;
use width::blocks_until;

/// Lengths of a measurement that are tried, s.
const LENGTHS_S: [f64; 14] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 45.0, 60.0];

/// Another length is named where it takes no more than this share of the time.
const WORTH_IT: f64 = 0.8;

/// What a run costs, s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Costs {
    /// What is done once.
    pub begin_s: f64,
    /// A round, beside measuring: deploying, settling, taking down.
    pub round_s: f64,
    /// How many deployments of a round are measured.
    pub deployments: f64,
}

impl Costs {
    /// How long a run of so many blocks takes, each deployment measured for `measure_s`.
    pub fn time_s(&self, blocks: u32, measure_s: f64) -> f64 {
        self.begin_s + f64::from(blocks) * (self.round_s + self.deployments * measure_s)
    }

    /// How many whole blocks fit.
    pub fn blocks_within(&self, time_s: f64, measure_s: f64) -> u32 {
        let each_s = self.round_s + self.deployments * measure_s;
        ((time_s - self.begin_s).max(0.0) / each_s + 1e-9).floor() as u32
    }
}

/// What is asked of a run that is still to come.
#[derive(Debug, Clone, PartialEq)]
pub struct Ahead {
    /// The half-width that is wanted, as a share.
    pub asked: f64,
    /// The times of which is said what they show, s.
    pub times_s: Vec<f64>,
    /// How long each deployment is measured, s.
    pub measure_s: f64,
    /// What it costs.
    pub costs: Costs,
}

/// What a run will show of one form, in one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: String,
    /// Its title, for readers.
    pub title: String,
    /// By time that was asked about: the half-width of the ratio's interval, as a share; none where too few blocks fit
    /// for one.
    pub half_widths: Vec<Option<Range>>,
    /// After how long it is as narrow as was asked for, s.
    pub until_s: Range,
    /// How much of a block's variance differs between deployments, at the length that is measured; none where nobody
    /// knows.
    pub between: Option<f64>,
}

/// Measuring each deployment for another time than the study says.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Better {
    /// How long, s.
    pub measure_s: f64,
    /// After how long all is as narrow as was asked for, s.
    pub until_s: Range,
}

/// What a run will show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Power {
    /// The half-width that is wanted, as a share.
    pub asked: f64,
    /// The times of which is said what they show, s.
    pub times_s: Vec<f64>,
    /// By time: how many blocks fit into it.
    pub blocks: Vec<u32>,
    /// How long each deployment is measured, s.
    pub measure_s: f64,
    /// What it costs.
    pub costs: Costs,
    /// By metric, in the order of the forms.
    pub rows: Vec<Row>,
    /// After how long all of them are as narrow as was asked for, s.
    pub until_s: Range,
    /// How long it would be better to measure, where that makes a difference.
    pub better: Option<Better>,
}

/// What a run will show; none where nothing is known of how its ratios vary.
pub fn power(seen: &[Seen], ahead: &Ahead) -> Option<Power> {
    let known = Known::of(seen);
    let until_s = known.until_s(ahead, ahead.measure_s)?;
    let blocks: Vec<u32> =
        ahead.times_s.iter().map(|time_s| ahead.costs.blocks_within(*time_s, ahead.measure_s)).collect();
    let rows = known.0.iter().filter_map(|(seen, level)| row(seen, *level, ahead, &blocks)).collect();
    let better = known.better(ahead, until_s);
    let (asked, times_s, measure_s, costs) = (ahead.asked, ahead.times_s.clone(), ahead.measure_s, ahead.costs);
    Some(Power { asked, times_s, blocks, measure_s, costs, rows, until_s, better })
}

fn row(seen: &Seen, level: f64, ahead: &Ahead, blocks: &[u32]) -> Option<Row> {
    let variance = seen.spread.at(ahead.measure_s)?;
    let reach = |blocks: u32| {
        expected_half_width(variance.likely, blocks, level)?;
        let reach = |variance| expected_half_width(variance, blocks, level).map_or(0.0, f64::exp_m1);
        Some(variance.map(reach))
    };
    let inner = seen.spread.within.map(|within| within.value / ahead.measure_s);
    Some(Row {
        arm: seen.arm.clone(),
        metric: seen.metric.clone(),
        title: seen.title.clone(),
        half_widths: blocks.iter().map(|blocks| reach(*blocks)).collect(),
        until_s: until_s(variance, level, ahead, ahead.measure_s),
        between: inner.map(|inner| (1.0 - inner / variance.likely).clamp(0.0, 1.0)),
    })
}

/// After how long a ratio of this variance is known as exactly as was asked for, s.
fn until_s(variance: Range, level: f64, ahead: &Ahead, measure_s: f64) -> Range {
    variance.map(|variance| ahead.costs.time_s(blocks_until(variance, ahead.asked.ln_1p(), level), measure_s))
}

/// What is known of each ratio, with the level of its interval: that is shared out over the forms of a metric.
struct Known<'a>(Vec<(&'a Seen, f64)>);

impl Known<'_> {
    fn of(seen: &[Seen]) -> Known<'_> {
        let forms = |metric: &str| seen.iter().filter(|other| other.metric == metric).count() as u32;
        Known(seen.iter().map(|seen| (seen, Family::level(forms(&seen.metric)))).collect())
    }

    /// After how long all are as narrow as was asked for.
    fn until_s(&self, ahead: &Ahead, measure_s: f64) -> Option<Range> {
        let each = self
            .0
            .iter()
            .filter_map(|(seen, level)| Some(until_s(seen.spread.at(measure_s)?, *level, ahead, measure_s)));
        each.reduce(Range::max)
    }

    /// Another length that most likely takes clearly less time, and at worst no more.
    fn better(&self, ahead: &Ahead, now: Range) -> Option<Better> {
        if self.0.iter().any(|(seen, _)| seen.spread.within.is_none()) {
            return None;
        }
        let tried = LENGTHS_S
            .iter()
            .filter_map(|measure_s| Some(Better { measure_s: *measure_s, until_s: self.until_s(ahead, *measure_s)? }));
        let best = tried.min_by(|one, other| one.until_s.likely.total_cmp(&other.until_s.likely))?;
        let worth = best.until_s.likely <= WORTH_IT * now.likely && best.until_s.high <= now.high;
        worth.then_some(best)
    }
}

#[cfg(test)]
mod tests;
