//! Ratios to one form, a bar for each form from zero: published ones as outlines, ours filled and with intervals.

use super::scale::Scale;
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use tare_stats::Interval;

const MARGIN: f64 = 10.0;
const ROW: f64 = 40.0;
const TOP: f64 = 6.0;
const AXIS: f64 = 20.0;
const BAR: f64 = 14.0;

/// A form's bar.
pub(crate) struct Beside {
    pub(crate) look: Look,
    pub(crate) ratio: f64,
    pub(crate) interval: Option<Interval>,
    /// What is told of it.
    pub(crate) figure: String,
    /// Whether others published it: then it is an outline, without a form's colour.
    pub(crate) published: bool,
}

/// The bars, on a scale that reaches `highest`; what is emulated and beyond is cut off, with its figure.
pub(crate) fn beside(title: &str, bars: &[Beside], highest: f64) -> String {
    let height = TOP + bars.len() as f64 * ROW + AXIS;
    let (bottom, end) = (height - AXIS, highest * 1.05);
    let scale = Scale::linear(0.0, end, MARGIN, PANEL_WIDTH - MARGIN);
    let mut canvas = Canvas::new(PANEL_WIDTH, height);
    canvas.grid(&scale, 5, (TOP, bottom));
    for (number, bar) in bars.iter().enumerate() {
        let top = TOP + number as f64 * ROW;
        // Beside the bars alone: names and figures stand between them, and no line is to cross those.
        canvas.line((scale.place(1.0), top + 17.0), (scale.place(1.0), top + 21.0 + BAR), "one");
        let beyond = if bar.ratio > end { " \u{2192}" } else { "" };
        canvas.text(MARGIN, top + 13.0, Anchor::Start, "label", &bar.look.label());
        canvas.text(PANEL_WIDTH - MARGIN, top + 13.0, Anchor::End, "value", &format!("{}{beyond}", bar.figure));
        let width = scale.place(bar.ratio.min(end)) - MARGIN;
        let class = if bar.published { "outline".to_owned() } else { format!("{} bar", bar.look.filled()) };
        canvas.rect((MARGIN, top + 19.0), (width, BAR), &class, &bar.look.hatching());
        if let Some(interval) = bar.interval {
            let middle = top + 19.0 + 0.5 * BAR;
            let (low, high) = (scale.place(interval.low), scale.place(interval.high.min(end)));
            canvas.line((low, middle), (high, middle), "error");
            for x in [low, high] {
                canvas.line((x, middle - 4.0), (x, middle + 4.0), "error");
            }
        }
    }
    canvas.finish(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_published_is_an_outline_and_never_in_a_forms_colour() {
        let bar = |published, ratio, hatched| Beside {
            look: Look { name: "box".into(), colour: 2, hollow: false, hatched },
            ratio,
            interval: Some(Interval { low: 0.9 * ratio, high: 1.1 * ratio }),
            figure: "so much".into(),
            published,
        };
        let theirs = beside("theirs", &[bar(true, 0.8, false)], 1.0);
        assert!(theirs.contains("class=\"outline\"") && !theirs.contains("f2"), "{theirs}");
        let ours = beside("ours", &[bar(false, 0.8, false), bar(false, 9.0, true)], 1.0);
        assert!(ours.contains("f2 fill bar") && ours.contains("so much \u{2192}"), "{ours}");
    }
}
