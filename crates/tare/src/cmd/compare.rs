//! `tare compare`: compares two records, or several with the first of them.

use crate::cli::CompareArgs;
use crate::terminal::{columns, print};
use crate::{EXIT_OK, history};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tare_core::record::Header;
use tare_report::{Weighed, compare_json, several, several_json};

pub(crate) fn compare(args: &CompareArgs) -> Result<u8> {
    let text = match args.records.as_slice() {
        [before, after] => two(before, after, args.json)?,
        all => many(all, args.json)?,
    };
    print(&text);
    Ok(EXIT_OK)
}

fn two(before: &Path, after: &Path, json: bool) -> Result<String> {
    let [before, after] = [tare_runner::read_record(before)?, tare_runner::read_record(after)?];
    let occasions = history::occasions(&before.header, &after.header)?;
    if json {
        return Ok(compare_json(&before, &after, &occasions)?);
    }
    Ok(tare_report::compare(&before, &after, &occasions, columns(std::io::stdout())))
}

/// Records are large: one at a time is in memory.
fn many(paths: &[PathBuf], json: bool) -> Result<String> {
    let mut headers: Vec<Header> = Vec::new();
    let mut runs: Vec<Weighed> = Vec::new();
    for path in paths {
        let record = tare_runner::read_record(path)?;
        runs.push(Weighed::of(&record));
        headers.push(record.header);
    }
    let mut occasions = Vec::new();
    for header in headers.iter().skip(1) {
        occasions.push(history::occasions(&headers[0], header)?);
    }
    if json {
        return Ok(several_json(&runs, &occasions)?);
    }
    Ok(several(&runs, &occasions).text(columns(std::io::stdout())))
}
