//! Response time over percentile, a line for each arm; both axes logarithmic, the percentile towards 100 %.

use super::scale::Scale;
use super::{Anchor, Canvas, Look};
use crate::quantity::quantity;
use tare_stats::CurvePoint;

const WIDTH: f64 = 680.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 42.0;

/// The curves; none when there is nothing to draw.
pub(crate) fn curve(lines: &[(Look, Vec<CurvePoint>)]) -> Option<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let depth = |point: &CurvePoint| -(1.0 - point.quantile).log10();
    let deepest = points().map(depth).reduce(f64::max)?.max(1.0);
    let low = points().map(|point| point.us).reduce(f64::min)?;
    let high = points().map(|point| point.us).reduce(f64::max)?;
    let x = Scale::linear(0.0, deepest, LEFT, WIDTH - RIGHT);
    let y = Scale::log(low.max(0.1) / 1.1, high * 1.1, HEIGHT - BOTTOM, TOP);
    let mut canvas = Canvas::new(WIDTH, HEIGHT);
    for tick in y.ticks(6) {
        let place = y.place(tick);
        canvas.line((LEFT, place), (WIDTH - RIGHT, place), "grid");
        let text = quantity(tick, "us").replace(".00", "").replace(".0 ", " ");
        canvas.text(LEFT - 6.0, place + 4.0, Anchor::End, "tick", &text);
    }
    let named = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"];
    for (power, name) in named.iter().enumerate().filter(|(power, _)| *power > 0 && *power as f64 <= deepest) {
        let place = x.place(power as f64);
        canvas.line((place, TOP), (place, HEIGHT - BOTTOM), "grid");
        canvas.text(place, HEIGHT - BOTTOM + 16.0, Anchor::Middle, "tick", name);
    }
    let median = x.place(2_f64.log10());
    canvas.line((median, TOP), (median, HEIGHT - BOTTOM), "grid");
    canvas.text(median, HEIGHT - BOTTOM + 16.0, Anchor::Middle, "tick", "50");
    let title = "share of operations that were as fast or faster, %";
    canvas.text((LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - 8.0, Anchor::Middle, "axis", title);
    for (look, points) in lines {
        let line: Vec<(f64, f64)> = points.iter().map(|point| (x.place(depth(point)), y.place(point.us))).collect();
        let dashed = if look.hollow || look.hatched { " dashed" } else { "" };
        canvas.polyline(&line, &format!("{} stroke line{dashed}", look.class()));
    }
    Some(canvas.finish("Response time over percentile"))
}
