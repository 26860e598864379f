//! The sampler as a process, on this machine, over processes whose use of the CPU the kernel also tells otherwise.
//! This program is its own sampler (`probe`) and its own load (`spin`), so it has its own `main`.

use libtest_mimic::{Arguments, Trial};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tare_core::telemetry::{METRICS, Scope, TelemetryRow, WHOLE_MACHINE};
use tare_telemetry::{Root, Sampler, process_prober, serve};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("probe") => return serve(std::io::stdin(), std::io::stdout()),
        Some("spin") => return spin(),
        Some("family") => return family(),
        Some("sleep") => {
            let _ = std::io::stdin().read_line(&mut String::new());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let tests: [(&str, fn()); 5] = [
        ("the_sampler_agrees_with_getrusage", the_sampler_agrees_with_getrusage),
        ("short_lived_children_are_counted", short_lived_children_are_counted),
        ("counters_outlive_their_process", counters_outlive_their_process),
        ("sampling_is_cheap", sampling_is_cheap),
        ("a_dropped_prober_leaves_no_process", a_dropped_prober_leaves_no_process),
    ];
    let trials = tests.map(|(name, test)| {
        Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    // What one test uses of the CPU is not to be counted as another's.
    let arguments = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}

/// CPU time this process has used, and its waited-for children, s.
fn used_s(whose: libc::c_int) -> f64 {
    // SAFETY: getrusage fills the structure it is handed, which lives through the call.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(whose, &mut usage), 0);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn burn(seconds: f64) {
    let before = used_s(libc::RUSAGE_SELF);
    while used_s(libc::RUSAGE_SELF) - before < seconds {
        std::hint::black_box((0..20_000_u64).fold(1, |a: u64, b| a.wrapping_mul(31).wrapping_add(b)));
    }
}

/// Burns in a second thread too, says what it used, and stays until told to go.
fn spin() -> ExitCode {
    let _ = std::io::stdin().read_line(&mut String::new());
    let thread = std::thread::spawn(|| burn(0.4));
    burn(1.2);
    thread.join().expect("the thread only burns");
    println!("{}", used_s(libc::RUSAGE_SELF));
    let _ = std::io::stdin().read_line(&mut String::new());
    ExitCode::SUCCESS
}

/// Starts children that each live shorter than a sampling period.
fn family() -> ExitCode {
    let _ = std::io::stdin().read_line(&mut String::new());
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let command = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        assert!(Command::new("/bin/sh").args(["-c", command]).status().expect("there is a shell").success());
    }
    println!("{}", used_s(libc::RUSAGE_SELF) + used_s(libc::RUSAGE_CHILDREN));
    let _ = std::io::stdin().read_line(&mut String::new());
    ExitCode::SUCCESS
}

fn start(what: &str) -> Child {
    let mut command = Command::new("/proc/self/exe");
    command.arg(what).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("this program starts itself")
}

fn scope(name: &str, pids: Vec<u32>) -> Scope {
    Scope { name: name.to_owned(), serving: true, pids, cgroups: Vec::new() }
}

fn say(child: &mut Child) {
    use std::io::Write;
    child.stdin.as_mut().expect("a pipe").write_all(b"\n").expect("the child listens");
}

fn answer(child: &mut Child) -> f64 {
    use std::io::{BufRead, BufReader};
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("the child answers");
    line.trim().parse().expect("the child answers with a number")
}

fn of<'a>(rows: &'a [TelemetryRow], scope: &str) -> Vec<&'a TelemetryRow> {
    rows.iter().filter(|row| row.scope == scope).collect()
}

fn growth(rows: &[&TelemetryRow], metric: &str) -> f64 {
    rows[rows.len() - 1].values[metric] - rows[0].values[metric]
}

fn assert_counters_never_fall(rows: &[TelemetryRow]) {
    for (index, row) in rows.iter().enumerate() {
        let Some(next) = rows[index + 1..].iter().find(|next| next.scope == row.scope) else { continue };
        assert!(next.at_ns > row.at_ns);
        for (name, value) in &row.values {
            let metric = METRICS.iter().find(|metric| name.split('@').next() == Some(metric.name)).expect("known");
            if metric.counter {
                assert!(next.values[name] >= *value, "{name} of {} fell", row.scope);
            }
        }
    }
}

fn sampled(what: &str) -> (Vec<TelemetryRow>, f64) {
    let mut child = start(what);
    let mut prober = process_prober().expect("this program exists");
    prober.begin(&[scope("child", vec![child.id()])], Duration::from_millis(300)).expect("sampling starts");
    say(&mut child);
    let used = answer(&mut child);
    let rows = prober.end().expect("sampling ends");
    say(&mut child);
    child.wait().expect("the child ends");
    assert_counters_never_fall(&rows);
    (rows, used)
}

fn the_sampler_agrees_with_getrusage() {
    let (rows, used) = sampled("spin");
    let child = of(&rows, "child");
    assert!(child.len() >= 4, "{} rows", child.len());
    let ratio = growth(&child, "cpu_total_s") / used;
    println!("  sampled / getrusage = {ratio:.4}");
    assert!((0.85..1.15).contains(&ratio), "sampled / getrusage = {ratio}");
    assert!(growth(&child, "context_switches_involuntary") + growth(&child, "context_switches_voluntary") > 0.0);
    let machine = of(&rows, WHOLE_MACHINE);
    assert!(growth(&machine, "cpu_user_s") >= 0.85 * used - 0.1);
    assert!(machine[0].values["memory_available_bytes"] > 0.0);
}

fn short_lived_children_are_counted() {
    let (rows, used) = sampled("family");
    let ratio = growth(&of(&rows, "child"), "cpu_total_s") / used;
    println!("  sampled / getrusage = {ratio:.4}");
    assert!((0.85..1.15).contains(&ratio), "sampled / getrusage = {ratio}");
}

fn counters_outlive_their_process() {
    let mut child = start("spin");
    let scopes = [scope("child", vec![child.id()])];
    let mut sampler = Sampler::new(&Root::machine(), &scopes).expect("/proc is there");
    sampler.sample();
    say(&mut child);
    answer(&mut child);
    let alive = sampler.sample();
    say(&mut child);
    child.wait().expect("the child ends");
    let dead = sampler.sample();
    assert_counters_never_fall(&[alive.clone(), dead.clone()].concat());
    assert!(of(&alive, "child")[0].values.contains_key("memory_bytes"));
    assert!(!of(&dead, "child")[0].values.contains_key("memory_bytes"), "a dead process has no memory");
    assert!(of(&dead, "child")[0].values["cpu_total_s"] > 1.0);
}

/// Three scopes of together some twenty processes: the share of a core that sampling once a second takes.
fn sampling_is_cheap() {
    let mut children: Vec<Child> = (0..20).map(|_| start("sleep")).collect();
    let ids: Vec<u32> = children.iter().map(Child::id).collect();
    let scopes: Vec<Scope> = ids.chunks(7).map(|ids| scope("some", ids.to_vec())).collect();
    let mut sampler = Sampler::new(&Root::machine(), &scopes).expect("/proc is there");
    sampler.sample();
    let mut costs: Vec<f64> = (0..20)
        .map(|_| {
            // Something starts between samples, so that processes are looked for each time.
            Command::new("/bin/true").status().expect("true runs");
            let before = used_s(libc::RUSAGE_SELF);
            let rows = sampler.sample();
            let text: Vec<String> = rows.iter().map(|row| serde_json::to_string(row).expect("finite")).collect();
            std::hint::black_box(text);
            used_s(libc::RUSAGE_SELF) - before
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("  a reading of 20 processes in 3 scopes takes {:.0} us of CPU time (median)", costs[10] * 1e6);
    // Relative to the machine's own speed: reading must cost less than so many plain reads of a /proc file.
    let before = used_s(libc::RUSAGE_SELF);
    for _ in 0..1000 {
        std::hint::black_box(std::fs::read("/proc/self/stat").expect("/proc is there"));
    }
    let plain = (used_s(libc::RUSAGE_SELF) - before) / 1000.0;
    println!("  which is as much as {:.0} plain reads of /proc/self/stat", costs[10] / plain);
    assert!(costs[10] < 1000.0 * plain, "{} s against {plain} s for one plain read", costs[10]);
    for child in &mut children {
        say(child);
        child.wait().expect("the child ends");
    }
}

fn a_dropped_prober_leaves_no_process() {
    let samplers = || {
        let own = std::process::id().to_string();
        let of_ours = |pid: &String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            status.lines().any(|line| line.strip_prefix("PPid:").is_some_and(|parent| parent.trim() == own))
        };
        Root::machine().names("/proc").iter().filter(|pid| of_ours(pid)).count()
    };
    let before = samplers();
    let mut prober = process_prober().expect("this program exists");
    prober.begin(&[], Duration::from_secs(1)).expect("sampling starts");
    assert_eq!(samplers(), before + 1);
    assert!(prober.begin(&[], Duration::from_secs(1)).is_err());
    drop(prober);
    assert_eq!(samplers(), before);
    assert!(process_prober().expect("exists").end().is_err());
}
