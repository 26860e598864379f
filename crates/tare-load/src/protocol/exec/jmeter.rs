//! Reads the results of Apache JMeter (5): the table of samples that `-l` writes, or else the last line of the summary
//! that JMeter prints while it runs.
//!
//! The table has a line for each sample with its end or start in milliseconds since 1970, how long it took, and whether
//! it succeeded. A transaction controller adds a line of its own for its samples, which is no request: it stands after
//! theirs, or before them if it generates a parent sample. A request that was redirected, or that had other resources
//! fetched, is followed by a line for each part of it, called after it: `GET /-0`, `GET /-1`.

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
    label: Option<usize>,
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
            label: column("label"),
            success: column("success"),
            message: column("responseMessage"),
            thread: column("threadName"),
        })
    }
}

/// What was seen of one of JMeter's threads, each of which does one thing after the other.
#[derive(Default)]
struct Thread {
    requests: u64,
    /// How many requests it must have in the end, for those of each transaction to be before its line or after it.
    needed: u64,
    /// The label of its last request.
    label: String,
}

impl Thread {
    /// Whether a line with this label is about a part of the last request: `GET /-1`, or `GET /-1-0`, of `GET /`.
    fn is_part(&self, label: &str) -> bool {
        let part = label.strip_prefix(self.label.as_str()).and_then(|rest| rest.strip_prefix('-'));
        let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        self.requests > 0 && part.is_some_and(|part| part.split('-').all(is_number))
    }
}

/// Reads what JMeter wrote or printed. `wall_s` is how long it ran.
///
/// # Errors
/// When it is neither a table of samples nor has a summary, or has no sample.
pub(super) fn conclude(output: &str, wall_s: f64) -> Result<Concluded, Fault> {
    let (mut columns, mut samples, mut failed, mut count) = (None, Samples::default(), 0_u64, 0_u64);
    let (mut began, mut ended) = (u64::MAX, 0_u64);
    let mut threads = BTreeMap::<String, Thread>::new();
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
        let thread = threads.entry(columns.thread.map_or("", cell).to_owned()).or_default();
        if let Some(rest) = columns.message.map_or("", cell).strip_prefix(TRANSACTION) {
            // The samples of one inside another are those of both.
            let inside = samples_in(rest);
            if inside > thread.requests {
                thread.needed = thread.needed.max(thread.requests.saturating_add(inside));
            }
            continue;
        }
        let label = columns.label.map_or("", cell);
        if thread.is_part(label) {
            continue;
        }
        label.clone_into(&mut thread.label);
        thread.requests += 1;
        count += 1;
        failed += u64::from(columns.success.is_some_and(|at| cell(at) == "false"));
        samples.add(elapsed.saturating_mul(1000), 1);
        (began, ended) = (began.min(time), ended.max(time.saturating_add(elapsed)));
    }
    if columns.is_none() {
        return of_summary(output, wall_s);
    }
    if threads.values().any(|thread| thread.needed > thread.requests) {
        let text = "the plan's transaction controllers generate a parent sample, so its requests are not in the table";
        return Err(Fault::new(text).remedy(
            "clear their box 'Generate parent sample', or have sub-results saved: \
             -Jjmeter.save.saveservice.subresults=true",
        ));
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
    fn each_line_of_the_table_is_a_sample() {
        let found = conclude(include_str!("fixtures/jmeter.jtl"), 3.5).unwrap();
        assert_eq!((found.operations, found.errors), (72, 1));
        assert!((found.reported["throughput"] - 72.0 / 1.758).abs() < 1e-9, "{found:?}");
        assert_eq!((found.reported["p50_us"], found.reported["max_us"]), (45_000.0, 95_000.0));
        assert!((found.unmeasured.as_secs_f64() - (3.5 - 1.758)).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_transaction_s_line_is_no_request_wherever_it_stands() {
        let after = include_str!("fixtures/jmeter-transactions.jtl");
        let found = conclude(after, 3.0).unwrap();
        assert_eq!((found.operations, found.errors), (12, 6), "an assertion failed in each of six visits");
        let before = include_str!("fixtures/jmeter-parents.jtl");
        let found = conclude(before, 3.0).unwrap();
        assert_eq!((found.operations, found.errors), (6, 3), "the parts of a redirected request are no requests");
        let alone: Vec<&str> = before.lines().filter(|line| line.contains("label") || line.contains("visit")).collect();
        assert!(conclude(&alone.join("\n"), 3.0).unwrap_err().remedy.contains("subresults=true"));
    }

    #[test]
    fn a_redirected_request_is_one_request() {
        let found = conclude(include_str!("fixtures/jmeter-redirects.jtl"), 3.0).unwrap();
        assert_eq!((found.operations, found.errors, found.reported["max_us"]), (3, 0, 92_000.0));
        let thread = Thread { requests: 1, needed: 0, label: "GET /".to_owned() };
        let parts = ["GET /-0", "GET /-12-3", "GET /-", "GET /-a", "GET /", "GET /-1-", "POST /-0"];
        assert_eq!(parts.map(|label| thread.is_part(label)), [true, true, false, false, false, false, false]);
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
        assert_eq!((found.operations, found.errors), (72, 1));
        assert!((found.reported["throughput"] - 72.0 * 34.4 / 73.0).abs() < 1e-6, "{found:?}");
        assert_eq!((found.reported["mean_us"], found.reported["max_us"]), (46_000.0, 95_000.0));
    }

    #[test]
    fn what_is_no_result_is_refused() {
        assert!(conclude("Error in NonGUIDriver", 1.0).unwrap_err().message.contains("neither a table"));
        assert!(conclude("timeStamp,elapsed,success\n", 1.0).unwrap_err().message.contains("no request"));
        let dated = conclude("timeStamp,elapsed\n2026/11/27 10:00:00,5\n", 1.0).unwrap_err();
        assert!(dated.remedy.contains("timestamp_format=ms"), "{dated}");
    }
}
