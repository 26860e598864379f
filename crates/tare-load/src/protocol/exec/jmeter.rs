//! Reads the results of Apache JMeter (5): the table of samples that `-l` writes, or else the last line of the summary
//! that JMeter prints while it runs.
//!
//! The table has a line for each sample with its end or start in milliseconds since 1970, how long it took, and whether
//! it succeeded. A transaction controller adds a line of its own for its samples, which is no request.

use super::figure::Concluded;
use super::samples::Samples;
use crate::script::parse_csv;
use regex::Regex;
use std::collections::BTreeMap;
use tare_core::fault::Fault;

/// How the message of a transaction's line begins.
const TRANSACTION: &str = "Number of samples in transaction";

/// How much of a line is shown, characters.
const SHOWN_MAX: usize = 200;

/// A line of the summary: all samples so far. Other lines, with `+`, are those of the last seconds.
const SUMMARY: &str = r"(?m)^summary = +(\d+) in +\S+ = +([\d.]+)/s Avg: +(\d+) Min: +\d+ Max: +(\d+) Err: +(\d+)";

/// Where the table has what is read.
struct Columns {
    time: usize,
    elapsed: usize,
    success: Option<usize>,
    message: Option<usize>,
    thread: Option<usize>,
}

impl Columns {
    /// Those of a header line, if it is one.
    fn of(header: &[String]) -> Option<Columns> {
        let column = |name: &str| header.iter().position(|known| known == name);
        Some(Columns {
            time: column("timeStamp")?,
            elapsed: column("elapsed")?,
            success: column("success"),
            message: column("responseMessage"),
            thread: column("threadName"),
        })
    }
}

/// Reads what JMeter wrote or printed. `wall_s` is how long it ran.
///
/// # Errors
/// When it is neither a table of samples nor has a summary, or has no sample.
pub(super) fn conclude(output: &str, wall_s: f64) -> Result<Concluded, Fault> {
    let (mut columns, mut samples, mut failed, mut count) = (None, Samples::default(), 0_u64, 0_u64);
    let (mut began, mut ended) = (u64::MAX, 0_u64);
    // By thread, since the requests of a transaction stand before it. Those of one inside another are in both.
    let (mut requests, mut hidden) = (BTreeMap::<String, u64>::new(), false);
    for record in Records(output.lines()) {
        let Some(row) = parse_csv(&record, ',').ok().and_then(|mut rows| rows.pop()).map(|(_, row)| row) else {
            continue;
        };
        let Some(columns) = &columns else {
            columns = Columns::of(&row);
            continue;
        };
        let cell = |at: usize| row.get(at).map(String::as_str).unwrap_or_default();
        let (Ok(time), Ok(elapsed)) = (cell(columns.time).parse::<u64>(), cell(columns.elapsed).parse::<u64>()) else {
            let shown: String = record.chars().take(SHOWN_MAX).collect();
            let text = format!("a line of JMeter's table has no times in milliseconds: {shown}");
            return Err(Fault::new(text).remedy("add -Jjmeter.save.saveservice.timestamp_format=ms"));
        };
        let before = requests.entry(columns.thread.map_or("", cell).to_owned()).or_default();
        if let Some(rest) = columns.message.map_or("", cell).strip_prefix(TRANSACTION) {
            hidden |= samples_in(rest) > *before;
            continue;
        }
        *before += 1;
        count += 1;
        failed += u64::from(columns.success.is_some_and(|at| cell(at) == "false"));
        samples.add(elapsed.saturating_mul(1000), 1);
        (began, ended) = (began.min(time), ended.max(time.saturating_add(elapsed)));
    }
    if columns.is_none() {
        return of_summary(output, wall_s);
    }
    if hidden {
        let text = "the plan's transaction controllers generate a parent sample, so its requests are not in the table";
        return Err(Fault::new(text).remedy("clear their box 'Generate parent sample'"));
    }
    samples.conclude(count, failed, ended.saturating_sub(began) as f64 / 1e3, wall_s)
}

/// The number in a transaction's message, after its beginning: ` : 2, number of failing samples : 0`.
fn samples_in(rest: &str) -> u64 {
    let number = rest.trim_start_matches([' ', ':']);
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse().unwrap_or(0)
}

/// The result in the last line of the summary.
fn of_summary(output: &str, wall_s: f64) -> Result<Concluded, Fault> {
    let pattern = Regex::new(SUMMARY).expect("the pattern is ours");
    let Some(found) = pattern.captures_iter(output).last() else {
        return Err(Fault::new("JMeter's output has neither a table of samples nor a line 'summary ='"));
    };
    let number = |at: usize| found.get(at).and_then(|text| text.as_str().parse::<f64>().ok()).unwrap_or(0.0);
    let (answered, rate, failed) = (number(1), number(2), number(5));
    let seconds = if rate > 0.0 { answered / rate } else { wall_s };
    let mut concluded = Samples::default().conclude(answered as u64, failed as u64, seconds, wall_s)?;
    let times = [("mean_us", number(3)), ("max_us", number(4))];
    concluded
        .reported
        .extend(times.into_iter().filter(|(_, ms)| *ms > 0.0).map(|(name, ms)| (name.to_owned(), ms * 1e3)));
    Ok(concluded)
}

/// The records of a table: lines, but a quoted field may hold line ends.
struct Records<'t>(std::str::Lines<'t>);

impl Iterator for Records<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let opens = |line: &str| line.matches('"').count() % 2 == 1;
        let mut record = self.0.next()?.to_owned();
        let mut open = opens(&record);
        while open {
            let Some(line) = self.0.next() else { break };
            open ^= opens(line);
            record.push('\n');
            record.push_str(line);
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_table_is_a_sample_but_transactions() {
        let found = conclude(include_str!("fixtures/jmeter.jtl"), 3.0).unwrap();
        assert_eq!((found.operations, found.errors), (7, 1));
        assert!((found.reported["throughput"] - 7.0 / 0.1).abs() < 1e-9, "{found:?}");
        assert_eq!((found.reported["p50_us"], found.reported["max_us"]), (5000.0, 40_000.0));
        assert!((found.unmeasured.as_secs_f64() - 2.9).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn requests_that_are_in_no_line_of_their_own_are_missed() {
        let message = "Number of samples in transaction : 2, number of failing samples : 0";
        let head = "timeStamp,elapsed,label,responseCode,responseMessage";
        let table = |requests: usize, visits: usize| {
            let request = "1764240000001,5,GET /,200,OK\n".repeat(requests);
            let visit = format!("1764240000052,48,visit,200,\"{message}\"\n").repeat(visits);
            format!("{head}\n{request}{visit}")
        };
        let refused = conclude(&table(0, 1), 3.0).unwrap_err();
        assert!(refused.message.contains("generate a parent sample"), "{refused}");
        assert!(conclude(&table(1, 1), 3.0).is_err());
        assert_eq!(conclude(&table(2, 2), 3.0).unwrap().operations, 2, "one transaction may be of another");
    }

    #[test]
    fn without_a_table_the_last_summary_counts() {
        let found = conclude(include_str!("fixtures/jmeter.txt"), 9.0).unwrap();
        assert_eq!((found.operations, found.errors), (9000, 50));
        assert!((found.reported["throughput"] - 9000.0 * 1806.1 / 9050.0).abs() < 1e-6, "{found:?}");
        assert_eq!((found.reported["mean_us"], found.reported["max_us"]), (4000.0, 212_000.0));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        assert!(conclude("Error in NonGUIDriver", 1.0).unwrap_err().message.contains("neither a table"));
        assert!(conclude("timeStamp,elapsed,success\n", 1.0).unwrap_err().message.contains("no request"));
        let dated = conclude("timeStamp,elapsed\n2026/11/27 10:00:00,5\n", 1.0).unwrap_err();
        assert!(dated.remedy.contains("timestamp_format=ms"), "{dated}");
    }
}
