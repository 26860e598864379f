//! CSV of several parts: the rows of each, behind its name.

use super::AnalysedPart;
use super::shown::shown;
use crate::Style;
use crate::csv::{COLUMNS, quoted, rows};
use tare_core::fault::Fault;
use tare_core::record::SuiteHeader;

/// Renders rows of RFC 4180 under one header.
pub(crate) fn render(_: &SuiteHeader, parts: &[AnalysedPart<'_>], _: &Style) -> Result<String, Fault> {
    let of_parts = shown(parts).into_iter().map(|part| {
        let before = format!("{},", quoted(part.name));
        rows(part.record, part.analysis, &before)
    });
    Ok(format!("part,{COLUMNS}") + &of_parts.collect::<String>())
}
