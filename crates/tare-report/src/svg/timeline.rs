//! Throughput and p99, second by second, a line for each trial of an arm.

use super::scale::{Scale, tick_text};
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use tare_core::load::SecondRow;

const LEFT: f64 = 44.0;
const RIGHT: f64 = 10.0;
const PLOT: f64 = 84.0;
const GAP: f64 = 34.0;
const TOP: f64 = 18.0;
const AXIS: f64 = 32.0;

/// The highest values that the panels of several arms must show, so that they can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Limits {
    /// Operations a second.
    pub(crate) throughput: f64,
    /// us.
    pub(crate) p99_us: f64,
    /// Seconds from the start of measuring.
    pub(crate) seconds: f64,
}

impl Limits {
    /// What these trials need, and what was needed before.
    pub(crate) fn including(self, trials: &[Vec<SecondRow>]) -> Self {
        let mut limits = self;
        for (at_s, row) in trials.iter().flat_map(|trial| timed(trial)) {
            limits.throughput = limits.throughput.max(rate(row));
            limits.p99_us = limits.p99_us.max(row.p99_us);
            limits.seconds = limits.seconds.max(at_s);
        }
        limits
    }
}

/// Operations a second.
pub(super) fn rate(row: &SecondRow) -> f64 {
    if row.seconds > 0.0 { row.operations as f64 / row.seconds } else { 0.0 }
}

/// Rows with their time since measuring began, s. The last second may be so short that its rate says nothing.
pub(super) fn timed(trial: &[SecondRow]) -> impl Iterator<Item = (f64, &SecondRow)> {
    let first = trial.iter().find(|row| row.measured).or(trial.first());
    let start_ns = first.map_or(0.0, |row| row.at_ns as f64 - row.seconds * 1e9);
    trial.iter().filter(|row| row.seconds >= 0.5).map(move |row| ((row.at_ns as f64 - start_ns) / 1e9, row))
}

/// Draws the title and the grid of a plot between these edges, left and right, and top and bottom. Returns the scale of
/// its values, from 0 to a little above the highest.
pub(super) fn grid(
    canvas: &mut Canvas,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
    title: &str,
    highest: f64,
) -> Scale {
    let y = Scale::linear(0.0, highest * 1.08, bottom, top);
    canvas.text(left, top - 6.0, Anchor::Start, "axis", title);
    for tick in y.ticks(4) {
        canvas.line((left, y.place(tick)), (right, y.place(tick)), "grid");
        canvas.text(left - 5.0, y.place(tick) + 4.0, Anchor::End, "tick", &tick_text(tick));
    }
    y
}

/// Title, highest value, and how the value is read.
type Plot<'a> = (&'a str, f64, &'a dyn Fn(&SecondRow) -> f64);

/// One arm's trials; settling is drawn pale. `rate_unit` is that of the throughput.
pub(crate) fn timeline(look: &Look, trials: &[Vec<SecondRow>], limits: Limits, rate_unit: &str) -> String {
    let height = TOP + 2.0 * PLOT + GAP + AXIS;
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    let first = trials.iter().flat_map(|trial| timed(trial)).map(|(at_s, _)| at_s).fold(0.0, f64::min);
    let x = Scale::linear(first.min(0.0), limits.seconds, LEFT, PANEL_WIDTH - RIGHT);
    let (divisor, unit) = if limits.p99_us >= 1e3 { (1e3, "ms") } else { (1.0, "\u{b5}s") };
    let throughput = |row: &SecondRow| rate(row);
    let p99 = |row: &SecondRow| row.p99_us / divisor;
    let plots: [Plot<'_>; 2] = [
        (&format!("throughput, {rate_unit}"), limits.throughput, &throughput),
        (&format!("p99, {unit}"), limits.p99_us / divisor, &p99),
    ];
    for (number, (title, highest, value)) in plots.iter().enumerate() {
        let top = TOP + number as f64 * (PLOT + GAP);
        let y = grid(&mut canvas, (LEFT, PANEL_WIDTH - RIGHT), (top, top + PLOT), title, *highest);
        for trial in trials {
            let points = |measured: bool| -> Vec<(f64, f64)> {
                let rows = timed(trial).filter(|(_, row)| row.measured == measured);
                rows.map(|(at_s, row)| (x.place(at_s), y.place(value(row)))).collect()
            };
            let (mut settling, measured) = (points(false), points(true));
            settling.extend(measured.first());
            canvas.polyline(&settling, &format!("{} stroke thin pale", look.class()));
            canvas.polyline(&measured, &format!("{} stroke thin", look.class()));
        }
    }
    let bottom = height - AXIS;
    for tick in x.ticks(5) {
        canvas.text(x.place(tick), bottom + 14.0, Anchor::Middle, "tick", &tick_text(tick));
    }
    canvas.text((LEFT + PANEL_WIDTH) / 2.0, bottom + 28.0, Anchor::Middle, "axis", "seconds since measuring began");
    canvas.finish(&format!("Throughput and p99 of {} over time, each trial a line", look.name))
}
