//! A form's ratio from run to run: each run's with its whisker, what it was between two changes, and the changes.

use super::scale::{Scale, tick_text};
use super::{Anchor, Canvas, Look, escape};
use tare_stats::Interval;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 280.0;
/// From the ends of the time axis to the first and the last run.
const MARGIN: f64 = 14.0;

/// Where the labels of changes stand, which do not go over each other.
const LABEL_ROWS: [f64; 3] = [20.0, 33.0, 46.0];
/// About the width of a letter of theirs.
const LETTER: f64 = 6.4;
/// From a label of the time axis to the next one, at least.
const APART: f64 = 84.0;
/// Runs up to which dots are large.
const FEW: usize = 120;
/// Of so many ends of whiskers one is not needed on the scale: it must not be stretched by an odd one.
const ODD: usize = 50;

/// A run of the chart.
#[derive(Debug, Clone)]
pub struct SeriesDot {
    /// When it started, in days since any moment.
    pub at: f64,
    /// The day in words, for the axis.
    pub day: String,
    /// The time of that day, for runs that share it.
    pub time: String,
    /// All that is said of it.
    pub label: String,
    /// Where it leads to.
    pub link: String,
    /// The ratio.
    pub ratio: f64,
    /// Its interval.
    pub interval: Interval,
}

/// A change of the chart.
#[derive(Debug, Clone)]
pub struct SeriesMark {
    /// The place of the first run that is different, among those of the chart.
    pub at: usize,
    /// By how much, for the label.
    pub change: String,
    /// All that is said of it.
    pub label: String,
    /// Whether it is one for the better.
    pub is_better: bool,
}

/// What the ratio was between two changes.
#[derive(Debug, Clone)]
pub struct SeriesStretch {
    /// The places of its first and last run, among those of the chart.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// The ratio.
    pub ratio: f64,
    /// Its interval, if it has one.
    pub interval: Option<Interval>,
    /// All that is said of it.
    pub label: String,
}

/// A form's ratio from run to run.
#[derive(Debug, Clone)]
pub struct SeriesChart<'a> {
    /// The form.
    pub form: &'a str,
    /// Its place among the forms beside the baseline, from 1, which gives the colour.
    pub place: usize,
    /// The metric's title.
    pub metric: &'a str,
    /// Whether more of it is better.
    pub more_is_better: bool,
    /// The runs, oldest first.
    pub dots: Vec<SeriesDot>,
    /// The changes, oldest first.
    pub marks: Vec<SeriesMark>,
    /// What lies between them, oldest first.
    pub stretches: Vec<SeriesStretch>,
}

/// The scales, from moments and ratios.
struct Axes {
    x: Scale,
    y: Scale,
}

impl Axes {
    fn of(dots: &[SeriesDot]) -> Axes {
        let (from, to) = extent(dots.iter().map(|dot| dot.at));
        let mut ends: [Vec<f64>; 2] =
            [dots.iter().map(|dot| dot.interval.low).collect(), dots.iter().map(|dot| dot.interval.high).collect()];
        ends.iter_mut().for_each(|ends| ends.sort_by(f64::total_cmp));
        let odd = dots.len() / ODD;
        let usual = [ends[0].get(odd), ends[1].iter().rev().nth(odd)].into_iter().flatten().copied();
        let (low, high) = extent(dots.iter().map(|dot| dot.ratio).chain(usual));
        let pad = (high / low).powf(0.08).max(1.003);
        Axes {
            x: Scale::linear(from, to, LEFT + MARGIN, WIDTH - RIGHT - MARGIN),
            y: Scale::log(low / pad, high * pad, BOTTOM, TOP),
        }
    }

    fn moment(&self, dot: &SeriesDot) -> f64 {
        self.x.place(dot.at).clamp(LEFT, WIDTH - RIGHT)
    }

    fn level(&self, ratio: f64) -> f64 {
        self.y.place(ratio).clamp(TOP, BOTTOM)
    }

    /// Between the run at this place and the one before it; at the ends of the chart, beside the outermost.
    fn border(&self, dots: &[SeriesDot], at: usize) -> f64 {
        let before = at.checked_sub(1).and_then(|before| dots.get(before)).map(|dot| self.moment(dot));
        let after = dots.get(at).map(|dot| self.moment(dot));
        match (before, after) {
            (Some(before), Some(after)) => 0.5 * (before + after),
            (Some(before), None) => before + 0.5 * MARGIN,
            (None, after) => after.unwrap_or(LEFT) - 0.5 * MARGIN,
        }
    }
}

fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let all = values.fold(None, |all: Option<(f64, f64)>, value| {
        Some(all.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    all.unwrap_or((1.0, 1.0))
}

/// The chart, as SVG; its links and labels are escaped here.
pub fn series_chart(chart: &SeriesChart<'_>) -> String {
    let look = Look { name: chart.form.to_owned(), colour: chart.place, hollow: false, hatched: false };
    let axes = Axes::of(&chart.dots);
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    frame(&mut canvas, &axes, chart);
    for stretch in &chart.stretches {
        draw_stretch(&mut canvas, &axes, chart, stretch, &look);
    }
    draw_marks(&mut canvas, &axes, chart);
    for dot in &chart.dots {
        draw_dot(&mut canvas, &axes, dot, &look, if chart.dots.len() > FEW { 2.2 } else { 3.6 });
    }
    let (runs, changes) = (chart.dots.len(), chart.marks.len());
    canvas.finish(&format!(
        "Ratio of {} to the baseline in {} over time: {runs} runs, {changes} changes; the table below has the figures",
        chart.form, chart.metric
    ))
}

/// Lines of ratios, and days.
fn frame(canvas: &mut Canvas, axes: &Axes, chart: &SeriesChart<'_>) {
    for tick in axes.y.ticks(5) {
        let y = axes.y.place(tick);
        canvas.line((LEFT, y), (WIDTH - RIGHT, y), "grid");
        canvas.text(LEFT - 6.0, y + 4.0, Anchor::End, "tick", &tick_text(tick));
    }
    if axes.y.holds(1.0) {
        canvas.line((LEFT, axes.y.place(1.0)), (WIDTH - RIGHT, axes.y.place(1.0)), "one");
    }
    let better = if chart.more_is_better { "more is better" } else { "less is better" };
    let title = format!("times the baseline, {better}");
    canvas.text((LEFT + WIDTH - RIGHT) / 2.0, BOTTOM + 34.0, Anchor::Middle, "axis", &title);
    draw_moments(canvas, axes, &chart.dots);
}

/// Labels of the time axis: a day, then the times of further runs of that day.
fn draw_moments(canvas: &mut Canvas, axes: &Axes, dots: &[SeriesDot]) {
    let (mut free, mut day) = (f64::NEG_INFINITY, None);
    for dot in dots {
        let x = axes.moment(dot);
        if x < free {
            continue;
        }
        let label = if day == Some(&dot.day) { &dot.time } else { &dot.day };
        let half = 0.5 * LETTER * label.chars().count() as f64;
        // In the middle below its run, but never beyond the chart, where it would be cut off.
        let end = WIDTH - RIGHT;
        let (place, anchor) = if x + half > end { (end, Anchor::End) } else { (x, Anchor::Middle) };
        canvas.line((x, BOTTOM), (x, BOTTOM + 4.0), "grid");
        canvas.text(place, BOTTOM + 17.0, anchor, "tick", label);
        (free, day) = (x + APART, Some(&dot.day));
    }
}

fn draw_stretch(canvas: &mut Canvas, axes: &Axes, chart: &SeriesChart<'_>, stretch: &SeriesStretch, look: &Look) {
    let (from, to) = (axes.border(&chart.dots, stretch.first), axes.border(&chart.dots, stretch.last + 1));
    canvas.push(format_args!("<g><title>{}</title>", escape(&stretch.label)));
    if let Some(interval) = stretch.interval {
        let (top, bottom) = (axes.level(interval.high), axes.level(interval.low));
        canvas.rect((from, top), (to - from, bottom - top), &format!("{} band", look.class()), "");
    }
    let y = axes.level(stretch.ratio);
    canvas.line((from, y), (to, y), &format!("{} stroke thin", look.class()));
    canvas.push(format_args!("</g>"));
}

fn draw_marks(canvas: &mut Canvas, axes: &Axes, chart: &SeriesChart<'_>) {
    let mut free = [f64::NEG_INFINITY; LABEL_ROWS.len()];
    for mark in &chart.marks {
        let x = axes.border(&chart.dots, mark.at);
        let half = 0.5 * LETTER * mark.change.chars().count() as f64;
        let middle = x.min(WIDTH - RIGHT - half).max(LEFT + half);
        let row = free.iter().position(|free| *free <= middle - half).unwrap_or(0);
        free[row] = middle + half + LETTER;
        let class = if mark.is_better { "change better" } else { "change worse" };
        canvas.push(format_args!("<g><title>{}</title>", escape(&mark.label)));
        canvas.line((x, LABEL_ROWS[row] + 3.0), (x, BOTTOM), class);
        canvas.text(middle, LABEL_ROWS[row], Anchor::Middle, class, &mark.change);
        canvas.push(format_args!("</g>"));
    }
}

/// The table has the same links, for those who come by keyboard.
fn draw_dot(canvas: &mut Canvas, axes: &Axes, dot: &SeriesDot, look: &Look, radius: f64) {
    let x = axes.moment(dot);
    let (link, label) = (escape(&dot.link), escape(&dot.label));
    canvas.push(format_args!("<a href=\"{link}\" tabindex=\"-1\"><title>{label}</title>"));
    let (low, high) = (axes.level(dot.interval.low), axes.level(dot.interval.high));
    canvas.line((x, low), (x, high), &format!("{} stroke thin", look.class()));
    canvas.circle((x, axes.level(dot.ratio)), radius, &look.filled(), "");
    canvas.push(format_args!("</a>"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(at: f64, ratio: f64) -> SeriesDot {
        let interval = Interval { low: 0.99 * ratio, high: 1.01 * ratio };
        let (day, time) = (format!("day {at}"), "09:30".to_owned());
        SeriesDot { at, day, time, label: "<said>".into(), link: "/a\"b".into(), ratio, interval }
    }

    fn chart(dots: Vec<SeriesDot>) -> SeriesChart<'static> {
        let mark = |at| SeriesMark { at, change: "-5.0 %".into(), label: "since <b>".into(), is_better: false };
        let stretch = |first, last| {
            let interval = Some(Interval { low: 0.9, high: 0.92 });
            SeriesStretch { first, last, ratio: 0.91, interval, label: "<i>".into() }
        };
        let last = dots.len().saturating_sub(1);
        SeriesChart {
            form: "<script>",
            place: 2,
            metric: "throughput",
            more_is_better: true,
            dots,
            marks: vec![mark(2), mark(3)],
            stretches: vec![stretch(0, 1), stretch(2, last)],
        }
    }

    #[test]
    fn every_run_change_and_stretch_is_drawn_and_escaped() {
        let dots = [0.0, 1.0, 1.2, 1.3, 1.4, 9.0].into_iter().map(|at| dot(at, 0.9 + 0.01 * at)).collect();
        let markup = series_chart(&chart(dots));
        assert_eq!(markup.matches("<circle").count(), 6, "{markup}");
        assert_eq!(markup.matches("class=\"f2 band\"").count(), 2, "{markup}");
        assert_eq!(markup.matches("class=\"change worse\"").count(), 4, "{markup}");
        assert!(markup.contains("href=\"/a&quot;b\"") && markup.contains("<title>&lt;said&gt;</title>"), "{markup}");
        for raw in ["<script>", "<b>", "<i>", "<said>"] {
            assert!(!markup.contains(raw), "{raw}: {markup}");
        }
        // Labels of changes that are near each other stand in rows of their own.
        assert!(markup.contains("y=\"20.0\"") && markup.contains("y=\"33.0\""), "{markup}");
    }

    #[test]
    fn a_day_is_said_once_and_no_label_is_cut_off() {
        let at = |at: f64, day: &str, time: &str| SeriesDot { day: day.into(), time: time.into(), ..dot(at, 0.9) };
        let runs = [(0.0, "09:00"), (0.3, "15:30"), (0.33, "16:00"), (0.6, "21:15")];
        let mut dots: Vec<SeriesDot> = runs.iter().map(|(moment, time)| at(*moment, "2026-03-01", time)).collect();
        dots.push(at(1.0, "2026-03-02", "08:00"));
        let markup = series_chart(&chart(dots));
        let labels: Vec<&str> = markup
            .split("class=\"tick\">")
            .skip(1)
            .filter_map(|rest| rest.split('<').next())
            .filter(|label| label.contains([':', '-']))
            .collect();
        assert_eq!(labels, ["2026-03-01", "15:30", "21:15", "2026-03-02"], "{markup}");
        let last = "<text x=\"746.0\" y=\"297.0\" text-anchor=\"end\" class=\"tick\">2026-03-02</text>";
        assert!(markup.contains(last), "{markup}");
    }

    #[test]
    fn a_chart_of_anything_stays_in_its_place() {
        let odd = Interval { low: 1e-300, high: 1e300 };
        let mut dots = vec![dot(0.0, 1.0), dot(1e300, 1e-300), dot(-1e300, 1e300)];
        dots[0].interval = odd;
        for dots in [dots, vec![dot(5.0, 0.9)], Vec::new()] {
            let markup = series_chart(&chart(dots));
            assert!(markup.len() < 1 << 16 && !markup.contains("=\"inf") && !markup.contains("=\"-inf"), "{markup}");
        }
    }
}
