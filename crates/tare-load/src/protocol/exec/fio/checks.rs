//! Checks fio's figures against each other and against the kernel's.

use super::{Body, Job, NO_DIRECT, NO_SPACE, NO_URING};
use tare_core::load::Check;

/// How far the number of operations in flight may be from the requested one, as a share of it.
const LITTLE_WITHIN: f64 = 0.05;
/// With fewer operations than this for each one in flight, their mean proves nothing, because the end of the
/// measurement cuts through those in flight.
const LITTLE_ROUNDS: f64 = 100.0;
/// Below this many in flight per thread, fio's own time between two operations shows.
const LITTLE_DEPTH: f64 = 8.0;
/// Engines that can have several operations of one thread in flight.
const ASYNCHRONOUS: &[&str] = &["libaio", "io_uring"];
/// Options that keep fio from having as many operations in flight as its depth says.
const THROTTLES: &[&str] = &["rate", "rate_iops", "thinktime", "rate_process", "iodepth_batch", "iodepth_low"];
/// What the kernel may count in addition to fio's own I/O, as a share of it and in bytes: what is read to load an
/// engine and a job file, and the file system's own metadata.
const KERNEL_SHARE: f64 = 0.02;
const KERNEL_SLACK: u64 = 8 << 20;

/// Bytes that the kernel moved to and from storage for fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counters {
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
}

impl Counters {
    /// The difference between two readings of `/proc/<pid>/io` of the process that waited for fio. Without a first
    /// reading the counters started at 0; without a second nothing is known.
    pub(super) fn between(before: &str, after: &str) -> Option<Counters> {
        let after = Counters::read(after)?;
        let before = Counters::read(before).unwrap_or(Counters { read_bytes: 0, write_bytes: 0 });
        Some(Counters {
            read_bytes: after.read_bytes.checked_sub(before.read_bytes)?,
            write_bytes: after.write_bytes.checked_sub(before.write_bytes)?,
        })
    }

    fn read(text: &str) -> Option<Counters> {
        let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Counters { read_bytes: number("read_bytes:")?, write_bytes: number("write_bytes:")? })
    }
}

/// All checks that apply to this report. What cannot be checked is omitted.
pub(super) fn all(body: &Body, counters: Option<&Counters>) -> Vec<Check> {
    let mut checks = vec![errors(body), whole(body)];
    checks.extend(bytes(body));
    checks.extend(under_way(body));
    checks.extend(counters.into_iter().flat_map(|counters| kernel(body, counters)));
    checks
}

fn check(name: &str, passed: bool, detail: String) -> Check {
    Check { always: false, outcome: false, name: name.to_owned(), passed, detail }
}

fn errors(body: &Body) -> Check {
    let Some(job) = body.jobs.iter().find(|job| job.error != 0 || job.total_err > 0) else {
        return check("fio met no error", true, "0 errors".to_owned());
    };
    let (error, uring) = (job.error, job.option(body, "ioengine") == Some("io_uring"));
    let reason = std::io::Error::from_raw_os_error(error);
    let advice = match error {
        libc::ENOSPC | libc::EDQUOT => format!(": {NO_SPACE}"),
        libc::EINVAL if job.flag(body, "direct") => format!(": {NO_DIRECT}"),
        libc::EPERM | libc::ENOSYS | libc::EACCES if uring => format!(": {NO_URING}"),
        _ => String::new(),
    };
    check("fio met no error", false, format!("{reason}, {} of them{advice}", job.total_err.max(1)))
}

fn whole(body: &Body) -> Check {
    let cut: u64 = body.directions().map(|(_, direction)| direction.short_ios + direction.drop_ios).sum();
    check("no I/O was cut short", cut == 0, format!("{cut} short or dropped"))
}

/// Whether bytes equal operations times the block size. An operation may have begun before the count and ended in it,
/// or the other way round, so they may differ by as many operations as can be in flight.
fn bytes(body: &Body) -> Option<Check> {
    let mut detail = Vec::new();
    let mut passed = true;
    for job in &body.jobs {
        if ["bssplit", "bsrange", "blocksize_range"].iter().any(|name| job.option(body, name).is_some()) {
            return None;
        }
        let block = job.option(body, "bs").or(job.option(body, "blocksize")).map_or(Some(4096), parse_size)?;
        let slack = job.in_flight(body)? as u64;
        for (name, direction) in job.directions() {
            for operations in [direction.total_ios, direction.clat_ns.count] {
                let off = direction.io_bytes.abs_diff(operations.saturating_mul(block));
                passed &= off <= slack.saturating_mul(block);
            }
            let binned: u64 = direction.clat_ns.bins.values().sum();
            passed &= direction.clat_ns.bins.is_empty() || binned == direction.clat_ns.count;
            let (count, bytes) = (direction.total_ios, direction.io_bytes);
            detail.push(format!("{name}: {bytes} B in {count} of {block} B"));
        }
    }
    Some(check("bytes are blocks", passed, detail.join("; ")))
}

/// Little's law: rate times mean time, both by fio's clock, is the number in flight. Times start at the submission, as
/// they do for the depth.
fn under_way(body: &Body) -> Option<Check> {
    let mut wanted = 0.0;
    for job in &body.jobs {
        let engine = job.option(body, "ioengine")?;
        // Without direct I/O the kernel completes an operation while it is being submitted.
        let asynchronous = ASYNCHRONOUS.contains(&engine) && job.flag(body, "direct");
        let throttled = THROTTLES.iter().any(|name| job.option(body, name).is_some());
        if !asynchronous || throttled || job.depth(body)? < LITTLE_DEPTH || !job.is_one_kind(body) {
            return None;
        }
        wanted += job.in_flight(body)?;
    }
    let operations: u64 = body.directions().map(|(_, direction)| direction.lat_ns.count).sum();
    if wanted == 0.0 || (operations as f64) < wanted * LITTLE_ROUNDS {
        return None;
    }
    let found: f64 = body.directions().map(|(_, direction)| direction.iops * direction.lat_ns.mean / 1e9).sum();
    let passed = (found / wanted - 1.0).abs() <= LITTLE_WITHIN;
    Some(check("Little's law", passed, format!("rate x mean time is {found:.1} under way, asked for were {wanted}")))
}

/// Whether the kernel moved what fio says it moved. Only direct I/O bypasses the page cache. What is moved while fio
/// ramps up is counted by the kernel but not by fio; without a ramp the two are the same, apart from what is read to
/// load fio.
fn kernel(body: &Body, counters: &Counters) -> Vec<Check> {
    if !body.jobs.iter().all(|job| job.flag(body, "direct")) || body.jobs.iter().any(|job| job.mixed.is_some()) {
        return Vec::new();
    }
    let ramps = !body.ramp().is_zero();
    let of = |wanted: &str| -> u64 {
        body.directions().filter(|(name, _)| *name == wanted).map(|(_, direction)| direction.io_bytes).sum()
    };
    let moved = [("read", counters.read_bytes), ("write", counters.write_bytes)];
    let held = moved.map(|(name, kernel)| {
        let fio = of(name);
        // A job may start while the previous one is still being told to stop; only the kernel counts what was in flight
        // then.
        let most = fio + (fio as f64 * KERNEL_SHARE) as u64 + KERNEL_SLACK;
        let passed = kernel >= fio && (ramps || kernel <= most);
        let bound = if ramps { "at least as many, as fio ramped up" } else { "as many" };
        let detail = format!("fio counts {fio} B, the kernel {kernel} B; wanted were {bound}");
        check(&format!("the kernel's bytes, {name}"), passed, detail)
    });
    held.into()
}

impl Job {
    /// The most operations that one thread has in flight.
    fn depth(&self, body: &Body) -> Option<f64> {
        self.option(body, "iodepth").map_or(Some(1.0), |depth| depth.parse().ok())
    }

    /// How many threads this entry of the report covers.
    fn threads(&self, body: &Body) -> Option<f64> {
        let clones: f64 = self.option(body, "numjobs").map_or(Some(1.0), |jobs| jobs.parse().ok())?;
        Some(if self.flag(body, "group_reporting") { clones } else { 1.0 })
    }

    /// The most operations that all of them have in flight.
    fn in_flight(&self, body: &Body) -> Option<f64> {
        Some(self.depth(body)? * self.threads(body)?)
    }

    /// Whether the options are those of everything that the entry covers: jobs with other options in the same group add
    /// their time to it.
    fn is_one_kind(&self, body: &Body) -> bool {
        let longest = self.directions().map(|(_, direction)| direction.runtime).max().unwrap_or(0);
        let threads = self.job_runtime as f64 / longest.max(1) as f64;
        self.threads(body).is_some_and(|wanted| (threads / wanted - 1.0).abs() < 0.2)
    }
}

/// A size as fio reads it: bytes, or with a unit that is a power of 1024.
fn parse_size(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let scale = match text[digits..].trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(scale)
}
