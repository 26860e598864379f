//! Ratios with their intervals, a row for each arm, over the noise floor.

use super::scale::Scale;
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use tare_stats::{MetricAnalysis, Ratio, Verdict};

const MARGIN: f64 = 12.0;
const ROW: f64 = 40.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 34.0;

/// The ratios of `metric`; arms without one are left out.
pub(crate) fn forest(metric: &MetricAnalysis, looks: &[Look]) -> String {
    let ratio_of = |look: &Look| metric.ratios.iter().find(|ratio| ratio.arm == look.name).cloned();
    let rows: Vec<(&Look, Ratio)> = looks.iter().filter_map(|look| Some((look, ratio_of(look)?))).collect();
    let height = TOP + rows.len() as f64 * ROW + AXIS;
    let bottom = height - AXIS;
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    let (low, high) = extent(&rows, metric.noise_floor);
    let scale = Scale::log(low, high, MARGIN, PANEL_WIDTH - MARGIN);
    if let Some(floor) = metric.noise_floor {
        // A floor of more than the scale shows fills it.
        let edge = |value: f64| scale.place(value).clamp(MARGIN, PANEL_WIDTH - MARGIN);
        let (from, to) = (edge(1.0 / (1.0 + floor)), edge(1.0 + floor));
        canvas.rect((from, TOP), (to - from, bottom - TOP), "floor", "");
    }
    canvas.grid(&scale, 5, (TOP, bottom));
    canvas.line((scale.place(1.0), TOP), (scale.place(1.0), bottom), "one");
    let better =
        if metric.more_is_better { "times the baseline \u{2192} better" } else { "better \u{2190} times the baseline" };
    canvas.text(PANEL_WIDTH / 2.0, bottom + 29.0, Anchor::Middle, "axis", better);
    for (number, (look, ratio)) in rows.iter().enumerate() {
        row(&mut canvas, &scale, TOP + number as f64 * ROW, look, ratio);
    }
    canvas.finish(&format!("Ratio to the baseline in {}, with intervals", metric.title))
}

/// The scale holds 1, the noise floor and every interval; an emulated form does not stretch it.
fn extent(rows: &[(&Look, Ratio)], floor: Option<f64>) -> (f64, f64) {
    let floor = floor.unwrap_or(0.0).min(1.0) + 1.0;
    let (mut low, mut high) = (1.0 / floor, floor);
    for (_, ratio) in rows.iter().filter(|(look, _)| !look.hatched) {
        let interval = ratio.interval;
        low = low.min(interval.map_or(ratio.ratio, |interval| interval.low));
        high = high.max(interval.map_or(ratio.ratio, |interval| interval.high));
    }
    let pad = (high / low).powf(0.06).max(1.003);
    (low / pad, high * pad)
}

fn row(canvas: &mut Canvas, scale: &Scale, top: f64, look: &Look, ratio: &Ratio) {
    canvas.text(MARGIN, top + 14.0, Anchor::Start, "label", &look.label());
    let strong = matches!(ratio.verdict, Verdict::Better | Verdict::Worse);
    let class = if strong { "value strong" } else { "value" };
    canvas.text(PANEL_WIDTH - MARGIN, top + 14.0, Anchor::End, class, &ratio.text());
    let y = top + 27.0;
    let colour = look.class();
    if let Some(interval) = ratio.interval {
        let (from, to) = (scale.place(interval.low), scale.place(interval.high));
        canvas.line((from, y), (to, y), &format!("{colour} stroke whisker"));
        for end in [from, to] {
            canvas.line((end, y - 4.0), (end, y + 4.0), &format!("{colour} stroke whisker"));
        }
    }
    let (filled, hatching) = (look.filled(), look.hatching());
    if scale.holds(ratio.ratio) {
        canvas.circle((scale.place(ratio.ratio), y), 5.0, &filled, &hatching);
        return;
    }
    // Off the scale: an arrow at its end; the figure stands above.
    let (tip, back) = if ratio.ratio < 1.0 { (MARGIN - 8.0, 10.0) } else { (PANEL_WIDTH - MARGIN + 8.0, -10.0) };
    let arrow = [(tip, y), (tip + back, y - 6.0), (tip + back, y + 6.0)];
    canvas.polygon(&arrow, &filled, &hatching);
}
