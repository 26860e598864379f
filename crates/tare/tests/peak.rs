//! The peak search against a real server over real sockets, whose capacity is fixed by construction: so many workers
//! that take so long for each request, first come, first served. The load process is the real one, guided over its
//! input.

use std::collections::{BTreeMap, BinaryHeap};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tare_core::config;
use tare_core::load::{Arrivals, Hold, LoadLine, LoadOrder, LoadPlan, LoadProfile, WindowRow};
use tare_core::peak::{PeakOutcome, PeakPlan};
use tare_core::qos::{EVERY_OPERATION, Qos, QuantileLimit};
use tare_load::{PROTOCOLS, protocol_named};
use tare_stats::peak::{Action, Asked, peak_search};
use tare_testkit::peer;

/// What the server is made of.
#[derive(Clone, Copy)]
struct Made {
    workers: usize,
    service: Duration,
    limit: Duration,
}

/// Serves each connection in a thread; the workers are kept as the times at which they will be free. So a thread that
/// wakes up late answers late, but takes no capacity away.
fn server(made: Made) -> SocketAddr {
    let free = Arc::new(Mutex::new(vec![Instant::now(); made.workers]));
    peer::answering(move |_, _| {
        let done = {
            let mut free = free.lock().unwrap();
            let first = free.iter_mut().min().unwrap();
            *first = (*first).max(Instant::now()) + made.service;
            *first
        };
        std::thread::sleep(done.saturating_duration_since(Instant::now()));
        Some("END\r\n")
    })
}

/// The rate at which one request of a hundred takes longer than the limit in the long run, simulated: Poisson
/// arrivals, so many workers, a fixed service time.
fn truth(made: Made) -> f64 {
    let (service, limit) = (made.service.as_secs_f64(), made.limit.as_secs_f64());
    let late = |rate: f64| {
        let mut state = 88_172_645_463_325_252_u64;
        let mut free: BinaryHeap<std::cmp::Reverse<u64>> = (0..made.workers).map(|_| std::cmp::Reverse(0)).collect();
        let (mut now, mut late) = (0.0_f64, 0u32);
        const ARRIVALS: u32 = 1_000_000;
        for _ in 0..ARRIVALS {
            // Marsaglia's xorshift: a fixed sequence for every rate, so that the root is found without noise.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            now -= (((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64).ln() / rate;
            let std::cmp::Reverse(first) = free.pop().unwrap();
            let done = (first as f64 / 1e9).max(now) + service;
            free.push(std::cmp::Reverse((done * 1e9) as u64));
            late += u32::from(done - now > limit);
        }
        f64::from(late) / f64::from(ARRIVALS)
    };
    let capacity = made.workers as f64 / service;
    let (mut low, mut high) = (0.3 * capacity, capacity);
    for _ in 0..20 {
        let middle = 0.5 * (low + high);
        if late(middle) > 0.01 { high = middle } else { low = middle }
    }
    low
}

fn load_plan(endpoint: SocketAddr, search: &PeakPlan, limit: Duration) -> LoadPlan {
    let text = "{request: \"hi\\r\\n\", reply: {until: \"END\\r\\n\"}}";
    let known = protocol_named(PROTOCOLS, "tcp").unwrap();
    let options = config::read("options", text, |node, problems| known.read(node, problems)).unwrap();
    let base = LoadProfile::Open { rate: 1.0, arrivals: Arrivals::Poisson, connections: 200, in_flight: 10_000 };
    let profile = LoadProfile::Guided { of: Box::new(search.highest(&base)), start: search.start };
    LoadPlan {
        measure: search.expected(),
        limits: BTreeMap::from([(EVERY_OPERATION.to_owned(), limit)]),
        ..LoadPlan::of("tcp", options, endpoint, profile)
    }
}

/// Searches over a load process of its own.
fn search(plan: &PeakPlan, load: &LoadPlan, qos: &Qos) -> PeakOutcome {
    let asked = Asked::of(qos, &plan.operations);
    let mut search = peak_search(plan, asked.criteria(), None);
    let mut child = Command::new(env!("CARGO_BIN_EXE_tare"))
        .arg("drive")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the load process starts");
    let mut told = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(told, "{}", serde_json::to_string(load).unwrap()).unwrap();
    let mut number = 0;
    let outcome = loop {
        let hold = match search.next() {
            Action::Done(outcome) => break *outcome,
            Action::Hold(hold) => hold,
        };
        number += 1;
        let window_s = if hold.window_s > 0.0 { hold.window_s } else { 0.1 };
        let settle_s = hold.settle_s - if hold.window_s > 0.0 { 0.0 } else { 0.1 };
        let order = LoadOrder::Hold(Hold { number, level: hold.level, settle_s: settle_s.max(0.0), window_s });
        writeln!(told, "{}", serde_json::to_string(&order).unwrap()).unwrap();
        let row = next_row(&mut lines, number);
        let counts = if hold.window_s > 0.0 { asked.counts(&row) } else { Vec::new() };
        search.observe(row.level, &counts);
    };
    writeln!(told, "{}", serde_json::to_string(&LoadOrder::End).unwrap()).unwrap();
    drop(told);
    for _ in lines {}
    child.wait().unwrap();
    outcome
}

fn next_row(lines: &mut impl Iterator<Item = std::io::Result<String>>, number: u64) -> WindowRow {
    for line in lines {
        match serde_json::from_str(&line.unwrap()).unwrap() {
            LoadLine::Window(row) if row.number == number => return row,
            LoadLine::Failed(fault) => panic!("{fault}"),
            _ => {}
        }
    }
    panic!("the load process ended by itself");
}

fn find(made: Made, window: Duration, windows: u32) -> (PeakOutcome, f64) {
    let qos = Qos {
        operations: [(EVERY_OPERATION.to_owned(), vec![QuantileLimit { quantile: 0.99, within: made.limit }])].into(),
        ..Qos::default()
    };
    let capacity = made.workers as f64 / made.service.as_secs_f64();
    let base = LoadProfile::Open { rate: 1.0, arrivals: Arrivals::Poisson, connections: 1, in_flight: 1 };
    let usual = PeakPlan::usual(&base, Vec::new()).unwrap();
    let plan = PeakPlan {
        start: capacity / 2.0,
        at_least: capacity / 20.0,
        at_most: capacity * 4.0,
        warm: window,
        settle: window / 5,
        window,
        windows,
        ..usual
    };
    let outcome = search(&plan, &load_plan(server(made), &plan, made.limit), &qos);
    let truth = truth(made);
    let off = outcome.peak.map(|peak| 100.0 * (peak / truth - 1.0));
    println!("truth {truth:.1}, found {} ({off:?} %), {:.0} s of load", outcome.describe(), outcome.load_s);
    (outcome, truth)
}

/// How late this machine wakes a sleeper, at worst of a second.
fn worst_wake() -> Duration {
    let began = Instant::now();
    let mut worst = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(1) {
        let asleep = Instant::now();
        std::thread::sleep(Duration::from_millis(5));
        worst = worst.max(asleep.elapsed().saturating_sub(Duration::from_millis(5)));
    }
    worst
}

/// In half a minute to a tenth; with `TARE_THOROUGH`, in five minutes on a machine that is left alone, to 2 %.
#[test]
fn a_server_of_known_capacity_is_found() {
    let made = Made { workers: 4, service: Duration::from_millis(5), limit: Duration::from_millis(40) };
    if worst_wake() > made.limit / 8 {
        println!("skipped: this machine wakes sleepers too late for a server that sleeps to be one of known capacity");
        return;
    }
    let thorough = std::env::var_os("TARE_THOROUGH").is_some();
    let (window, windows, within) =
        if thorough { (Duration::from_secs(5), 48, 0.02) } else { (Duration::from_millis(600), 24, 0.1) };
    let (outcome, truth) = find(made, window, windows);
    let peak = outcome.peak.unwrap_or_else(|| panic!("{:?}", outcome.ending));
    assert!((peak / truth - 1.0).abs() < within, "{peak}, not {truth}");
}
