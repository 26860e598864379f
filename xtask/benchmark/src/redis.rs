//! Load generators for Redis that others wrote.

use crate::process::Finished;
use crate::tool::{Ask, Job, KEYS, Said, Times, Tool, Typed};
use anyhow::{Context, Result};

/// Redis's own. It counts operations instead of seconds, does one command at a time and has no rate.
pub(crate) const REDIS_BENCHMARK: Tool = Tool {
    name: "redis-benchmark",
    program: "redis-benchmark",
    package: Some("redis-tools"),
    ask: |job| {
        let Ask::Redis { set: 1.., get: 0 } = job.ask else { return None };
        let Job { port, connections, pipeline, rate: None, .. } = job else { return None };
        let operations = (job.expected * job.seconds) as u64;
        Some(Typed::line(&format!(
            "-h 127.0.0.1 -p {port} -c {connections} -P {pipeline} -n {operations} -t set -d 3 -r {KEYS} \
             --precision 3 --csv"
        )))
    },
    read: read_redis_benchmark,
};

/// `"SET","rps","mean","min","p50","p95","p99","max"`, times in ms.
fn read_redis_benchmark(finished: &Finished, job: &Job) -> Result<Said> {
    let line = finished.stdout.lines().find(|line| line.starts_with("\"SET\"")).context("no line for SET")?;
    let numbers: Vec<f64> = line.split(',').filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    let &[rate, mean, _min, p50, p95, p99, max] = numbers.as_slice() else {
        anyhow::bail!("not seven numbers: {line}");
    };
    let ms = 1e3;
    let times = Times { mean: mean * ms, p50: p50 * ms, p95: p95 * ms, p99: p99 * ms, p999: f64::NAN, max: max * ms };
    let operations = (job.expected * job.seconds).trunc();
    Ok(Said { operations, seconds: operations / rate, times, cpu_s: None, remark: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_csv_is_read() {
        let stdout = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
                      \"p99_latency_ms\",\"max_latency_ms\"\n\
                      \"SET\",\"80000.00\",\"0.337\",\"0.096\",\"0.319\",\"0.463\",\"0.711\",\"3.975\"\n";
        let finished = Finished { stdout: stdout.to_owned(), ..Finished::default() };
        let ask = Ask::Redis { set: 1, get: 0 };
        let job = Job::new(ask, 1, 50, 2.0, 80_000.0);
        let said = read_redis_benchmark(&finished, &job).unwrap();
        assert_eq!((said.operations, said.seconds, said.times.p99), (160_000.0, 2.0, 711.0));
        assert!((REDIS_BENCHMARK.ask)(&Job { ask: Ask::Redis { set: 1, get: 3 }, ..job }).is_none());
    }
}
