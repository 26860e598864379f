//! Renders records in a format, for a terminal or for a file.

use crate::cli::Format;
use crate::paths;
use crate::terminal::columns;
use anyhow::Result;
use std::io::IsTerminal;
use tare_core::record::{Record, SuiteRecord};
use tare_report::{AnalysedPart, FORMATS, Style};

/// Renders `record` in `format`.
pub(crate) fn render(record: &Record, format: Format, style: &Style) -> Result<String> {
    let analysis = tare_stats::analyse(record);
    let row = FORMATS.iter().find(|row| row.name == format.name());
    let row = row.expect("every format of the command line is in the table of formats");
    Ok((row.render)(record, &analysis, style)?)
}

/// Renders a record with several parts.
pub(crate) fn render_suite(suite: &SuiteRecord, format: Format, style: &Style) -> Result<String> {
    let analysed = |record| -> AnalysedPart<'_> { (record, tare_stats::analyse(record)) };
    let parts: Vec<AnalysedPart<'_>> = suite.parts.iter().map(analysed).collect();
    Ok(tare_report::render_suite(&suite.header, &parts, format.name(), style)?)
}

/// The style for this terminal.
pub(crate) fn terminal_style() -> Style {
    let stdout = std::io::stdout();
    Style { color: stdout.is_terminal() && paths::colour_wanted(), width: columns(stdout), verbose: false }
}

/// The style for a file.
pub(crate) fn plain_style() -> Style {
    Style::default()
}
