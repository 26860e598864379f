//! Ratios of several metrics side by side: a group of bars for each, a bar for each arm, from zero, with a line at 1.

use super::scale::{Scale, tick_text};
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use tare_stats::Interval;

const LEFT: f64 = 38.0;
const RIGHT: f64 = 8.0;
/// Room above the plot for what lies beyond the scale.
const TOP: f64 = 30.0;
const PLOT: f64 = 210.0;
const BOTTOM: f64 = 70.0;
/// Between groups.
const GAP: f64 = 26.0;
/// From bar to bar, at least and at most.
const STEP: (f64, f64) = (22.0, 46.0);
/// From this step on, figures have room above their bars.
const STEP_OF_FIGURES: f64 = 30.0;
/// About the width of a letter of the labels.
const LETTER: f64 = 6.4;
/// What lies beyond is cut off: it would press all others together.
const HIGHEST: f64 = 4.0;

/// A metric.
pub(crate) struct Group {
    /// Its name, in two lines of which the first may be empty.
    pub(crate) title: (String, String),
    pub(crate) more_is_better: bool,
    /// As a share.
    pub(crate) floor: Option<f64>,
    pub(crate) bars: Vec<Bar>,
}

/// An arm in a metric.
pub(crate) struct Bar {
    pub(crate) look: Look,
    /// What stands below it and in the legend.
    pub(crate) sign: String,
    pub(crate) ratio: Option<(f64, Option<Interval>)>,
    /// In a word, why it has no ratio.
    pub(crate) why_none: String,
    /// A ratio that others have published.
    pub(crate) published: Option<f64>,
}

/// The bars of a panel called `name`, and the drawing's width.
pub(crate) fn groups(name: &str, groups: &[Group]) -> (String, f64) {
    let bars: usize = groups.iter().map(|group| group.bars.len()).sum();
    let room = PANEL_WIDTH - LEFT - RIGHT - GAP * groups.len() as f64;
    let step = (room / bars.max(1) as f64).clamp(STEP.0, STEP.1);
    let width_of = |group: &Group| {
        let text = group.title.0.chars().count().max(group.title.1.chars().count()).max(14);
        (step * group.bars.len() as f64 + GAP).max(LETTER * text as f64 + 10.0)
    };
    let width = (LEFT + groups.iter().map(width_of).sum::<f64>() + RIGHT).max(PANEL_WIDTH);
    let mut canvas = Canvas::new(width, TOP + PLOT + BOTTOM);
    let y = Scale::linear(0.0, highest(groups), TOP + PLOT, TOP);
    let mut left = LEFT;
    for group in groups {
        let right = left + width_of(group);
        if let Some(floor) = group.floor {
            let edge = |value: f64| y.place(value).max(TOP);
            let (from, to) = (edge(1.0 + floor), edge(1.0 / (1.0 + floor)));
            canvas.rect((left + 4.0, from), (right - left - 8.0, to - from), "floor", "");
        }
        left = right;
    }
    for tick in y.ticks(5) {
        canvas.line((LEFT, y.place(tick)), (width - RIGHT, y.place(tick)), "grid");
        canvas.text(LEFT - 6.0, y.place(tick) + 4.0, Anchor::End, "tick", &tick_text(tick));
    }
    let mut left = LEFT;
    for group in groups {
        let right = left + width_of(group);
        draw(&mut canvas, &y, (left, right), step, group);
        left = right;
    }
    canvas.line((LEFT, y.place(1.0)), (width - RIGHT, y.place(1.0)), "one");
    (canvas.finish(&format!("{name}: ratio of each form to the baseline, from zero, with intervals")), width)
}

/// The scale holds 1 and what was measured for real; an emulated form does not stretch it.
fn highest(groups: &[Group]) -> f64 {
    let bars = groups.iter().flat_map(|group| &group.bars);
    let real = bars.clone().filter(|bar| !bar.look.hatched).filter_map(|bar| bar.ratio);
    let real = real.map(|(ratio, interval)| interval.map_or(ratio, |interval| interval.high));
    let all = real.chain(bars.filter_map(|bar| bar.published));
    all.fold(1.1, f64::max).min(HIGHEST) * 1.06
}

fn draw(canvas: &mut Canvas, y: &Scale, (left, right): (f64, f64), step: f64, group: &Group) {
    let middle = 0.5 * (left + right);
    let bottom = TOP + PLOT;
    let first = middle - 0.5 * step * group.bars.len() as f64;
    for (number, bar) in group.bars.iter().enumerate() {
        let x = first + (number as f64 + 0.5) * step;
        canvas.text(x, bottom + 14.0, Anchor::Middle, "tick", &bar.sign);
        draw_bar(canvas, y, x, step, bar);
        if let Some(published) = bar.published {
            let at = y.place(published).max(TOP);
            canvas.polygon(&[(x, at - 5.5), (x + 5.5, at), (x, at + 5.5), (x - 5.5, at)], "published", "");
        }
    }
    let (upper, lower) = (&group.title.0, &group.title.1);
    canvas.text(middle, bottom + 34.0, Anchor::Middle, "label", upper);
    canvas.text(middle, bottom + if upper.is_empty() { 34.0 } else { 49.0 }, Anchor::Middle, "label", lower);
    let better = if group.more_is_better { "more is better" } else { "less is better" };
    canvas.text(middle, bottom + if upper.is_empty() { 49.0 } else { 64.0 }, Anchor::Middle, "axis", better);
}

fn draw_bar(canvas: &mut Canvas, y: &Scale, x: f64, step: f64, bar: &Bar) {
    let bottom = TOP + PLOT;
    let wide = 0.74 * step;
    let Some((ratio, interval)) = bar.ratio else {
        let word = super::escape(&bar.why_none);
        let (x, y) = (x + 4.0, bottom - 6.0);
        let place = format!("translate({x:.1} {y:.1}) rotate(-90)");
        return canvas.push(format_args!("<text transform=\"{place}\" class=\"axis\">{word}</text>"));
    };
    let beyond = !y.holds(ratio);
    let top = if beyond { TOP } else { y.place(ratio) };
    let (filled, hatching) = (bar.look.filled(), bar.look.hatching());
    canvas.rect((x - 0.5 * wide, top), (wide, bottom - top), &format!("{filled} bar"), &hatching);
    let figure = if ratio >= 10.0 { format!("{ratio:.0}") } else { format!("{ratio:.2}") };
    if beyond {
        let arrow = [(x, TOP - 12.0), (x + 0.5 * wide, TOP - 3.0), (x - 0.5 * wide, TOP - 3.0)];
        canvas.polygon(&arrow, &filled, &hatching);
        canvas.text(x, TOP - 16.0, Anchor::Middle, "tick", &figure);
        return;
    }
    let mut head = top;
    if let Some(interval) = interval {
        let (low, high) = (y.place(interval.low), y.place(interval.high).max(TOP));
        canvas.line((x, low), (x, high), "error");
        for end in [low, high] {
            canvas.line((x - 4.0, end), (x + 4.0, end), "error");
        }
        head = high;
    }
    if step >= STEP_OF_FIGURES {
        // Above a diamond that would stand on it.
        let near = bar.published.map(|published| y.place(published) - 5.5).filter(|at| (*at - head).abs() < 22.0);
        let head = near.map_or(head, |at| at.min(head));
        canvas.text(x, head - 6.0, Anchor::Middle, "value", &figure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(ratio: f64, hatched: bool) -> Bar {
        let look = Look { name: "box".into(), colour: 1, hollow: false, hatched };
        Bar { look, sign: "B".into(), ratio: Some((ratio, None)), why_none: String::new(), published: None }
    }

    fn group(bars: Vec<Bar>) -> Group {
        Group { title: (String::new(), "speed".into()), more_is_better: true, floor: Some(0.02), bars }
    }

    #[test]
    fn only_real_forms_stretch_the_scale() {
        let of = |bars| highest(&[group(bars)]);
        assert_eq!(of(vec![bar(0.9, false), bar(12.0, true)]), 1.1 * 1.06);
        assert_eq!(of(vec![bar(2.0, false)]), 2.0 * 1.06);
        assert_eq!(of(vec![bar(40.0, false)]), HIGHEST * 1.06);
        let (drawing, _) = groups("network", &[group(vec![bar(0.9, false), bar(12.0, true)])]);
        assert!(drawing.contains(">12<"), "what is cut off says its figure: {drawing}");
    }

    #[test]
    fn many_groups_are_wider_and_one_fills_a_panel() {
        let many: Vec<Group> = (0..6).map(|_| group((0..7).map(|_| bar(1.0, false)).collect())).collect();
        assert!(groups("network", &many).1 > 900.0);
        assert_eq!(groups("network", &[group(vec![bar(1.0, false)])]).1, PANEL_WIDTH);
        assert!(groups("network", &[]).1.is_finite());
    }
}
