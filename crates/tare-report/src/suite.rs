//! A study of several parts in one rendering: what each form costs in each of them, side by side.

use crate::Style;
use tare_core::fault::Fault;
use tare_core::record::{Record, SuiteHeader};
use tare_stats::Analysis;

/// A part with its analysis.
pub type AnalysedPart<'a> = (&'a Record, Analysis);

/// Renders the parts of a study as `format`, which is the name of a row of [`crate::FORMATS`].
///
/// # Errors
/// When the format cannot hold several parts, or the rendering fails.
pub fn render_suite(
    header: &SuiteHeader,
    parts: &[AnalysedPart<'_>],
    format: &str,
    style: &Style,
) -> Result<String, Fault> {
    let _ = (parts, style);
    Err(Fault::new(format!("a study of several parts such as {} has no rendering as {format}", header.study)))
}
