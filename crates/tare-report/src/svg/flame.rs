//! Call stacks: each function lies on who called it, as wide as the CPU time that it and what it calls takes.

use super::{Anchor, Canvas, escape};
use crate::quantity::quantity;
use tare_core::profile::IN_KERNEL;
use tare_stats::Flame;

/// Wider than a panel: names of functions are long.
const WIDTH: f64 = 1060.0;
const ROW: f64 = 17.0;
/// What is narrower than this is left out: it could be neither seen nor met by a pointer.
const NARROWEST: f64 = 1.5;
/// The width of a letter, which the script of the page knows too.
const LETTER: f64 = 6.3;

/// How frames are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paint {
    /// By where they lie: in the kernel or not.
    Place,
    /// By how much more or less time than in the baseline. What only the baseline has is drawn too.
    Difference,
}

/// Draws a tree of stacks. `baseline` is the form that they are compared with, if there is one.
pub(crate) fn flame(whole: &Flame, form: &str, baseline: Option<&str>, paint: Paint) -> String {
    let width = whole.width(paint).max(f64::MIN_POSITIVE);
    let mut frames = Vec::new();
    lay(whole, "all", (0.0, 0), WIDTH / width, paint, &mut frames);
    let rows = frames.iter().map(|frame| frame.row + 1).max().unwrap_or(0);
    let mut canvas = Canvas::new(WIDTH, ROW * rows as f64);
    for frame in &frames {
        let y = ROW * (rows - 1 - frame.row) as f64;
        let says = says(frame, whole, baseline);
        canvas.push(format_args!("<g><title>{}\n{}</title>", escape(frame.name), escape(&says)));
        canvas.rect((frame.x, y), (frame.width, ROW - 1.0), class(frame, whole, paint), "");
        let room = ((frame.width - 6.0) / LETTER).max(0.0) as usize;
        let fits: String = if room >= 3 { frame.name.chars().take(room).collect() } else { String::new() };
        canvas.text(frame.x + 3.0, y + 12.0, Anchor::Start, "frame", &fits);
        canvas.push(format_args!("</g>"));
    }
    let description = match paint {
        Paint::Place => format!("Call stacks of {form}, by CPU time. The table below has the largest as text."),
        Paint::Difference => format!("How call stacks of {form} differ. The table below has the largest as text."),
    };
    canvas.finish(&description).replacen("<svg ", "<svg class=\"flame\" ", 1)
}

/// A frame of the drawing.
struct Frame<'a> {
    name: &'a str,
    flame: &'a Flame,
    x: f64,
    width: f64,
    row: usize,
}

trait Wide {
    fn width(&self, paint: Paint) -> f64;
}

impl Wide for Flame {
    /// As much as it takes here; where differences are drawn, as the larger of both, and as what it calls.
    fn width(&self, paint: Paint) -> f64 {
        match paint {
            Paint::Place => self.us_per_op,
            Paint::Difference => {
                let within: f64 = self.calls.values().map(|inner| inner.width(paint)).sum();
                self.us_per_op.max(self.baseline_us_per_op).max(within)
            }
        }
    }
}

fn lay<'a>(
    flame: &'a Flame,
    name: &'a str,
    (x, row): (f64, usize),
    scale: f64,
    paint: Paint,
    into: &mut Vec<Frame<'a>>,
) {
    let width = flame.width(paint) * scale;
    if width < NARROWEST {
        return;
    }
    into.push(Frame { name, flame, x, width, row });
    let mut at = x;
    for (name, inner) in &flame.calls {
        lay(inner, name, (at, row + 1), scale, paint, into);
        at += inner.width(paint) * scale;
    }
}

/// What stands beside a frame when a pointer is on it.
fn says(frame: &Frame, whole: &Flame, baseline: Option<&str>) -> String {
    let share = |us: f64, of: f64| if of > 0.0 { format!(", {:.1} %", 100.0 * us / of) } else { String::new() };
    let flame = frame.flame;
    let own = format!("{} per operation{}", quantity(flame.us_per_op, "us"), share(flame.us_per_op, whole.us_per_op));
    let Some(baseline) = baseline else { return own };
    let theirs = quantity(flame.baseline_us_per_op, "us");
    format!("{own}; {baseline}: {theirs}{}", share(flame.baseline_us_per_op, whole.baseline_us_per_op))
}

fn class(frame: &Frame, whole: &Flame, paint: Paint) -> &'static str {
    if paint == Paint::Place {
        return match (frame.row, frame.name.ends_with(IN_KERNEL)) {
            (0..=2, _) => "flame-whole",
            (_, true) => "flame-kernel",
            (_, false) => "flame-user",
        };
    }
    // By the share of all of the baseline's time, so that what is red is worth looking at.
    let difference = frame.flame.us_per_op - frame.flame.baseline_us_per_op;
    let share = difference.abs() / whole.baseline_us_per_op.max(f64::MIN_POSITIVE);
    let level = [0.01, 0.03, 0.08, 0.2].iter().filter(|least| share >= **least).count();
    match (level, difference > 0.0) {
        (0, _) => "flame-even",
        (1, true) => "flame-more1",
        (2, true) => "flame-more2",
        (3, true) => "flame-more3",
        (_, true) => "flame-more4",
        (1, false) => "flame-less1",
        (2, false) => "flame-less2",
        (3, false) => "flame-less3",
        (_, false) => "flame-less4",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(us_per_op: f64, baseline_us_per_op: f64) -> Flame {
        Flame { us_per_op, baseline_us_per_op, ..Flame::default() }
    }

    #[test]
    fn what_only_the_baseline_has_is_drawn_where_differences_are() {
        let calls = [("gone_[k]", leaf(0.0, 2.0)), ("<new>", leaf(3.0, 0.0)), ("same", leaf(5.0, 5.0))];
        let whole = Flame { calls: calls.map(|(name, flame)| (name.to_owned(), flame)).into(), ..leaf(8.0, 7.0) };
        let drawn = flame(&whole, "boxed", Some("plain"), Paint::Difference);
        for wanted in ["flame-less4", "flame-more4", "flame-even", "gone_[k]", "&lt;new&gt;", "plain: 2.00"] {
            assert!(drawn.contains(wanted), "{wanted}: {drawn}");
        }
        let own = flame(&whole, "boxed", None, Paint::Place);
        assert!(!own.contains("gone_[k]") && own.contains("62.5 %"), "{own}");
    }
}
