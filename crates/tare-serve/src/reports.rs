//! Reports of records, as `tare report --format html` renders them, with the bar above. The last few are kept.

use crate::pages::BAR_STYLE;
use crate::shelf::{Shelf, Shelved};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use tare_core::fault::Fault;
use tare_report::{AnalysedPart, FORMATS, Style};

/// How many reports are kept, and how many bytes of them.
const KEPT: usize = 16;
const KEPT_BYTES: usize = 32 << 20;

/// A report, and the state of the record that it is of.
#[derive(Debug)]
struct Kept {
    name: String,
    stamp: String,
    html: Bytes,
}

/// The reports that were asked for last, the latest at the end.
#[derive(Debug, Default)]
pub(crate) struct Reports(Mutex<VecDeque<Kept>>);

impl Reports {
    /// The report of a record, with this bar and this markup above; none if there is no such record. The bar is always
    /// the same.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub(crate) fn of(&self, shelf: &Shelf, name: &str, bar: &str, above: &str) -> Result<Option<Bytes>, Fault> {
        let Some(shelved) = shelf.record(name) else { return Ok(None) };
        let stamp = format!("{}\n{above}", shelved.stamp());
        // Of a study of several parts, the stamp knows nothing of what is in the parts.
        let is_suite = shelved.is_suite();
        if !is_suite && let Some(html) = self.kept(name, &stamp) {
            return Ok(Some(html));
        }
        let html = Bytes::from(with_bar(&render(&shelved)?, bar, above));
        if !is_suite {
            self.keep(Kept { name: name.to_owned(), stamp, html: html.clone() });
        }
        Ok(Some(html))
    }

    fn kept(&self, name: &str, stamp: &str) -> Option<Bytes> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.iter().position(|kept| kept.name == name && kept.stamp == stamp)?;
        let kept = all.remove(at)?;
        let html = kept.html.clone();
        all.push_back(kept);
        Some(html)
    }

    fn keep(&self, new: Kept) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| kept.name != new.name);
        all.push_back(new);
        while all.len() > KEPT || all.iter().map(|kept| kept.html.len()).sum::<usize>() > KEPT_BYTES {
            all.pop_front();
        }
    }
}

fn render(shelved: &Shelved) -> Result<String, Fault> {
    let row = FORMATS.iter().find(|row| row.name == "html").expect("HTML is one of the formats");
    let style = Style::default();
    if !shelved.is_suite() {
        let record = shelved.read()?;
        return (row.render)(&record, &tare_stats::analyse(&record), &style);
    }
    let suite = shelved.read_suite()?;
    let parts: Vec<AnalysedPart<'_>> = suite.parts.iter().map(|part| (part, tare_stats::analyse(part))).collect();
    (row.render_suite)(&suite.header, &parts, &style)
}

/// A report's own tags come before anything of the record, which is escaped besides.
fn with_bar(report: &str, bar: &str, above: &str) -> String {
    let styled = report.replacen("</style>", &format!("{BAR_STYLE}</style>"), 1);
    styled.replacen("<body>", &format!("<body>\n{bar}{above}"), 1)
}
