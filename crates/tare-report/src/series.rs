//! A form's ratio from record to record, and where it changed.

use std::fmt::Write;
use tare_stats::{
    CHANGE_P, CHANGE_SHARE, CHANGE_VALUES_MIN, CHANGE_WINDOW, Series, SeriesChange, SeriesPoint, percent_text,
};

/// Says every series with its change points, oldest record first.
pub fn series_text(all: &[Series]) -> String {
    let mut text = String::new();
    let mut say = |line: String| writeln!(text, "{}", line.trim_end()).expect("writing to a string cannot fail");
    for series in all {
        let Series { study, form, metric, baseline, points, .. } = series;
        say(format!("{study}: {metric} of {form}, ratio to {baseline}"));
        for (at, point) in points.iter().enumerate() {
            for change in series.changes.iter().filter(|change| change.point.at == at) {
                change_lines(change, &points[at - 1]).into_iter().for_each(&mut say);
            }
            say(format!("  {}  {:24} {}", moment(&point.started), figure(point), point.run));
        }
        if points.len() < CHANGE_VALUES_MIN {
            let (there, needed) = (points.len(), CHANGE_VALUES_MIN);
            say(format!("  {there} record(s): a change is looked for from {needed} on"));
        } else if series.changes.is_empty() {
            say(format!("  no change of {} or more", percent_text(CHANGE_SHARE)));
        }
        say(String::new());
    }
    say(format!(
        "A change is a shift of at least {} with p < {CHANGE_P:e} at some split of the last {CHANGE_WINDOW}",
        percent_text(CHANGE_SHARE)
    ));
    say("records; noise alone raises about one alarm in 1000 records. It says where to look, not".to_owned());
    say("what it costs: to know that, run both sides beside each other in one study.".to_owned());
    text
}

/// One line for each series that has changed, with its last change.
pub fn series_summary(all: &[Series]) -> String {
    let mut text = String::new();
    for series in all {
        let Some(last) = series.changes.last() else { continue };
        let Series { study, form, metric, .. } = series;
        let change = signed(last.ratio);
        writeln!(
            text,
            "CHANGED: {metric} of {form} in {study}: {change} since run {}; `tare history {study} --form {form}`",
            last.run
        )
        .expect("writing to a string cannot fail");
    }
    text
}

fn change_lines(change: &SeriesChange, before: &SeriesPoint) -> Vec<String> {
    let later = match change.point.noticed - change.point.at {
        0 => "noticed at once".to_owned(),
        1 => "noticed 1 record later".to_owned(),
        later => format!("noticed {later} records later"),
    };
    let mut lines = vec![format!("  CHANGED by {} from here on ({later}); what else did:", signed(change.ratio))];
    lines.extend(change.here.iter().map(|difference| format!("    {difference}")));
    if change.here.is_empty() {
        lines.push(format!("    nothing that is recorded, between {} and {}", before.run, change.run));
    }
    lines.extend(change.near.iter().map(|difference| format!("    (up to two records off) {difference}")));
    lines
}

/// `-2.1 %` of 0.979.
fn signed(ratio: f64) -> String {
    let sign = if ratio < 1.0 { '-' } else { '+' };
    format!("{sign}{}", percent_text((ratio - 1.0).abs()))
}

/// Three decimals: a series is read for small changes.
fn figure(point: &SeriesPoint) -> String {
    let interval = point.interval.map(|interval| format!(" [{:.3}, {:.3}]", interval.low, interval.high));
    format!("{:.3}{}", point.ratio, interval.unwrap_or_default())
}

fn moment(started: &str) -> String {
    started.get(..16).unwrap_or(started).replace('T', " ")
}
