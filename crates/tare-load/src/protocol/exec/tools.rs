//! The tools whose results Tare can read without a declared parser.

use super::parser::{JsonFigure, Parser, Take};

/// A tool and how its result is read. `${output}` in the command is a file that is read in place of what the tool
/// prints.
pub(super) struct ToolRow {
    /// The parser's name, which is also the program's.
    pub name: &'static str,
    /// The Debian package that contains the program; none if Debian has none.
    pub package: Option<&'static str>,
    /// What one operation is.
    pub operation: &'static str,
    /// How the command must be written for its result to be read.
    pub form: &'static str,
    /// Arguments that make it print its version.
    pub version: &'static [&'static str],
    result: Form,
    /// What to do about an error, by a part of its message.
    pub advice: &'static [(&'static str, &'static str)],
}

enum Form {
    Regex(&'static [&'static str]),
    Json(&'static [(&'static str, &'static [&'static str], Take)]),
    /// It has a parser of its own.
    Fio,
}

/// Every known tool.
pub(super) const TOOLS: &[ToolRow] = &[
    ToolRow {
        name: "redis-benchmark",
        package: Some("redis-tools"),
        operation: "request",
        form: "one test a run (-t set), without --csv",
        version: &["--version"],
        result: Form::Regex(&[
            r"(?<operations>\d+) requests completed in (?<seconds>[\d.]+) seconds",
            r"throughput summary: (?<throughput>[\d.]+) requests per second",
            concat!(
                r"avg +min +p50 +p95 +p99 +max\s+(?<mean_ms>[\d.]+) +[\d.]+ +(?<p50_ms>[\d.]+) +[\d.]+ +",
                r"(?<p99_ms>[\d.]+) +(?<max_ms>[\d.]+)"
            ),
            // With -q.
            r"(?:^|\r)[^:\r\n]+: (?<throughput>[\d.]+) requests per second, p50=(?<p50_ms>[\d.]+) msec",
        ]),
        advice: &[],
    },
    ToolRow {
        name: "memtier_benchmark",
        package: None,
        operation: "request",
        form: "with --json-out-file=${output}",
        version: &["--version"],
        result: Form::Json(&[
            ("throughput", &["/ALL STATS/Totals/Ops~1sec"], Take::First),
            ("operations", &["/ALL STATS/Totals/Count"], Take::First),
            ("seconds_ms", &["/ALL STATS/Runtime/Total duration"], Take::First),
            ("mean_ms", &["/ALL STATS/Totals/Average Latency", "/ALL STATS/Totals/Latency"], Take::First),
            ("max_ms", &["/ALL STATS/Totals/Max Latency"], Take::First),
            ("p50_ms", &["/ALL STATS/Totals/Percentile Latencies/p50.00"], Take::First),
            ("p90_ms", &["/ALL STATS/Totals/Percentile Latencies/p90.00"], Take::First),
            ("p99_ms", &["/ALL STATS/Totals/Percentile Latencies/p99.00"], Take::First),
            ("p999_ms", &["/ALL STATS/Totals/Percentile Latencies/p99.90"], Take::First),
        ]),
        advice: &[],
    },
    ToolRow {
        name: "wrk",
        package: Some("wrk"),
        operation: "request",
        form: "with --latency",
        version: &["-v"],
        result: Form::Regex(WRK),
        advice: &[],
    },
    ToolRow {
        name: "wrk2",
        package: None,
        operation: "request",
        form: "with --latency",
        version: &["-v"],
        result: Form::Regex(WRK),
        advice: &[],
    },
    ToolRow {
        name: "oha",
        package: None,
        operation: "request",
        form: "with --no-tui and --output-format json",
        version: &["--version"],
        result: Form::Json(&[
            ("throughput", &["/summary/requestsPerSec"], Take::First),
            ("seconds", &["/summary/total"], Take::First),
            ("answered", &["/statusCodeDistribution/*"], Take::Sum),
            ("wrong", &["/statusCodeDistribution/4*", "/statusCodeDistribution/5*"], Take::Sum),
            // Requests in flight when the time is up are no errors.
            ("errors", &["/errorDistribution/!aborted due to deadline"], Take::Sum),
            ("mean_s", &["/summary/average"], Take::First),
            ("max_s", &["/summary/slowest"], Take::First),
            ("p50_s", &["/latencyPercentiles/p50"], Take::First),
            ("p90_s", &["/latencyPercentiles/p90"], Take::First),
            ("p99_s", &["/latencyPercentiles/p99"], Take::First),
            ("p999_s", &["/latencyPercentiles/p99.9"], Take::First),
        ]),
        advice: &[],
    },
    ToolRow {
        name: "k6",
        package: None,
        operation: "request",
        form: "with --summary-export=${output}, and --summary-trend-stats with p(99) and p(99.9) if wanted",
        version: &["version"],
        result: Form::Json(&[
            ("throughput", &["/metrics/http_reqs/rate", "/metrics/http_reqs/values/rate"], Take::First),
            ("answered", &["/metrics/http_reqs/count", "/metrics/http_reqs/values/count"], Take::First),
            // The number of times that "failed" was true.
            ("wrong", &["/metrics/http_req_failed/passes", "/metrics/http_req_failed/values/passes"], Take::First),
            ("mean_ms", &["/metrics/http_req_duration/avg", "/metrics/http_req_duration/values/avg"], Take::First),
            ("max_ms", &["/metrics/http_req_duration/max", "/metrics/http_req_duration/values/max"], Take::First),
            ("p50_ms", &["/metrics/http_req_duration/med", "/metrics/http_req_duration/values/med"], Take::First),
            ("p90_ms", &["/metrics/http_req_duration/p(90)", "/metrics/http_req_duration/values/p(90)"], Take::First),
            ("p99_ms", &["/metrics/http_req_duration/p(99)", "/metrics/http_req_duration/values/p(99)"], Take::First),
            (
                "p999_ms",
                &["/metrics/http_req_duration/p(99.9)", "/metrics/http_req_duration/values/p(99.9)"],
                Take::First,
            ),
        ]),
        advice: &[],
    },
    ToolRow {
        name: "pgbench",
        package: Some("postgresql-contrib"),
        operation: "transaction",
        form: "as it is",
        version: &["--version"],
        result: Form::Regex(&[
            r"number of transactions actually processed: (?<operations>\d+)",
            r"number of failed transactions: (?<errors>\d+)",
            r"tps = (?<throughput>[\d.]+) \((?:without initial connection time|excluding connections establishing)\)",
            r"latency average = (?<mean_ms>[\d.]+) ms",
        ]),
        advice: &[],
    },
    ToolRow {
        name: "sysbench",
        package: Some("sysbench"),
        operation: "transaction",
        form: "with --percentile=99",
        version: &["--version"],
        result: Form::Regex(&[
            r"transactions: +(?<operations>\d+) +\((?<throughput>[\d.]+) per sec\.\)",
            r"events per second: +(?<throughput>[\d.]+)",
            r"total number of events: +(?<operations>\d+)",
            r"total time: +(?<seconds>[\d.]+)s",
            r"ignored errors: +(?<errors>\d+)",
            r"avg: +(?<mean_ms>[\d.]+)\s+max: +(?<max_ms>[\d.]+)",
            r" 50th percentile: +(?<p50_ms>[\d.]+)",
            r" 90th percentile: +(?<p90_ms>[\d.]+)",
            r" 99th percentile: +(?<p99_ms>[\d.]+)",
        ]),
        advice: &[],
    },
    ToolRow {
        name: "fio",
        package: Some("fio"),
        operation: "io",
        form: "with --output-format=json+, and without stonewall and new_group",
        version: &["--version"],
        result: Form::Fio,
        advice: super::fio::ADVICE,
    },
    ToolRow {
        name: "iperf3",
        package: Some("iperf3"),
        operation: "megabyte",
        form: "over TCP, with --json",
        version: &["--version"],
        result: Form::Json(&[
            ("throughput_bits", &["/end/sum_received/bits_per_second"], Take::First),
            ("operations_bytes", &["/end/sum_received/bytes"], Take::First),
            ("seconds", &["/end/sum_received/seconds"], Take::First),
        ]),
        advice: &[],
    },
];

/// wrk prints its percentiles with their units; wrk2 prints the shares with more digits.
const WRK: &[&str] = &[
    r"(?<answered>\d+) requests in (?:[\d.]+)",
    r"Requests/sec: +(?<throughput>[\d.]+)",
    r"^ +Latency +(?<mean>[\d.]+[a-z]+) +[\d.]+[a-z]+ +(?<max>[\d.]+[a-z]+)",
    r"^ *50(?:\.000)?% +(?<p50>[\d.]+[a-z]+)",
    r"^ *90(?:\.000)?% +(?<p90>[\d.]+[a-z]+)",
    r"^ *99(?:\.000)?% +(?<p99>[\d.]+[a-z]+)",
    r"^ *99\.900% +(?<p999>[\d.]+[a-z]+)",
    r"Non-2xx or 3xx responses: (?<wrong>\d+)",
    r"Socket errors: connect (?<errors>\d+)",
    r"Socket errors: .*read (?<errors>\d+)",
    r"Socket errors: .*write (?<errors>\d+)",
    r"Socket errors: .*timeout (?<errors>\d+)",
];

impl ToolRow {
    /// The row for the name of a parser or program.
    pub(super) fn find(name: &str) -> Option<&'static ToolRow> {
        TOOLS.iter().find(|row| row.name == name)
    }

    /// The row whose parser this is.
    pub(super) fn of(parser: &Parser) -> Option<&'static ToolRow> {
        TOOLS.iter().find(|row| row.parser() == *parser)
    }

    /// The parser, as it could have been written in a workload.
    pub(super) fn parser(&self) -> Parser {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        match self.result {
            Form::Regex(patterns) => Parser::Regex(owned(patterns)),
            Form::Fio => Parser::Fio,
            Form::Json(figures) => {
                let figure = |(figure, at, take): &(&str, &[&str], Take)| JsonFigure {
                    figure: (*figure).to_owned(),
                    at: owned(at),
                    take: *take,
                };
                Parser::Json(figures.iter().map(figure).collect())
            }
        }
    }
}

/// Takes any text as the output of each known tool, and of one written for Tare.
#[cfg(any(test, fuzzing))]
pub(crate) fn chew(output: &str) {
    use super::parser::{Table, compiled, read_regex, sound};
    use std::collections::BTreeMap;
    // Compiling the patterns takes far longer than searching for them.
    static PATTERNS: std::sync::OnceLock<Vec<Vec<regex::Regex>>> = std::sync::OnceLock::new();
    let patterns = PATTERNS.get_or_init(|| {
        let of = |parser: Parser| match parser {
            Parser::Regex(patterns) => Some(compiled(&patterns).expect("they are ours")),
            _ => None,
        };
        TOOLS.iter().filter_map(|row| of(row.parser())).collect()
    });
    let by_patterns =
        patterns.iter().map(|patterns| read_regex(patterns, output).and_then(|figures| sound(figures.concluded(2.0)?)));
    let columns = [("throughput", "rps"), ("p99_ms", "p99")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let others = TOOLS.iter().map(ToolRow::parser).filter(|parser| !matches!(parser, Parser::Regex(_)));
    let others = others.chain([Parser::Tare, Parser::Csv(Table { columns, row: BTreeMap::new(), separator: ',' })]);
    for found in by_patterns.chain(others.map(|parser| parser.conclude(output, 2.0))).flatten() {
        let wrong = found.reported.iter().find(|(_, figure)| !(figure.is_finite() && **figure >= 0.0));
        assert!(wrong.is_none(), "{wrong:?} is no figure");
    }
}

#[cfg(test)]
mod tests {
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
    fn redis_benchmark() {
        let found = concluded("redis-benchmark", include_str!("fixtures/redis-benchmark.txt"));
        let times = [("mean_us", 309.0), ("p50_us", 303.0), ("p99_us", 575.0), ("max_us", 5703.0)];
        check(&found, 100_000, 0, &[&[("throughput", 84459.46)], &times[..]].concat());
        let found = concluded("redis-benchmark", include_str!("fixtures/redis-benchmark-q.txt"));
        assert_eq!(found.reported.len(), 2, "{found:?}");
    }

    #[test]
    fn two_tests_of_redis_benchmark_are_no_one_result() {
        let one = include_str!("fixtures/redis-benchmark.txt");
        let twice = format!("{one}{one}");
        let refused = ToolRow::find("redis-benchmark").unwrap().parser().conclude(&twice, 2.0).unwrap_err();
        assert!(refused.message.contains("several results"), "{refused}");
    }

    #[test]
    fn wrk() {
        let found = concluded("wrk", include_str!("fixtures/wrk.txt"));
        let times =
            [("mean_us", 1980.0), ("max_us", 14300.0), ("p50_us", 1870.0), ("p90_us", 2710.0), ("p99_us", 4340.0)];
        check(&found, 3973, 0, &[&[("throughput", 1983.25)], &times[..]].concat());
        let found = concluded("wrk", include_str!("fixtures/wrk-errors.txt"));
        assert_eq!((found.operations, found.errors, found.reported["throughput"]), (0, 2430, 0.0));
        let found = concluded("wrk", include_str!("fixtures/wrk-broken.txt"));
        assert_eq!((found.operations, found.errors), (916, 6039));
    }

    #[test]
    fn wrk2() {
        let found = concluded("wrk2", include_str!("fixtures/wrk2.txt"));
        let times = [("p50_us", 980.0), ("p90_us", 1660.0), ("p99_us", 2200.0), ("p999_us", 4810.0)];
        let rest = [("throughput", 998.97), ("mean_us", 1020.0), ("max_us", 7210.0)];
        check(&found, 9990, 0, &[&rest[..], &times[..]].concat());
    }

    #[test]
    fn oha() {
        let found = concluded("oha", include_str!("fixtures/oha.json"));
        let times = [("p50_us", 1200.0), ("p90_us", 1700.0), ("p99_us", 2900.0), ("p999_us", 10100.0)];
        let rest = [("throughput", 7998.4 * 0.99), ("mean_us", 1250.0), ("max_us", 31200.0)];
        check(&found, 79_200, 804, &[&rest[..], &times[..]].concat());
    }

    #[test]
    fn k6() {
        let found = concluded("k6", include_str!("fixtures/k6.json"));
        let times = [("p50_us", 4550.0), ("p90_us", 7300.0), ("p99_us", 14600.0), ("p999_us", 33400.0)];
        let rest = [("throughput", 1999.2 * 0.998), ("mean_us", 4910.0), ("max_us", 61200.0)];
        check(&found, 19_960, 40, &[&rest[..], &times[..]].concat());
    }

    #[test]
    fn memtier_benchmark() {
        let found = concluded("memtier_benchmark", include_str!("fixtures/memtier_benchmark.json"));
        let times = [("p50_us", 591.0), ("p90_us", 700.0), ("p99_us", 1103.0), ("p999_us", 2500.0)];
        let rest = [("throughput", 83236.2), ("mean_us", 600.0), ("max_us", 9200.0)];
        check(&found, 500_000, 0, &[&rest[..], &times[..]].concat());
    }

    #[test]
    fn pgbench() {
        let found = concluded("pgbench", include_str!("fixtures/pgbench.txt"));
        check(&found, 1094, 0, &[("throughput", 546.525343), ("mean_us", 7319.0)]);
    }

    #[test]
    fn sysbench() {
        let found = concluded("sysbench", include_str!("fixtures/sysbench.txt"));
        let times = [("mean_us", 8370.0), ("max_us", 32690.0), ("p99_us", 23950.0)];
        check(&found, 479, 12, &[&[("throughput", 238.27)], &times[..]].concat());
    }

    #[test]
    fn iperf3() {
        let found = concluded("iperf3", include_str!("fixtures/iperf3.json"));
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
                Parser::Fio => {}
                Parser::Csv(_) | Parser::Tare => unreachable!("no row is a table or a report of ours"),
            }
        }
    }
}
