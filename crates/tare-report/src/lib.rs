//! A record and its analysis in, a rendering out. No files, no clock, no machine: what is not in the record is not in
//! the report. No form, workload or protocol is known by name here.

mod account;
mod advice;
mod best;
mod brief;
mod ceiling;
mod change_points;
mod closer;
mod compare;
mod comparison;
mod components;
mod condition;
mod contrast;
mod costs;
mod csv;
mod failures;
mod finding;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod gate;
mod glance;
mod headlines;
mod html;
mod json;
mod ladder;
mod lines;
mod live;
mod page;
mod paper;
mod peak;
mod peak_notes;
mod placement;
mod probe_cost;
mod profile;
mod qos;
mod quantity;
mod response;
mod resting;
mod ruler;
mod scale_out;
mod scaling;
mod several;
mod suite;
mod svg;
mod terminal;
mod topology;
mod turns;
mod verdict;
mod warming;
mod warnings;
mod words;

pub use best::why_undecided;
pub use change_points::{
    SeriesChangeWords, occasion_note, series_figure, series_json, series_note, series_summary, series_text,
};
pub use closer::{CloseTrial, Stretch, trial_heat};
pub use compare::{compare, compare_json};
pub use comparison::{ChangeWords, RunWords};
pub use gate::Gate;
pub use glance::{FormGlance, Glance, glance};
pub use html::STYLE;
pub use json::schema;
pub use lines::{USUAL_WIDTH, flow, paragraph, whole};
pub use live::{LiveLooks, script_digest};
pub use paper::{Paper, PaperFile};
pub use quantity::plain_quantity;
pub use scaling::{scaling_json, scaling_text};
pub use several::{DifferingWords, Several, SeveralRow, Weighed, comparison, several, several_json};
pub use suite::{AnalysedPart, render_suite};
pub use svg::{SeriesChart, SeriesDot, SeriesMark, SeriesStretch, hatches, series_chart};
pub use topology::topology_text;
pub use verdict::ratio_figure;
pub use warnings::missing;
pub use words::how_ended;

use tare_core::fault::Fault;
use tare_core::record::{Record, SuiteHeader};
use tare_stats::Analysis;

/// How the reader wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Whether colours may be used, by ANSI escapes. Nothing is said by colour alone.
    pub color: bool,
    /// Columns of the terminal.
    pub width: usize,
    /// Whether a terminal shows all that there is, not only what a reader wants first.
    pub verbose: bool,
}

impl Default for Style {
    fn default() -> Self {
        Style { color: false, width: USUAL_WIDTH, verbose: false }
    }
}

/// How a format renders a record.
pub type Render = fn(&Record, &Analysis, &Style) -> Result<String, Fault>;

/// How a format renders the parts of a study of several.
pub type RenderSuite = fn(&SuiteHeader, &[AnalysedPart<'_>], &Style) -> Result<String, Fault>;

/// A row of the table of formats.
pub struct FormatRow {
    /// Its name on the command line.
    pub name: &'static str,
    /// The usual ending of a file's name, without the dot.
    pub extension: &'static str,
    /// What it is for, in a sentence.
    pub about: &'static str,
    /// Renders.
    pub render: Render,
    /// Renders a study of several parts.
    pub render_suite: RenderSuite,
}

/// Every format there is.
pub const FORMATS: &[FormatRow] = &[
    FormatRow {
        name: "terminal",
        extension: "txt",
        about: "a table of ratios with verdicts, for reading at once",
        render: terminal::render,
        render_suite: suite::terminal::render,
    },
    FormatRow {
        name: "html",
        extension: "html",
        about: "one self-contained page with charts, for showing to others",
        render: html::render,
        render_suite: suite::html::render,
    },
    FormatRow {
        name: "paper",
        extension: "html",
        about: "a paper for printing: question, forms, configuration, results, what was learned, limits",
        render: paper::render,
        render_suite: paper::render_suite,
    },
    FormatRow {
        name: "json",
        extension: "json",
        about: "the header and the whole analysis, for programs",
        render: json::render,
        render_suite: suite::json::render,
    },
    FormatRow {
        name: "csv",
        extension: "csv",
        about: "one row for each trial and metric, for your own analysis",
        render: csv::render,
        render_suite: suite::csv::render,
    },
    FormatRow {
        name: "none",
        extension: "",
        about: "nothing",
        render: |_, _, _| Ok(String::new()),
        render_suite: |_, _, _| Ok(String::new()),
    },
];
