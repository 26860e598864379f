//! Reads fio's report in full: operations by direction, with their completion times as histograms, and checks of its
//! figures against each other and the kernel's.
//!
//! Only `--output-format=json+` has the histograms. fio divides each power of two into 64 buckets and names each by its
//! middle, so a time is accurate to 0.8 %, as in fio's own percentiles. A plain `json` report is read too; it has
//! percentiles by direction, which describe the whole only if there is one direction.

mod checks;

use super::figure::Concluded;
use crate::histogram::Histogram;
use checks::Counters;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::load::OperationSummary;
use tare_core::units::parse_duration;

/// What to do about an error message of fio's that explains little, by a part of it.
pub(super) const ADVICE: &[(&str, &str)] = &[
    ("No space left on device", NO_SPACE),
    ("does not support direct=1", NO_DIRECT),
    ("io_uring_queue_init", NO_URING),
    ("engine io_uring", NO_URING),
];
const NO_SPACE: &str = "make the volume larger than the file, or the file smaller";
const NO_DIRECT: &str =
    "place the volume on a file system that takes direct I/O in whole blocks of this size, such as ext4 or xfs";
const NO_URING: &str = "io_uring is refused here: use libaio, or a form whose filter of system calls and whose kernel \
    allow it (seccomp, kernel.io_uring_disabled)";

/// A report, and the kernel's counters if the script that ran fio printed them around it.
#[derive(Debug)]
struct Report {
    body: Body,
    counters: Option<Counters>,
}

#[derive(Debug, Deserialize)]
struct Body {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(rename = "global options", default)]
    global: BTreeMap<String, String>,
    jobs: Vec<Job>,
}

/// A job, or its whole group with `group_reporting`.
#[derive(Debug, Deserialize)]
struct Job {
    groupid: u64,
    /// An errno, or 0.
    error: i32,
    /// How many errors there were, if errors were to be tolerated.
    #[serde(default, deserialize_with = "count")]
    total_err: u64,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, String>,
    read: Option<Direction>,
    write: Option<Direction>,
    /// With `unified_rw_reporting`: both in one.
    mixed: Option<Direction>,
    /// Summed over all threads, ms.
    #[serde(default)]
    job_runtime: u64,
}

#[derive(Debug, Deserialize)]
struct Direction {
    #[serde(deserialize_with = "count")]
    io_bytes: u64,
    iops: f64,
    /// The measured time, ms.
    runtime: u64,
    #[serde(deserialize_with = "count")]
    total_ios: u64,
    #[serde(default, deserialize_with = "count")]
    short_ios: u64,
    #[serde(default, deserialize_with = "count")]
    drop_ios: u64,
    /// From before the submission to the completion.
    lat_ns: Times,
    /// From after the submission to the completion.
    clat_ns: Times,
}

#[derive(Debug, Deserialize)]
struct Times {
    max: f64,
    mean: f64,
    #[serde(rename = "N", deserialize_with = "count")]
    count: u64,
    /// The count of each time in ns.
    #[serde(default, deserialize_with = "counts")]
    bins: BTreeMap<u64, u64>,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// No tool counts higher than this, and many such counts can be added up: 2^48.
const COUNT_MAX: u64 = 1 << 48;

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    u64::deserialize(deserializer).and_then(believable)
}

fn counts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<u64, u64>, D::Error> {
    let counts = BTreeMap::<u64, u64>::deserialize(deserializer)?;
    counts.into_iter().map(|(time, count)| Ok((time, believable(count)?))).collect()
}

fn believable<E: Error>(count: u64) -> Result<u64, E> {
    if count > COUNT_MAX { Err(E::custom(format_args!("{count} is more than anything counts"))) } else { Ok(count) }
}

/// The percentiles of a plain report, and their names here.
const PERCENTILES: &[(&str, &str)] =
    &[("50.000000", "p50_us"), ("90.000000", "p90_us"), ("99.000000", "p99_us"), ("99.900000", "p999_us")];

impl Job {
    fn directions(&self) -> impl Iterator<Item = (&'static str, &Direction)> {
        let both = [("read", &self.read), ("write", &self.write)];
        // If a report has all three, the third is the sum of the others.
        let mixed = Some(("mixed", &self.mixed)).filter(|_| self.read.is_none() && self.write.is_none());
        let all = both.into_iter().chain(mixed).filter_map(|(name, direction)| Some((name, direction.as_ref()?)));
        all.filter(|(_, direction)| direction.total_ios > 0)
    }

    /// An option of the job, or of all jobs.
    fn option<'a>(&'a self, body: &'a Body, name: &str) -> Option<&'a str> {
        self.options.get(name).or_else(|| body.global.get(name)).map(String::as_str)
    }

    /// An option that is present or absent, or has the value 0 or 1.
    fn flag(&self, body: &Body, name: &str) -> bool {
        self.option(body, name).is_some_and(|value| value != "0")
    }
}

impl Body {
    fn directions(&self) -> impl Iterator<Item = (&'static str, &Direction)> {
        self.jobs.iter().flat_map(Job::directions)
    }

    /// How long fio ran before it counted.
    fn ramp(&self) -> Duration {
        let ramps = self.jobs.iter().filter_map(|job| parse_time(job.option(self, "ramp_time")?));
        ramps.max().unwrap_or_default()
    }
}

/// Reads fio's output, with what the script that ran it printed around it.
///
/// # Errors
/// When it is not a report of fio's, or has several groups, which have no common result.
pub(super) fn conclude(output: &str) -> Result<Concluded, Fault> {
    let Report { body, counters } = read(output)?;
    let Some(first) = body.jobs.first() else { return Err(Fault::new("fio reports no job")) };
    if body.jobs.iter().any(|job| job.groupid != first.groupid) {
        return Err(Fault::new("fio reports several groups of jobs, which have no common result")
            .remedy("let fio do one thing in a run: no stonewall and no new_group"));
    }
    let mut times: BTreeMap<&'static str, Histogram> = BTreeMap::new();
    let mut counts: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (name, direction) in body.directions() {
        *counts.entry(name).or_default() += direction.clat_ns.count;
        let times = times.entry(name).or_insert_with(Histogram::new);
        direction.clat_ns.bins.iter().for_each(|(ns, count)| times.record_many(*ns, *count));
    }
    let errors: u64 = body.jobs.iter().map(|job| job.total_err.max(u64::from(job.error != 0))).sum();
    let mut reported = reported(&body, &times);
    reported.insert("throughput".to_owned(), body.directions().map(|(_, direction)| direction.iops).sum());
    let operation = |(name, count): (&&'static str, &u64)| {
        let histogram = times.get(*name).filter(|times| times.total() > 0).map(Histogram::export).unwrap_or_default();
        // A job thread that met an error has ended with it, so the error belongs to no operation; a check reports it.
        let summary = OperationSummary {
            count: *count,
            service_time: histogram.clone(),
            response_time: histogram,
            ..OperationSummary::default()
        };
        ((*name).to_owned(), summary)
    };
    Ok(Concluded {
        operations: counts.values().sum(),
        errors,
        by_operation: counts.iter().map(operation).collect(),
        reported,
        checks: checks::all(&body, counters.as_ref()),
        facts: facts(&body, counters.as_ref()),
        unmeasured: body.ramp(),
    })
}

/// Times in us: those of the merged histograms, or fio's own for the only direction.
fn reported(body: &Body, times: &BTreeMap<&'static str, Histogram>) -> BTreeMap<String, f64> {
    let mut all = Histogram::new();
    times.values().for_each(|times| all.merge(times));
    if all.total() > 0 {
        let named = [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)];
        let figure = |(name, quantile): (&str, f64)| (name.to_owned(), all.quantile(quantile) as f64 / 1e3);
        return named.into_iter().map(figure).collect();
    }
    let mut directions = body.directions();
    let (Some((_, only)), None) = (directions.next(), directions.next()) else { return BTreeMap::new() };
    let named = |(key, name): &(&str, &str)| Some(((*name).to_owned(), only.clat_ns.percentile.get(*key)? / 1e3));
    let mut figures: BTreeMap<String, f64> = PERCENTILES.iter().filter_map(named).collect();
    figures.insert("mean_us".to_owned(), only.clat_ns.mean / 1e3);
    figures.insert("max_us".to_owned(), only.clat_ns.max / 1e3);
    figures
}

fn facts(body: &Body, counters: Option<&Counters>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::from([("tool.version".to_owned(), body.version.clone())]);
    let mut bytes_s: BTreeMap<&str, f64> = BTreeMap::new();
    for (name, direction) in body.directions().filter(|(_, direction)| direction.runtime > 0) {
        *bytes_s.entry(name).or_default() += direction.io_bytes as f64 / (direction.runtime as f64 / 1e3);
    }
    let bandwidth =
        bytes_s.iter().map(|(name, rate)| (format!("fio.{name}_bandwidth"), format!("{:.1} MB/s", rate / 1e6)));
    facts.extend(bandwidth);
    for name in ["ioengine", "direct", "bs", "rw", "rwmixread", "iodepth", "numjobs", "size", "blockalign"] {
        let said = body.jobs.first().and_then(|job| job.option(body, name));
        facts.extend(said.map(|value| (format!("fio.{name}"), value.to_owned())));
    }
    let counted = counters.map(|kernel| format!("{} B read, {} B written", kernel.read_bytes, kernel.write_bytes));
    facts.extend(counted.map(|counted| ("fio.kernel_counted".to_owned(), counted)));
    facts
}

fn read(output: &str) -> Result<Report, Fault> {
    let starts = output.match_indices('{').map(|(at, _)| at);
    let from = starts.into_iter().find(|at| *at == 0 || output.as_bytes()[at - 1] == b'\n').unwrap_or(output.len());
    let mut documents = serde_json::Deserializer::from_str(&output[from..]).into_iter::<Body>();
    let body = match documents.next() {
        Some(body) => body.doing("read fio's report as JSON")?,
        None => return Err(Fault::new("fio printed no report")),
    };
    let after = &output[from + documents.byte_offset()..];
    Ok(Report { body, counters: Counters::between(&output[..from], after) })
}

/// A time as fio reads it: in seconds, unless it has a unit.
fn parse_time(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    parse_duration(text).ok()
}

#[cfg(test)]
mod tests;
