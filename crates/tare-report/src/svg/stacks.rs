//! Costs by part: a bar for each arm, cut into its parts, each with its name in it where that has room.

use super::scale::Scale;
use super::{Anchor, COLOURS, Canvas, PANEL_WIDTH};

const MARGIN: f64 = 8.0;
const ROW: f64 = 42.0;
const TOP: f64 = 4.0;
const AXIS: f64 = 34.0;
const BAR: f64 = 18.0;
/// About the width of a letter of the labels.
const LETTER: f64 = 6.3;

/// An arm's bar.
pub(crate) struct Stack {
    /// What stands above it.
    pub(crate) name: String,
    /// The figure of all parts together.
    pub(crate) total: String,
    /// Whether it makes no claim: then it does not stretch the scale.
    pub(crate) hatched: bool,
    /// The parts: which colour, name, and size in us.
    pub(crate) parts: Vec<(usize, String, f64)>,
}

/// The bars, in us.
pub(crate) fn stacks(title: &str, stacks: &[Stack]) -> String {
    let height = TOP + stacks.len() as f64 * ROW + AXIS;
    let bottom = height - AXIS;
    let sum = |stack: &Stack| stack.parts.iter().map(|(.., us)| us).sum::<f64>();
    let of = |hatched: bool| stacks.iter().filter(|stack| stack.hatched == hatched).map(sum).reduce(f64::max);
    let highest = of(false).or_else(|| of(true)).unwrap_or(1.0).max(f64::MIN_POSITIVE);
    let (divisor, unit) = if highest >= 1e3 { (1e3, "ms per operation") } else { (1.0, "\u{b5}s per operation") };
    let scale = Scale::linear(0.0, highest * 1.02 / divisor, MARGIN, PANEL_WIDTH - MARGIN);
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    canvas.grid(&scale, 5, (TOP, bottom));
    canvas.text(0.5 * PANEL_WIDTH, bottom + 29.0, Anchor::Middle, "axis", unit);
    for (number, stack) in stacks.iter().enumerate() {
        let top = TOP + number as f64 * ROW;
        let beyond = sum(stack) > highest * 1.02;
        let total = if beyond { format!("{} \u{2192}", stack.total) } else { stack.total.clone() };
        canvas.text(MARGIN, top + 13.0, Anchor::Start, "label", &stack.name);
        canvas.text(PANEL_WIDTH - MARGIN, top + 13.0, Anchor::End, "value", &total);
        let mut before = 0.0;
        for (colour, name, us) in &stack.parts {
            let end = |us: f64| scale.place((us / divisor).min(highest * 1.02 / divisor));
            let (from, to) = (end(before), end(before + us));
            before += us;
            let hatching = format!(" style=\"fill:url(#hatch{})\"", colour % COLOURS);
            let more = if stack.hatched { hatching.as_str() } else { "" };
            canvas.rect((from, top + 19.0), (to - from, BAR), &format!("f{} part", colour % COLOURS), more);
            if to - from > LETTER * name.chars().count() as f64 + 6.0 {
                let class = if stack.hatched { "label" } else { "inside" };
                canvas.text(0.5 * (from + to), top + 32.0, Anchor::Middle, class, name);
            }
        }
    }
    canvas.finish(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(hatched: bool, sizes: &[f64]) -> Stack {
        let parts = sizes.iter().enumerate().map(|(number, us)| (number, format!("part {number}"), *us)).collect();
        Stack { name: "box".into(), total: "a lot".into(), hatched, parts }
    }

    #[test]
    fn parts_are_named_where_they_have_room_and_an_emulated_bar_is_cut_off() {
        let drawing = stacks("costs", &[stack(false, &[400.0, 1.0]), stack(true, &[4_000.0])]);
        assert_eq!((drawing.matches(">part 0<").count(), drawing.matches(">part 1<").count()), (2, 0), "{drawing}");
        assert!(drawing.contains("a lot \u{2192}") && drawing.contains("\u{b5}s per"), "{drawing}");
        assert!(!stacks("costs", &[]).contains("NaN"));
    }
}
