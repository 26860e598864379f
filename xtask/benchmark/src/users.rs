//! Many users who pause, and the engine by itself.

use crate::closed::shown;
use crate::ours::{TARE, plan, summary};
use crate::process::{CLIENT_CPU, Finished, pinned, run as run_program};
use crate::ratio::{figure, median};
use crate::report::{Report, brief};
use crate::servers::Kind;
use crate::tool::{Ask, Job};
use crate::workshop::Workshop;
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::time::Duration;

/// A number of users.
struct Case {
    title: &'static str,
    users: u32,
    pause: fn() -> Value,
    connections: fn() -> Value,
    /// The time over which they arrive, and then how long is measured, s.
    ramp: f64,
    seconds: f64,
    /// Operations a second that they come to.
    offered: f64,
}

fn seconds(seconds: u64) -> Value {
    json!({"secs": seconds, "nanos": 0})
}

const CASES: &[Case] = &[
    Case {
        title: "10,000 users who think for 1 s, a connection each",
        users: 10_000,
        pause: || json!({"think": {"constant": seconds(1)}}),
        connections: || json!("own"),
        ramp: 2.0,
        seconds: 15.0,
        offered: 10_000.0,
    },
    Case {
        title: "100,000 users with a mean cycle of 5 s (exponential), 1000 connections",
        users: 100_000,
        pause: || json!({"cycle": {"exponential": {"mean": seconds(5), "max": seconds(50)}}}),
        connections: || json!({"shared": 1000}),
        ramp: 5.0,
        seconds: 20.0,
        offered: 20_000.0,
    },
    Case {
        title: "1,000,000 users with a cycle of 60 s, 1000 connections",
        users: 1_000_000,
        pause: || json!({"cycle": {"constant": seconds(60)}}),
        connections: || json!({"shared": 1000}),
        ramp: 60.0,
        seconds: 30.0,
        offered: 1e6 / 60.0,
    },
];

/// All numbers of users.
pub(crate) fn run(shop: &mut Workshop, report: &mut Report) -> Result<()> {
    report.head("Users who pause");
    report.say(
        "Redis GET. Users arrive spread over a ramp that is not measured. Memory is the load process's \
         own, without what the kernel holds for sockets. *Late* is how long after its planned moment an \
         operation was started.",
    );
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for case in CASES.iter().filter(|case| shop.wants(case.title)).collect::<Vec<_>>() {
        match measure(shop, case) {
            Ok(row) => rows.push([vec![case.title.to_owned()], row].concat()),
            Err(error) => failed.push(format!("{}: {}", case.title, brief(&error))),
        }
    }
    report.table(&["users", "op/s", "of offered", "CPU us", "peak MiB", "bytes a user", "late p99 ms"], &rows);
    failed.iter().for_each(|failure| report.say(failure));
    Ok(())
}

fn measure(shop: &mut Workshop, case: &Case) -> Result<Vec<String>> {
    let server = shop.server(Kind::Redis)?;
    let ask = Ask::Redis { set: 0, get: 1 };
    let job = shop.prepared(Job::new(ask, server.port, 1, case.seconds, case.offered))?;
    let profile = json!({"users": {
        "users": case.users, "behaviour": "mix", "pause": (case.pause)(), "connections": (case.connections)(),
        "ramp": seconds(case.ramp as u64),
    }});
    let mut wanted = plan("redis", "run", profile, &job);
    wanted["settle"] = seconds(case.ramp as u64 + 1);
    let finished = drive(shop, &wanted, case.ramp + case.seconds)?;
    let summary = summary(&finished)?;
    let moment = |name: &str| summary[name].as_f64().unwrap_or(f64::NAN);
    let measured_s = (moment("measure_end_ns") - moment("measure_start_ns")) / 1e9;
    let operations = count(&summary);
    ensure!(operations > 0.0, "no operation was answered");
    let peak = finished.peak_kib as f64 * 1024.0;
    Ok(vec![
        figure(operations / measured_s),
        format!("{:.1} %", 100.0 * operations / measured_s / case.offered),
        figure(moment("generator_cpu_s") * 1e6 / operations),
        figure(peak / 1024.0 / 1024.0),
        figure(peak / f64::from(case.users)),
        shown(late_p99_ms(&summary)),
    ])
}

fn count(summary: &Value) -> f64 {
    let operations = summary["operations"].as_object().into_iter().flat_map(|map| map.values());
    operations.filter_map(|operation| operation["count"].as_f64()).sum()
}

/// Lateness of starts as the load process reports it of itself.
fn late_p99_ms(summary: &Value) -> f64 {
    summary["health"]["late_p99_us"].as_f64().map_or(f64::NAN, |us| us / 1e3)
}

fn drive(shop: &Workshop, plan: &Value, seconds: f64) -> Result<Finished> {
    let program = shop.tools.program(&TARE).context("Tare's load process was not built")?;
    let limit = Duration::from_secs_f64(60.0 + 2.0 * seconds);
    run_program(&mut pinned(CLIENT_CPU, program, &[]), &plan.to_string(), limit)
}

/// The engine with nothing to ask: operations that are done as soon as they are planned.
pub(crate) fn null(shop: &mut Workshop, report: &mut Report) -> Result<()> {
    let job = Job { options: json!({}), ..Job::new(Ask::Http, 1, 1, 2.0, 1e7) };
    // More than it can: what it does then is its ceiling.
    let open = |arrivals: &str| {
        let rate = 1e9;
        json!({"open": {"rate": rate, "arrivals": arrivals, "connections": 1, "in_flight": 1000}})
    };
    let users = json!({"users": {
        "users": 1_000_000, "behaviour": "mix", "pause": {"cycle": {"exponential": {"mean": seconds(1),
        "max": seconds(10)}}}, "connections": {"shared": 1}, "ramp": seconds(0),
    }});
    let profiles = [
        ("closed loop", json!({"closed": {"connections": 1, "pipeline": 1}})),
        ("open, evenly spaced", open("constant")),
        ("open, Poisson", open("poisson")),
        ("1,000,000 users with a cycle of 1 s (exponential)", users),
    ];
    let mut rows = Vec::new();
    for (name, profile) in profiles {
        let plan = plan("null", "run", profile, &job);
        let mut rates = Vec::new();
        for _ in 0..shop.rounds(2, 5) {
            let summary = summary(&drive(shop, &plan, job.seconds)?)?;
            rates.push(count(&summary) / job.seconds);
        }
        let most = rates.iter().copied().fold(0.0, f64::max);
        rows.push(vec![name.to_owned(), figure(median(&rates)), figure(most)]);
    }
    report.head("The engine by itself");
    report.say(
        "Protocol `null`: operations are planned, counted and timed on one CPU, without any server. \
         *Op/s* is the median over rounds, *most* the highest.",
    );
    report.table(&["load", "op/s", "most"], &rows);
    Ok(())
}
