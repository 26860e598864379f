//! A study of several parts in one rendering: what each form costs in each of them, side by side. What is shown is
//! worked out once, in `shown.rs` and `words.rs`; the formats only lay it out.

pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod json;
mod reference;
mod shown;
pub(crate) mod terminal;
mod words;

use crate::{FORMATS, Style};
use tare_core::fault::Fault;
use tare_core::record::{Record, SuiteHeader};
use tare_stats::Analysis;

/// A part with its analysis.
pub type AnalysedPart<'a> = (&'a Record, Analysis);

/// Renders the parts of a study as `format`, which is the name of a row of [`crate::FORMATS`].
///
/// # Errors
/// When there is no such format, or the rendering fails.
pub fn render_suite(
    header: &SuiteHeader,
    parts: &[AnalysedPart<'_>],
    format: &str,
    style: &Style,
) -> Result<String, Fault> {
    let row = FORMATS.iter().find(|row| row.name == format);
    let row = row.ok_or_else(|| Fault::new(format!("there is no format {format}")))?;
    (row.render_suite)(header, parts, style)
}
