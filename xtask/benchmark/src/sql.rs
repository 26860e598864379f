//! Load generators for databases that others wrote.

use crate::process::Finished;
use crate::tool::{ACCOUNTS, Ask, Job, Said, Times, Tool, Typed, number_after};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::PathBuf;

/// PostgreSQL's own. With a rate its starts are spaced at random, and the times of single transactions stand in a file.
pub(crate) const PGBENCH: Tool = Tool {
    name: "pgbench",
    program: "pgbench",
    package: Some("postgresql"),
    ask: |job| {
        let what = match (job.ask, job.pipeline) {
            (Ask::Sql, 1) => "-S",
            (Ask::Transfer, 1) => "-b tpcb-like",
            _ => return None,
        };
        let Job { port, connections, .. } = job;
        let seconds = job.seconds.ceil();
        let rate = job.rate.map(|rate| format!("-R {rate} -l --log-prefix={}", log_prefix(job).display()));
        let rate = rate.unwrap_or_default();
        Some(Typed::line(&format!(
            "{what} -n -M prepared -c {connections} -j 1 -T {seconds} {rate} -h 127.0.0.1 -p {port} -U postgres postgres"
        )))
    },
    read: read_pgbench,
};

fn log_prefix(job: &Job) -> PathBuf {
    std::env::temp_dir().join(format!("tare-pgbench-{}-{}", std::process::id(), job.port))
}

fn read_pgbench(finished: &Finished, job: &Job) -> Result<Said> {
    let text = &finished.stdout;
    let operations = number_after(text, "number of transactions actually processed:").context("no transactions")?;
    let seconds = operations / number_after(text, "tps =").context("no tps")?;
    let mut times = Times { mean: ms_after(text, "latency average ="), ..Times::NONE };
    if job.rate.is_some() {
        times = logged_times(&log_prefix(job))?;
    }
    Ok(Said { operations, seconds, times, cpu_s: None, remark: None })
}

fn ms_after(text: &str, label: &str) -> f64 {
    number_after(text, label).map_or(f64::NAN, |ms| ms * 1e3)
}

/// Reads and removes the file of a run: client, number, time in us from the planned start, and more.
fn logged_times(prefix: &std::path::Path) -> Result<Times> {
    let folder = prefix.parent().context("a file without a folder")?;
    let name = prefix.file_name().and_then(|name| name.to_str()).context("a name that is no text")?;
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.file_name().and_then(|file| file.to_str()).is_some_and(|file| file.starts_with(name)) {
            let text = fs::read_to_string(&path)?;
            all.extend(text.lines().filter_map(|line| line.split(' ').nth(2)?.parse::<f64>().ok()));
            fs::remove_file(&path)?;
        }
    }
    exact_times(all)
}

/// The quantiles of a list of times, us.
pub(crate) fn exact_times(mut all: Vec<f64>) -> Result<Times> {
    ensure!(!all.is_empty(), "there is no time in it");
    all.sort_by(f64::total_cmp);
    let count = all.len();
    let at = |quantile: f64| all[((quantile * count as f64).ceil() as usize).clamp(1, count) - 1];
    let mean = all.iter().sum::<f64>() / count as f64;
    Ok(Times { mean, p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), max: at(1.0) })
}

/// A thread for each connection.
pub(crate) const SYSBENCH: Tool = Tool {
    name: "sysbench",
    program: "sysbench",
    package: Some("sysbench"),
    ask: |job| {
        let what = match (job.ask, job.pipeline) {
            (Ask::Sql | Ask::MySql, 1) => "oltp_point_select --rand-type=uniform",
            (Ask::ReadWrite, 1) => "oltp_read_write --rand-type=uniform",
            _ => return None,
        };
        let driver = if job.ask == Ask::MySql { Driver::MySql } else { Driver::PgSql };
        let seconds = job.seconds.ceil();
        let rate = job.rate.map(|rate| format!("--rate={rate}")).unwrap_or_default();
        let line = format!("--time={seconds} {rate} --histogram=on --threads={}", job.connections);
        Some(Typed::line(&format!("{what} {} {line} run", sysbench_server(driver, job.port))))
    },
    read: read_sysbench,
};

/// sysbench's names for what it asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Driver {
    PgSql,
    MySql,
}

/// What sysbench is told about the server and its own table.
pub(crate) fn sysbench_server(driver: Driver, port: u16) -> String {
    let (name, user, database) = match driver {
        Driver::PgSql => ("pgsql", "postgres", "postgres"),
        Driver::MySql => ("mysql", "root", "sbtest"),
    };
    format!(
        "--db-driver={name} --{name}-host=127.0.0.1 --{name}-port={port} --{name}-user={user} --{name}-db={database} \
         --tables=1 --table-size={ACCOUNTS}"
    )
}

/// `0.123 |****  4567`: how many took about so many ms.
fn read_sysbench(finished: &Finished, _job: &Job) -> Result<Said> {
    let text = &finished.stdout;
    let operations = number_after(text, "transactions:").context("no transactions")?;
    let seconds = number_after(text, "total time:").context("no time")?;
    let mut bars = Vec::new();
    for line in text.lines() {
        let Some((ms, bar)) = line.split_once('|') else { continue };
        let count = bar.split_whitespace().last().and_then(|count| count.parse::<f64>().ok());
        if let (Ok(ms), Some(count)) = (ms.trim().parse::<f64>(), count) {
            bars.push((ms * 1e3, count));
        }
    }
    let total: f64 = bars.iter().map(|(_, count)| count).sum();
    let at = |quantile: f64| {
        let mut seen = 0.0;
        let bar = bars.iter().find(|(_, count)| {
            seen += count;
            seen >= quantile * total
        });
        bar.map_or(f64::NAN, |(us, _)| *us)
    };
    let max = ms_after(text, "max:");
    let times =
        Times { mean: ms_after(text, "avg:"), p50: at(0.5), p95: at(0.95), p99: at(0.99), p999: at(0.999), max };
    Ok(Said { operations, seconds, times, cpu_s: None, remark: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_list_are_its_members() {
        let times = exact_times((1..=1000).map(f64::from).collect()).unwrap();
        assert_eq!((times.p50, times.p99, times.p999, times.max), (500.0, 990.0, 999.0, 1000.0));
        assert!(exact_times(Vec::new()).is_err());
    }

    #[test]
    fn sysbench_bars_are_counted() {
        let text = "Latency histogram (values are in milliseconds)\n       value  ------------- distribution ---- count\n\
                    \x20      0.100 |**************** 90\n       1.000 |*    9\n      20.000 |   1\n\n\
                    transactions:                        100    (50.00 per sec.)\n total time:      2.0s\n\
                    \x20 avg:   0.4\n  max:   21.0\n";
        let finished = Finished { stdout: text.to_owned(), ..Finished::default() };
        let job = Job::new(Ask::Sql, 1, 1, 2.0, 1.0);
        let said = read_sysbench(&finished, &job).unwrap();
        assert_eq!((said.times.p50, said.times.p99, said.times.max), (100.0, 1000.0, 21_000.0));
        assert_eq!((said.operations, said.seconds), (100.0, 2.0));
    }
}
