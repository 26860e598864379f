//! `tare compare`: two records side by side.

use crate::EXIT_OK;
use crate::cli::CompareArgs;
use crate::cmd::print;
use anyhow::Result;

pub(crate) fn compare(args: &CompareArgs) -> Result<u8> {
    let before = tare_runner::read_record(&args.before)?;
    let after = tare_runner::read_record(&args.after)?;
    print(&tare_report::compare(&before, &after));
    Ok(EXIT_OK)
}
