//! `tare compare`: compares two records.

use crate::cli::CompareArgs;
use crate::terminal::{columns, print};
use crate::{EXIT_OK, history};
use anyhow::Result;

pub(crate) fn compare(args: &CompareArgs) -> Result<u8> {
    let before = tare_runner::read_record(&args.before)?;
    let after = tare_runner::read_record(&args.after)?;
    let occasions = history::occasions(&before.header, &after.header)?;
    let json = args.json.then(|| tare_report::compare_json(&before, &after, &occasions)).transpose()?;
    print(&json.unwrap_or_else(|| tare_report::compare(&before, &after, &occasions, columns(std::io::stdout()))));
    Ok(EXIT_OK)
}
