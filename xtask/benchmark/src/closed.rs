//! Closed loops as fast as they go: operations a second, CPU time and memory.

use crate::ratio::{figure, median, paired, show};
use crate::report::Report;
use crate::servers::Kind;
use crate::tool::{Ask, FLOOR, Job, Outcome, TARE};
use crate::workshop::{Entry, Workshop};
use anyhow::Result;

/// A comparison.
struct Case {
    title: &'static str,
    server: Kind,
    ask: Ask,
    connections: u32,
    pipeline: u32,
    expected: f64,
}

const SET: Ask = Ask::Redis { set: 1, get: 0 };
const MIX: Ask = Ask::Redis { set: 1, get: 3 };

const fn case(title: &'static str, server: Kind, ask: Ask, connections: u32, pipeline: u32, expected: f64) -> Case {
    Case { title, server, ask, connections, pipeline, expected }
}

const CASES: &[Case] = &[
    case("Redis: SET, 50 connections", Kind::Redis, SET, 50, 1, 80e3),
    case("Redis: SET, 50 connections, pipeline 30", Kind::Redis, SET, 50, 30, 700e3),
    case("Redis: SET, 1000 connections", Kind::Redis, SET, 1000, 1, 60e3),
    case("Redis: SET, 1000 connections, pipeline 30", Kind::Redis, SET, 1000, 30, 500e3),
    case("Redis: three GET to a SET, 50 connections", Kind::Redis, MIX, 50, 1, 80e3),
    case("Redis: three GET to a SET, 50 connections, pipeline 30", Kind::Redis, MIX, 50, 30, 700e3),
    case("HTTP: a file of 1 KiB from nginx, 50 connections", Kind::Nginx, Ask::Http, 50, 1, 30e3),
    case("HTTP: a file of 1 KiB from nginx, 1000 connections", Kind::Nginx, Ask::Http, 1000, 1, 30e3),
    case("PostgreSQL: prepared select, 10 connections", Kind::Postgres, Ask::Sql, 10, 1, 10e3),
    case("PostgreSQL: pgbench's transaction, 10 connections", Kind::Postgres, Ask::Transfer, 10, 1, 2e3),
    case("PostgreSQL: oltp_read_write, 10 connections", Kind::Postgres, Ask::ReadWrite, 10, 1, 300.0),
    case("MariaDB: prepared select, 10 connections", Kind::MariaDb, Ask::MySql, 10, 1, 10e3),
];

/// All of them.
pub(crate) fn run(shop: &mut Workshop, report: &mut Report) -> Result<()> {
    report.head("Closed loops");
    report.say(
        "*To floor* is a tool's CPU time per operation divided by the floor's. *Tare's CPU to it* and \
         *Tare's op/s to it* are Tare's CPU time per operation and operations per second divided by the \
         tool's. Compare the ratios, not the figures: a tool that is about as fast as the server it \
         shares the machine with costs less per operation when the server is slower, because replies then \
         arrive in larger batches.",
    );
    for case in CASES.iter().filter(|case| shop.wants(case.title)).collect::<Vec<_>>() {
        if let Err(error) = compare(shop, report, case) {
            report.say(&format!("**{}** could not be compared: {error:#}", case.title));
        }
    }
    Ok(())
}

fn compare(shop: &mut Workshop, report: &mut Report, case: &Case) -> Result<()> {
    let server = shop.server(case.server)?;
    let seconds = if shop.quick { 2.0 } else { 3.0 };
    let job = Job::new(case.ask, server.port, case.connections, seconds, case.expected);
    let job = shop.prepared(Job { pipeline: case.pipeline, ..job })?;
    let tools = shop.tools.able(&job);
    let rounds = shop.rounds(3, 7);
    let entries = shop.rounds_of(&tools, &job, rounds);
    report.say(&format!("### {}", case.title));
    let heads =
        ["tool", "op/s", "CPU us", "least", "to floor", "Tare's CPU to it", "Tare's op/s to it", "p99 us", "peak MiB"];
    let rows: Vec<Vec<String>> = entries.iter().map(|entry| row(entry, &entries)).collect();
    report.table(&heads, &rows);
    for entry in entries.iter().filter(|entry| entry.failed.is_some()) {
        report.say(&format!("{} failed: {}", entry.tool.name, entry.failed.as_deref().unwrap_or_default()));
    }
    let remarks =
        entries.iter().filter_map(|entry| Some((entry, entry.outcomes.iter().find_map(|o| o.remark.as_ref())?)));
    for (entry, remark) in remarks {
        report.say(&format!("{} says: {remark}", entry.tool.name));
    }
    Ok(())
}

fn row(entry: &Entry, all: &[Entry]) -> Vec<String> {
    let cpu = entry.each(Outcome::cpu_us);
    let throughput = entry.each(Outcome::throughput);
    let of = |name: &str| all.iter().find(|other| other.tool.name == name);
    let to_floor = of(FLOOR).map(|floor| show(paired(&cpu, &floor.each(Outcome::cpu_us))));
    let tares = |figure: fn(&Outcome) -> f64| {
        let tare = of(TARE).filter(|_| entry.tool.name != TARE)?;
        Some(show(paired(&tare.each(figure), &entry.each(figure))))
    };
    let dash = || "-".to_owned();
    let peak = entry.each(|outcome| outcome.finished.peak_kib as f64 / 1024.0);
    vec![
        entry.tool.name.to_owned(),
        figure(median(&throughput)),
        figure(median(&cpu)),
        figure(cpu.iter().copied().fold(f64::INFINITY, f64::min)),
        to_floor.filter(|_| entry.tool.name != FLOOR).unwrap_or_else(dash),
        tares(Outcome::cpu_us).unwrap_or_else(dash),
        tares(Outcome::throughput).unwrap_or_else(dash),
        shown(median(&entry.each(|outcome| outcome.times.p99))),
        shown(median(&peak)),
    ]
}

/// A figure, or that there is none.
pub(crate) fn shown(value: f64) -> String {
    if value.is_finite() { figure(value) } else { "-".to_owned() }
}
