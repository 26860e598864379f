//! `tare report`: renders a record. Needs no root and no machine.

use crate::cli::{Format, ReportArgs};
use crate::cmd::{columns, print, record_path, suite};
use crate::written::write_file;
use crate::{EXIT_OK, paths};
use anyhow::Result;
use std::io::IsTerminal;
use tare_core::record::Record;
use tare_report::{FORMATS, Style};

pub(crate) fn report(args: &ReportArgs) -> Result<u8> {
    if args.schema {
        print(&tare_report::schema());
        return Ok(EXIT_OK);
    }
    let path = record_path(args.record.as_deref())?;
    let style = if args.out.is_some() { plain_style() } else { terminal_style() };
    let style = Style { verbose: args.verbose, ..style };
    let text = if tare_runner::is_suite(&path) {
        suite::render(&tare_runner::read_suite(&path)?, args.format, &style)?
    } else {
        render(&tare_runner::read_record(&path)?, args.format, &style)?
    };
    match &args.out {
        Some(path) => write_file(path, &text)?,
        None => print(&text),
    }
    Ok(EXIT_OK)
}

/// Renders `record` in `format`.
pub(crate) fn render(record: &Record, format: Format, style: &Style) -> Result<String> {
    let analysis = tare_stats::analyse(record);
    let row = FORMATS.iter().find(|row| row.name == format.name());
    let row = row.expect("every format of the command line is in the table of formats");
    Ok((row.render)(record, &analysis, style)?)
}

/// How a person at this terminal wants it.
pub(crate) fn terminal_style() -> Style {
    let stdout = std::io::stdout();
    Style { color: stdout.is_terminal() && paths::colour_wanted(), width: columns(stdout), verbose: false }
}

/// How a file wants it.
pub(crate) fn plain_style() -> Style {
    Style::default()
}
