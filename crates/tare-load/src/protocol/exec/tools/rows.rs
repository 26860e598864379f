//! The rows. The versions in comments are those whose output was looked at.

use super::k6::K6;
use super::{Form, ToolRow};
use crate::protocol::exec::fio;
use crate::protocol::exec::parser::Take;

/// Every known tool.
pub(in crate::protocol::exec) const TOOLS: &[ToolRow] = &[
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
    // k6 0.26 to 2: as `--summary-export` has always been, as `handleSummary` gets it, and the machine-readable summary
    // of 1.5 and later. A script that makes no HTTP requests counts its iterations.
    ToolRow {
        name: "k6",
        package: None,
        operation: "request",
        form: "with --summary-export=${output}, and --summary-trend-stats with p(99) and p(99.9) if wanted",
        version: &["version"],
        result: Form::Json(K6),
        advice: &[],
    },
    // Apache JMeter 5.6.
    ToolRow {
        name: "jmeter",
        package: None,
        operation: "request",
        form: "with -n and -l ${output}, and the table as CSV",
        // Else it leaves a log in the folder that it is in.
        version: &["--version", "-j", "/dev/null"],
        result: Form::Jmeter,
        advice: &[(
            "ForbiddenClassException",
            "install JMeter 5 from https://jmeter.apache.org: this one, as Debian's package 2.13, cannot read any plan \
             with the XStream library that it finds",
        )],
    },
    // Locust 2.47.
    ToolRow {
        name: "locust",
        package: None,
        operation: "request",
        form: "with --headless and --json",
        version: &["--version"],
        result: Form::Locust,
        advice: &[(
            "unrecognized arguments: --json",
            "install Locust 2.15 or later, as with pip install locust: this one cannot print its statistics as JSON",
        )],
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
        advice: fio::ADVICE,
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
    // ab 2.3. Its percentiles are whole milliseconds. Its failed requests are not read: answers of another length than
    // the first one are among them. So are requests whose connection was closed without an answer, which no other
    // count of ab tells.
    ToolRow {
        name: "ab",
        package: Some("apache2-utils"),
        operation: "request",
        form: "as it is",
        version: &["-V"],
        result: Form::Regex(&[
            r"Time taken for tests: +(?<seconds>[\d.]+) seconds",
            r"Complete requests: +(?<answered>\d+)",
            r"^ +\(Connect: (?<wrong>\d+),",
            r"^ +\(Connect: .*Receive: (?<wrong>\d+),",
            r"^ +\(Connect: .*Exceptions: (?<wrong>\d+)\)",
            r"Non-2xx responses: +(?<wrong>\d+)",
            r"Requests per second: +(?<throughput>[\d.]+)",
            r"Time per request: +(?<mean_ms>[\d.]+) \[ms\] \(mean\)",
            r"^ +50% +(?<p50_ms>\d+)",
            r"^ +90% +(?<p90_ms>\d+)",
            r"^ +99% +(?<p99_ms>\d+)",
            r"^ +100% +(?<max_ms>\d+)",
        ]),
        advice: &[],
    },
    // httperf 0.9.0. Its mean time is in two parts.
    ToolRow {
        name: "httperf",
        package: Some("httperf"),
        operation: "request",
        form: "as it is",
        version: &["--version"],
        result: Form::Regex(&[
            r"replies (?<answered>\d+) test-duration (?<seconds>[\d.]+) s",
            r"^Reply status: .* 4xx=(?<wrong>\d+)",
            r"^Reply status: .* 5xx=(?<wrong>\d+)",
            r"^Errors: total (?<errors>\d+)",
        ]),
        advice: &[],
    },
    // hey 0.1.4. Requests that failed are part of its rate.
    ToolRow {
        name: "hey",
        package: Some("hey"),
        operation: "request",
        form: "without -o csv",
        version: &[],
        result: Form::Regex(&[
            r"^ +Total:\s+(?<seconds>[\d.]+) secs",
            r"^ +Slowest:\s+(?<max_s>[\d.]+) secs",
            r"^ +Average:\s+(?<mean_s>[\d.]+) secs",
            r"^ +Requests/sec:\s+(?<throughput>[\d.]+)",
            r"^ +50%+ in (?<p50_s>[\d.]+) secs",
            r"^ +90%+ in (?<p90_s>[\d.]+) secs",
            r"^ +99%+ in (?<p99_s>[\d.]+) secs",
            r"^ +\[[45]\d\d\]\s+(?<wrong>\d+) responses",
            r"^ +\[(?<wrong>\d+)\]\s+[^\s\d]",
        ]),
        advice: &[],
    },
    // siege 4.0.7, as JSON; its text is not on standard output. Its times are hundredths of a second. An answer of 400
    // to 499 is a transaction, but neither a successful nor a failed one; one of 500 and above has failed and is none.
    ToolRow {
        name: "siege",
        package: Some("siege"),
        operation: "request",
        form: "with -j, and with -b for a load without pauses",
        version: &["--version"],
        result: Form::Regex(&[
            r#""transactions":\s+(?<answered>\d+)"#,
            r#""successful_transactions":\s+(?<operations>\d+)"#,
            r#""failed_transactions":\s+(?<errors>\d+)"#,
            r#""elapsed_time":\s+(?<seconds>[\d.]+)"#,
            r#""response_time":\s+(?<mean_s>[\d.]+)"#,
            r#""longest_transaction":\s+(?<max_s>[\d.]+)"#,
        ]),
        advice: &[],
    },
    // h2load of nghttp2 1.52; it has no percentiles. The time in which it finished includes its warm-up, its rate does
    // not.
    ToolRow {
        name: "h2load",
        package: Some("nghttp2-client"),
        operation: "request",
        form: "as it is",
        version: &["--version"],
        result: Form::Regex(&[
            r"finished in [^,]+, (?<throughput>[\d.]+) req/s",
            r"(?<answered>\d+) done, \d+ succeeded, (?<wrong>\d+) failed",
            r"time for request: +[\d.]+[a-z]+ +(?<max>[\d.]+[a-z]+) +(?<mean>[\d.]+[a-z]+)",
        ]),
        advice: &[],
    },
    // autocannon 7 to 9. Its percentiles are whole milliseconds.
    ToolRow {
        name: "autocannon",
        package: None,
        operation: "request",
        form: "with --json",
        version: &["--version"],
        result: Form::Json(&[
            ("answered", &["/requests/total"], Take::First),
            ("wrong", &["/non2xx"], Take::First),
            ("errors", &["/errors"], Take::First),
            ("seconds", &["/duration"], Take::First),
            ("mean_ms", &["/latency/average", "/latency/mean"], Take::First),
            ("max_ms", &["/latency/max"], Take::First),
            ("p50_ms", &["/latency/p50"], Take::First),
            ("p90_ms", &["/latency/p90"], Take::First),
            ("p99_ms", &["/latency/p99"], Take::First),
            ("p999_ms", &["/latency/p99_9", "/latency/p999"], Take::First),
        ]),
        advice: &[],
    },
    // bombardier 1.2; its times are microseconds.
    ToolRow {
        name: "bombardier",
        package: None,
        operation: "request",
        form: "with --print=result --format=json --latencies",
        version: &["--version"],
        result: Form::Json(&[
            ("answered", BOMBARDIER_ANSWERED, Take::Sum),
            ("wrong", &["/result/req4xx", "/result/req5xx"], Take::Sum),
            ("errors", &["/result/others"], Take::First),
            ("seconds", &["/result/timeTakenSeconds"], Take::First),
            ("mean_us", &["/result/latency/mean"], Take::First),
            ("max_us", &["/result/latency/max"], Take::First),
            ("p50_us", &["/result/latency/percentiles/50"], Take::First),
            ("p90_us", &["/result/latency/percentiles/90"], Take::First),
            ("p99_us", &["/result/latency/percentiles/99"], Take::First),
        ]),
        advice: &[],
    },
    // vegeta 12: `vegeta attack | vegeta report -type=json`, which takes a shell. Its throughput is of good answers.
    ToolRow {
        name: "vegeta",
        package: None,
        operation: "request",
        form: "with the output of vegeta report -type=json",
        version: &["--version"],
        result: Form::Json(&[
            ("throughput", &["/throughput"], Take::First),
            ("operations", &["/status_codes/2*", "/status_codes/3*"], Take::Sum),
            ("errors", &["/status_codes/0*", "/status_codes/4*", "/status_codes/5*"], Take::Sum),
            ("mean_ns", &["/latencies/mean"], Take::First),
            ("max_ns", &["/latencies/max"], Take::First),
            ("p50_ns", &["/latencies/50th"], Take::First),
            ("p90_ns", &["/latencies/90th"], Take::First),
            ("p99_ns", &["/latencies/99th"], Take::First),
        ]),
        advice: &[],
    },
    // fortio 1.
    ToolRow {
        name: "fortio",
        package: None,
        operation: "request",
        form: "load with -json - and -p 50,90,99,99.9",
        version: &["version"],
        result: Form::Json(&[
            ("answered", &["/DurationHistogram/Count"], Take::First),
            ("wrong", &["/RetCodes/-1", "/RetCodes/4*", "/RetCodes/5*"], Take::Sum),
            ("throughput", &["/ActualQPS"], Take::First),
            ("mean_s", &["/DurationHistogram/Avg"], Take::First),
            ("max_s", &["/DurationHistogram/Max"], Take::First),
            ("p50_s", &["/DurationHistogram/Percentiles/Percentile=50/Value"], Take::First),
            ("p90_s", &["/DurationHistogram/Percentiles/Percentile=90/Value"], Take::First),
            ("p99_s", &["/DurationHistogram/Percentiles/Percentile=99/Value"], Take::First),
            ("p999_s", &["/DurationHistogram/Percentiles/Percentile=99.9/Value"], Take::First),
        ]),
        advice: &[],
    },
    // YCSB 0.17. It has percentiles of each kind of operation, which cannot be added up.
    ToolRow {
        name: "ycsb",
        package: None,
        operation: "operation",
        form: "run, with the measurements as text",
        version: &[],
        result: Form::Regex(&[
            r"\[OVERALL\], RunTime\(ms\), (?<seconds_ms>[\d.E+-]+)",
            r"\[OVERALL\], Throughput\(ops/sec\), (?<throughput>[\d.E+-]+)",
            r"\], Return=[A-Z_]*(?:ERROR|NOT_FOUND|FORBIDDEN|BAD_REQUEST|UNEXPECTED|UNAVAILABLE)[A-Z_]*, (?<wrong>\d+)",
        ]),
        advice: &[],
    },
    // memaslap of libmemcached 1.0.
    ToolRow {
        name: "memaslap",
        package: None,
        operation: "operation",
        form: "as it is",
        version: &["--version"],
        result: Form::Regex(&[r"Run time: (?<seconds>[\d.]+)s Ops: (?<operations>\d+) TPS: (?<throughput>[\d.]+)"]),
        advice: &[],
    },
    // mutilate 0.1; its times are microseconds, those of reads.
    ToolRow {
        name: "mutilate",
        package: None,
        operation: "operation",
        form: "as it is",
        version: &["--version"],
        result: Form::Regex(&[
            r"Total QPS = (?<throughput>[\d.]+) \((?<operations>\d+) / (?<seconds>[\d.]+)s\)",
            r"^read +(?<mean_us>[\d.]+)(?: +[\d.]+){4} +(?<p90_us>[\d.]+) +[\d.]+ +(?<p99_us>[\d.]+)",
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

/// Every status that bombardier counts.
const BOMBARDIER_ANSWERED: &[&str] =
    &["/result/req1xx", "/result/req2xx", "/result/req3xx", "/result/req4xx", "/result/req5xx"];
