//! Load generators for HTTP that others wrote.

use crate::process::Finished;
use crate::tool::{Ask, Job, Said, Times, Tool, Typed, number_after, time_us};
use anyhow::{Context, Result};

fn url(job: &Job) -> Option<String> {
    (job.ask == Ask::Http && job.pipeline == 1).then(|| format!("http://{}/file", job.endpoint()))
}

/// Closed loop only.
pub(crate) const WRK: Tool = Tool {
    name: "wrk",
    program: "wrk",
    package: Some("wrk"),
    ask: |job| {
        let (url, None) = (url(job)?, job.rate) else { return None };
        let seconds = job.seconds.ceil();
        Some(Typed::line(&format!("-t1 -c{} -d{seconds}s --latency {url}", job.connections)))
    },
    read: |finished, _| {
        let text = &finished.stdout;
        let line = text.lines().find(|line| line.contains(" requests in ")).context("no line of requests")?;
        let operations = number_after(line, "").context("no requests")?;
        let after = line.split(" requests in ").nth(1).and_then(|rest| rest.split(',').next());
        let seconds = after.and_then(time_us).context("no time")? / 1e6;
        let at = |label: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(label));
            line.and_then(|rest| time_us(rest.split_whitespace().next()?)).unwrap_or(f64::NAN)
        };
        let times = Times { mean: at("Latency  "), p50: at("50%"), p99: at("99%"), ..Times::NONE };
        Ok(Said { operations, seconds, times, cpu_s: None, remark: None })
    },
};

/// Apache's. Closed loop only; counts operations instead of seconds; whole milliseconds.
pub(crate) const AB: Tool = Tool {
    name: "ab",
    program: "ab",
    package: Some("apache2-utils"),
    ask: |job| {
        let (url, None) = (url(job)?, job.rate) else { return None };
        let operations = ((job.expected * job.seconds) as u64).max(u64::from(job.connections));
        Some(Typed::line(&format!("-q -k -n {operations} -c {} {url}", job.connections)))
    },
    read: |finished, _| {
        let text = &finished.stdout;
        let operations = number_after(text, "Complete requests:").context("no requests")?;
        let seconds = number_after(text, "Time taken for tests:").context("no time")?;
        let mean = number_after(text, "Time per request:").unwrap_or(f64::NAN) * 1e3;
        let at = |label: &str| number_after(text, label).unwrap_or(f64::NAN) * 1e3;
        let times = Times { mean, p50: at("  50%"), p95: at("  95%"), p99: at("  99%"), ..Times::NONE };
        Ok(Said { operations, seconds, times, cpu_s: None, remark: None })
    },
};

/// Its rate is a pause in each connection's closed loop.
pub(crate) const HEY: Tool = Tool {
    name: "hey",
    program: "hey",
    package: Some("hey"),
    ask: |job| {
        let url = url(job)?;
        let rate = job.rate.map(|rate| format!("-q {}", rate / f64::from(job.connections)));
        let seconds = job.seconds.ceil();
        Some(Typed::line(&format!("-z {seconds}s -c {} {} {url}", job.connections, rate.unwrap_or_default())))
    },
    read: |finished, _| {
        let text = &finished.stdout;
        let seconds = number_after(text, "Total:").context("no time")?;
        let line = text.lines().find(|line| line.trim_start().starts_with("[200]") && line.ends_with("responses"));
        let operations = line.and_then(|line| number_after(line, "[200]")).context("no requests")?;
        let at = |label: &str| number_after(text, label).unwrap_or(f64::NAN) * 1e6;
        let times = Times {
            mean: at("Average:"),
            p50: at("50% in"),
            p95: at("95% in"),
            p99: at("99% in"),
            max: at("Slowest:"),
            ..Times::NONE
        };
        Ok(Said { operations, seconds, times, cpu_s: None, remark: None })
    },
};

/// Its rate is for each connection; it reports no quantiles.
pub(crate) const H2LOAD: Tool = Tool {
    name: "h2load",
    program: "h2load",
    package: Some("nghttp2-client"),
    ask: |job| {
        let url = url(job)?;
        let rate = job.rate.map(|rate| format!("--rps={}", rate / f64::from(job.connections)));
        let seconds = job.seconds.ceil();
        let rate = rate.unwrap_or_default();
        Some(Typed::line(&format!("--h1 -t 1 -c {} -D {seconds} {rate} {url}", job.connections)))
    },
    read: read_h2load,
};

fn read_h2load(finished: &Finished, job: &Job) -> Result<Said> {
    let text = &finished.stdout;
    let done = text.lines().find_map(|line| line.strip_prefix("requests:")).context("no requests")?;
    let done = done.split(',').find(|part| part.trim_end().ends_with("done")).context("no requests done")?;
    let operations = number_after(done, "").context("no requests done")?;
    let line = text.lines().find_map(|line| line.strip_prefix("time for request:"));
    let mean = line.and_then(|line| time_us(line.split_whitespace().nth(2)?)).unwrap_or(f64::NAN);
    let max = line.and_then(|line| time_us(line.split_whitespace().nth(1)?)).unwrap_or(f64::NAN);
    Ok(Said {
        operations,
        seconds: job.seconds.ceil(),
        times: Times { mean, max, ..Times::NONE },
        cpu_s: None,
        remark: None,
    })
}
