//! Each known tool's result is read as it is printed.

use super::*;
use crate::protocol::exec::figure::{Concluded, Wanted};

fn concluded(tool: &str, output: &str) -> Concluded {
    ToolRow::find(tool).unwrap().parser().conclude(output, 2.0).unwrap()
}

/// Compares `found` with the operations, errors and figures expected; there must be no other figures.
fn check(found: &Concluded, operations: u64, errors: u64, figures: &[(&str, f64)]) {
    assert_eq!((found.operations, found.errors), (operations, errors));
    let names: Vec<&str> = found.reported.keys().map(String::as_str).collect();
    assert_eq!(names.len(), figures.len(), "{names:?}");
    for (name, wanted) in figures {
        let value = found.reported.get(*name).unwrap_or_else(|| panic!("no {name} in {names:?}"));
        assert!((value / wanted - 1.0).abs() < 1e-6, "{name}: {value}, not {wanted}");
    }
}

#[test]
fn a_version_is_found_beside_whatever_else_is_said() {
    let drawn = "    _    ____\n   / \\  |  _ \\\n/_/   \\_\\_|   \\_\\ 5.6.3\n\nCopyright (c) 1999-2024 The Apache\n";
    let cases = [
        (drawn, "jmeter 5.6.3"),
        ("Copyright (c) 1998-2015 The Apache\nVersion 2.13.19691222\n", "Version 2.13.19691222"),
        (
            "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\n",
            "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer",
        ),
        ("httperf: warning: open file limit > FD_SETSIZE\nhttperf-0.9.0 compiled\n", "httperf-0.9.0 compiled"),
        ("\na tool without one\nmore\n", "a tool without one"),
    ];
    for (said, version) in cases {
        assert_eq!(version_in("jmeter", said).as_deref(), Some(version));
    }
    assert_eq!(version_in("jmeter", " \n"), None);
}

#[test]
fn redis_benchmark() {
    let found = concluded("redis-benchmark", include_str!("../fixtures/redis-benchmark.txt"));
    let times = [("mean_us", 309.0), ("p50_us", 303.0), ("p99_us", 575.0), ("max_us", 5703.0)];
    check(&found, 100_000, 0, &[&[("throughput", 84459.46)], &times[..]].concat());
    let found = concluded("redis-benchmark", include_str!("../fixtures/redis-benchmark-q.txt"));
    assert_eq!(found.reported.len(), 2, "{found:?}");
}

#[test]
fn two_tests_of_redis_benchmark_are_no_one_result() {
    let one = include_str!("../fixtures/redis-benchmark.txt");
    let twice = format!("{one}{one}");
    let refused = ToolRow::find("redis-benchmark").unwrap().parser().conclude(&twice, 2.0).unwrap_err();
    assert!(refused.message.contains("several results"), "{refused}");
}

#[test]
fn wrk() {
    let found = concluded("wrk", include_str!("../fixtures/wrk.txt"));
    let times = [("mean_us", 1980.0), ("max_us", 14300.0), ("p50_us", 1870.0), ("p90_us", 2710.0), ("p99_us", 4340.0)];
    check(&found, 3973, 0, &[&[("throughput", 1983.25)], &times[..]].concat());
    let found = concluded("wrk", include_str!("../fixtures/wrk-errors.txt"));
    assert_eq!((found.operations, found.errors, found.reported["throughput"]), (0, 2430, 0.0));
    let found = concluded("wrk", include_str!("../fixtures/wrk-broken.txt"));
    assert_eq!((found.operations, found.errors), (916, 6039));
}

#[test]
fn wrk2() {
    let found = concluded("wrk2", include_str!("../fixtures/wrk2.txt"));
    let times = [("p50_us", 980.0), ("p90_us", 1660.0), ("p99_us", 2200.0), ("p999_us", 4810.0)];
    let rest = [("throughput", 998.97), ("mean_us", 1020.0), ("max_us", 7210.0)];
    check(&found, 9990, 0, &[&rest[..], &times[..]].concat());
}

#[test]
fn oha() {
    let found = concluded("oha", include_str!("../fixtures/oha.json"));
    let times = [("p50_us", 1200.0), ("p90_us", 1700.0), ("p99_us", 2900.0), ("p999_us", 10100.0)];
    let rest = [("throughput", 7998.4 * 0.99), ("mean_us", 1250.0), ("max_us", 31200.0)];
    check(&found, 79_200, 804, &[&rest[..], &times[..]].concat());
}

#[test]
fn k6() {
    let found = concluded("k6", include_str!("../fixtures/k6.json"));
    let times = [("p50_us", 4550.0), ("p90_us", 7300.0), ("p99_us", 14600.0), ("p999_us", 33400.0)];
    let rest = [("throughput", 1999.2 * 0.998), ("mean_us", 4910.0), ("max_us", 61200.0)];
    check(&found, 19_960, 40, &[&rest[..], &times[..]].concat());
}

#[test]
fn other_summaries_of_k6() {
    let found = concluded("k6", include_str!("../fixtures/k6-machine.json"));
    let times = [("p50_us", 4500.0), ("p90_us", 7300.0), ("mean_us", 4900.0), ("max_us", 61_200.0)];
    check(&found, 19_960, 40, &[&[("throughput", 9980.0)], &times[..]].concat());
    let found = concluded("k6", include_str!("../fixtures/k6-iterations.json"));
    let times = [("p50_us", 6100.0), ("p90_us", 9000.0), ("mean_us", 6600.0), ("max_us", 40_000.0)];
    check(&found, 3000, 0, &[&[("throughput", 1500.0)], &times[..]].concat());
}

#[test]
fn ab() {
    let found = concluded("ab", include_str!("../fixtures/ab.txt"));
    let times = [("p50_us", 2000.0), ("p90_us", 14_000.0), ("p99_us", 155_000.0), ("max_us", 467_000.0)];
    check(&found, 980, 20, &[&[("throughput", 444.74 * 0.98), ("mean_us", 8994.0)], &times[..]].concat());
    let found = concluded("ab", include_str!("../fixtures/ab-errors.txt"));
    // Not those 60 that had another length than the first.
    assert_eq!((found.operations, found.errors, found.reported["throughput"]), (9560, 40, 4780.0));
}

#[test]
fn hey() {
    let found = concluded("hey", include_str!("../fixtures/hey.txt"));
    let times = [("p50_us", 44_000.0), ("p90_us", 45_300.0), ("p99_us", 51_900.0), ("max_us", 51_900.0)];
    let rate = 7528.2226 - (14_955.0 + 2.0) / 2.0014;
    check(&found, 110, 14_957, &[&[("throughput", rate), ("mean_us", 42_400.0)], &times[..]].concat());
}

#[test]
fn siege() {
    let found = concluded("siege", include_str!("../fixtures/siege.json"));
    check(&found, 4722, 97, &[("throughput", 4722.0 / 1.92), ("max_us", 10_000.0)]);
    let found = concluded("siege", include_str!("../fixtures/siege-lost.json"));
    assert_eq!((found.operations, found.errors, found.reported["throughput"]), (0, 4631, 0.0));
}

#[test]
fn h2load() {
    let found = concluded("h2load", include_str!("../fixtures/h2load.txt"));
    check(&found, 176, 4, &[("throughput", 88.0), ("mean_us", 44_030.0), ("max_us", 48_530.0)]);
    let found = concluded("h2load", include_str!("../fixtures/h2load-warm-up.txt"));
    check(&found, 175, 3, &[("throughput", 87.5), ("mean_us", 44_600.0), ("max_us", 48_170.0)]);
}

#[test]
fn httperf() {
    let found = concluded("httperf", include_str!("../fixtures/httperf.txt"));
    check(&found, 416, 67 + 8, &[("throughput", 416.0 / 1.981)]);
}

#[test]
fn autocannon() {
    let found = concluded("autocannon", include_str!("../fixtures/autocannon.json"));
    let times = [("p50_us", 43_000.0), ("p90_us", 47_000.0), ("p99_us", 48_000.0), ("p999_us", 48_000.0)];
    let rest = [("throughput", 74.0 / 3.02), ("mean_us", 40_560.0), ("max_us", 48_000.0)];
    check(&found, 74, 16_055, &[&rest[..], &times[..]].concat());
}

#[test]
fn bombardier() {
    let found = concluded("bombardier", include_str!("../fixtures/bombardier.json"));
    let times = [("p50_us", 1890.0), ("p90_us", 2750.0), ("p99_us", 4600.0)];
    let rest = [("throughput", 9900.0), ("mean_us", 1998.5), ("max_us", 41_250.0)];
    check(&found, 19_800, 207, &[&rest[..], &times[..]].concat());
}

#[test]
fn vegeta() {
    let found = concluded("vegeta", include_str!("../fixtures/vegeta.json"));
    let times = [("p50_us", 1700.0), ("p90_us", 2600.0), ("p99_us", 5200.0)];
    let rest = [("throughput", 989.5), ("mean_us", 1900.0), ("max_us", 40_100.0)];
    check(&found, 1980, 20, &[&rest[..], &times[..]].concat());
}

#[test]
fn fortio() {
    let found = concluded("fortio", include_str!("../fixtures/fortio.json"));
    let times = [("p50_us", 1900.0), ("p90_us", 3500.0), ("p99_us", 6100.0), ("p999_us", 20_100.0)];
    let rest = [("throughput", 8910.0), ("mean_us", 2200.0), ("max_us", 40_200.0)];
    check(&found, 17_820, 180, &[&rest[..], &times[..]].concat());
}

#[test]
fn ycsb() {
    let found = concluded("ycsb", include_str!("../fixtures/ycsb.txt"));
    check(&found, 9900, 100, &[("throughput", 4950.0)]);
}

#[test]
fn loads_of_memcached() {
    let found = concluded("memaslap", include_str!("../fixtures/memaslap.txt"));
    check(&found, 80_000, 0, &[("throughput", 40_000.0)]);
    let found = concluded("mutilate", include_str!("../fixtures/mutilate.txt"));
    let times = [("mean_us", 221.4), ("p90_us", 320.5), ("p99_us", 500.9)];
    check(&found, 36_001, 0, &[&[("throughput", 18_000.5)], &times[..]].concat());
}

#[test]
fn memtier_benchmark() {
    let found = concluded("memtier_benchmark", include_str!("../fixtures/memtier_benchmark.json"));
    let times = [("p50_us", 591.0), ("p90_us", 700.0), ("p99_us", 1103.0), ("p999_us", 2500.0)];
    let rest = [("throughput", 83236.2), ("mean_us", 600.0), ("max_us", 9200.0)];
    check(&found, 500_000, 0, &[&rest[..], &times[..]].concat());
}

#[test]
fn pgbench() {
    let found = concluded("pgbench", include_str!("../fixtures/pgbench.txt"));
    check(&found, 1094, 0, &[("throughput", 546.525343), ("mean_us", 7319.0)]);
}

#[test]
fn sysbench() {
    let found = concluded("sysbench", include_str!("../fixtures/sysbench.txt"));
    let times = [("mean_us", 8370.0), ("max_us", 32690.0), ("p99_us", 23950.0)];
    check(&found, 479, 12, &[&[("throughput", 238.27)], &times[..]].concat());
}

#[test]
fn iperf3() {
    let found = concluded("iperf3", include_str!("../fixtures/iperf3.json"));
    check(&found, 5959, 0, &[("throughput", 23829628680.179447 / 8e6)]);
}

#[test]
fn every_figure_of_every_row_is_one() {
    for row in TOOLS {
        match row.parser() {
            Parser::Regex(patterns) => {
                let names = patterns.iter().flat_map(|pattern| {
                    let regex = crate::protocol::exec::parser::compile(pattern).unwrap();
                    regex.capture_names().flatten().map(str::to_owned).collect::<Vec<_>>()
                });
                names.for_each(|name| assert!(Wanted::read(&name).is_ok(), "{}: {name}", row.name));
            }
            Parser::Json(figures) => {
                figures.iter().for_each(|figure| assert!(Wanted::read(&figure.figure).is_ok(), "{}", row.name));
            }
            Parser::Fio | Parser::Jmeter | Parser::Locust => {}
            Parser::Csv(_) | Parser::Tare => unreachable!("no row is a table or a report of ours"),
        }
    }
}
