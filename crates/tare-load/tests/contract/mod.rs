//! What every protocol must do: the same peers, well and badly behaved, for each row of the table.

use crate::asked;
mod ends;
mod outages;
mod secured;

use socket2::{Domain, Socket, Type};
use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::load::{
    Arrivals, Behaviour, Distribution, LoadLine, LoadPlan, LoadProfile, LoadSummary, LoadTask, Pause, SecondRow,
    UserConnections,
};
use tare_load::PROTOCOLS;
use tare_testkit::load;
use tare_testkit::peer::{each_connection, listen};

/// How a protocol's peer answers.
struct Dialect {
    protocol: &'static str,
    options: &'static str,
    // Whether it uses TLS.
    secured: bool,
    right: &'static str,
    wrong: &'static str,
    // An error, and its name.
    error: Option<(&'static str, &'static str)>,
    garbage: Option<&'static str>,
    endless: (&'static str, &'static str),
}

/// Protocols that are tested for the same elsewhere: with peers that use a database's protocol, with programs, or
/// without a peer.
const ELSEWHERE: [&str; 4] = ["postgres", "mysql", "exec", "null"];

/// Plain HTTP; over TLS the messages are the same.
const HTTP: Dialect = Dialect {
    protocol: "http",
    options: "{requests: [{path: /, contains: tare}]}",
    secured: false,
    right: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na tare",
    wrong: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\na tore",
    error: Some(("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", "status 500")),
    garbage: Some("+PONG\r\n"),
    endless: ("HTTP/1.1 200 OK\r\n", "A: b\r\n"),
};

const DIALECTS: [Dialect; 4] = [
    Dialect {
        protocol: "redis",
        options: "{mix: {ping: 1}, verify: false}",
        secured: false,
        right: "+PONG\r\n",
        wrong: "+OK\r\n",
        error: Some(("-ERR not today\r\n", "error reply")),
        garbage: Some("HTTP/1.1 400 Bad Request\r\n\r\n"),
        endless: ("+", "PONG"),
    },
    HTTP,
    Dialect { options: "{tls: {verify: false}, requests: [{path: /, contains: tare}]}", secured: true, ..HTTP },
    Dialect {
        protocol: "tcp",
        options: "{request: 'hi\\r\\n', reply: {until: 'END\\r\\n'}, expect: tare}",
        secured: false,
        right: "tare END\r\n",
        wrong: "tore END\r\n",
        error: None,
        garbage: None,
        endless: ("tare", "EEEEEEEENNNNN"),
    },
];

#[derive(Clone, Copy)]
enum Manner {
    /// Answers every request with this.
    Answer(&'static str),
    /// Takes requests and never answers.
    Silent,
    /// Sends half an answer and closes.
    CutOff(&'static str),
    /// Never ends its answer.
    Endless(&'static str, &'static str),
}

/// One end of a connection, plain or TLS.
trait Wire: Read + Write {}

impl<T: Read + Write> Wire for T {}

fn wire(stream: TcpStream, secured: bool) -> Box<dyn Wire> {
    stream.set_nodelay(true).unwrap();
    if secured { Box::new(secured::secured(stream)) } else { Box::new(stream) }
}

/// A peer on a free port of the loopback; its threads end with the test process or their connections.
fn peer(dialect: &Dialect, manner: Manner) -> SocketAddr {
    let secured = dialect.secured;
    each_connection(move |_, stream| talk(&mut wire(stream, secured), manner))
}

fn talk(stream: &mut Box<dyn Wire>, manner: Manner) {
    let mut request = [0; 4096];
    while stream.read(&mut request).is_ok_and(|received| received > 0) {
        let sent = match manner {
            Manner::Answer(text) => stream.write_all(text.as_bytes()),
            Manner::Silent => Ok(()),
            Manner::CutOff(text) => {
                let _ = stream.write_all(&text.as_bytes()[..text.len() / 2]).and_then(|()| stream.flush());
                return;
            }
            Manner::Endless(start, more) => {
                let more = more.repeat(10_000);
                let mut sent = stream.write_all(start.as_bytes());
                while sent.is_ok() {
                    sent = stream.write_all(more.as_bytes());
                }
                sent
            }
        };
        if sent.and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

fn plan(protocol: &str, options: &str, endpoint: SocketAddr) -> LoadPlan {
    let closed = LoadProfile::Closed { connections: 3, pipeline: 1 };
    LoadPlan {
        settle: Duration::from_millis(100),
        measure: Duration::from_millis(400),
        timeout: Duration::from_secs(3),
        ..LoadPlan::of(protocol, asked::options(protocol, options), endpoint, closed)
    }
}

fn drive(plan: &LoadPlan) -> (Vec<SecondRow>, Result<LoadSummary, Fault>) {
    drive_told(Cursor::new(serde_json::to_vec(plan).unwrap()))
}

fn drive_told(input: impl Read + Send + 'static) -> (Vec<SecondRow>, Result<LoadSummary, Fault>) {
    let (lines, end) = asked::served(input);
    (load::seconds(lines), end)
}

/// One of each kind of load for the first protocol; a closed and an open one for the others, since the rest is shared
/// code.
fn profiles(dialect: &Dialect) -> Vec<LoadProfile> {
    let open = LoadProfile::Open { rate: 200.0, arrivals: Arrivals::Poisson, connections: 5, in_flight: 1000 };
    let users = |connections| LoadProfile::Users {
        users: 20,
        behaviour: Behaviour::Mix,
        pause: Pause::Think(Distribution::Constant(Duration::from_millis(50))),
        connections,
        ramp: Duration::ZERO,
    };
    let kinds = [UserConnections::Own, UserConnections::Shared(5), UserConnections::Fresh];
    let closed = LoadProfile::Closed { connections: 3, pipeline: 1 };
    let kinds = if dialect.protocol == DIALECTS[0].protocol { &kinds[..] } else { &[] };
    [closed, open].into_iter().chain(kinds.iter().copied().map(users)).collect()
}

/// Runs against a peer that answers nothing rightly, and returns the names of the failures.
fn failures(dialect: &Dialect, manner: Manner, change: impl Fn(&mut LoadPlan)) -> Vec<String> {
    let mut plan = plan(dialect.protocol, dialect.options, peer(dialect, manner));
    change(&mut plan);
    let summary = drive(&plan).1.unwrap();
    let errors: u64 = summary.operations.values().map(|operation| operation.errors).sum();
    assert!(summary.operations.values().all(|operation| operation.count == 0), "{summary:?}");
    assert_eq!(errors, summary.failures.values().sum::<u64>(), "{summary:?}");
    assert!(errors > 0, "{summary:?}");
    summary.failures.into_keys().collect()
}

#[test]
fn each_row_of_the_table_has_its_dialect() {
    for name in PROTOCOLS.iter().map(|protocol| protocol.name()) {
        let here = DIALECTS.iter().any(|dialect| dialect.protocol == name);
        assert!(here != ELSEWHERE.contains(&name), "'{name}' needs a dialect, here or elsewhere");
    }
}

#[test]
fn a_right_reply_is_counted_once_and_timed() {
    for dialect in &DIALECTS {
        let mut plan = plan(dialect.protocol, dialect.options, peer(dialect, Manner::Answer(dialect.right)));
        let (rows, summary) = drive(&plan);
        let summary = summary.unwrap();
        let count: u64 = summary.operations.values().map(|operation| operation.count).sum();
        assert!(count > 0 && summary.failures.is_empty(), "{summary:?}");
        assert_eq!(rows.iter().filter(|row| row.measured).map(|row| row.operations).sum::<u64>(), count);
        assert_eq!(rows.iter().map(|row| row.measured).collect::<Vec<_>>(), [false, true]);
        assert!(rows[1].p50_us > 0.0 && rows[1].p50_us <= rows[1].p99_us && rows[1].p99_us <= rows[1].max_us * 1.001);
        assert_eq!(summary.measure_end_ns - summary.measure_start_ns, 400_000_000);
        assert!(summary.checks.iter().all(|check| check.passed), "{summary:?}");
        // A peer that answers at once may outrun the generator, which is then never idle and reports it.
        let outrun = summary.health.as_ref().is_some_and(|health| health.awake.iter().any(|awake| *awake > 0.98));
        assert!(summary.saturated.is_none() || outrun, "{summary:?}");
        assert!(summary.generator_cpu_s > 0.0);
        plan.task = LoadTask::Ready;
        assert!(drive(&plan).1.is_ok());
    }
}

#[test]
fn wrong_replies_have_names() {
    for dialect in &DIALECTS {
        for profile in profiles(dialect) {
            let named = |text| failures(dialect, Manner::Answer(text), |plan| plan.profile = profile.clone());
            assert_eq!(named(dialect.wrong), ["wrong reply"], "{} {profile:?}", dialect.protocol);
            if let Some((error, name)) = dialect.error {
                assert_eq!(named(error), [name], "{} {profile:?}", dialect.protocol);
            }
            if let Some(garbage) = dialect.garbage {
                assert_eq!(named(garbage), ["garbage reply"], "{} {profile:?}", dialect.protocol);
            }
        }
    }
}

#[test]
fn missing_replies_have_names() {
    for dialect in &DIALECTS {
        for profile in profiles(dialect) {
            let silent = failures(dialect, Manner::Silent, |plan| {
                (plan.timeout, plan.profile) = (Duration::from_millis(50), profile.clone());
            });
            assert_eq!(silent, ["timed out"], "{} {profile:?}", dialect.protocol);
            let cut = failures(dialect, Manner::CutOff(dialect.right), |plan| plan.profile = profile.clone());
            let named = |name: &String| name == "closed by server" || name == "connection reset";
            assert!(cut.iter().all(named), "{cut:?} {profile:?}");
        }
    }
}

/// A peer that answers rightly, goes away for a while with all its connections, and comes back.
fn restarted(dialect: &Dialect) -> SocketAddr {
    away(dialect, Duration::from_millis(400), Some(Duration::from_millis(200)))
}

/// A peer that answers rightly, goes away with all its connections, and comes back after a while, or never.
fn away(dialect: &Dialect, after: Duration, lasts: Option<Duration>) -> SocketAddr {
    let (text, secured) = (dialect.right, dialect.secured);
    let (listener, address) = listen();
    std::thread::spawn(move || {
        let serve = |listener: &TcpListener, span: Duration| {
            let until = Instant::now() + span;
            listener.set_nonblocking(true).unwrap();
            let (mut peers, mut request) = (Vec::new(), [0; 4096]);
            while Instant::now() < until {
                peers.extend(listener.accept().ok().map(|(peer, _)| {
                    peer.set_nonblocking(true).unwrap();
                    wire(peer, secured)
                }));
                peers.retain_mut(|peer| match peer.read(&mut request) {
                    Ok(0) => false,
                    Ok(_) => peer.write_all(text.as_bytes()).and_then(|()| peer.flush()).is_ok(),
                    Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
                });
                std::thread::sleep(Duration::from_micros(500));
            }
        };
        serve(&listener, after);
        drop(listener);
        let Some(lasts) = lasts else { return };
        std::thread::sleep(lasts);
        // The port is free again once the kernel has released the old connections.
        let listener = loop {
            match reuse(address) {
                Ok(listener) => break listener,
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        serve(&listener, Duration::from_secs(20));
    });
    address
}

fn reuse(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(128)?;
    Ok(socket.into())
}

#[test]
fn a_server_that_restarts_is_named_failures_and_then_answers_again() {
    for dialect in &DIALECTS {
        for profile in profiles(dialect) {
            let mut plan = plan(dialect.protocol, dialect.options, restarted(dialect));
            plan.profile = profile.clone();
            plan.measure = Duration::from_millis(1200);
            let began = Instant::now();
            let summary = drive(&plan).1.unwrap_or_else(|fault| panic!("{profile:?}: {fault}"));
            assert!(began.elapsed() < plan.settle + plan.measure + 2 * plan.timeout);
            let errors: u64 = summary.failures.values().sum();
            let named = ["closed by server", "connection reset", "connection refused", "timed out"];
            assert!(errors > 0 || matches!(profile, LoadProfile::Open { .. }), "{profile:?} {summary:?}");
            assert!(summary.failures.keys().all(|name| named.contains(&name.as_str())), "{profile:?} {summary:?}");
            let count: u64 = summary.operations.values().map(|operation| operation.count).sum();
            assert!(count > 20, "{profile:?} {summary:?}");
        }
    }
}

#[test]
fn an_endless_reply_is_given_up() {
    for dialect in &DIALECTS {
        let (start, more) = dialect.endless;
        let open = LoadProfile::Open { rate: 1.0, arrivals: Arrivals::Constant, connections: 1, in_flight: 10 };
        for profile in [LoadProfile::Closed { connections: 1, pipeline: 1 }, open] {
            let names = failures(dialect, Manner::Endless(start, more), |plan| {
                plan.profile = profile.clone();
                (plan.measure, plan.timeout) = (Duration::from_secs(4), Duration::from_secs(2));
            });
            // On a slow machine the time is up before the length is reached.
            assert!(names.iter().all(|name| name == "reply too large" || name == "timed out"), "{names:?}");
        }
    }
}

#[test]
fn a_service_that_is_not_ready_is_a_fault_at_once() {
    for dialect in &DIALECTS {
        let manners = [Manner::Answer(dialect.wrong), Manner::Silent, Manner::CutOff(dialect.right)];
        for manner in manners {
            let mut plan = plan(dialect.protocol, dialect.options, peer(dialect, manner));
            (plan.task, plan.timeout) = (LoadTask::Ready, Duration::from_millis(300));
            assert!(drive(&plan).1.is_err());
        }
    }
}

/// A place where connections are refused until this process ends: its socket is bound and does not listen, so nobody
/// else can listen there meanwhile.
fn closed_port() -> SocketAddr {
    let held = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be had");
    held.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port is free");
    let address = held.local_addr().expect("it has an address").as_socket().expect("of IPv4");
    std::mem::forget(held);
    address
}

#[test]
fn a_refused_connection_ends_the_run_with_a_fault_that_names_it() {
    for dialect in &DIALECTS {
        let mut plan = plan(dialect.protocol, dialect.options, closed_port());
        for (task, profile) in
            [LoadTask::Ready, LoadTask::Run].iter().flat_map(|t| profiles(dialect).into_iter().map(|p| (*t, p)))
        {
            (plan.task, plan.profile) = (task, profile.clone());
            match drive(&plan).1 {
                Err(fault) => {
                    let text = fault.message.to_lowercase();
                    assert!(text.contains("refused") && text.contains(&plan.endpoint.to_string()), "{fault}");
                }
                // If each operation makes its own connection, the operations fail.
                Ok(summary) => {
                    assert_eq!(summary.failures.keys().collect::<Vec<_>>(), ["connection refused"], "{profile:?}");
                }
            }
        }
    }
}

#[test]
fn a_peer_that_goes_away_and_comes_back_shows_as_failures() {
    // Each connection serves ten requests and is then closed without notice; new ones are accepted.
    let address = each_connection(|_, mut stream| {
        let mut request = [0; 4096];
        for _ in 0..10 {
            if stream.read(&mut request).is_ok_and(|received| received > 0) {
                let _ = stream.write_all(b"+PONG\r\n");
            }
        }
    });
    let plan = plan("redis", DIALECTS[0].options, address);
    let summary = drive(&plan).1.unwrap();
    assert!(summary.operations["ping"].count > 0 && summary.operations["ping"].errors > 0, "{summary:?}");
    assert!(
        summary.failures.values().sum::<u64>() >= summary.operations["ping"].errors,
        "each has a name: {summary:?}"
    );
    assert!(summary.checks.iter().all(|check| check.passed || check.outcome), "they void nothing: {summary:?}");
}

#[test]
fn announced_ends_of_connections_are_no_failures() {
    let close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\na tare";
    let summary = drive(&plan("http", DIALECTS[1].options, peer(&DIALECTS[1], Manner::Answer(close)))).1.unwrap();
    assert!(summary.operations["GET /"].count > 3 && summary.failures.is_empty(), "{summary:?}");
}

#[test]
fn pipelined_operations_are_all_answered() {
    let address = each_connection(|_, mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(received @ 1..) = stream.read(&mut bytes) {
            // One answer for each request that ends here, in pieces that match no boundary.
            let requests = bytes[..received].iter().filter(|byte| **byte == b'G').count();
            for piece in b"+PONG\r\n".repeat(requests).chunks(5) {
                let _ = stream.write_all(piece);
            }
        }
    });
    let mut plan = plan("redis", DIALECTS[0].options, address);
    plan.profile = LoadProfile::Closed { connections: 2, pipeline: 16 };
    let summary = drive(&plan).1.unwrap();
    assert!(summary.operations["ping"].count > 32 && summary.failures.is_empty(), "{summary:?}");
    assert!(summary.checks.iter().all(|check| check.passed), "{summary:?}");
}

#[test]
fn the_null_protocol_needs_nobody() {
    let (rows, summary) = drive(&plan("null", "{}", closed_port()));
    let summary = summary.unwrap();
    assert!(summary.operations["nothing"].count > 1000 && summary.saturated.is_none());
    assert_eq!(rows.len(), 2);
}

#[test]
fn what_cannot_be_carried_out_is_a_fault_with_a_remedy() {
    let good = plan("redis", DIALECTS[0].options, "8.8.8.8:6379".parse().unwrap());
    let began = Instant::now();
    let fault = drive(&good).1.unwrap_err();
    assert!(fault.message.contains("refused to drive load") && !fault.remedy.is_empty());
    assert!(began.elapsed() < Duration::from_secs(60), "it was tried");
    let unknown = LoadPlan { protocol: "gopher".into(), ..good.clone() };
    assert!(drive(&unknown).1.unwrap_err().remedy.contains("redis"));
    let nothing = LoadPlan { profile: LoadProfile::Closed { connections: 0, pipeline: 1 }, ..good.clone() };
    assert!(drive(&nothing).1.is_err());
    let each = plan("tcp", "{request: hi, reply: {bytes: 2}, connect: each}", closed_port());
    let each = LoadPlan { profile: LoadProfile::Closed { connections: 1, pipeline: 2 }, ..each };
    assert!(drive(&each).1.unwrap_err().message.contains("no pipeline"));
    let many = LoadProfile::Closed { connections: 10_000_000, pipeline: 2 };
    let many = LoadProfile::Guided { of: Box::new(many), start: 1.0 };
    let many = LoadPlan { profile: many, endpoint: closed_port(), ..good.clone() };
    assert!(drive(&many).1.unwrap_err().message.contains("in flight"));
    let strange = LoadPlan { options: serde_json::json!({"a": 1}), endpoint: closed_port(), ..good };
    assert!(drive(&strange).1.unwrap_err().message.contains("options"));
    let mut out = Vec::new();
    let _ = tare_load::serve(PROTOCOLS, b"not a plan".as_slice(), &mut out);
    assert!(matches!(serde_json::from_slice(&out).unwrap(), LoadLine::Failed(_)));
}
