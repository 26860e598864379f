//! A form's ratio from record to record, and where it changed.

use crate::condition::{DifferenceWords, differences_json};
use crate::lines::paragraph;
use serde::Serialize;
use serde_json::Value;
use tare_core::fault::Fault;
use tare_stats::{
    CHANGE_P, CHANGE_SHARE, CHANGE_VALUES_MIN, CHANGE_WINDOW, Difference, Interval, Occasion, Series, SeriesChange,
    SeriesPoint, percent_text,
};

/// A change of a series in words.
#[derive(Debug, Clone, Serialize)]
pub struct SeriesChangeWords {
    /// By how much the ratio changed: `-2.1 %`.
    pub change: String,
    /// When that was noticed.
    pub noticed: String,
    /// What else changed there: what, before, after.
    pub here: Vec<[String; 3]>,
    /// The same of up to two records earlier or later.
    pub near: Vec<[String; 3]>,
}

impl SeriesChangeWords {
    /// The words of a change.
    pub fn of(change: &SeriesChange) -> SeriesChangeWords {
        let words = |difference: &Difference| {
            let DifferenceWords { what, before, after } = DifferenceWords::of(difference);
            [what, before, after]
        };
        SeriesChangeWords {
            change: signed(change.ratio),
            noticed: noticed(change),
            here: change.here.iter().map(words).collect(),
            near: change.near.iter().map(words).collect(),
        }
    }
}

/// Says every series with its change points, oldest record first, in lines of at most `width` columns.
pub fn series_text(all: &[Series], width: usize) -> String {
    let mut text = String::new();
    let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
    for series in all {
        let Series { study, form, metric, baseline, points, .. } = series;
        say("", 2, &format!("{study}: {metric} of {form}, ratio to {baseline}"));
        for (at, point) in points.iter().enumerate() {
            for change in series.changes.iter().filter(|change| change.point.at == at) {
                for (indent, line) in change_lines(change, &points[at - 1]) {
                    say(&" ".repeat(indent), indent + 2, &line);
                }
            }
            say(&format!("  {}  {:24} ", moment(&point.started), figure(point)), 4, &point.run);
        }
        if points.len() < CHANGE_VALUES_MIN {
            let (there, needed) = (points.len(), CHANGE_VALUES_MIN);
            say("  ", 4, &format!("{there} record(s): finding a change takes {needed}"));
        } else if series.changes.is_empty() {
            say("  ", 4, &format!("no change of {} or more", percent_text(CHANGE_SHARE)));
        }
        say("", 0, "");
    }
    say("", 0, &series_note());
    text
}

/// What is called a change.
pub fn series_note() -> String {
    format!(
        "A change is a shift of at least {} with p < {CHANGE_P:e} at some split of the last {CHANGE_WINDOW} records; noise \
         alone raises about one alarm in 1000 records. It says where to look, not what the change costs: to measure \
         that, run both sides in one study.",
        percent_text(CHANGE_SHARE)
    )
}

/// What occasions add to the error of a series' records.
pub fn occasion_note(occasion: &Occasion) -> String {
    let [deviation, at_most] =
        [occasion.deviation, occasion.deviation_at_most].map(|deviation| percent_text(deviation.exp_m1()));
    format!(
        "From run to run, equals differ by {deviation} (standard deviation, at most {at_most}) beyond what their blocks \
         show, by the A/A controls of {} runs. A run's own interval does not hold that; the interval between two \
         changes does.",
        occasion.runs
    )
}

/// Series for programs: each with its change points, and what else changed there.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn series_json(all: &[Series]) -> Result<Value, Fault> {
    let mut value = serde_json::to_value(all).map_err(|error| Fault::from_error("write JSON", &error))?;
    for (at, series) in all.iter().enumerate() {
        for (number, change) in series.changes.iter().enumerate() {
            value[at]["changes"][number]["here"] = differences_json(&change.here);
            value[at]["changes"][number]["near"] = differences_json(&change.near);
        }
    }
    Ok(value)
}

/// Each series that has changed, with its last change and the command that shows more, in lines of at most `width`
/// columns.
pub fn series_summary(all: &[Series], width: usize) -> String {
    let mut text = String::new();
    for series in all {
        let Some(last) = series.changes.last() else { continue };
        let Series { study, form, metric, .. } = series;
        let change = signed(last.ratio);
        let line = format!("{metric} of {form} in {study}: {change} since run {}", last.run);
        text += &paragraph("CHANGED: ", 4, &line, width);
        text += &paragraph("    ", 4, &format!("`tare history {study} --form {form}`"), width);
    }
    text
}

/// What is said before the point of a change, each line with its indentation.
fn change_lines(change: &SeriesChange, before: &SeriesPoint) -> Vec<(usize, String)> {
    let (by, later) = (signed(change.ratio), noticed(change));
    let mut lines = vec![(2, format!("CHANGED by {by} from here on ({later}); what else changed:"))];
    lines.extend(change.here.iter().map(|difference| (4, DifferenceWords::of(difference).line())));
    if change.here.is_empty() {
        lines.push((4, format!("nothing recorded, between {} and {}", before.run, change.run)));
    }
    let near = |difference| format!("(within two records) {}", DifferenceWords::of(difference).line());
    lines.extend(change.near.iter().map(|difference| (4, near(difference))));
    lines
}

fn noticed(change: &SeriesChange) -> String {
    match change.point.noticed - change.point.at {
        0 => "noticed at once".to_owned(),
        1 => "noticed 1 record later".to_owned(),
        later => format!("noticed {later} records later"),
    }
}

/// `-2.1 %` of 0.979.
fn signed(ratio: f64) -> String {
    let sign = if ratio < 1.0 { '-' } else { '+' };
    format!("{sign}{}", percent_text((ratio - 1.0).abs()))
}

fn figure(point: &SeriesPoint) -> String {
    series_figure(point.ratio, point.interval)
}

/// `0.872 [0.864, 0.881]`. Three decimals: a series is read for small changes.
pub fn series_figure(ratio: f64, interval: Option<Interval>) -> String {
    let interval = interval.map(|interval| format!(" [{:.3}, {:.3}]", interval.low, interval.high));
    format!("{ratio:.3}{}", interval.unwrap_or_default())
}

fn moment(started: &str) -> String {
    started.get(..16).unwrap_or(started).replace('T', " ")
}
