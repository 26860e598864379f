//! Throughput and p99 within a stretch of time: each point with its figures, and a link to its trial.

use super::scale::{Scale, tick_text};
use super::timeline::{Limits, grid, rate, timed};
use super::{Anchor, Canvas, Look, escape};
use tare_core::load::SecondRow;
use tare_core::units::grouped;

const WIDTH: f64 = 760.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const PLOT: f64 = 130.0;
const GAP: f64 = 34.0;
const TOP: f64 = 18.0;
const AXIS: f64 = 34.0;
/// Points of a plot, about at most: of more seconds than these, several are drawn as one point.
const POINTS_MOST: usize = 1500;
/// Points up to which they are large.
const FEW: usize = 200;

/// A trial of a closer look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CloseTrial<'a> {
    /// Its number in the record.
    pub index: u32,
    /// Where a click on one of its points leads to.
    pub link: &'a str,
    /// Its seconds.
    pub seconds: &'a [SecondRow],
}

/// A stretch of time, s from the start of measuring. What settled lies before 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

impl Stretch {
    /// All of these trials; none if they have no seconds.
    pub fn of(trials: &[CloseTrial<'_>]) -> Option<Stretch> {
        let times = trials.iter().flat_map(|trial| timed(trial.seconds)).map(|(at_s, row)| (at_s - row.seconds, at_s));
        times.fold(None, |all: Option<Stretch>, (from, to)| {
            Some(all.map_or(Stretch { from, to }, |all| Stretch { from: all.from.min(from), to: all.to.max(to) }))
        })
    }

    fn holds(&self, at_s: f64) -> bool {
        self.from <= at_s && at_s <= self.to
    }

    /// What of these trials lies in it, row by row.
    fn rows<'a>(self, trial: &CloseTrial<'a>) -> impl Iterator<Item = (f64, &'a SecondRow)> {
        timed(trial.seconds).filter(move |(at_s, _)| self.holds(*at_s))
    }

    /// The highest values in it, of these trials and of those before.
    pub(crate) fn limits(self, trials: &[CloseTrial<'_>], before: Limits) -> Limits {
        trials.iter().flat_map(|trial| self.rows(trial)).fold(before, |limits, (_, row)| Limits {
            throughput: limits.throughput.max(rate(row)),
            p99_us: limits.p99_us.max(row.p99_us),
            ..limits
        })
    }
}

/// One or several seconds of a trial.
struct Point {
    /// When they ended: the first and the last of them.
    first_s: f64,
    last_s: f64,
    /// The mean rate, and the highest p99.
    rate: f64,
    p99_us: f64,
    errors: u64,
    measured: bool,
}

impl Point {
    fn of(rows: &[(f64, &SecondRow)]) -> Option<Point> {
        let (&(first_s, first), &(last_s, _)) = (rows.first()?, rows.last()?);
        let sum = |of: &dyn Fn(&SecondRow) -> f64| rows.iter().map(|&(_, row)| of(row)).sum::<f64>();
        let seconds = sum(&|row| row.seconds);
        Some(Point {
            first_s,
            last_s,
            rate: if seconds > 0.0 { sum(&|row| row.operations as f64) / seconds } else { 0.0 },
            p99_us: rows.iter().map(|(_, row)| row.p99_us).fold(0.0, f64::max),
            errors: rows.iter().fold(0_u64, |errors, (_, row)| errors.saturating_add(row.errors)),
            measured: first.measured,
        })
    }

    /// All that is said of it.
    fn label(&self, trial: &CloseTrial<'_>, rate_unit: &str) -> String {
        let Point { first_s, last_s, rate, p99_us, errors, .. } = self;
        let stage = if self.measured { "" } else { ", settling" };
        let failed = if *errors > 0 { format!("\n{} failed", grouped(*errors as f64)) } else { String::new() };
        let (rate, p99) = (grouped(*rate), format!("{p99_us:.1} \u{b5}s"));
        let index = trial.index;
        if first_s == last_s {
            let when = format!("the second until {last_s:.1} s");
            return format!("trial {index}{stage}, {when}\n{rate} {rate_unit}\np99 {p99}{failed}");
        }
        let when = format!("the seconds until {first_s:.1} to {last_s:.1} s");
        format!("trial {index}{stage}, {when}\n{rate} {rate_unit} on average\np99 {p99} at most{failed}")
    }
}

/// Points of a trial, each of so many seconds or fewer. None is of seconds that settled and of others.
fn points(trial: &CloseTrial<'_>, stretch: Stretch, together: usize) -> Vec<Point> {
    let rows: Vec<(f64, &SecondRow)> = stretch.rows(trial).collect();
    let alike = rows.chunk_by(|(_, one), (_, other)| one.measured == other.measured);
    alike.flat_map(|rows| rows.chunks(together)).filter_map(Point::of).collect()
}

/// Title, highest value, and how the value is read.
type Plot<'a> = (&'a str, f64, &'a dyn Fn(&Point) -> f64);

/// One arm's trials within a stretch of time; settling is drawn pale. `rate_unit` is that of the throughput.
pub(crate) fn closer(
    look: &Look,
    trials: &[CloseTrial<'_>],
    stretch: Stretch,
    limits: Limits,
    rate_unit: &str,
) -> String {
    let height = TOP + 2.0 * PLOT + GAP + AXIS;
    let mut canvas = Canvas::new(WIDTH, height);
    let x = Scale::linear(stretch.from, stretch.to, LEFT, WIDTH - RIGHT);
    let seen = trials.iter().map(|trial| stretch.rows(trial).count()).sum::<usize>();
    let together = seen.div_ceil(POINTS_MOST).max(1);
    let lines: Vec<(&CloseTrial<'_>, Vec<Point>)> =
        trials.iter().map(|trial| (trial, points(trial, stretch, together))).collect();
    let radius = if seen.min(POINTS_MOST) > FEW { 1.8 } else { 2.8 };
    let (divisor, unit) = if limits.p99_us >= 1e3 { (1e3, "ms") } else { (1.0, "\u{b5}s") };
    let speed = |point: &Point| point.rate;
    let p99 = |point: &Point| point.p99_us / divisor;
    let plots: [Plot<'_>; 2] = [
        (&format!("throughput, {rate_unit}"), limits.throughput, &speed),
        (&format!("p99, {unit}"), limits.p99_us / divisor, &p99),
    ];
    for (number, (title, highest, value)) in plots.iter().enumerate() {
        let top = TOP + number as f64 * (PLOT + GAP);
        let y = grid(&mut canvas, (LEFT, WIDTH - RIGHT), (top, top + PLOT), title, *highest);
        for (trial, points) in &lines {
            let place = |point: &Point| (x.place(point.last_s), y.place(value(point)));
            let line = |measured: bool| points.iter().filter(move |point| point.measured == measured).map(place);
            let (settling, measured): (Vec<_>, Vec<_>) = (line(false).collect(), line(true).collect());
            canvas.polyline(&settling, &format!("{} stroke thin pale", look.class()));
            canvas.polyline(&measured, &format!("{} stroke thin", look.class()));
            for point in points {
                let (link, label) = (escape(trial.link), escape(&point.label(trial, rate_unit)));
                canvas.push(format_args!("<a href=\"{link}\" tabindex=\"-1\"><title>{label}</title>"));
                let pale = if point.measured { "" } else { " pale" };
                canvas.circle(place(point), radius, &format!("{}{pale}", look.filled()), "");
                canvas.push(format_args!("</a>"));
            }
        }
    }
    let bottom = height - AXIS;
    for tick in x.ticks(8) {
        canvas.text(x.place(tick), bottom + 14.0, Anchor::Middle, "tick", &tick_text(tick));
    }
    canvas.text((LEFT + WIDTH) / 2.0, bottom + 28.0, Anchor::Middle, "axis", "seconds since measuring began");
    canvas.finish(&format!("Throughput and p99 of {} over time, each trial a line, each point a link to it", look.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(count: u64) -> Vec<SecondRow> {
        let row = |second: u64| SecondRow {
            at_ns: second * 1_000_000_000,
            measured: second > 2,
            seconds: 1.0,
            operations: 1000 + second,
            p99_us: 500.0 + second as f64,
            ..SecondRow::default()
        };
        (1..=count).map(row).collect()
    }

    fn drawn(trial: CloseTrial<'_>, stretch: Stretch) -> String {
        let look = Look { name: "<b>".into(), colour: 1, hollow: false, hatched: false };
        closer(&look, &[trial], stretch, stretch.limits(&[trial], Limits::default()), "op/s")
    }

    #[test]
    fn each_second_of_the_stretch_has_its_figures_and_a_link() {
        let seconds = rows(12);
        let trial = CloseTrial { index: 7, link: "/t?run=a\"b", seconds: &seconds };
        // The first two seconds settled.
        let whole = Stretch::of(&[trial]).unwrap();
        assert_eq!(whole, Stretch { from: -2.0, to: 10.0 });
        let all = drawn(trial, whole);
        assert_eq!(all.matches("<circle").count(), 24, "{all}");
        assert_eq!(all.matches("fill pale\"").count(), 4, "{all}");
        assert!(all.contains("href=\"/t?run=a&quot;b\"") && !all.contains("<b>"), "{all}");
        let part = drawn(trial, Stretch { from: 2.5, to: 5.0 });
        assert_eq!(part.matches("<circle").count(), 6, "{part}");
        let said = "<title>trial 7, the second until 3.0 s\n1,005 op/s\np99 505.0 \u{b5}s</title>";
        assert!(part.contains(said), "{part}");
    }

    #[test]
    fn many_seconds_are_drawn_as_few_points_and_anything_within_bounds() {
        let mut seconds = rows(40_000);
        let trial = CloseTrial { index: 0, link: "/", seconds: &seconds };
        let markup = drawn(trial, Stretch::of(&[trial]).unwrap());
        assert!(markup.matches("<circle").count() <= 2 * (POINTS_MOST + 2) && markup.contains("on average"), "many");
        assert!(Stretch::of(&[CloseTrial { seconds: &[], ..trial }]).is_none());
        (seconds[3].p99_us, seconds[4].operations, seconds[5].at_ns) = (1e308, u64::MAX, u64::MAX);
        let trial = CloseTrial { index: 0, link: "/", seconds: &seconds[..9] };
        for stretch in [Stretch::of(&[trial]).unwrap(), Stretch { from: f64::MIN, to: f64::MAX }] {
            assert!(drawn(trial, stretch).len() < 1 << 16);
        }
    }
}
