//! Loads that take turns: one at a time is at work, each for the requested time, and the results match what servers of
//! known speed can do.

use crate::asked;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadProfile, LoadSummary, TurnLength, Turns, TurnsSummary};
use tare_testkit::peer;

/// A server that has had no request for this long starts cold.
const RESTED: Duration = Duration::from_millis(10);

/// A server with one thread that works for a fixed time on each request.
struct Worker {
    address: SocketAddr,
    served: Arc<AtomicU64>,
    /// How long it has worked on them, ns: on a busy machine longer than intended.
    worked_ns: Arc<AtomicU64>,
    /// When it answered, relative to a moment shared by all servers.
    answered: Arc<Mutex<Vec<Duration>>>,
    /// It answers this many requests,
    silent_after: Arc<AtomicU64>,
    /// and then leaves this many unanswered.
    silent_for: Arc<AtomicU64>,
}

impl Worker {
    /// How long a request really took.
    fn each_ns(&self) -> f64 {
        self.worked_ns.load(Ordering::Relaxed) as f64 / self.served.load(Ordering::Relaxed) as f64
    }
}

fn worker(work: Duration, began: Instant) -> Worker {
    colder(work, Duration::ZERO, began)
}

/// The same, with a first answer after a rest that takes `cold` longer.
fn colder(work: Duration, cold: Duration, began: Instant) -> Worker {
    server(began, move |_, first| if first { work + cold } else { work })
}

/// The same, which needs `warm_after` after a rest to warm up, and works at half speed until then.
fn warming(work: Duration, warm_after: Duration, began: Instant) -> Worker {
    server(began, move |at_work, _| if at_work < warm_after { 2 * work } else { work })
}

/// A server with one thread. Its time for a request depends on how long it has been at work since it rested, and on
/// whether this is the first request since then.
fn server(began: Instant, takes: impl Fn(Duration, bool) -> Duration + Send + 'static) -> Worker {
    let (listener, address) = peer::listen();
    let (served, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (count, moments) = (Arc::clone(&served), Arc::clone(&answered));
    let worked_ns = Arc::new(AtomicU64::new(0));
    let worked = Arc::clone(&worked_ns);
    let silent_after = Arc::new(AtomicU64::new(u64::MAX));
    let silent_for = Arc::new(AtomicU64::new(u64::MAX));
    let (silent, left) = (Arc::clone(&silent_after), Arc::clone(&silent_for));
    std::thread::spawn(move || {
        listener.set_nonblocking(true).unwrap();
        let (mut peers, mut request) = (Vec::new(), [0; 4096]);
        let (mut rested, mut at_work) = (Instant::now(), Instant::now());
        loop {
            while let Ok((peer, _)) = listener.accept() {
                peer.set_nodelay(true).unwrap();
                peer.set_nonblocking(true).unwrap();
                peers.push(peer);
            }
            let mut idle = true;
            peers.retain_mut(|peer: &mut TcpStream| match peer.read(&mut request) {
                Ok(0) => false,
                Ok(_) => {
                    idle = false;
                    // By sleeping, so that two servers behave the same on any number of CPUs.
                    let first = rested.elapsed() > RESTED;
                    at_work = if first { Instant::now() } else { at_work };
                    let begins = Instant::now();
                    std::thread::sleep(takes(at_work.elapsed(), first));
                    rested = Instant::now();
                    worked.fetch_add((rested - begins).as_nanos() as u64, Ordering::Relaxed);
                    let due = count.load(Ordering::Relaxed) >= silent.load(Ordering::Relaxed);
                    if due && left.load(Ordering::Relaxed) > 0 {
                        left.fetch_sub(1, Ordering::Relaxed);
                        return true;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    moments.lock().unwrap().push(began.elapsed());
                    peer.write_all(b"+PONG\r\n").is_ok()
                }
                Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
            });
            if idle {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    });
    Worker { address, served, worked_ns, answered, silent_after, silent_for }
}

fn plan(endpoint: SocketAddr, settle: Duration) -> LoadPlan {
    let options = asked::options("redis", "{mix: {ping: 1}, verify: false}");
    LoadPlan {
        settle,
        measure: Duration::from_millis(500),
        timeout: Duration::from_secs(3),
        ..LoadPlan::of("redis", options, endpoint, LoadProfile::Closed { connections: 4, pipeline: 1 })
    }
}

fn by_turns(endpoints: &[SocketAddr], slice: Option<Duration>) -> Vec<Result<LoadSummary, Fault>> {
    let settle = Duration::from_millis(300);
    carried_out(endpoints.iter().map(|endpoint| plan(*endpoint, settle)).collect(), slice)
}

fn carried_out(mut plans: Vec<LoadPlan>, slice: Option<Duration>) -> Vec<Result<LoadSummary, Fault>> {
    let mut first = plans.remove(0);
    first.turns = Some(Box::new(Turns { slice, beside: plans, ..Turns::default() }));
    served(&first)
}

fn served(plan: &LoadPlan) -> Vec<Result<LoadSummary, Fault>> {
    asked::driven(plan).unwrap().by_load
}

fn rate(summary: &LoadSummary) -> f64 {
    rate_in(summary, summary.turns.unwrap().active_ns)
}

fn rate_in(summary: &LoadSummary, ns: u64) -> f64 {
    let operations: u64 = summary.operations.values().map(|operation| operation.count).sum();
    operations as f64 / (ns as f64 / 1e9)
}

#[test]
fn a_cold_start_after_each_rest_is_the_cost_of_the_move() {
    let (work, cold, began) = (Duration::from_millis(1), Duration::from_millis(8), Instant::now());
    let (plain, colder) = (worker(work, began), colder(work, cold, began));
    let summaries = by_turns(&[plain.address, colder.address], Some(Duration::from_millis(40)));
    let [plain, colder] = [0, 1].map(|at: usize| summaries[at].clone().unwrap());
    let moves_ms = [&plain, &colder].map(|summary| summary.turns.unwrap().move_ns.unwrap() as f64 / 1e6);
    let dearer_ms = moves_ms[1] - moves_ms[0];
    assert!((6.0..10.0).contains(&dearer_ms), "{moves_ms:?}: 8 ms more in one turn");
    assert!(rate(&colder) / rate(&plain) < 0.92, "a fifth of a turn goes by before its first answer");
    // Few turns do not show whether second halves are faster.
    let steady = |summary: &LoadSummary| {
        let turns = TurnsSummary { warming: None, ..summary.turns.unwrap() };
        rate_in(summary, turns.steady_ns())
    };
    let ratio = steady(&colder) / steady(&plain);
    assert!((0.94..1.06).contains(&ratio), "{ratio}: amid a turn they are the same");
}

/// The mean over cycles of the rate in turns of each length, divided by that in the longest.
fn relative(summary: &LoadSummary) -> Vec<f64> {
    let mean = |length: &TurnLength| {
        let rates: Vec<f64> = length.rates.iter().map(|rate| rate.expect("enough waves")).collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    };
    let means: Vec<f64> = summary.lengths.iter().map(mean).collect();
    means.iter().map(|mean| mean / means[means.len() - 1]).collect()
}

#[test]
fn who_needs_long_to_get_warm_is_slower_in_short_turns_and_nobody_else() {
    let began = Instant::now();
    let (work, warm_after) = (Duration::from_micros(500), Duration::from_millis(80));
    let (plain, cold) = (worker(work, began), warming(work, warm_after, began));
    let settle = Duration::from_millis(300);
    let mut first = LoadPlan { measure: Duration::from_secs(3), ..plan(plain.address, settle) };
    let beside = vec![LoadPlan { measure: first.measure, ..plan(cold.address, settle) }];
    let compared_to = Some(Duration::from_millis(400));
    first.turns = Some(Box::new(Turns { compared_to, beside, ..Turns::default() }));
    let summaries = served(&first);
    let [plain, cold] = [0, 1].map(|at: usize| summaries[at].clone().unwrap());
    let slices_ns: Vec<u64> = cold.lengths.iter().map(|length| length.slice_ns).collect();
    assert!(slices_ns.is_sorted() && slices_ns[0] < 80_000_000 && slices_ns.last() == Some(&400_000_000));
    assert!(plain.lengths.iter().zip(&slices_ns).all(|(length, ns)| length.slice_ns == *ns), "{slices_ns:?}");
    let (plain, cold) = (relative(&plain), relative(&cold));
    assert!(plain.iter().all(|rate| (0.85..1.15).contains(rate)), "{plain:?}: it is as fast in short turns");
    // From half speed all the time, to full speed for four fifths of the time.
    assert!(cold[0] < 0.7, "{cold:?}");
    let last = cold[cold.len() - 2];
    assert!(last > cold[0] + 0.1 && last < 0.97, "{cold:?}: of 200 ms, 80 are slow");
}

#[test]
fn who_gets_warm_amid_a_turn_is_faster_in_its_second_half() {
    let began = Instant::now();
    let (work, warm_after) = (Duration::from_micros(500), Duration::from_millis(50));
    let (plain, cold) = (worker(work, began), warming(work, warm_after, began));
    let summaries = by_turns(&[plain.address, cold.address], Some(Duration::from_millis(100)));
    let [plain, cold] = [0, 1].map(|at: usize| summaries[at].clone().unwrap().turns.unwrap().warming.unwrap());
    assert!(plain.abs() < 0.15, "{plain}: it is as fast all along");
    // At half speed until the middle of a turn.
    assert!(cold > plain + 0.3, "{cold}, and {plain} of one that needs no time to get warm");
}

#[test]
fn by_turns_too_connecting_is_no_idleness() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\na tare";
    let options = asked::options("http", "{requests: [{path: /, contains: tare}]}");
    let of = |endpoint: SocketAddr| LoadPlan {
        protocol: "http".into(),
        options: options.clone(),
        profile: LoadProfile::Closed { connections: 16, pipeline: 1 },
        ..plan(endpoint, Duration::from_millis(300))
    };
    let plans = [(); 2].map(|()| of(peer::answering_once(answer))).to_vec();
    for summary in carried_out(plans, Some(Duration::from_millis(40))) {
        let health = summary.unwrap().health.unwrap();
        println!("  not idle for {:?} of the time, on a CPU for {:?}", health.awake, health.busy);
        assert!(health.awake[0] > 0.9 * health.busy[0], "{health:?}");
    }
}

#[test]
fn one_at_a_time_is_at_work_and_all_get_their_due() {
    let began = Instant::now();
    let (fast, slow) = (worker(Duration::from_millis(1), began), worker(Duration::from_millis(2), began));
    let summaries = by_turns(&[fast.address, slow.address, fast.address], Some(Duration::from_millis(40)));
    let summaries: Vec<LoadSummary> = summaries.into_iter().map(Result::unwrap).collect();
    for summary in &summaries {
        let turns = summary.turns.unwrap();
        // Each turn is counted to its last answer, so the total is somewhat more than requested.
        assert!((500_000_000..900_000_000).contains(&turns.active_ns), "{turns:?}");
        assert!((36_000_000..=44_000_000).contains(&turns.slice_ns), "{turns:?}");
        assert!(summary.failures.is_empty() && summary.checks.iter().all(|check| check.passed), "{summary:?}");
        // Spans of a quarter of a second cover all turns that count, one after the other.
        let spans = &summary.spans;
        assert!(spans.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns) && spans.len() > 2, "{spans:?}");
        assert_eq!(spans.iter().map(|span| span.answers).sum::<u64>(), turns.answers);
        assert_eq!(spans.iter().map(|span| span.active_ns).sum::<u64>(), turns.active_ns);
    }
    let ratio = rate(&summaries[1]) / rate(&summaries[0]);
    // Sleeps of 1 ms and 2 ms, each longer if the machine is busy.
    let truth = fast.each_ns() / slow.each_ns();
    assert!((0.85..1.18).contains(&(ratio / truth)), "{ratio}, and the servers took {truth}");
    let equal = rate(&summaries[2]) / rate(&summaries[0]);
    assert!((0.85..1.18).contains(&equal), "{equal}: the same server");
    // During the turn of one, nothing was asked of the other.
    let (fast, slow) = (fast.answered.lock().unwrap(), slow.answered.lock().unwrap());
    let mut both: Vec<(Duration, usize)> =
        fast.iter().map(|at| (*at, 0)).chain(slow.iter().map(|at| (*at, 1))).collect();
    both.sort_unstable();
    let changes = both.windows(2).filter(|pair| pair[0].1 != pair[1].1).count() as u32;
    let turns: u32 = summaries.iter().map(|summary| summary.turns.unwrap().turns).sum();
    // There are turns during warm-up too: three for each, and at most twice that time.
    assert!(changes <= turns + 20, "{changes} changes in {turns} turns");
}

#[test]
fn a_ruler_counts_so_many_answers_less() {
    let (began, settle) = (Instant::now(), Duration::from_millis(300));
    let (one, other) = (worker(Duration::from_micros(300), began), worker(Duration::from_micros(300), began));
    let weighed = LoadPlan { weight: Some(0.5), ..plan(other.address, settle) };
    let summaries = carried_out(vec![plan(one.address, settle), weighed], None);
    let [plain, weighed] = [0, 1].map(|at: usize| summaries[at].clone().unwrap());
    let ratio = rate(&weighed) / rate(&plain);
    assert!((0.57..0.77).contains(&ratio), "{ratio}: two of three answers count");
    assert!(weighed.checks.iter().all(|check| check.passed), "{:?}", weighed.checks);
    assert!(weighed.failures.is_empty());
}

#[test]
fn a_server_that_falls_silent_takes_its_time_and_no_more_turns() {
    let began = Instant::now();
    let (well, silent) =
        (worker(Duration::from_millis(1), began), colder(Duration::from_millis(1), Duration::ZERO, began));
    silent.silent_after.store(150, Ordering::Relaxed);
    let settle = Duration::from_millis(200);
    let patient = |endpoint| LoadPlan { timeout: Duration::from_millis(1500), ..plan(endpoint, settle) };
    let summaries = carried_out(vec![patient(well.address), patient(silent.address)], Some(Duration::from_millis(20)));
    let [well, silent] = [0, 1].map(|at: usize| summaries[at].clone().unwrap());
    let (well_turns, silent_turns) = (well.turns.unwrap(), silent.turns.unwrap());
    assert!(silent_turns.longest_ns >= 1_400_000_000, "what it did not answer was waited for: {silent_turns:?}");
    assert!(silent_turns.active_ns < 5_000_000_000, "and not again and again: {silent_turns:?}");
    assert!(well_turns.active_ns >= 500_000_000 && well.checks.iter().all(|check| check.passed), "{well:?}");
    assert!(silent.operations.values().any(|operation| operation.errors > 0), "{silent:?}");
}

#[test]
fn one_operation_that_is_never_answered_takes_its_share_of_the_loop_and_voids_nobody() {
    let began = Instant::now();
    let (well, lossy) = (worker(Duration::from_millis(1), began), worker(Duration::from_millis(1), began));
    lossy.silent_after.store(150, Ordering::Relaxed);
    lossy.silent_for.store(1, Ordering::Relaxed);
    let settle = Duration::from_millis(200);
    let patient = |endpoint| LoadPlan { timeout: Duration::from_millis(1500), ..plan(endpoint, settle) };
    let summaries = carried_out(vec![patient(well.address), patient(lossy.address)], Some(Duration::from_millis(20)));
    let [well, lossy] = [0, 1].map(|at: usize| summaries[at].clone().unwrap());
    // One of four connections waited for 1.5 s; the others would have continued.
    let longest_ms = lossy.turns.unwrap().longest_ns / 1_000_000;
    assert!((340..700).contains(&longest_ms), "{longest_ms} ms: {:?}", lossy.turns);
    assert_eq!(lossy.operations.values().map(|operation| operation.errors).sum::<u64>(), 1, "{lossy:?}");
    assert!(well.checks.iter().all(|check| check.passed || check.outcome), "{well:?}");
}

#[test]
fn everything_that_was_asked_is_counted() {
    let began = Instant::now();
    let (one, other) = (worker(Duration::from_micros(300), began), worker(Duration::from_micros(300), began));
    let summaries = by_turns(&[one.address, other.address], None);
    for (server, summary) in [one, other].iter().zip(summaries) {
        let summary = summary.unwrap();
        let asked = summary.checks.iter().find(|check| check.name.starts_with("every request was answered")).unwrap();
        let served = server.served.load(Ordering::Relaxed);
        assert!(asked.passed && asked.detail.starts_with(&format!("{served} sent, {served} answered")), "{asked:?}");
        let operations: u64 = summary.operations.values().map(|operation| operation.count).sum();
        assert!(operations > 0 && operations < served, "{operations} of {served}: what warmed up does not count");
        // Ten response times of a loop of four, of 0.4 ms or somewhat more each.
        let slice_ms = summary.turns.unwrap().slice_ns as f64 / 1e6;
        assert!((9.0..60.0).contains(&slice_ms), "{slice_ms}");
    }
}

#[test]
fn a_load_that_cannot_begin_is_named_and_the_others_go_on() {
    let server = worker(Duration::from_millis(1), Instant::now());
    let (_, nobody) = peer::listen();
    let summaries = by_turns(&[nobody, server.address], Some(Duration::from_millis(20)));
    let fault = summaries[0].as_ref().unwrap_err();
    assert!(fault.message.contains(&nobody.to_string()), "{fault}");
    assert!(summaries[1].as_ref().unwrap().turns.unwrap().active_ns >= 500_000_000);
}

#[test]
fn what_is_planned_by_the_clock_takes_no_turns() {
    let server = worker(Duration::from_millis(1), Instant::now());
    let mut open = plan(server.address, Duration::ZERO);
    let arrivals = tare_core::load::Arrivals::Constant;
    open.profile = LoadProfile::Open { rate: 10.0, arrivals, connections: 1, in_flight: 10 };
    open.turns = Some(Box::new(Turns::default()));
    let text = format!("{:?}", asked::driven(&open));
    assert!(text.contains("only a closed loop"), "{text}");
}
