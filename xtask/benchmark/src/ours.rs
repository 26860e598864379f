//! Our own: Tare's load process, and the bare clients that it is held against.

use crate::process::{CLIENT_CPU, Finished};
use crate::tool::{ACCOUNTS, Ask, FLOOR as FLOOR_NAME, Job, KEYS, Said, TARE as TARE_NAME, Times, Tool, Typed};
use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde_json::{Value, json};

/// The bare client: no parsing, no checks, no statistics.
pub(crate) const FLOOR: Tool =
    Tool { name: FLOOR_NAME, program: "floor", package: None, ask: |job| floor(job, "times=0"), read: read_floor };

/// The bare client with times, which says how long the server and the kernel take when the client is as fast as can be.
pub(crate) const TIMED_FLOOR: Tool =
    Tool { name: "floor, timed", program: "floor", package: None, ask: |job| floor(job, "times=1"), read: read_floor };

/// One bare connection that asks at planned times.
pub(crate) const PROBER: Tool = Tool {
    name: "bare prober",
    program: "floor",
    package: None,
    ask: |job| {
        let single = Job { connections: 1, rate: None, ..job.clone() };
        floor(&single, &format!("rate={}", job.rate?))
    },
    read: read_floor,
};

/// Tare's load process.
pub(crate) const TARE: Tool = Tool { name: TARE_NAME, program: "drive", package: None, ask: tare, read: read_tare };

fn floor(job: &Job, option: &str) -> Option<Typed> {
    if job.rate.is_some() {
        return None;
    }
    let (protocol, more) = match job.ask {
        Ask::Redis { set, get } => ("resp", format!("set={set} get={get} keys={KEYS}")),
        Ask::Http => ("http", "path=/file".to_owned()),
        Ask::Sql => ("postgres", format!("rows={ACCOUNTS}")),
        // No bare client was written for it.
        Ask::MySql => return None,
        Ask::Transfer => ("tpcb", format!("rows={ACCOUNTS}")),
        Ask::ReadWrite => ("oltp_read_write", format!("rows={ACCOUNTS}")),
    };
    let Job { port, connections, pipeline, seconds, .. } = job;
    let line = format!("{protocol} 127.0.0.1 {port} {connections} {pipeline} {seconds} {more} {option}");
    Some(Typed::line(&line))
}

/// The share of the floor's transactions that may fail: so many are no matter for what the rest cost, and of a few
/// hundred transactions, as a busy machine does them in a run, one that meets another on its row is already more than
/// is asked of Tare.
const FLOOR_FAILED_MAX: f64 = 1e-2;

fn read_floor(finished: &Finished, _job: &Job) -> Result<Said> {
    let said: Value = serde_json::from_str(&finished.stdout)?;
    let number = |name: &str| said[name].as_f64().unwrap_or(f64::NAN);
    let (operations, failed) = (number("operations"), number("failed"));
    ensure!(failed <= FLOOR_FAILED_MAX * operations, "{failed} of {operations} transactions failed");
    let times = Times {
        mean: number("mean_us"),
        p50: number("p50_us"),
        p95: number("p95_us"),
        p99: number("p99_us"),
        p999: number("p999_us"),
        max: number("max_us"),
    };
    // What it did before its loop, writing requests and keys, belongs to no operation.
    let cpu_s = Some(number("cpu_s"));
    Ok(Said { operations, seconds: number("seconds"), times, cpu_s, remark: None })
}

fn tare(job: &Job) -> Option<Typed> {
    let profile = match job.rate {
        None => json!({"closed": {"connections": job.connections, "pipeline": job.pipeline}}),
        Some(rate) => json!({"open": {
            "rate": rate, "arrivals": "constant", "connections": job.connections, "in_flight": 100_000,
        }}),
    };
    let (protocol, _) = protocol_of(job.ask);
    Some(Typed { arguments: Vec::new(), input: plan(protocol, "run", profile, job).to_string() })
}

/// The plan that has Tare write the data set that a job needs, if it needs one of Tare.
pub(crate) fn populate(job: &Job) -> Option<String> {
    let Ask::Redis { .. } = job.ask else { return None };
    let profile = json!({"closed": {"connections": 1, "pipeline": 1}});
    Some(plan("redis", "populate", profile, job).to_string())
}

/// The protocol, and its options as in a workload file.
pub(crate) fn protocol_of(ask: Ask) -> (&'static str, String) {
    match ask {
        // The server's counts cannot be checked: other tools leave keys.
        Ask::Redis { set, get } => {
            ("redis", format!("{{mix: {{set: {set}, get: {get}}}, value_bytes: 3, keys: {KEYS}, verify: false}}\n"))
        }
        Ask::Http => ("http", "requests:\n- {path: /file, status: 200}\n".to_owned()),
        Ask::Sql => {
            let sql = "SELECT abalance FROM pgbench_accounts WHERE aid = ${aid}";
            let feeds = format!("feeds: {{aid: {{uniform: {{from: 1, to: {ACCOUNTS}}}}}}}");
            (
                "postgres",
                format!("{feeds}\noperations:\n  select:\n    script:\n    - sql: {sql}\n      expect: {{rows: 1}}\n"),
            )
        }
        Ask::MySql => {
            let sql = "SELECT c FROM sbtest1 WHERE id = ${id}";
            let place =
                format!("user: root\ndatabase: sbtest\nfeeds: {{id: {{uniform: {{from: 1, to: {ACCOUNTS}}}}}}}");
            let script = format!("script:\n    - sql: {sql}\n      expect: {{rows: 1}}\n");
            ("mysql", format!("{place}\noperations:\n  select:\n    {script}"))
        }
        Ask::Transfer => ("postgres", TRANSFER.replace("ACCOUNTS", &ACCOUNTS.to_string())),
        Ask::ReadWrite => ("postgres", READ_WRITE.replace("ROWS", &ACCOUNTS.to_string())),
    }
}

/// What `pgbench -b tpcb-like` does at scale 1.
const TRANSFER: &str = "\
feeds:
  aid: {uniform: {from: 1, to: ACCOUNTS}}
  tid: {uniform: {from: 1, to: 10}}
  delta: {uniform: {from: -5000, to: 5000}}
operations:
  transfer:
    script:
    - begin
    - sql: UPDATE pgbench_accounts SET abalance = abalance + ${delta} WHERE aid = ${aid}
      expect: {affected: 1}
    - sql: SELECT abalance FROM pgbench_accounts WHERE aid = ${aid}
      expect: {rows: 1}
    - sql: UPDATE pgbench_tellers SET tbalance = tbalance + ${delta} WHERE tid = ${tid}
      expect: {affected: 1}
    - sql: UPDATE pgbench_branches SET bbalance = bbalance + ${delta} WHERE bid = 1
      expect: {affected: 1}
    - sql: >-
        INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
        VALUES (${tid}, 1, ${aid}, ${delta}, CURRENT_TIMESTAMP)
      expect: {affected: 1}
    - commit
";

/// What `sysbench oltp_read_write` does. A row that another transaction deletes at the same moment can be missing.
const READ_WRITE: &str = "\
feeds:
  any: {uniform: {from: 1, to: ROWS}}
  c: {pattern: '###########-###########-###########-###########-###########-###########-###########-###########-###########-###########'}
  pad: {pattern: '###########-###########-###########-###########-###########'}
operations:
  read-write:
    script:
    - begin
    - repeat: {times: 10, as: n, steps: [{set: {id: any}}, {sql: 'SELECT c FROM sbtest1 WHERE id = ${id}'}]}
    - set: {id: any, last: id + 99}
    - sql: SELECT c FROM sbtest1 WHERE id BETWEEN ${id} AND ${last}
    - set: {id: any, last: id + 99}
    - sql: SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ${id} AND ${last}
    - set: {id: any, last: id + 99}
    - sql: SELECT c FROM sbtest1 WHERE id BETWEEN ${id} AND ${last} ORDER BY c
    - set: {id: any, last: id + 99}
    - sql: SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ${id} AND ${last} ORDER BY c
    - set: {id: any}
    - sql: UPDATE sbtest1 SET k = k + 1 WHERE id = ${id}
    - set: {id: any}
    - sql: UPDATE sbtest1 SET c = ${c} WHERE id = ${id}
    - set: {id: any, k: any}
    - sql: DELETE FROM sbtest1 WHERE id = ${id}
    - sql: INSERT INTO sbtest1 (id, k, c, pad) VALUES (${id}, ${k}, ${c}, ${pad})
    - commit
";

/// The share of operations that may fail: transactions that insert the same row at once do, with every tool, and the
/// others go on as well.
const FAILED_MAX: f64 = 1e-3;

/// A plan as the load process reads it: `tare_core::load::LoadPlan`.
pub(crate) fn plan(protocol: &str, task: &str, profile: Value, job: &Job) -> Value {
    json!({
        "task": task, "protocol": protocol, "options": job.options, "endpoint": job.endpoint(), "profile": profile,
        "settle": span(0.0), "measure": span(job.seconds), "timeout": span(10.0), "seed": 1,
        "cpus": CLIENT_CPU.to_string(),
    })
}

/// A duration as serde writes it.
fn span(seconds: f64) -> Value {
    json!({"secs": seconds.trunc() as u64, "nanos": (seconds.fract() * 1e9) as u32})
}

/// What the load process says at its end.
///
/// # Errors
/// When it failed, or what it did is not worth counting.
pub(crate) fn summary(finished: &Finished) -> Result<Value> {
    let last = finished.stdout.lines().last().context("it said nothing")?;
    let mut last: Value = serde_json::from_str(last)?;
    ensure!(last["failed"].is_null(), "it failed: {}", last["failed"]);
    let summary = last["done"].take();
    let count = |counted: &Value| counted.as_f64().unwrap_or(f64::INFINITY);
    let failed: f64 = summary["failures"].as_object().into_iter().flat_map(|map| map.values()).map(count).sum();
    let operations = summary["operations"].as_object().into_iter().flat_map(|map| map.values());
    let done: f64 = operations.filter_map(|operation| operation["count"].as_f64()).sum();
    ensure!(failed <= FAILED_MAX * done, "operations failed: {}", summary["failures"]);
    let checks = summary["checks"].as_array().into_iter().flatten();
    let bad: Vec<&Value> = checks.filter(|check| check["passed"] != true).collect();
    ensure!(bad.is_empty(), "checks failed: {bad:?}");
    Ok(summary)
}

fn read_tare(finished: &Finished, _job: &Job) -> Result<Said> {
    let summary = summary(finished)?;
    let mut all = Histogram::<u64>::new(3)?;
    let mut operations = 0.0;
    for operation in summary["operations"].as_object().into_iter().flat_map(|map| map.values()) {
        operations += operation["count"].as_f64().unwrap_or(0.0);
        all.add(decode(operation["response_time"].as_str().unwrap_or_default())?)?;
    }
    let moment = |name: &str| summary[name].as_f64().unwrap_or(f64::NAN);
    let seconds = (moment("measure_end_ns") - moment("measure_start_ns")) / 1e9;
    let dropped = summary["dropped"].as_u64().unwrap_or(0);
    let remark = match (summary["saturated"].as_str(), dropped) {
        (Some(why), _) => Some(why.to_owned()),
        (None, 1..) => Some(format!("{dropped} starts dropped")),
        (None, 0) => None,
    };
    Ok(Said { operations, seconds, times: times_of(&all), cpu_s: None, remark })
}

/// HdrHistogram V2 with deflate, base64, in ns.
pub(crate) fn decode(text: &str) -> Result<Histogram<u64>> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text)?;
    Ok(Deserializer::new().deserialize(&mut bytes.as_slice())?)
}

/// The usual quantiles of a histogram of ns, us.
pub(crate) fn times_of(all: &Histogram<u64>) -> Times {
    let at = |quantile: f64| all.value_at_quantile(quantile) as f64 / 1e3;
    let (mean, max) = (all.mean() / 1e3, all.max() as f64 / 1e3);
    Times { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), max }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_run_is_no_figure() {
        let said = |line: &str| summary(&Finished { stdout: format!("{line}\n"), ..Finished::default() });
        assert!(said(r#"{"failed":{"message":"no"}}"#).is_err());
        assert!(said(r#"{"done":{"failures":{"timed out":3},"checks":[]}}"#).is_err());
        assert!(said(r#"{"done":{"failures":{},"checks":[{"name":"x","passed":false}]}}"#).is_err());
        assert!(said(r#"{"done":{"failures":{},"checks":[{"name":"x","passed":true}]}}"#).is_ok());
    }

    #[test]
    fn a_floor_of_failures_is_none() {
        let job = Job::new(Ask::Transfer, 1, 10, 1.0, 1.0);
        let read = |failed: u32| {
            let stdout = format!(r#"{{"operations":1000,"failed":{failed},"seconds":1.0,"cpu_s":0.1}}"#);
            read_floor(&Finished { stdout, ..Finished::default() }, &job)
        };
        assert_eq!(read(10).unwrap().operations, 1000.0);
        assert!(read(11).unwrap_err().to_string().contains("11 of 1000"));
    }

    /// Statements in order, with every value as a bare `$`.
    #[test]
    fn the_floor_executes_the_statements_of_the_scripts() {
        let bare = |text: &str| {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ").to_uppercase();
            let (first, rest) = text.split_once('$').unwrap_or((&text, ""));
            rest.split('$').filter(|piece| !piece.is_empty()).fold(first.to_owned(), |all, piece| {
                let name = |c: char| c.is_ascii_alphanumeric() || c == '{';
                let left = piece.trim_start_matches(name);
                format!("{all}${}", left.strip_prefix('}').unwrap_or(left))
            })
        };
        let floor = include_str!("../floor.c");
        for (script, name, count) in [(TRANSFER, "tpcb", 7), (READ_WRITE, "read_write", 11)] {
            let table = floor.split_once(&format!("statement {name}[] = {{")).unwrap().1.split_once("};").unwrap().0;
            let statements: Vec<String> =
                table.lines().filter_map(|line| Some(bare(line.split('"').nth(1)?))).collect();
            assert_eq!((statements.len(), script.matches("sql: ").count() + 2), (count, count));
            let script = bare(script);
            let mut rest = script.as_str();
            for statement in statements {
                rest = rest.split_once(&statement).unwrap_or_else(|| panic!("{statement} is not in {rest}")).1;
                // Nothing more of it: its line ends, or what it stands in.
                assert!(
                    rest.is_empty() || [" -", " EXPECT", "'}"].iter().any(|end| rest.starts_with(end)),
                    "{statement}{rest}"
                );
            }
        }
    }
}
