//! `tare compare`: two records side by side.

use crate::EXIT_OK;
use crate::cli::CompareArgs;
use crate::cmd::{columns, print};
use anyhow::Result;

pub(crate) fn compare(args: &CompareArgs) -> Result<u8> {
    let before = tare_runner::read_record(&args.before)?;
    let after = tare_runner::read_record(&args.after)?;
    let json = args.json.then(|| tare_report::compare_json(&before, &after)).transpose()?;
    print(&json.unwrap_or_else(|| tare_report::compare(&before, &after, columns(std::io::stdout()))));
    Ok(EXIT_OK)
}
