//! Histograms of times: decoded, merged, read. Percentiles are never averaged: counts are merged, and the
//! percentile is read from the merged histogram.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::Serialize;
use std::io::Read;
use tare_core::load::{LoadSummary, OperationSummary};

/// A quantile is read from at least this many operations beyond it; fewer say "too few", not a number.
pub(crate) const BEYOND_MIN: f64 = 10.0;

/// A point of a curve of response time over percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The share of operations that took at most `us`; 0 to 1.
    pub quantile: f64,
    /// Response time, us.
    pub us: f64,
}

/// The response times of all operations of a trial but those that linger, ns: from the planned start.
pub(crate) fn response_times(load: &LoadSummary) -> Result<Histogram<u64>, String> {
    merged(load, "response", |operation| &operation.response_time)
}

/// The service times of all operations of a trial, ns: from the actual send; none where they are the response times,
/// because an operation is planned for the moment it is sent.
pub(crate) fn service_times(load: &LoadSummary) -> Result<Option<Histogram<u64>>, String> {
    let differ = load.operations.values().any(|operation| operation.service_time != operation.response_time);
    differ.then(|| merged(load, "service", |operation| &operation.service_time)).transpose()
}

fn merged(load: &LoadSummary, what: &str, text: fn(&OperationSummary) -> &str) -> Result<Histogram<u64>, String> {
    let mut merged = Histogram::new(3).map_err(|error| format!("no histogram could be made: {error}"))?;
    // How long news took to come says nothing of the service.
    for (name, operation) in load.operations.iter().filter(|(_, operation)| !operation.lingers) {
        if text(operation).is_empty() {
            if operation.count > 0 && load.reported.is_empty() {
                return Err(format!("operation '{name}' was counted {} times but has no histogram", operation.count));
            }
            continue;
        }
        let part = decode(text(operation))
            .map_err(|why| format!("the {what} times of operation '{name}' cannot be read: {why}"))?;
        merged.add(&part).map_err(|error| format!("the {what} times of '{name}' cannot be merged: {error}"))?;
    }
    Ok(merged)
}

/// HdrHistogram V2 with deflate, base64.
pub(crate) fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text.trim()).map_err(|error| error.to_string())?;
    let plain = inflated(&bytes).ok_or("it is damaged, or larger than any histogram of times")?;
    Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|error| error.to_string())
}

/// A histogram begins with this when it is compressed, followed by its length.
const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();
/// Bytes before the counts; at the fifth their length stands.
const HEAD: usize = 40;
/// More than the counts of any histogram of times take: 16 MiB.
const INFLATED_MAX: u64 = 16 << 20;

/// A histogram, not compressed any more. The library makes room for as many counts as are claimed, so they must be
/// there.
fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let compressed = bytes.strip_prefix(&COMPRESSED)?.get(4..)?;
    let mut plain = Vec::new();
    ZlibDecoder::new(compressed).take(INFLATED_MAX).read_to_end(&mut plain).ok()?;
    let claimed = u32::from_be_bytes(*plain.get(4..)?.first_chunk()?);
    let counts = plain.get(HEAD..)?;
    let bears = counts.len() >= claimed as usize && !counts.windows(MOST_EMPTY.len()).any(|part| part == MOST_EMPTY);
    bears.then_some(plain)
}

/// As many empty buckets as a number can tell, which the library does not bear: it negates it. No real histogram holds
/// a number of which this could be a part.
const MOST_EMPTY: [u8; 9] = [0xff; 9];

/// Two histograms as they are recorded, as one. Counts are added; an empty text is an empty histogram.
pub(crate) fn add_recorded(text: &mut String, other: &str) -> Result<(), String> {
    if text.is_empty() || other.is_empty() {
        text.push_str(other);
        return Ok(());
    }
    let mut sum = decode(text)?;
    sum.auto(true);
    sum.add(&decode(other)?).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&sum, &mut bytes).map_err(|error| error.to_string())?;
    *text = STANDARD.encode(bytes);
    Ok(())
}

/// A quantile of operations of which some failed, us.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Ranked {
    /// How many.
    Known(f64),
    /// It lies among those that failed: at least as long as the longest time of those that did not.
    AtLeast(f64),
}

/// The quantile of these times and of `failed` operations besides, which rank behind all of them: who waits for an
/// answer that never comes waits longest. None when fewer than ten operations lie beyond it, i.e. below
/// `10 / (1 - quantile)` operations.
pub(crate) fn ranked_us(times: &Histogram<u64>, failed: u64, quantile: f64) -> Option<Ranked> {
    let all = times.len() as f64 + failed as f64;
    if all * (1.0 - quantile) < BEYOND_MIN - 1e-6 {
        return None;
    }
    let rank = quantile * all;
    Some(match rank <= times.len() as f64 {
        true => Ranked::Known(interpolated_ns(times, rank) / 1e3),
        false => Ranked::AtLeast(times.max() as f64 / 1e3),
    })
}

/// The same where it is known.
pub(crate) fn quantile_us(times: &Histogram<u64>, failed: u64, quantile: f64) -> Option<f64> {
    match ranked_us(times, failed, quantile)? {
        Ranked::Known(us) => Some(us),
        Ranked::AtLeast(_) => None,
    }
}

/// The time that `wanted` of the times do not exceed, ns, on a straight line through its bucket: the times of a bucket
/// are taken to lie evenly in it. A bucket of three digits is 0.05 to 0.1 % wide, and two forms of which one is 0.05 %
/// slower would else have the same median or medians a whole bucket apart.
fn interpolated_ns(times: &Histogram<u64>, wanted: f64) -> f64 {
    let mut before = 0.0;
    for bucket in times.iter_recorded() {
        let (value, count) = (bucket.value_iterated_to(), bucket.count_at_value() as f64);
        if before + count >= wanted - 1e-6 {
            let (low, width) = (times.lowest_equivalent(value), times.equivalent_range(value));
            // One that is a nanosecond wide holds one value.
            let along = if width > 1 { (wanted - before).clamp(0.0, count) / count } else { 0.0 };
            return low as f64 + along * width as f64;
        }
        before += count;
    }
    times.max() as f64
}

/// Percentiles of a set of times, us; one that too few operations lie beyond is absent.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Percentiles {
    /// Median.
    pub p50_us: Option<f64>,
    /// 90th percentile.
    pub p90_us: Option<f64>,
    /// 99th percentile.
    pub p99_us: Option<f64>,
    /// 99.9th percentile.
    pub p999_us: Option<f64>,
    /// Arithmetic mean.
    pub mean_us: Option<f64>,
    /// Largest.
    pub max_us: Option<f64>,
}

/// Operations that failed or were never sent for want of room, but for those that linger: none of them has a time.
pub(crate) fn without_time(load: &LoadSummary) -> u64 {
    let awaited = load.operations.values().filter(|operation| !operation.lingers);
    awaited.map(|operation| operation.errors).sum::<u64>() + load.dropped
}

/// The percentiles of several exported histograms together, and of `failed` operations that have no time and rank
/// last; empty texts are none. One that lies among these is absent; mean and largest are of those with a time.
///
/// # Errors
/// When one of them cannot be read.
pub fn percentiles<'a>(exported: impl IntoIterator<Item = &'a str>, failed: u64) -> Result<Percentiles, String> {
    let mut merged = Histogram::new(3).map_err(|error| format!("no histogram could be made: {error}"))?;
    for text in exported.into_iter().filter(|text| !text.is_empty()) {
        merged.add(&decode(text)?).map_err(|error| error.to_string())?;
    }
    let timed = !merged.is_empty();
    Ok(Percentiles {
        p50_us: quantile_us(&merged, failed, 0.5),
        p90_us: quantile_us(&merged, failed, 0.9),
        p99_us: quantile_us(&merged, failed, 0.99),
        p999_us: quantile_us(&merged, failed, 0.999),
        mean_us: timed.then(|| merged.mean() / 1e3),
        max_us: timed.then(|| merged.max() as f64 / 1e3),
    })
}

/// Response time over percentile, of several trials merged, from the fastest tenth on: 20 points for each factor of ten
/// towards 1, as far as ten operations lie beyond and none of those before failed.
///
/// # Errors
/// When a histogram cannot be read.
pub fn latency_curve<'a>(loads: impl IntoIterator<Item = &'a LoadSummary>) -> Result<Vec<CurvePoint>, String> {
    const POINTS_PER_DECADE: u32 = 20;
    let (mut merged, mut failed): (Option<Histogram<u64>>, u64) = (None, 0);
    for load in loads {
        failed += without_time(load);
        let times = response_times(load)?;
        match &mut merged {
            Some(all) => all.add(&times).map_err(|error| error.to_string())?,
            None => merged = Some(times),
        }
    }
    let Some(merged) = merged else { return Ok(Vec::new()) };
    let mut points = Vec::new();
    for step in 1..=7 * POINTS_PER_DECADE {
        let quantile = 1.0 - 10_f64.powf(-f64::from(step) / f64::from(POINTS_PER_DECADE));
        let Some(us) = quantile_us(&merged, failed, quantile) else { break };
        points.push(CurvePoint { quantile, us });
    }
    Ok(points)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An operation of a closed loop whose times are these, ns.
    pub(crate) fn operation(times_ns: impl IntoIterator<Item = u64>) -> OperationSummary {
        let mut times = Histogram::<u64>::new(3).unwrap();
        for time in times_ns {
            times.record(time).unwrap();
        }
        let text = tare_testkit::histogram::encode(&times);
        OperationSummary { count: times.len(), service_time: text.clone(), response_time: text, ..Default::default() }
    }

    #[test]
    fn times_of_what_lingers_are_not_the_services() {
        let mut load = LoadSummary::default();
        load.operations.insert("get".into(), operation((1..=1000).map(|n| n * 1000)));
        load.operations.insert("news".into(), OperationSummary { lingers: true, ..operation([9_000_000_000; 1000]) });
        assert_eq!(response_times(&load).unwrap().len(), 1000);
        assert!(response_times(&load).unwrap().max() < 1_100_000);
    }

    #[test]
    fn merging_gives_the_percentile_of_all_operations_not_the_mean_of_percentiles() {
        // 9900 fast operations and 100 slow ones: the p99 of all is fast; the mean of the two p99 would be 0.5 ms.
        let mut load = LoadSummary::default();
        load.operations.insert("get".into(), operation((0..9_900).map(|n| 10_000 + n)));
        load.operations.insert("set".into(), operation((0..100).map(|_| 1_000_000)));
        let times = response_times(&load).unwrap();
        let p99 = quantile_us(&times, 0, 0.99).unwrap();
        assert!((p99 / 19.9 - 1.0).abs() < 0.002, "{p99}");
    }

    /// A bucket at 1.5 ms is 1 us wide: of times that grow by a tenth of it, every step must show.
    #[test]
    fn a_quantile_does_not_snap_to_its_bucket() {
        let p50 = |from_ns: u64| {
            let times = (0..10_001).map(|n| from_ns + 100 * n);
            let load = LoadSummary { operations: [("get".into(), operation(times))].into(), ..Default::default() };
            quantile_us(&response_times(&load).unwrap(), 0, 0.5).unwrap()
        };
        for step in 0..20 {
            let from_ns = 1_000_000 + 100 * step;
            let truth = (from_ns + 500_000) as f64 / 1e3;
            assert!((p50(from_ns) - truth).abs() < 0.11, "{} is not {truth} us", p50(from_ns));
            assert!(p50(from_ns + 100) > p50(from_ns), "0.1 us do not show at {truth} us");
        }
    }

    #[test]
    fn a_quantile_with_too_few_operations_is_no_number() {
        let mut load = LoadSummary::default();
        load.operations.insert("get".into(), operation((1..=999).map(|n| n * 1_000)));
        let times = response_times(&load).unwrap();
        assert_eq!(quantile_us(&times, 0, 0.99), None);
        load.operations.insert("set".into(), operation([1_000]));
        assert!(quantile_us(&response_times(&load).unwrap(), 0, 0.99).is_some());
    }

    #[test]
    fn a_curve_rises_and_ends_where_operations_run_out() {
        let mut load = LoadSummary::default();
        load.operations.insert("get".into(), operation((1..=10_000).map(|n| n * 100)));
        let curve = latency_curve([&load, &load]).unwrap();
        assert!(curve.windows(2).all(|pair| pair[0].us <= pair[1].us && pair[0].quantile < pair[1].quantile));
        let last = curve.last().unwrap().quantile;
        assert!((0.999..=0.9995 + 1e-9).contains(&last), "{last}");
    }

    #[test]
    fn service_times_stand_apart_where_they_differ() {
        let mut load = LoadSummary::default();
        load.operations.insert("get".into(), operation((1..=1_000).map(|n| n * 1_000)));
        assert_eq!(service_times(&load), Ok(None));
        let shorter = operation((1..=1_000).map(|n| n * 500));
        load.operations.get_mut("get").unwrap().service_time = shorter.service_time;
        let service = service_times(&load).unwrap().unwrap();
        assert!((quantile_us(&service, 0, 0.5).unwrap() / 250.0 - 1.0).abs() < 0.002);
        assert!((quantile_us(&response_times(&load).unwrap(), 0, 0.5).unwrap() / 500.0 - 1.0).abs() < 0.002);
    }

    #[test]
    fn rubbish_is_named() {
        let mut load = LoadSummary::default();
        load.operations.insert("get".into(), OperationSummary { response_time: "!".into(), ..Default::default() });
        assert!(response_times(&load).unwrap_err().contains("'get'"));
    }
}
