//! Absolute values: a bar for each arm from zero, a dot for each trial.

use super::scale::Scale;
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use crate::quantity::quantity;
use tare_stats::{Estimate, MetricAnalysis};

const MARGIN: f64 = 12.0;
const ROW: f64 = 40.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 34.0;

/// The values of `metric`.
pub(crate) fn bars(metric: &MetricAnalysis, looks: &[Look]) -> String {
    let estimate_of = |look: &Look| metric.estimates.iter().find(|estimate| estimate.arm == look.name);
    let rows: Vec<(&Look, &Estimate)> = looks.iter().filter_map(|look| Some((look, estimate_of(look)?))).collect();
    let height = TOP + rows.len() as f64 * ROW + AXIS;
    let bottom = height - AXIS;
    let values = |hatched: bool| {
        let of_kind = rows.iter().filter(move |(look, _)| look.hatched == hatched);
        of_kind.flat_map(|(_, estimate)| &estimate.values).map(|value| value.value).reduce(f64::max)
    };
    // An emulated form does not stretch the scale, unless there is nothing else.
    let highest = values(false).or_else(|| values(true)).unwrap_or(1.0);
    let (divisor, unit) = unit_for(highest, &metric.unit);
    let scale = Scale::linear(0.0, highest * 1.04 / divisor, MARGIN, PANEL_WIDTH - MARGIN);
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    canvas.grid(&scale, 4, (TOP, bottom));
    canvas.text(PANEL_WIDTH / 2.0, bottom + 29.0, Anchor::Middle, "axis", &unit);
    for (number, (look, estimate)) in rows.iter().enumerate() {
        let top = TOP + number as f64 * ROW;
        let value = estimate.geometric_mean.unwrap_or(estimate.mean);
        let beyond = value / divisor > highest * 1.04 / divisor;
        let figure = quantity(value, &metric.unit);
        let figure = if beyond { format!("{figure} \u{2192}") } else { figure };
        canvas.text(MARGIN, top + 14.0, Anchor::Start, "label", &look.label());
        canvas.text(PANEL_WIDTH - MARGIN, top + 14.0, Anchor::End, "value", &figure);
        let end = scale.place((value / divisor).min(highest * 1.04 / divisor));
        canvas.rect((MARGIN, top + 20.0), (end - MARGIN, 12.0), &format!("{} bar", look.filled()), &look.hatching());
        for trial in estimate.values.iter().filter(|trial| scale.holds(trial.value / divisor)) {
            canvas.circle((scale.place(trial.value / divisor), top + 26.0), 2.6, "dot", "");
        }
    }
    canvas.finish(&format!("{} of each form, with every trial", metric.title))
}

/// By what to divide, and the unit that then holds.
fn unit_for(highest: f64, unit: &str) -> (f64, String) {
    match unit {
        "us" if highest >= 1e6 => (1e6, "s".to_owned()),
        "us" if highest >= 1e3 => (1e3, "ms".to_owned()),
        "us" => (1.0, "\u{b5}s".to_owned()),
        _ => (1.0, unit.to_owned()),
    }
}
