//! Reports of fio 3.33, as they are and with one place changed.

use super::*;
use tare_core::load::Check;
use tare_testkit::histogram::decode;

const PLUS: &str = include_str!("../fixtures/fio-plus.txt");

fn concluded(output: &str) -> Concluded {
    conclude(output).unwrap()
}

/// The report with `from`, which must occur in it, replaced by `to`.
fn changed(from: &str, to: &str) -> Concluded {
    assert!(PLUS.contains(from), "{from}");
    concluded(&PLUS.replace(from, to))
}

fn names(checks: &[Check]) -> Vec<&str> {
    checks.iter().map(|check| check.name.as_str()).collect()
}

/// The checks that failed.
fn failed(concluded: &Concluded) -> Vec<&str> {
    concluded.checks.iter().filter(|check| !check.passed).map(|check| check.name.as_str()).collect()
}

#[test]
fn a_plain_report_has_percentiles_of_one_direction() {
    let found = concluded(include_str!("../fixtures/fio.json"));
    assert_eq!((found.operations, found.errors, found.reported.len()), (35_177, 0, 7));
    let near = |name: &str, wanted: f64| (found.reported[name] / wanted - 1.0).abs() < 1e-6;
    assert!(near("throughput", 17579.710145) && near("p50_us", 52.992) && near("p999_us", 140.288), "{found:?}");
    assert_eq!(found.by_operation["read"].response_time, "", "there is no histogram in it");
    let mixed = concluded(include_str!("../fixtures/fio-mixed.json"));
    assert_eq!(mixed.reported.len(), 1, "percentiles of reads and writes are not one: {mixed:?}");
}

#[test]
fn completion_times_are_histograms_by_direction() {
    let found = concluded(PLUS);
    assert_eq!(found.by_operation.keys().collect::<Vec<_>>(), ["read", "write"]);
    let body = read(PLUS).unwrap().body;
    let mut all = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    for (name, direction) in body.directions() {
        let operation = &found.by_operation[name];
        let times = decode(&operation.response_time);
        assert_eq!((times.len(), operation.count), (direction.clat_ns.count, direction.clat_ns.count));
        for (share, key) in [(0.5, "50.000000"), (0.99, "99.000000"), (0.999, "99.900000")] {
            let (ours, theirs) = (times.value_at_quantile(share) as f64, direction.clat_ns.percentile[key]);
            assert!((ours / theirs - 1.0).abs() < 0.002, "{name} {key}: {ours}, fio says {theirs}");
        }
        assert!((times.mean() / direction.clat_ns.mean - 1.0).abs() < 0.01, "{name}");
        all.add(&times).unwrap();
    }
    assert!((found.reported["p99_us"] * 1e3 / all.value_at_quantile(0.99) as f64 - 1.0).abs() < 0.002);
    let rate: f64 = body.directions().map(|(_, direction)| direction.iops).sum();
    assert_eq!(found.reported["throughput"], rate);
    assert_eq!(found.facts["fio.iodepth"], "32");
    assert!(found.facts["fio.read_bandwidth"].ends_with(" MB/s") && found.facts["tool.version"] == "fio-3.33");
}

#[test]
fn a_good_report_passes_every_check() {
    let found = concluded(PLUS);
    let wanted = [
        "fio met no error",
        "no I/O was cut short",
        "bytes are blocks",
        "Little's law",
        "the kernel's bytes, read",
        "the kernel's bytes, write",
    ];
    assert_eq!((names(&found.checks), failed(&found)), (wanted.to_vec(), Vec::new()), "{found:?}");
}

#[test]
fn each_check_can_fail() {
    assert_eq!(failed(&changed("\"short_ios\" : 0", "\"short_ios\" : 3")), ["no I/O was cut short"]);
    assert_eq!(failed(&changed("\"bs\" : \"4k\"", "\"bs\" : \"8k\"")), ["bytes are blocks"]);
    assert_eq!(failed(&changed("\"iodepth\" : \"32\"", "\"iodepth\" : \"64\"")), ["Little's law"]);
    assert_eq!(failed(&changed("\"error\" : 0", "\"error\" : 5")), ["fio met no error"]);
    let of_kernel = |before: &str, by: i64| {
        let line = PLUS.lines().rfind(|line| line.starts_with(before)).unwrap();
        let bytes: i64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        changed(line, &format!("{before} {}", bytes + by))
    };
    assert_eq!(failed(&of_kernel("read_bytes:", -100_000_000)), ["the kernel's bytes, read"]);
    assert_eq!(failed(&of_kernel("write_bytes:", 100_000_000)), ["the kernel's bytes, write"]);
}

#[test]
fn what_is_read_while_fio_ramps_up_is_the_kernels_only() {
    let more = PLUS.replace("\"ramp_time\" : \"0\"", "\"ramp_time\" : \"1m\"");
    let line = more.lines().rfind(|line| line.starts_with("read_bytes:")).unwrap().to_owned();
    let found = concluded(&more.replace(&line, "read_bytes: 9999999999"));
    assert_eq!((failed(&found), found.unmeasured), (Vec::new(), Duration::from_secs(60)));
    let found = concluded(&more.replace(&line, "read_bytes: 10"));
    assert_eq!(failed(&found), ["the kernel's bytes, read"]);
}

#[test]
fn what_cannot_be_checked_is_not_claimed() {
    let has = |found: &Concluded, name: &str| names(&found.checks).contains(&name);
    let buffered = changed("\"direct\" : \"1\"", "\"direct\" : \"0\"");
    assert!(!has(&buffered, "Little's law") && !has(&buffered, "the kernel's bytes, read"), "{buffered:?}");
    let throttled = changed("\"direct\" : \"1\"", "\"direct\" : \"1\", \"rate_iops\" : \"500\"");
    assert!(!has(&throttled, "Little's law"));
    let synchronous = changed("\"ioengine\" : \"libaio\"", "\"ioengine\" : \"psync\"");
    assert!(!has(&synchronous, "Little's law"));
    let sizes = changed("\"bs\" : \"4k\"", "\"bssplit\" : \"4k/50:8k/50\"");
    assert!(!has(&sizes, "bytes are blocks"));
    let (from, to) = (PLUS.find("\n{").unwrap(), PLUS.rfind('}').unwrap());
    let alone = concluded(&PLUS[from + 1..=to]);
    assert!(!has(&alone, "the kernel's bytes, read") && has(&alone, "Little's law"));
}

#[test]
fn an_error_is_told_with_what_to_do() {
    let found = concluded(include_str!("../fixtures/fio-no-space.txt"));
    assert!(found.is_void());
    assert!(found.checks[0].detail.contains("No space left") && found.checks[0].detail.contains("volume larger"));
    let detail = |error: &str, engine: &str| {
        let text = PLUS.replace("\"error\" : 0", &format!("\"error\" : {error}"));
        concluded(&text.replace("libaio", engine)).checks[0].detail.clone()
    };
    assert!(detail("22", "libaio").contains("direct I/O"));
    assert!(detail("1", "io_uring").contains("use libaio"));
}

#[test]
fn other_reports_are_refused() {
    let several = PLUS.replace("\"jobs\" : [", "\"jobs\" : [{\"groupid\": 7, \"error\": 0},");
    assert!(conclude(&several).unwrap_err().message.contains("several groups"));
    assert!(conclude("fio: engine nosuch not loadable\n").unwrap_err().message.contains("no report"));
    assert!(conclude("{\n").is_err());
    assert!(conclude("{\"fio version\": \"3\", \"jobs\": []}").unwrap_err().message.contains("no job"));
}

#[test]
fn times_and_bare_seconds_are_read() {
    let read = ["0", "60", "1m", "500ms"].map(|text| parse_time(text).unwrap().as_millis());
    assert_eq!((read, parse_time("soon")), ([0, 60_000, 60_000, 500], None));
}
