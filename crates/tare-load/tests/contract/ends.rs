//! Operations in flight when the measured time is over, and loads that are told to end early.

use super::{DIALECTS, Manner, drive, drive_told, each_connection, peer, plan};
use hdrhistogram::Histogram;
use std::io::{Cursor, Read, Write as _};
use std::time::{Duration, Instant};
use tare_core::load::{Arrivals, LoadOrder, LoadPlan, LoadProfile, LoadSummary};
use tare_testkit::histogram::decode;
use tare_testkit::peer::answering;

const PONG: &[u8] = b"+PONG\r\n";

fn response(summary: &LoadSummary) -> Histogram<u64> {
    decode(&summary.operations["ping"].response_time)
}

#[test]
fn a_closed_loop_counts_what_is_never_answered() {
    let mut plan = plan("redis", DIALECTS[0].options, peer(&DIALECTS[0], Manner::Silent));
    plan.timeout = Duration::from_secs(1);
    let summary = drive(&plan).1.unwrap();
    assert_eq!((summary.operations["ping"].errors, summary.failures["timed out"]), (3, 3), "{summary:?}");
}

#[test]
fn what_comes_due_while_a_load_is_held_up_to_its_end_is_counted() {
    let mut plan = plan("redis", DIALECTS[0].options, peer(&DIALECTS[0], Manner::Silent));
    // More than any load can start, so it is held up from its first start until long after its end.
    plan.profile = LoadProfile::Open { rate: 20e6, arrivals: Arrivals::Constant, connections: 5, in_flight: 100 };
    (plan.settle, plan.measure) = (Duration::ZERO, Duration::from_millis(50));
    plan.timeout = Duration::from_millis(500);
    let (rows, summary) = drive(&plan);
    let summary = summary.unwrap();
    let late_us = summary.health.as_ref().unwrap().late_max_us;
    assert!(late_us > 10_000.0, "it was not held up: {summary:?}");
    // The plan is known: a start each 50 ns. No answer closes the last row early.
    assert_eq!(summary.offered, 1_000_000, "{summary:?}");
    assert_eq!(rows.iter().map(|row| row.offered).sum::<u64>(), 1_000_000, "{rows:?}");
}

/// Answers at once; from 300 ms after the connection on, only after 500 ms.
fn stalls(_number: usize, mut stream: std::net::TcpStream) {
    let (began, mut request) = (Instant::now(), [0; 4096]);
    while stream.read(&mut request).is_ok_and(|received| received > 0) {
        if began.elapsed() > Duration::from_millis(300) {
            std::thread::sleep(Duration::from_millis(500));
        }
        if stream.write_all(PONG).is_err() {
            return;
        }
    }
}

#[test]
fn a_closed_loop_times_a_stall_at_the_end() {
    let mut plan = plan("redis", DIALECTS[0].options, each_connection(stalls));
    let log = tempfile::NamedTempFile::new().unwrap();
    plan.hdr_log = Some(log.path().to_owned());
    let (rows, summary) = drive(&plan);
    let summary = summary.unwrap();
    let response = response(&summary);
    assert!(response.max() > 400_000_000, "{}", response.max());
    // Throughput is what was answered within the measured time.
    let within: u64 = rows.iter().filter(|row| row.measured).map(|row| row.operations).sum();
    assert_eq!((summary.operations["ping"].count, response.len()), (within, within + 3));
    assert_eq!(logged(log.path()), response.len());
    assert!(summary.failures.is_empty(), "{summary:?}");
}

fn logged(path: &std::path::Path) -> u64 {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .filter(|line| line.starts_with("Tag="))
        .map(|line| decode(line.rsplit(',').next().unwrap()).len())
        .sum()
}

#[test]
fn a_log_holds_what_the_summary_does() {
    let mut plan = plan("redis", DIALECTS[0].options, each_connection(stalls));
    plan.profile = LoadProfile::Open { rate: 500.0, arrivals: Arrivals::Poisson, connections: 4, in_flight: 1000 };
    // Some operations due before measuring are answered during it, and some due during it after its end.
    (plan.settle, plan.measure) = (Duration::from_millis(600), Duration::from_millis(600));
    let log = tempfile::NamedTempFile::new().unwrap();
    plan.hdr_log = Some(log.path().to_owned());
    let summary = drive(&plan).1.unwrap();
    assert_eq!(logged(log.path()), response(&summary).len(), "{summary:?}");
}

/// A plan, and after a while the order to end.
struct Told {
    text: Cursor<Vec<u8>>,
    after: Option<Duration>,
}

impl Read for Told {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.text.read(buffer)?;
        if read > 0 {
            return Ok(read);
        }
        if let Some(after) = self.after.take() {
            std::thread::sleep(after);
            self.text = Cursor::new(format!("{}\n", serde_json::to_string(&LoadOrder::End).unwrap()).into_bytes());
            return self.text.read(buffer);
        }
        // The sender of the order is still there.
        std::thread::sleep(Duration::from_secs(60));
        Ok(0)
    }
}

fn told(plan: &LoadPlan, after: Duration) -> Told {
    Told { text: Cursor::new(format!("{}\n", serde_json::to_string(plan).unwrap()).into_bytes()), after: Some(after) }
}

#[test]
fn a_load_that_is_told_to_end_does_not_wait_for_a_server_that_hangs() {
    // One of the connections is never answered.
    let lame = answering(|number, _| (number > 0).then_some(PONG));
    let profiles = [
        LoadProfile::Closed { connections: 3, pipeline: 1 },
        LoadProfile::Open { rate: 200.0, arrivals: Arrivals::Constant, connections: 3, in_flight: 1000 },
    ];
    for profile in profiles {
        let mut plan = plan("redis", DIALECTS[0].options, lame);
        plan.profile = profile;
        (plan.measure, plan.timeout) = (Duration::from_secs(60), Duration::from_secs(60));
        let began = Instant::now();
        let summary = drive_told(told(&plan, Duration::from_millis(900))).1.unwrap();
        assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
        assert!(summary.operations["ping"].count > 20, "{summary:?}");
    }
}

#[test]
fn a_stream_of_small_chunks_is_counted_to_the_last() {
    // Half of it at once, and the other half after a pause.
    const HALF: usize = 4_000_000;
    let source = each_connection(|_, mut stream| {
        let bytes = vec![7; HALF];
        let _ = stream.write_all(&bytes);
        std::thread::sleep(Duration::from_millis(500));
        let _ = stream.write_all(&bytes);
        let _ = stream.read(&mut [0; 16]);
    });
    let mut plan = plan("tcp", "{stream: {receive: 100}}", source);
    plan.profile = LoadProfile::Closed { connections: 1, pipeline: 1 };
    (plan.settle, plan.measure, plan.timeout) = (Duration::ZERO, Duration::from_secs(2), Duration::from_secs(3));
    let summary = drive(&plan).1.unwrap();
    let count: u64 = summary.operations.values().map(|operation| operation.count).sum();
    assert_eq!(count, 2 * HALF as u64 / 100, "{summary:?}");
}
