//! A page for a terminal: 80 columns, readable without colour.

use crate::Style;
use crate::lines::{clean, wrap};
use tare_stats::Verdict;

/// Columns that a name may take before it gets a line of its own.
pub(crate) const NAME: usize = 18;

/// Columns of one metric.
pub(crate) const COLUMN: usize = 15;

/// Narrower than this, nothing fits.
pub(crate) const WIDTH_MIN: usize = NAME + 2 * COLUMN;

/// ANSI attributes; the letters are what the escape sequence holds.
#[derive(Clone, Copy)]
pub(crate) enum Ink {
    Plain,
    Bold,
    Dim,
    Worse,
    Better,
    Warning,
}

impl Ink {
    fn codes(self) -> &'static str {
        match self {
            Ink::Plain => "",
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Worse => "31",
            Ink::Better => "32",
            Ink::Warning => "33",
        }
    }
}

/// A page for a terminal under way.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Page {
    pub(crate) fn ink(&self, text: &str, ink: Ink) -> String {
        if self.style.color && !ink.codes().is_empty() && !text.is_empty() {
            format!("\x1b[{}m{text}\x1b[0m", ink.codes())
        } else {
            text.to_owned()
        }
    }

    /// A paragraph: wrapped at words, every line but the first indented by `hanging`, the first by `indent`.
    pub(crate) fn paragraph(&mut self, indent: usize, hanging: usize, text: &str, ink: Ink) {
        for (number, line) in wrap(text, self.style.width, indent, hanging).iter().enumerate() {
            let margin = if number == 0 { indent } else { hanging };
            let line = self.ink(line, ink);
            self.text.push_str(&" ".repeat(margin));
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    /// A row of a name and cells, each cell padded before it is inked.
    pub(crate) fn row(&mut self, name: &str, name_ink: Ink, cells: &[(String, Ink)]) {
        let mut name = clean(name);
        if name.chars().count() >= NAME && cells.iter().any(|(cell, _)| !cell.is_empty()) {
            self.paragraph(0, 2, &name, name_ink);
            name = String::new();
        }
        let mut line = self.ink(&name, name_ink);
        let mut column = name.chars().count();
        for (place, (cell, ink)) in cells.iter().enumerate().filter(|(_, (cell, _))| !cell.is_empty()) {
            let start = NAME + place * COLUMN;
            line.push_str(&" ".repeat(start.saturating_sub(column)));
            line.push_str(&self.ink(cell, *ink));
            column = column.max(start) + cell.chars().count();
        }
        self.text.push_str(&line);
        self.text.push('\n');
    }

    /// A paragraph behind a label of its own ink, indented by the label's width.
    pub(crate) fn labelled(&mut self, label: &str, label_ink: Ink, text: &str, ink: Ink) {
        let width = label.chars().count();
        for (number, part) in wrap(text, self.style.width, width, width).iter().enumerate() {
            let margin = if number == 0 { self.ink(label, label_ink) } else { " ".repeat(width) };
            let line = format!("{margin}{}", self.ink(part, ink));
            self.text.push_str(line.trim_end());
            self.text.push('\n');
        }
    }

    /// A line as it stands, of which the caller knows that it fits.
    pub(crate) fn line(&mut self, text: &str, ink: Ink) {
        let line = self.ink(clean(text).trim_end(), ink);
        self.text.push_str(&line);
        self.text.push('\n');
    }

    pub(crate) fn blank(&mut self) {
        self.text.push('\n');
    }
}

/// The ink of a ratio.
pub(crate) fn verdict_ink(verdict: Verdict) -> Ink {
    match verdict {
        Verdict::Worse => Ink::Worse,
        Verdict::Better => Ink::Better,
        Verdict::Emulated => Ink::Dim,
        _ => Ink::Plain,
    }
}
