//! What is reported, compared with a known truth: a server that stalls on a schedule.
//!
//! For starts spread evenly over time the truth follows from when the server stalled: a start that falls into a stall
//! waits for its end, and all others are answered at once. So the share of responses longer than `w` is the share of
//! the time that is in a stall more than `w` before its end. The server records when it really stalled, including
//! stalls that only the machine's other work caused.

use crate::admitted;
use crate::asked;

use admitted::{MYSQL_RIGHT, POSTGRES_RIGHT, SELECT, admit_mysql, admit_postgres};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tare_clock::monotonic_ns;
use tare_core::load::{
    Arrivals, Behaviour, Distribution, LoadLine, LoadPlan, LoadProfile, LoadSummary, Pause, UserConnections, WarmUp,
};
use tare_testkit::histogram::decode;
use tare_testkit::peer;

const PERIOD: Duration = Duration::from_millis(500);
const FROZEN: Duration = Duration::from_millis(100);

/// A server that answers each request with the same bytes, but stalls now and then.
struct Freezer {
    address: SocketAddr,
    // The start and the end of each stall, CLOCK_MONOTONIC, ns.
    spells: Arc<Mutex<Vec<(u64, u64)>>>,
}

/// Stalls at the end of each period.
fn freezer(dialect: &'static Dialect) -> Freezer {
    freezing(dialect, |_| (PERIOD - FROZEN, FROZEN))
}

/// Serves all connections in one thread, like a server with one event loop: when it stalls, everything does. `next`
/// returns, for each stall, the time until it and its length.
fn freezing(dialect: &'static Dialect, next: fn(u64) -> (Duration, Duration)) -> Freezer {
    let (listener, address) = peer::listen();
    let spells = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&spells);
    std::thread::spawn(move || {
        listener.set_nonblocking(true).unwrap();
        let (mut peers, mut request) = (Vec::new(), [0; 4096]);
        let (mut number, mut looked_ns) = (0, monotonic_ns());
        let mut until = Instant::now() + next(0).0;
        loop {
            if Instant::now() >= until {
                let (_, frozen) = next(number);
                std::thread::sleep(frozen.saturating_sub(until.elapsed()));
                number += 1;
                until += frozen + next(number).0;
            }
            let mut note = |now_ns: u64| {
                if now_ns - looked_ns > 1_000_000 {
                    seen.lock().unwrap().push((looked_ns, now_ns));
                }
                looked_ns = now_ns;
            };
            note(monotonic_ns());
            while let Ok((mut peer, _)) = listener.accept() {
                peer.set_nodelay(true).unwrap();
                (dialect.admit)(&mut peer);
                peer.set_nonblocking(true).unwrap();
                peers.push(peer);
            }
            let mut idle = true;
            peers.retain_mut(|peer: &mut TcpStream| match peer.read(&mut request) {
                Ok(0) => false,
                Ok(_) => {
                    idle = false;
                    peer.write_all(dialect.reply).is_ok()
                }
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            });
            // A delay between answers is a stall of its own: some answers came before it and some after.
            note(monotonic_ns());
            if idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    Freezer { address, spells }
}

/// How a server of a protocol answers.
struct Dialect {
    protocol: &'static str,
    options: &'static str,
    /// What it does before the first request.
    admit: fn(&mut TcpStream),
    reply: &'static [u8],
}

const DIALECTS: [Dialect; 5] = [
    Dialect { protocol: "redis", options: "{mix: {ping: 1}, verify: false}", admit: |_| {}, reply: b"+PONG\r\n" },
    Dialect {
        protocol: "http",
        options: "{requests: [{path: /}]}",
        admit: |_| {},
        reply: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    },
    Dialect {
        protocol: "tcp",
        options: "{request: 'hi\\r\\n', reply: {until: 'END\\r\\n'}}",
        admit: |_| {},
        reply: b"END\r\n",
    },
    Dialect { protocol: "postgres", options: SELECT, admit: admit_postgres, reply: POSTGRES_RIGHT },
    Dialect { protocol: "mysql", options: SELECT, admit: admit_mysql, reply: MYSQL_RIGHT },
];

fn plan(protocol: &str, options: &str, endpoint: SocketAddr, profile: LoadProfile) -> LoadPlan {
    LoadPlan {
        settle: PERIOD,
        measure: 6 * PERIOD,
        timeout: Duration::from_secs(3),
        ..LoadPlan::of(protocol, asked::options(protocol, options), endpoint, profile)
    }
}

fn drive(plan: &LoadPlan, orders: &str) -> (Vec<LoadLine>, LoadSummary) {
    let input = format!("{}\n{orders}", serde_json::to_string(plan).unwrap());
    let (lines, end) = asked::served(Cursor::new(input.into_bytes()));
    (lines, end.unwrap())
}

/// Response and service times of all operations together.
fn times(summary: &LoadSummary) -> (Histogram<u64>, Histogram<u64>) {
    let merged = |read: fn(&tare_core::load::OperationSummary) -> &String| {
        let mut all: Histogram<u64> = Histogram::new(3).unwrap();
        summary.operations.values().for_each(|operation| all.add(decode(read(operation))).unwrap());
        all
    };
    (merged(|operation| &operation.response_time), merged(|operation| &operation.service_time))
}

fn open(rate: f64, connections: u32) -> LoadProfile {
    LoadProfile::Open { rate, arrivals: Arrivals::Constant, connections, in_flight: 10_000 }
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// The response time that a share `q` of evenly spread starts does not exceed, ms.
fn truth(spells: &[(u64, u64)], summary: &LoadSummary, q: f64) -> f64 {
    let (from, to) = (summary.measure_start_ns as f64, summary.measure_end_ns as f64);
    let longer = |wait: f64| {
        let part = |spell: &(u64, u64)| ((spell.1 as f64 - wait).min(to) - (spell.0 as f64).max(from)).max(0.0);
        spells.iter().map(part).sum::<f64>() / (to - from)
    };
    let (mut low, mut high) = (0.0, 1e10);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if longer(middle) > 1.0 - q { low = middle } else { high = middle }
    }
    low / 1e6
}

/// The truth for the intended schedule.
fn meant(q: f64) -> f64 {
    let share = FROZEN.as_secs_f64() / PERIOD.as_secs_f64();
    if 1.0 - q >= share { 0.0 } else { FROZEN.as_secs_f64() * 1e3 * (1.0 - (1.0 - q) / share) }
}

/// Stalls of 20 to 170 ms at irregular moments, the same in each run.
fn random(number: u64) -> (Duration, Duration) {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (Duration::from_millis(100 + mixed % 400), Duration::from_millis(20 + mixed / 400 % 150))
}

#[test]
fn an_open_loop_reports_what_users_would_have_waited() {
    let servers = DIALECTS.iter().map(|dialect| (dialect, freezer(dialect)));
    let surprise = (&DIALECTS[0], freezing(&DIALECTS[0], random));
    for (Dialect { protocol, options, .. }, server) in servers.chain([surprise]) {
        let (_, summary) = drive(&plan(protocol, options, server.address, open(1000.0, 50)), "");
        let (response, service) = times(&summary);
        assert_eq!((summary.offered, response.len(), summary.dropped), (3000, 3000, 0), "{protocol}: {summary:?}");
        let health = summary.health.as_ref().unwrap();
        let spells = server.spells.lock().unwrap();
        for q in [0.5, 0.9, 0.95, 0.99, 0.999] {
            let (found, exact) = (ms(response.value_at_quantile(q)), truth(&spells, &summary, q));
            // Two per cent; starts are on a grid of 1 ms; and the machine adds the load's own lateness, one pass of the
            // server's loop, and some 200 waiting requests at 10 us each.
            let noise = 3.0 + (health.late_p99_us + health.lag_p99_us) / 1e3;
            let (low, high) = (exact * 0.98 - 1.0, exact * 1.02 + noise);
            assert!((low..=high).contains(&found), "{protocol} p{}: {found} ms, not {exact}; {health:?}", q * 100.0);
        }
        let (found, exact) = (ms(response.max()), truth(&spells, &summary, 1.0));
        let noise = 3.0 + (health.late_max_us + health.lag_max_us) / 1e3;
        assert!((exact * 0.98 - 1.0..=exact * 1.02 + noise).contains(&found), "{protocol}: {found} ms, not {exact}");
        // Waiting for a free connection is not service.
        assert!(service.max() <= response.max() && service.len() == response.len());
    }
}

#[test]
fn a_closed_loop_omits_what_an_open_one_shows() {
    let Dialect { protocol, options, .. } = DIALECTS[0];
    let closed = LoadProfile::Closed { connections: 1, pipeline: 1 };
    let server = freezer(&DIALECTS[0]);
    let (_, summary) = drive(&plan(protocol, options, server.address, closed), "");
    let (response, _) = times(&summary);
    // The truth is 50 ms; one operation per stall among thousands does not move the percentile.
    assert!(ms(response.value_at_quantile(0.9)) < 10.0, "{}", ms(response.value_at_quantile(0.9)));
    assert!(ms(response.max()) > 80.0, "the longest one waited all the same");
}

#[test]
fn waiting_for_a_connection_is_response_and_not_service() {
    let Dialect { protocol, options, .. } = DIALECTS[0];
    let server = freezer(&DIALECTS[0]);
    let (_, summary) = drive(&plan(protocol, options, server.address, open(1000.0, 1)), "");
    let (response, service) = times(&summary);
    // One connection: one operation in each stall is sent and waits, the others wait to be sent.
    assert!(ms(response.value_at_quantile(0.95)) > 60.0, "{}", ms(response.value_at_quantile(0.95)));
    assert!(ms(service.value_at_quantile(0.95)) < 10.0, "{}", ms(service.value_at_quantile(0.95)));
}

#[test]
fn what_is_beyond_the_bound_is_dropped_and_counted() {
    let Dialect { protocol, options, .. } = DIALECTS[2];
    let profile = LoadProfile::Open { rate: 1000.0, arrivals: Arrivals::Poisson, connections: 5, in_flight: 20 };
    let server = freezer(&DIALECTS[2]);
    let (lines, summary) = drive(&plan(protocol, options, server.address, profile), "");
    // Some 100 come due in each stall, of which 20 can wait.
    assert!(summary.dropped > 200, "{summary:?}");
    let answered = times(&summary).0.len();
    assert_eq!(summary.offered, answered + summary.dropped, "{summary:?}");
    let seconds = lines.iter().filter_map(|line| match line {
        LoadLine::Second(row) if row.measured => Some((row.offered, row.dropped)),
        _ => None,
    });
    let sums = seconds.fold((0, 0), |sum, row| (sum.0 + row.0, sum.1 + row.1));
    // A start due at the very end of a second may be counted in the next one.
    assert!(sums.0.abs_diff(summary.offered) <= 5 && sums.1.abs_diff(summary.dropped) <= 5, "{sums:?} {summary:?}");
}

#[test]
fn users_wait_as_users_do() {
    let Dialect { protocol, options, .. } = DIALECTS[1];
    for connections in [UserConnections::Own, UserConnections::Shared(100), UserConnections::Fresh] {
        let cycle = Distribution::Uniform { min: Duration::from_millis(150), max: Duration::from_millis(250) };
        let pause = Pause::Cycle(cycle);
        let profile =
            LoadProfile::Users { users: 100, behaviour: Behaviour::Mix, pause, connections, ramp: PERIOD / 2 };
        let server = freezer(&DIALECTS[1]);
        let (_, summary) = drive(&plan(protocol, options, server.address, profile), "");
        let (response, _) = times(&summary);
        // 500 a second for 3 s; a cycle is longer than a stall, so none is delayed to the next one.
        assert!((1350..1650).contains(&response.len()), "{connections:?}: {} operations", response.len());
        let p95 = ms(response.value_at_quantile(0.95));
        assert!((meant(0.95) - 12.0..meant(0.95) + 25.0).contains(&p95), "{connections:?}: p95 {p95}");
        assert!(summary.failures.is_empty(), "{connections:?}: {summary:?}");
    }
}

#[test]
fn steps_have_a_row_each() {
    let profile = LoadProfile::Steps {
        of: Box::new(open(2000.0, 5)),
        levels: vec![500.0, 2000.0, 1000.0],
        // None of it is offered or started in any row.
        warm: Some(WarmUp { level: 1500.0, hold: Duration::from_millis(300) }),
        ramp: Duration::from_millis(100),
        settle: Duration::from_millis(100),
        measure: Duration::from_millis(500),
    };
    let (lines, summary) = drive(&plan("null", "{}", "127.0.0.1:1".parse().unwrap(), profile), "");
    let rows: Vec<_> =
        lines.iter().filter_map(|l| if let LoadLine::Window(row) = l { Some(row) } else { None }).collect();
    let offered: Vec<u64> = rows.iter().map(|row| row.offered).collect();
    let expected = [250, 1000, 500];
    assert!(offered.iter().zip(expected).all(|(found, exact)| found.abs_diff(exact) <= 1), "{offered:?}");
    assert!(rows.iter().all(|row| row.operations["nothing"].answered == row.offered && row.started == row.offered));
    assert_eq!(summary.windows.len(), 3);
}

#[test]
fn a_guided_load_goes_where_it_is_told() {
    let Dialect { protocol, options, .. } = DIALECTS[2];
    let bases = [
        (open(10_000.0, 20), [400.0, 1000.0]),
        (
            LoadProfile::Users {
                users: 200,
                behaviour: Behaviour::Mix,
                pause: Pause::Cycle(Distribution::Constant(Duration::from_millis(100))),
                connections: UserConnections::Shared(50),
                ramp: Duration::ZERO,
            },
            [40.0, 100.0],
        ),
    ];
    for (base, levels) in bases {
        let server = freezer(&DIALECTS[2]);
        let guided = LoadProfile::Guided { of: Box::new(base), start: levels[0] };
        let mut plan = plan(protocol, options, server.address, guided);
        plan.limits = BTreeMap::from([("*".to_owned(), Duration::from_millis(50))]);
        let hold = |number, level: f64| {
            format!(
                "{{\"hold\": {{\"number\": {number}, \"level\": {level:.1}, \"settle_s\": 0.25, \"window_s\": 1.0}}}}\n"
            )
        };
        let orders = SlowOrders::new(&plan, &[hold(7, levels[0]), hold(8, levels[1])], Duration::from_millis(3000));
        let (lines, _) = asked::served(orders);
        let rows: Vec<_> =
            lines.iter().filter_map(|l| if let LoadLine::Window(row) = l { Some(row) } else { None }).collect();
        assert_eq!(rows.iter().map(|row| row.number).collect::<Vec<_>>(), [7, 8]);
        assert_eq!(rows[0].to_ns - rows[0].from_ns, 1_000_000_000);
        for (row, expected) in rows.iter().zip([400u64, 1000]) {
            let counts = &row.operations["request"];
            assert!(row.offered.abs_diff(expected) <= expected / 20, "{row:?}");
            assert_eq!(counts.planned, counts.answered + counts.failed + counts.unanswered, "{row:?}");
            // A fifth of the starts meet a stall, and half of those wait longer than 50 ms.
            assert!(counts.over_limit > counts.planned / 20 && counts.over_limit < counts.planned / 5, "{row:?}");
        }
    }
}

/// Orders as they come from a person: the plan, the holds, and the end when it is time.
struct SlowOrders {
    text: Cursor<Vec<u8>>,
    until: Instant,
}

impl SlowOrders {
    fn new(plan: &LoadPlan, orders: &[String], lasts: Duration) -> Self {
        let text = format!("{}\n{}", serde_json::to_string(plan).unwrap(), orders.concat());
        SlowOrders { text: Cursor::new(text.into_bytes()), until: Instant::now() + lasts }
    }
}

impl Read for SlowOrders {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self.text.read(buffer)? {
            0 => {
                std::thread::sleep(self.until.saturating_duration_since(Instant::now()));
                Ok(0)
            }
            read => Ok(read),
        }
    }
}

#[test]
fn a_replay_starts_what_its_file_says() {
    let Dialect { protocol, options, .. } = DIALECTS[2];
    let path = std::env::temp_dir().join(format!("tare-replay-{}.txt", std::process::id()));
    let lines: String = (0..1000).map(|at| format!("{:.3} request\n", 10.0 + f64::from(at) / 100.0)).collect();
    std::fs::write(&path, lines).unwrap();
    let server = freezer(&DIALECTS[2]);
    let profile = LoadProfile::Replay { file: path.clone(), connections: 10, in_flight: 1000, speed: 4.0 };
    let mut plan = plan(protocol, options, server.address, profile);
    (plan.settle, plan.measure) = (Duration::ZERO, Duration::from_secs(2));
    let log = std::env::temp_dir().join(format!("tare-replay-{}.hlog", std::process::id()));
    plan.hdr_log = Some(log.clone());
    let (_, summary) = drive(&plan, "");
    assert_eq!(summary.offered, 800, "{summary:?}");
    plan.profile = LoadProfile::Replay { file: "/nonexistent".into(), connections: 1, in_flight: 1, speed: 1.0 };
    let text = std::fs::read_to_string(&log).unwrap();
    let logged = text.lines().filter(|line| line.starts_with("Tag=request,"));
    let logged: Vec<u64> = logged.map(|line| decode(line.rsplit(',').next().unwrap()).len()).collect();
    assert!(logged.len() >= 2, "{text}");
    // Operations answered after the end were due before it.
    assert_eq!(logged.iter().sum::<u64>(), times(&summary).0.len(), "{text}");
    assert_eq!(logged.iter().sum::<u64>(), 800, "{text}");
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(&log).unwrap();
}

/// A peer that sends or receives bytes as fast as it can, or echoes them.
fn streamer(sends: bool, echoes: bool) -> SocketAddr {
    peer::each_connection(move |_, mut stream| {
        let mut bytes = vec![7; 64 * 1024];
        if sends {
            while stream.write_all(&bytes).is_ok() {}
        }
        while let Ok(received @ 1..) = stream.read(&mut bytes) {
            if echoes && stream.write_all(&bytes[..received]).is_err() {
                return;
            }
        }
    })
}

#[test]
fn streams_are_counted_by_the_chunk() {
    let cases = [
        ("{stream: {send: 16KiB}}", streamer(false, false)),
        ("{stream: {receive: 16KiB}}", streamer(true, false)),
        ("{stream: {both: 16KiB}}", streamer(false, true)),
        ("{request: {bytes: 100}, reply: {bytes: 100}, connect: each}", streamer(false, true)),
    ];
    for (options, address) in cases {
        for profile in [LoadProfile::Closed { connections: 2, pipeline: 1 }, open(200.0, 2)] {
            let mut plan = plan("tcp", options, address, profile.clone());
            (plan.settle, plan.measure) = (Duration::from_millis(100), Duration::from_millis(500));
            let summary = drive(&plan, "").1;
            let count: u64 = summary.operations.values().map(|operation| operation.count).sum();
            assert!(count >= 75, "{options} {profile:?}: {summary:?}");
            // A sender that is not asked fills every buffer on the way while the load pauses.
            assert!(summary.failures.is_empty(), "{options} {profile:?}: {summary:?}");
            assert!(summary.checks.iter().all(|check| check.passed), "{options} {profile:?}: {summary:?}");
        }
    }
}
