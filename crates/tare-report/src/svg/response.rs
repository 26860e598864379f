//! A metric over the levels of a load: a line and a marker of its own shape for each form, so that nothing hangs on
//! colour, with the interval over blocks.

use super::scale::{Scale, tick_text};
use super::{Anchor, Canvas, Look, PANEL_WIDTH};
use crate::quantity::quantity;
use tare_core::peak::level_text;
use tare_stats::Interval;

const HEIGHT: f64 = 262.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;
/// Right of the last level, where names have no room.
const RIGHT: f64 = 16.0;
/// Names up to so many letters stand beside the ends of their lines.
const NAME: usize = 18;
/// About the width of a letter of the labels.
const LETTER: f64 = 6.6;
/// From label to label, at least.
const APART: f64 = 13.0;
/// From form to form at one level, so that their intervals stand beside each other.
const BESIDE: f64 = 4.0;
/// Times of which the longest is so many times the shortest get a logarithmic scale.
const WIDE: f64 = 20.0;

/// A form's figures.
pub(crate) struct Line {
    pub(crate) look: Look,
    pub(crate) dots: Vec<Dot>,
}

/// A form's figure at a level.
pub(crate) struct Dot {
    pub(crate) level: f64,
    pub(crate) value: f64,
    pub(crate) interval: Option<Interval>,
    /// Whether the level stands out as one that broke the QoS.
    pub(crate) bad: bool,
}

/// The chart of a metric of `unit`; levels count `of`.
pub(crate) fn response(title: &str, unit: &str, of: &str, lines: &[Line]) -> String {
    let named = lines.iter().map(|line| line.look.name.chars().count()).max().unwrap_or(0);
    let right = if named <= NAME { LETTER * named as f64 + 18.0 } else { RIGHT };
    let mut canvas = Canvas::new(PANEL_WIDTH, HEIGHT);
    let x = levels_scale(lines, PANEL_WIDTH - right);
    let y = values_scale(lines, unit);
    let ticks = y.ticks(5);
    for tick in &ticks {
        let place = y.place(*tick);
        canvas.line((LEFT, place), (PANEL_WIDTH - right + 6.0, place), "grid");
        canvas.text(LEFT - 6.0, place + 4.0, Anchor::End, "tick", &value_text(*tick, unit));
    }
    let mut last = f64::NEG_INFINITY;
    for level in levels(lines) {
        let place = x.place(level);
        canvas.line((place, HEIGHT - BOTTOM), (place, HEIGHT - BOTTOM + 4.0), "one");
        let text = level_text(level);
        let half = 0.5 * LETTER * text.chars().count() as f64;
        if place - half > last + 4.0 {
            canvas.text(place, HEIGHT - BOTTOM + 17.0, Anchor::Middle, "tick", &text);
            last = place + half;
        }
    }
    canvas.text(0.5 * (LEFT + PANEL_WIDTH - right), HEIGHT - 6.0, Anchor::Middle, "axis", of);
    let shift = |at: usize| (at as f64 - 0.5 * (lines.len() as f64 - 1.0)) * BESIDE;
    for (at, line) in lines.iter().enumerate() {
        draw(&mut canvas, line, |level| x.place(level) + shift(at), &y);
    }
    if named <= NAME {
        names(&mut canvas, lines, PANEL_WIDTH - right + 10.0, &y);
    }
    canvas.finish(&format!("{title} of each form over {of}, with intervals"))
}

/// All levels, ascending, each once.
fn levels(lines: &[Line]) -> Vec<f64> {
    let mut levels: Vec<f64> = lines.iter().flat_map(|line| &line.dots).map(|dot| dot.level).collect();
    levels.sort_by(f64::total_cmp);
    levels.dedup();
    levels
}

/// Linear, unless that would press half of the levels into a quarter of it.
fn levels_scale(lines: &[Line], right: f64) -> Scale {
    let levels = levels(lines);
    let (low, high) = (levels.first().copied().unwrap_or(0.0), levels.last().copied().unwrap_or(1.0));
    let pressed = levels.get(levels.len() / 2).is_some_and(|middle| *middle < 0.25 * high);
    let room = 10.0;
    if pressed && low > 0.0 {
        return Scale::log(low, high, LEFT + room, right - room);
    }
    Scale::linear(low, high, LEFT + room, right - room)
}

/// From zero, unless times lie far apart. What is emulated does not stretch the scale, unless there is nothing else.
fn values_scale(lines: &[Line], unit: &str) -> Scale {
    let real = lines.iter().any(|line| !line.look.hatched && !line.dots.is_empty());
    let dots = || lines.iter().filter(move |line| !(real && line.look.hatched)).flat_map(|line| &line.dots);
    let high = dots().map(|dot| dot.interval.map_or(dot.value, |i| i.high.min(3.0 * dot.value)));
    let high = high.fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    let low = dots().map(|dot| dot.interval.map_or(dot.value, |i| i.low.max(dot.value / 3.0)));
    let low = low.fold(f64::INFINITY, f64::min);
    if unit == "us" && low > 0.0 && high / low > WIDE {
        return Scale::log(low / 1.15, high * 1.15, HEIGHT - BOTTOM, TOP);
    }
    Scale::linear(0.0, high * 1.06, HEIGHT - BOTTOM, TOP)
}

fn value_text(value: f64, unit: &str) -> String {
    match unit {
        "us" | "share" if value == 0.0 => "0".to_owned(),
        "us" | "share" => {
            let text = quantity(value, unit);
            let (number, unit) = text.split_once(' ').unwrap_or((&text, ""));
            let number = if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
            format!("{number} {unit}")
        }
        _ => tick_text(value),
    }
}

fn draw(canvas: &mut Canvas, line: &Line, x: impl Fn(f64) -> f64, y: &Scale) {
    let look = &line.look;
    let class = look.class();
    let inside = |value: f64| y.place(value).clamp(TOP, HEIGHT - BOTTOM);
    let held: Vec<&Dot> = line.dots.iter().filter(|dot| y.holds(dot.value)).collect();
    let points: Vec<(f64, f64)> = held.iter().map(|dot| (x(dot.level), y.place(dot.value))).collect();
    let dashed = if look.hatched { " dashed" } else { "" };
    if points.len() > 1 {
        canvas.polyline(&points, &format!("{class} stroke line{dashed}"));
    }
    for dot in &held {
        let (x, at) = (x(dot.level), y.place(dot.value));
        if let Some(interval) = dot.interval {
            let (low, high) = (inside(interval.low), inside(interval.high));
            canvas.line((x, low), (x, high), &format!("{class} stroke"));
            for end in [low, high] {
                canvas.line((x - 2.5, end), (x + 2.5, end), &format!("{class} stroke"));
            }
        }
        if dot.bad {
            canvas.circle((x, at), 8.0, "ring", "");
        }
        marker(canvas, look, (x, at));
    }
    for dot in line.dots.iter().filter(|dot| !y.holds(dot.value)) {
        let x = x(dot.level);
        let head = [(x, TOP - 9.0), (x + 4.5, TOP - 1.0), (x - 4.5, TOP - 1.0)];
        canvas.polygon(&head, &look.filled(), &look.hatching());
    }
}

/// The form's marker: a shape of its own.
fn marker(canvas: &mut Canvas, look: &Look, (x, y): (f64, f64)) {
    let (class, more) = (look.filled(), look.hatching());
    let of = |points: &[(f64, f64)]| points.iter().map(|(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>();
    match look.colour % 6 {
        0 => canvas.circle((x, y), 3.8, &class, &more),
        1 => canvas.rect((x - 3.5, y - 3.5), (7.0, 7.0), &class, &more),
        2 => canvas.polygon(&of(&[(0.0, -4.8), (4.6, 3.4), (-4.6, 3.4)]), &class, &more),
        3 => canvas.polygon(&of(&[(0.0, -5.2), (4.6, 0.0), (0.0, 5.2), (-4.6, 0.0)]), &class, &more),
        4 => canvas.polygon(&of(&[(0.0, 4.8), (4.6, -3.4), (-4.6, -3.4)]), &class, &more),
        _ => {
            let (a, b) = (1.5, 4.6);
            let cross = [
                (-a, -b),
                (a, -b),
                (a, -a),
                (b, -a),
                (b, a),
                (a, a),
                (a, b),
                (-a, b),
                (-a, a),
                (-b, a),
                (-b, -a),
                (-a, -a),
            ];
            canvas.polygon(&of(&cross), &class, &more);
        }
    }
}

/// The marker of a form alone, for a legend.
pub(crate) fn key(look: &Look) -> String {
    let mut canvas = Canvas::new(26.0, 14.0);
    stroke(&mut canvas, look, (13.0, 7.0));
    canvas.finish(&look.name).replacen("<svg ", "<svg class=\"marker\" ", 1)
}

/// A piece of a form's line with its marker in the middle.
fn stroke(canvas: &mut Canvas, look: &Look, (x, y): (f64, f64)) {
    let dashed = if look.hatched { " dashed" } else { "" };
    canvas.line((x - 12.0, y), (x + 12.0, y), &format!("{} stroke line{dashed}", look.class()));
    marker(canvas, look, (x, y));
}

/// The markers of all forms with their names, for where the legend is a drawing of its own.
pub(crate) fn legend(looks: &[Look]) -> String {
    const ROW: f64 = 20.0;
    let mut canvas = Canvas::new(PANEL_WIDTH, 4.0 + ROW * looks.len() as f64);
    for (number, look) in looks.iter().enumerate() {
        let y = 11.0 + ROW * number as f64;
        stroke(&mut canvas, look, (20.0, y));
        canvas.text(42.0, y + 4.0, Anchor::Start, "label", &look.label());
    }
    canvas.finish("Which line and marker stands for which form")
}

/// The names beside the ends of the lines, as near as they can stand without covering each other.
fn names(canvas: &mut Canvas, lines: &[Line], x: f64, y: &Scale) {
    let end = |line: &'_ Line| line.dots.last().filter(|dot| y.holds(dot.value)).map(|dot| y.place(dot.value) + 4.0);
    let mut ends: Vec<(f64, &Look)> = lines.iter().filter_map(|line| Some((end(line)?, &line.look))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (at, look) in spread(&ends.iter().map(|(at, _)| *at).collect::<Vec<_>>()).into_iter().zip(&ends) {
        canvas.text(x, at, Anchor::Start, "tick", &look.1.name);
    }
}

/// Ascending places, moved apart: those too near each other are set around their middle.
fn spread(places: &[f64]) -> Vec<f64> {
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for place in places {
        groups.push((*place, 1));
        while let [.., before, last] = groups.as_slice() {
            let reach = 0.5 * APART * (before.1 + last.1) as f64;
            if last.0 - before.0 >= reach {
                break;
            }
            let count = before.1 + last.1;
            let middle = (before.0 * before.1 as f64 + last.0 * last.1 as f64) / count as f64;
            groups.truncate(groups.len() - 2);
            groups.push((middle, count));
        }
    }
    let of = |(middle, count): &(f64, usize)| {
        let first = middle - 0.5 * APART * (*count as f64 - 1.0);
        (0..*count).map(|n| first + APART * n as f64).collect::<Vec<_>>()
    };
    groups.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, colour: usize, hatched: bool, values: &[(f64, f64)]) -> Line {
        let dots = values.iter().map(|(level, value)| Dot {
            level: *level,
            value: *value,
            interval: Some(Interval { low: 0.9 * value, high: 1.1 * value }),
            bad: *value > 50.0,
        });
        let dots = dots.collect();
        Line { look: Look { name: name.into(), colour, hollow: false, hatched }, dots }
    }

    #[test]
    fn every_form_has_a_marker_of_its_own() {
        let shape = |colour: usize| {
            let key = key(&line("form", colour, false, &[]).look);
            key.replace(&format!("f{colour}"), "")
        };
        let shapes: std::collections::BTreeSet<String> = (0..6).map(shape).collect();
        assert_eq!(shapes.len(), 6);
    }

    #[test]
    fn an_emulated_form_does_not_stretch_the_scale_and_is_not_lost() {
        let real = line("bare", 0, false, &[(10.0, 20.0), (20.0, 60.0)]);
        let emulated = line("box", 1, true, &[(10.0, 900.0), (20.0, 30.0), (30.0, 40.0)]);
        let drawing = response("mean", "us", "users", &[real, emulated]);
        assert_eq!(drawing.matches("class=\"ring\"").count(), 1, "a level that broke the QoS is ringed: {drawing}");
        assert!(!drawing.contains(" ms<") && drawing.contains("dashed"), "{drawing}");
        assert!(drawing.contains("url(#hatch1)"), "{drawing}");
        let alone = response("mean", "us", "users", &[line("box", 1, true, &[(10.0, 900.0)])]);
        assert!(alone.contains("500 \u{b5}s"), "{alone}");
    }

    #[test]
    fn names_stand_apart_and_as_near_as_they_can() {
        assert_eq!(spread(&[10.0, 50.0]), [10.0, 50.0]);
        assert_eq!(spread(&[20.0, 20.0]), [20.0 - 0.5 * APART, 20.0 + 0.5 * APART]);
        let three = spread(&[20.0, 21.0, 22.0]);
        assert!((three[1] - 21.0).abs() < 1e-9 && (three[2] - three[0] - 2.0 * APART).abs() < 1e-9, "{three:?}");
    }

    #[test]
    fn nothing_at_all_is_still_a_drawing() {
        assert!(!response("mean", "us", "users", &[]).contains("NaN"));
        assert!(!response("mean", "us", "users", &[line("a", 0, false, &[])]).contains("NaN"));
    }
}
