//! A ladder as a waterfall: each rung's bar goes from where the rung before it came to, to where it comes to itself.

use super::scale::Scale;
use super::{Anchor, Canvas, PANEL_WIDTH, shortened};
use crate::verdict::ratio_figure;
use tare_stats::MetricRungCosts;

const MARGIN: f64 = 12.0;
const ROW: f64 = 40.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 34.0;
const BAR: f64 = 12.0;
/// The narrowest bar that is seen, of a rung that costs nothing.
const BAR_MIN: f64 = 2.0;

/// Letters of a rung's name for which there is room before its figures; the table has it whole.
const LABEL_MAX: usize = 40;

/// The rungs of a metric over a scale of the baseline; `more_is_better` says which bars are losses.
pub(crate) fn waterfall(ladder: &MetricRungCosts, baseline: &str, more_is_better: bool) -> String {
    let mut reached = vec![1.0];
    for rung in &ladder.rungs {
        reached.push(reached[reached.len() - 1] * rung.cost.ratio);
    }
    let height = TOP + (ladder.rungs.len() + 1) as f64 * ROW + AXIS;
    let bottom = height - AXIS;
    let low = reached.iter().copied().fold(1.0, f64::min);
    let high = reached.iter().copied().fold(1.0, f64::max);
    let pad = (high / low).powf(0.08).max(1.01);
    let scale = Scale::log(low / pad, high * pad, MARGIN, PANEL_WIDTH - MARGIN);
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    canvas.grid(&scale, 5, (TOP, bottom));
    canvas.line((scale.place(1.0), TOP), (scale.place(1.0), bottom), "one");
    let axis = format!("times {baseline}, rung upon rung");
    canvas.text(PANEL_WIDTH / 2.0, bottom + 29.0, Anchor::Middle, "axis", &axis);
    for (at, rung) in ladder.rungs.iter().enumerate() {
        let top = TOP + at as f64 * ROW;
        let (from, to) = (scale.place(reached[at]), scale.place(reached[at + 1]));
        canvas.text(MARGIN, top + 14.0, Anchor::Start, "label", &shortened(&rung.adds.join("; "), LABEL_MAX));
        let class = if rung.matters { "value strong" } else { "value" };
        let figure = ratio_figure(rung.cost.bound, rung.cost.ratio, rung.cost.interval);
        canvas.text(PANEL_WIDTH - MARGIN, top + 14.0, Anchor::End, class, &figure);
        let fall = match (rung.matters, (rung.cost.ratio > 1.0) == more_is_better) {
            (false, _) => "even",
            (true, true) => "gain",
            (true, false) => "loss",
        };
        let (left, width) = (from.min(to), (from - to).abs().max(BAR_MIN));
        canvas.rect((left, top + 20.0), (width, BAR), &format!("step {fall}"), "");
        // What holds the bars together.
        canvas.line((to, top + 20.0 + BAR), (to, top + ROW + 20.0), "one");
    }
    let top = TOP + ladder.rungs.len() as f64 * ROW;
    let (one, end) = (scale.place(1.0), scale.place(ladder.together));
    canvas.text(MARGIN, top + 14.0, Anchor::Start, "label", "together");
    let figure = ratio_figure(ladder.bound, ladder.together, None);
    canvas.text(PANEL_WIDTH - MARGIN, top + 14.0, Anchor::End, "value strong", &figure);
    canvas.rect((one.min(end), top + 20.0), ((one - end).abs().max(BAR_MIN), BAR), "step whole", "");
    canvas.finish(&format!("What each rung adds to or takes from {}", ladder.title))
}
