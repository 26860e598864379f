//! Drawings, as inline SVG that takes its colours from the page. Every panel is narrow enough for a telephone, and
//! carries its figures as text, so that nothing hangs on colour or on a pointer.

mod bars;
mod beside;
mod closer;
mod curve;
mod flame;
mod forest;
mod groups;
mod heat;
mod layers;
mod machine;
mod peak;
mod response;
mod scale;
mod series;
mod stacks;
mod standalone;
mod timeline;
mod waterfall;

pub(crate) use bars::bars;
pub(crate) use beside::{Beside, beside};
pub(crate) use closer::closer;
pub use closer::{CloseTrial, Stretch};
pub(crate) use curve::curve;
pub(crate) use flame::{Paint, flame};
pub(crate) use forest::{Row, Subject, forest, forest_of};
pub(crate) use groups::{Bar, Group, groups};
pub(crate) use heat::heat;
pub(crate) use layers::{LayerStack, Plate, layers};
pub(crate) use machine::{Use, machine};
pub(crate) use peak::peak;
pub(crate) use response::{Dot, Line, key, legend, response};
pub use series::{SeriesChart, SeriesDot, SeriesMark, SeriesStretch, series_chart};
pub(crate) use stacks::{Stack, stacks};
pub(crate) use standalone::standalone;
pub(crate) use timeline::{Limits, timeline};
pub(crate) use waterfall::waterfall;

use scale::{Scale, tick_text};
use std::fmt::Write;

/// Width of a panel, in its own units; about pixels.
pub(crate) const PANEL_WIDTH: f64 = 440.0;

/// Colours that a page holds; later forms start again.
pub(crate) const COLOURS: usize = 12;

/// The hatchings of emulated forms, which a page holds once, as SVG.
pub fn hatches() -> String {
    let one = |n: usize| {
        format!(
            "<pattern id=\"hatch{n}\" class=\"f{n}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"5\" height=\"5\" class=\"ground\"/><line x1=\"0\" y1=\"0\" \
             x2=\"0\" y2=\"5\" class=\"stroke\" stroke-width=\"3.2\"/></pattern>"
        )
    };
    let all: String = (0..COLOURS).map(one).collect();
    format!("<svg class=\"defs\" width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>{all}</defs></svg>")
}

/// How an arm is drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Look {
    /// The arm's name.
    pub(crate) name: String,
    /// Its form's place in the study, which gives the colour.
    pub(crate) colour: usize,
    /// Hollow instead of filled: the A/A control.
    pub(crate) hollow: bool,
    /// Hatched: emulated.
    pub(crate) hatched: bool,
}

impl Look {
    /// The class that sets the colour.
    pub(crate) fn class(&self) -> String {
        format!("f{}", self.colour % COLOURS)
    }

    /// The class that sets colour and filling.
    fn filled(&self) -> String {
        let filling = if self.hollow { "hollow" } else { "fill" };
        format!("{} {filling}", self.class())
    }

    /// The attribute that overrides the filling by the page's hatching.
    fn hatching(&self) -> String {
        if self.hatched { format!(" style=\"fill:url(#hatch{})\"", self.colour % COLOURS) } else { String::new() }
    }

    /// The name with its mark.
    fn label(&self) -> String {
        if self.hatched { format!("{} (EMULATED)", self.name) } else { self.name.clone() }
    }
}

/// Text made harmless for HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// At most so many letters of a label, the last of which says that there are more.
fn shortened(label: &str, letters: usize) -> String {
    if label.chars().count() <= letters {
        return label.to_owned();
    }
    let kept: String = label.chars().take(letters.saturating_sub(1)).collect();
    format!("{}\u{2026}", kept.trim_end())
}

/// A drawing under way.
struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// Where a text stands relative to its point.
#[derive(Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    fn new(width: f64, height: f64) -> Self {
        Canvas { width, height, body: String::new() }
    }

    fn push(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.body.write_fmt(arguments).expect("writing to a string cannot fail");
    }

    fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        ));
    }

    fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.push(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    /// About so many upright lines of a scale that goes from left to right, each with its figure below.
    fn grid(&mut self, scale: &Scale, count: usize, (top, bottom): (f64, f64)) {
        for tick in scale.ticks(count) {
            let x = scale.place(tick);
            self.line((x, top), (x, bottom), "grid");
            self.text(x, bottom + 14.0, Anchor::Middle, "tick", &tick_text(tick));
        }
    }

    /// A rectangle by its corner, width and height; `more` holds further attributes.
    fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str, more: &str) {
        let (width, height) = (width.max(0.0), height.max(0.0));
        self.push(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" class=\"{class}\"{more}/>"
        ));
    }

    fn circle(&mut self, (x, y): (f64, f64), radius: f64, class: &str, more: &str) {
        self.push(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" class=\"{class}\"{more}/>"));
    }

    fn polygon(&mut self, points: &[(f64, f64)], class: &str, more: &str) {
        let points = joined(points);
        self.push(format_args!("<polygon points=\"{points}\" class=\"{class}\"{more}/>"));
    }

    fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let points = joined(points);
        self.push(format_args!("<polyline points=\"{points}\" class=\"{class}\"/>"));
    }

    /// The finished drawing, with a description for those who cannot see it.
    fn finish(self, description: &str) -> String {
        format!(
            "<svg viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" aria-label=\"{}\">{}</svg>",
            self.width,
            self.height,
            escape(description),
            self.body
        )
    }
}

fn joined(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect::<Vec<_>>().join(" ")
}
