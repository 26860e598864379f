//! Servers that go away, refuse, or send unrequested answers, and how the load reacts.

use super::{DIALECTS, HTTP, away, closed_port, drive, each_connection, plan};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tare_core::load::{Arrivals, Behaviour, Distribution, LoadProfile, LoadSummary, LoadTask, Pause, UserConnections};
use tare_testkit::peer::{answering, answering_once};

const PONG: &[u8] = b"+PONG\r\n";

fn count(summary: &LoadSummary) -> u64 {
    summary.operations.values().map(|operation| operation.count).sum()
}

fn open(rate: f64, connections: u32, in_flight: u32) -> LoadProfile {
    LoadProfile::Open { rate, arrivals: Arrivals::Constant, connections, in_flight }
}

/// Whether the check reports that there was no connection.
fn was_away(summary: &LoadSummary) -> bool {
    summary.checks.iter().any(|check| check.name == "the service could be reached" && !check.passed)
}

#[test]
fn a_server_that_does_not_come_back_leaves_what_was_measured() {
    for profile in [LoadProfile::Closed { connections: 3, pipeline: 1 }, open(200.0, 3, 1000)] {
        let mut plan = plan("redis", DIALECTS[0].options, away(&DIALECTS[0], Duration::from_millis(800), None));
        (plan.profile, plan.measure) = (profile.clone(), Duration::from_millis(3600));
        plan.timeout = Duration::from_secs(1);
        let (rows, summary) = drive(&plan);
        let summary = summary.unwrap_or_else(|fault| panic!("{profile:?}: {fault}"));
        assert_eq!(rows.len(), 5, "{rows:?}");
        assert!(count(&summary) > 20 && summary.failures.contains_key("connection refused"), "{summary:?}");
        assert!(was_away(&summary), "{summary:?}");
    }
}

#[test]
fn a_server_that_comes_back_after_seconds_is_driven_on() {
    let lasts = Duration::from_secs(3);
    let mut plan = plan("redis", DIALECTS[0].options, away(&DIALECTS[0], Duration::from_millis(400), Some(lasts)));
    plan.measure = Duration::from_secs(5);
    let (rows, summary) = drive(&plan);
    let summary = summary.unwrap();
    assert_eq!(rows[3].operations, 0, "{rows:?}");
    assert!(rows.last().unwrap().operations > 20, "{rows:?}");
    assert!(summary.failures.contains_key("connection refused") && was_away(&summary), "{summary:?}");
}

#[test]
fn a_greeting_may_take_as_long_as_an_operation() {
    let slow = each_connection(|_, mut stream| {
        let mut request = [0; 4096];
        let _ = stream.read(&mut request);
        std::thread::sleep(Duration::from_millis(2600));
        let _ = stream.write_all(b"%1\r\n+proto\r\n:3\r\n");
        while stream.read(&mut request).is_ok_and(|received| received > 0) && stream.write_all(PONG).is_ok() {}
    });
    let options = "{mix: {ping: 1}, verify: false, resp: 3}";
    let summary = drive(&plan("redis", options, slow)).1.unwrap();
    assert!(count(&summary) > 20 && summary.failures.is_empty(), "{summary:?}");
    // A server that refuses connections is not waited for.
    let mut refused = plan("redis", options, closed_port());
    refused.timeout = Duration::from_secs(60);
    let began = Instant::now();
    assert!(drive(&refused).1.unwrap_err().message.contains("refused"));
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn a_failed_connection_does_not_hold_up_the_others() {
    // Each operation makes a connection; one in fifty is closed instead of answered.
    let moody = each_connection(|number, mut stream| {
        let mut request = [0; 4096];
        if number % 50 != 49 && stream.read(&mut request).is_ok() {
            let _ = stream.write_all(b"tare END\r\n");
            let _ = stream.read(&mut request);
        }
    });
    let options = "{request: 'hi\\r\\n', reply: {until: 'END\\r\\n'}, connect: each}";
    let mut plan = plan("tcp", options, moody);
    (plan.profile, plan.measure) = (open(1000.0, 1, 20), Duration::from_secs(2));
    let summary = drive(&plan).1.unwrap();
    assert!(!summary.failures.is_empty(), "{summary:?}");
    // If all of them were held up for 100 ms after each failure, it would be more than half.
    assert!(summary.dropped < summary.offered / 5, "{} of {} were dropped", summary.dropped, summary.offered);
}

#[test]
fn a_worker_that_waits_for_answers_is_idle() {
    let slow = answering(|_, _| {
        std::thread::sleep(Duration::from_millis(5));
        Some(PONG)
    });
    let mut plan = plan("redis", DIALECTS[0].options, slow);
    (plan.profile, plan.measure) = (LoadProfile::Closed { connections: 1, pipeline: 1 }, Duration::from_secs(1));
    let summary = drive(&plan).1.unwrap();
    let awake = summary.health.unwrap().awake;
    println!("  not idle for {:.1} % of the time", awake[0] * 100.0);
    // Some 20 to 100 us of work per 5 ms; a busy machine may take the CPU away in between.
    assert!(awake.len() == 1 && awake[0] < 0.5, "{awake:?}");
}

#[test]
fn connecting_is_no_idleness() {
    // The load has to connect again for each operation.
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\na tare";
    let mut plan = plan("http", HTTP.options, answering_once(answer));
    (plan.profile, plan.measure) = (LoadProfile::Closed { connections: 16, pipeline: 1 }, Duration::from_secs(1));
    let summary = drive(&plan).1.unwrap();
    let health = summary.health.as_ref().unwrap();
    println!("  not idle for {:?} of the time, on a CPU for {:?}", health.awake, health.busy);
    assert!(count(&summary) > 100 && summary.failures.is_empty(), "{summary:?}");
    // Whoever uses a CPU is not idle; to wait takes a little CPU time, too.
    assert!(health.awake[0] > 0.9 * health.busy[0], "{health:?}");
}

#[test]
fn an_answer_that_nobody_asked_for_is_not_the_next_ones() {
    let twice = answering(|_, _| {
        // So that other operations wait for the connection.
        std::thread::sleep(Duration::from_millis(10));
        Some(PONG.repeat(2))
    });
    let mut plan = plan("redis", DIALECTS[0].options, twice);
    (plan.profile, plan.timeout) = (open(500.0, 1, 1000), Duration::from_millis(500));
    let summary = drive(&plan).1.unwrap();
    assert!(summary.failures.contains_key("garbage reply"), "{summary:?}");
}

#[test]
fn a_connection_that_the_server_closes_for_idleness_is_no_failure() {
    // It closes every connection half way between two operations, which are 200 ms apart: none is about to be used.
    let asked = Arc::new(Mutex::new(None));
    let strict = each_connection(move |_, mut stream| {
        let (opened, mut request) = (Instant::now(), [0; 4096]);
        stream.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        loop {
            match stream.read(&mut request) {
                Ok(received) if received > 0 && stream.write_all(PONG).is_ok() => {
                    *asked.lock().unwrap() = Some(Instant::now());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let close = asked.lock().unwrap().map(|at: Instant| at + Duration::from_millis(100));
                    if close.is_some_and(|close| opened < close && close <= Instant::now()) {
                        return;
                    }
                }
                _ => return,
            }
        }
    });
    let mut plan = plan("redis", DIALECTS[0].options, strict);
    (plan.profile, plan.measure) = (open(5.0, 8, 1000), Duration::from_secs(3));
    let summary = drive(&plan).1.unwrap();
    assert!(count(&summary) >= 14 && summary.failures.is_empty(), "{summary:?}");
}

#[test]
fn a_server_is_ready_before_it_holds_what_is_populated() {
    let empty = answering(|_, _| Some("END\r\n"));
    let asked = "request: 'get x\\r\\n', reply: {until: 'END\\r\\n'}, expect: hello";
    let ready = |options: &str| {
        let mut plan = plan("tcp", options, empty);
        plan.task = LoadTask::Ready;
        drive(&plan).1
    };
    let set = "populate: [{request: 'set x\\r\\n', reply: {until: 'STORED\\r\\n'}}]";
    assert_eq!(ready(&format!("{{{asked}, {set}}}")).err().map(|fault| fault.message), None);
    assert!(ready(&format!("{{{asked}}}")).unwrap_err().message.contains("wrong reply"));
}

#[test]
fn who_waits_to_connect_waits_no_longer_than_an_operation_may_take() {
    // One connection is queued, and no further one until somebody accepts it.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    socket.listen(0).unwrap();
    let mut plan = plan("redis", DIALECTS[0].options, socket.local_addr().unwrap().as_socket().unwrap());
    // Far more users than simultaneous attempts to connect, each due once a second.
    plan.profile = LoadProfile::Users {
        users: 1500,
        behaviour: Behaviour::Mix,
        pause: Pause::Cycle(Distribution::Constant(Duration::from_secs(1))),
        connections: UserConnections::Own,
        ramp: Duration::from_millis(50),
    };
    (plan.measure, plan.timeout) = (Duration::from_millis(2900), Duration::from_millis(200));
    let summary = drive(&plan).1.unwrap();
    assert!(summary.offered > 3500, "{} of some 4350: they still wait for their first answer", summary.offered);
}

#[test]
fn a_greeting_that_comes_byte_by_byte_has_one_time_limit() {
    // A TLS record and a MySQL packet, each far from its end.
    let secured = each_connection(|_, stream| dribble(stream, b"\x16\x03\x03\x3f\xff"));
    let database = each_connection(|_, stream| dribble(stream, b"\xff\0\0\0\x0a"));
    for (protocol, options, address) in [
        ("http", "{tls: {verify: false}, requests: [{path: /}]}", secured),
        ("mysql", "{operations: {work: {script: [{sql: SELECT 1}]}}}", database),
    ] {
        let mut plan = plan(protocol, options, address);
        (plan.task, plan.timeout) = (LoadTask::Ready, Duration::from_millis(300));
        let began = Instant::now();
        let fault = drive(&plan).1.unwrap_err();
        assert!(fault.message.contains("did not answer within"), "{protocol}: {fault}");
        assert!(began.elapsed() < Duration::from_millis(1500), "{protocol}: {:?}", began.elapsed());
    }
}

/// Sends a byte now and then, for some seconds.
fn dribble(mut stream: TcpStream, start: &[u8]) {
    for byte in start.iter().chain(&[0; 60]) {
        std::thread::sleep(Duration::from_millis(50));
        if stream.write_all(&[*byte]).is_err() {
            return;
        }
    }
}
