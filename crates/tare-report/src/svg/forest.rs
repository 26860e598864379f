//! Ratios with their intervals, a row for each arm, over the noise floor.

use super::scale::Scale;
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use tare_stats::{Interval, MetricAnalysis, Verdict};

const MARGIN: f64 = 12.0;
const ROW: f64 = 40.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 34.0;

/// A row of the chart.
pub(crate) struct Row<'a> {
    pub(crate) look: &'a Look,
    pub(crate) ratio: f64,
    pub(crate) interval: Option<Interval>,
    /// The figure beside it.
    pub(crate) text: String,
    /// Whether the figure stands out.
    pub(crate) strong: bool,
}

/// What the rows are about.
pub(crate) struct Subject<'a> {
    /// The metric's title.
    pub(crate) title: &'a str,
    pub(crate) more_is_better: bool,
    /// As a share; none while it is not known.
    pub(crate) noise_floor: Option<f64>,
}

/// The ratios of `metric`; arms without one are left out.
pub(crate) fn forest(metric: &MetricAnalysis, looks: &[Look]) -> String {
    let rows = looks.iter().filter_map(|look| {
        let ratio = metric.ratios.iter().find(|ratio| ratio.arm == look.name)?;
        let strong = matches!(ratio.verdict, Verdict::Better | Verdict::Worse);
        Some(Row { look, ratio: ratio.ratio, interval: ratio.interval, text: ratio.text(), strong })
    });
    let rows: Vec<Row> = rows.collect();
    let MetricAnalysis { title, more_is_better, noise_floor, .. } = metric;
    forest_of(&Subject { title, more_is_better: *more_is_better, noise_floor: *noise_floor }, &rows)
}

/// The same of ratios that need not come from a finished record.
pub(crate) fn forest_of(subject: &Subject, rows: &[Row]) -> String {
    let height = TOP + rows.len() as f64 * ROW + AXIS;
    let bottom = height - AXIS;
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    let (low, high) = extent(rows, subject.noise_floor);
    let scale = Scale::log(low, high, MARGIN, PANEL_WIDTH - MARGIN);
    if let Some(floor) = subject.noise_floor {
        // A floor of more than the scale shows fills it.
        let edge = |value: f64| scale.place(value).clamp(MARGIN, PANEL_WIDTH - MARGIN);
        let (from, to) = (edge(1.0 / (1.0 + floor)), edge(1.0 + floor));
        canvas.rect((from, TOP), (to - from, bottom - TOP), "floor", "");
    }
    canvas.grid(&scale, 5, (TOP, bottom));
    canvas.line((scale.place(1.0), TOP), (scale.place(1.0), bottom), "one");
    let better = if subject.more_is_better {
        "times the baseline \u{2192} better"
    } else {
        "better \u{2190} times the baseline"
    };
    canvas.text(PANEL_WIDTH / 2.0, bottom + 29.0, Anchor::Middle, "axis", better);
    for (number, row) in rows.iter().enumerate() {
        draw(&mut canvas, &scale, TOP + number as f64 * ROW, row);
    }
    canvas.finish(&format!("Ratio to the baseline in {}, with intervals", subject.title))
}

/// The scale holds 1, the noise floor and every interval; an emulated form does not stretch it.
fn extent(rows: &[Row], floor: Option<f64>) -> (f64, f64) {
    let floor = floor.unwrap_or(0.0).min(1.0) + 1.0;
    let (mut low, mut high) = (1.0 / floor, floor);
    for row in rows.iter().filter(|row| !row.look.hatched) {
        low = low.min(row.interval.map_or(row.ratio, |interval| interval.low));
        high = high.max(row.interval.map_or(row.ratio, |interval| interval.high));
    }
    let pad = (high / low).powf(0.06).max(1.003);
    (low / pad, high * pad)
}

fn draw(canvas: &mut Canvas, scale: &Scale, top: f64, row: &Row) {
    let Row { look, ratio, interval, text, strong } = row;
    canvas.text(MARGIN, top + 14.0, Anchor::Start, "label", &look.label());
    let class = if *strong { "value strong" } else { "value" };
    canvas.text(PANEL_WIDTH - MARGIN, top + 14.0, Anchor::End, class, text);
    let y = top + 27.0;
    let colour = look.class();
    if let Some(interval) = interval {
        let (from, to) = (scale.place(interval.low), scale.place(interval.high));
        canvas.line((from, y), (to, y), &format!("{colour} stroke whisker"));
        for end in [from, to] {
            canvas.line((end, y - 4.0), (end, y + 4.0), &format!("{colour} stroke whisker"));
        }
    }
    let (filled, hatching) = (look.filled(), look.hatching());
    if scale.holds(*ratio) {
        canvas.circle((scale.place(*ratio), y), 5.0, &filled, &hatching);
        return;
    }
    // Off the scale: an arrow at its end; the figure stands above.
    let (tip, back) = if *ratio < 1.0 { (MARGIN - 8.0, 10.0) } else { (PANEL_WIDTH - MARGIN + 8.0, -10.0) };
    let arrow = [(tip, y), (tip + back, y - 6.0), (tip + back, y + 6.0)];
    canvas.polygon(&arrow, &filled, &hatching);
}
