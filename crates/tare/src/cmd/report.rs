//! `tare report`: renders a record. Needs no root and no machine.

use crate::EXIT_OK;
use crate::cli::ReportArgs;
use crate::records::record_path;
use crate::report::{plain_style, render, render_suite, terminal_style};
use crate::terminal::print;
use crate::written::write_file;
use anyhow::Result;
use tare_report::Style;

pub(crate) fn report(args: &ReportArgs) -> Result<u8> {
    if args.schema {
        print(&tare_report::schema());
        return Ok(EXIT_OK);
    }
    let path = record_path(args.record.as_deref())?;
    let style = if args.out.is_some() { plain_style() } else { terminal_style() };
    let style = Style { verbose: args.verbose, ..style };
    let text = if tare_runner::is_suite(&path) {
        render_suite(&tare_runner::read_suite(&path)?, args.format, &style)?
    } else {
        render(&tare_runner::read_record(&path)?, args.format, &style)?
    };
    match &args.out {
        Some(path) => write_file(path, &text)?,
        None => print(&text),
    }
    Ok(EXIT_OK)
}
