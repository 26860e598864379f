//! Whether tools agree on times when nothing but the server decides them, and which of them can be right when not.

use crate::closed::shown;
use crate::ratio::{median, paired, show};
use crate::report::Report;
use crate::servers::Kind;
use crate::tool::{Ask, Job, Outcome, TARE};
use crate::workshop::{Entry, Workshop};
use anyhow::Result;

/// A comparison: title, server, what is asked, connections, expected operations a second.
type Case = (&'static str, Kind, Ask, u32, f64);

const SET: Ask = Ask::Redis { set: 1, get: 0 };
const CASES: &[Case] = &[
    ("Redis, 1 connection", Kind::Redis, SET, 1, 20e3),
    ("Redis that flushes its log to disk for each answer, 50 connections", Kind::SyncedRedis, SET, 50, 3e3),
    ("Redis, 50 connections: the client may be the limit", Kind::Redis, SET, 50, 80e3),
    ("nginx, 1 connection", Kind::Nginx, Ask::Http, 1, 15e3),
    ("nginx, 50 connections", Kind::Nginx, Ask::Http, 50, 25e3),
];

/// All of them.
pub(crate) fn run(shop: &mut Workshop, report: &mut Report) -> Result<()> {
    report.head("Agreement on times");
    report.say(
        "Closed loops again. *Must be* is the mean response time that follows from the number of \
         operations in flight all the time: connections / (op/s) (Little's law). *Share seen* is the \
         tool's own mean divided by it. A tool whose own mean is lower starts its clock late or stops it \
         early: it leaves out the time that operations waited in the tool itself. If the server is the \
         limit, this is little; if the tool is the limit, it is not.",
    );
    for (title, server, ask, connections, expected) in CASES {
        if !shop.wants(title) {
            continue;
        }
        let server = shop.server(*server)?;
        let (port, seconds) = (server.port, if shop.quick { 1.0 } else { 3.0 });
        let job = shop.prepared(Job::new(*ask, port, *connections, seconds, *expected))?;
        let mut tools = shop.tools.able(&job);
        // Without times there is nothing to agree on.
        tools.retain(|tool| tool.name != crate::tool::FLOOR);
        let rounds = shop.rounds(3, 7);
        let entries = shop.rounds_of(&tools, &job, rounds);
        report.say(&format!("### {title}"));
        let heads = [
            "tool",
            "op/s",
            "mean us",
            "must be",
            "share seen",
            "p50 us",
            "p99 us",
            "Tare's p50 to it",
            "Tare's p99 to it",
        ];
        let rows: Vec<Vec<String>> = entries.iter().map(|entry| row(entry, &entries, *connections)).collect();
        report.table(&heads, &rows);
        for entry in entries.iter().filter(|entry| entry.failed.is_some()) {
            report.say(&format!("{} failed: {}", entry.tool.name, entry.failed.as_deref().unwrap_or_default()));
        }
    }
    Ok(())
}

fn row(entry: &Entry, all: &[Entry], connections: u32) -> Vec<String> {
    let must = |outcome: &Outcome| f64::from(connections) / outcome.throughput() * 1e6;
    let tares = |figure: fn(&Outcome) -> f64| {
        let tare = all.iter().find(|other| other.tool.name == TARE).filter(|_| entry.tool.name != TARE);
        tare.map_or("-".to_owned(), |tare| show(paired(&tare.each(figure), &entry.each(figure))))
    };
    let middle = |figure: &dyn Fn(&Outcome) -> f64| median(&entry.each(figure));
    let share = middle(&|outcome| outcome.times.mean / must(outcome));
    vec![
        entry.tool.name.to_owned(),
        shown(middle(&Outcome::throughput)),
        shown(middle(&|outcome| outcome.times.mean)),
        shown(middle(&must)),
        if share.is_finite() { format!("{:.0} %", 100.0 * share) } else { "-".to_owned() },
        shown(middle(&|outcome| outcome.times.p50)),
        shown(middle(&|outcome| outcome.times.p99)),
        tares(|outcome| outcome.times.p50),
        tares(|outcome| outcome.times.p99),
    ]
}
