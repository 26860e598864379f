//! `tare load`: the load generator on its own.

mod args;
mod limits;
mod outcome;
mod resolve;
mod show;

pub(crate) use args::LoadArgs;

use crate::driver::Driver;
use crate::terminal::{columns, complain, print};
use crate::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK};
use anyhow::Result;
use args::Wish;
use outcome::Measured;
use show::Progress;
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::load::{LoadLine, LoadOrder, LoadPlan, LoadSummary, LoadTask, SecondRow};
use tare_runner::Stop;

/// A second signal within this time counts as the first one.
const AGAIN: Duration = Duration::from_millis(500);
/// How long the load may take to end after an interrupt; beyond that, the result is made of its rows alone. The load
/// gives its server a second for what is in flight.
const END_WITHIN: Duration = Duration::from_secs(3);
/// The generator was the limit, or did not keep its rate.
const EXIT_LIMITED: u8 = 3;

pub(crate) fn load(args: &LoadArgs) -> Result<u8> {
    let Wish { plan, target } = args.wish()?;
    limits::check(&plan)?;
    crate::catalog::check_needs(&plan.protocol, &plan.options)?;
    let stop = stop_on_signals()?;
    let mut progress = Progress::new(&plan, args.json);
    let done = carry_out(&plan, args.populate, &stop, &mut progress);
    progress.end();
    let (measured, summary) = match done {
        // The user interrupted it, whatever else went wrong.
        Err(fault) if stop.raised() => {
            complain(&fault.into());
            return Ok(EXIT_INTERRUPTED);
        }
        done => done?,
    };
    if args.json {
        let json = measured.json(&plan, &target, summary.as_deref());
        print(&serde_json::to_string_pretty(&json)?);
    } else {
        print(&show::table(&plan, &target, &measured, columns(std::io::stdout())));
    }
    Ok(match () {
        () if stop.raised() => EXIT_INTERRUPTED,
        () if measured.failed => EXIT_FAILED,
        () if measured.limited => EXIT_LIMITED,
        () => EXIT_OK,
    })
}

type Carried = (Measured, Option<Box<LoadSummary>>);

fn carry_out(plan: &LoadPlan, populate: bool, stop: &Stop, progress: &mut Progress) -> Result<Carried, Fault> {
    if populate {
        progress.say("writing the data set");
        let plan = LoadPlan { task: LoadTask::Populate, ..plan.clone() };
        let written = wait(&plan, stop, Duration::ZERO, &mut |_| {})?;
        if written.is_none() {
            return Err(Fault::new("interrupted while writing the data set"));
        }
    }
    let mut rows = Vec::new();
    let mut each_second = |row: &SecondRow| {
        progress.show(row);
        rows.push(row.clone());
    };
    let summary = wait(plan, stop, END_WITHIN, &mut each_second)?;
    // The summary of a load that was still settling is empty.
    let summary = summary.filter(|summary| !stop.raised() || summary.measure_end_ns > summary.measure_start_ns);
    let Some(summary) = summary else { return Ok((Measured::of_rows(&rows), None)) };
    let mut measured = Measured::new(plan, &summary)?;
    if stop.raised() {
        measured.interrupted(plan.measure);
    }
    Ok((measured, Some(summary)))
}

/// Carries out a plan. After an interrupt the load is told to end and has `ending` to return its summary; none if it
/// does not.
fn wait(
    plan: &LoadPlan,
    stop: &Stop,
    ending: Duration,
    each_second: &mut dyn FnMut(&SecondRow),
) -> Result<Option<Box<LoadSummary>>, Fault> {
    let mut driver = Driver::start(Driver::command(), None, plan)?;
    let mut told: Option<Instant> = None;
    loop {
        if stop.raised() {
            driver.tell(&LoadOrder::End)?;
            if told.get_or_insert_with(Instant::now).elapsed() >= ending {
                return Ok(None);
            }
        }
        match driver.hear()? {
            Some(LoadLine::Second(row)) => each_second(&row),
            Some(LoadLine::Done(summary)) => return Ok(Some(summary)),
            _ => {}
        }
    }
}

/// Ctrl-C and SIGTERM end the load and show what was measured; a second one, after a moment, exits at once.
fn stop_on_signals() -> Result<Stop> {
    let stop = Stop::default();
    let raised = stop.clone();
    let mut first: Option<Instant> = None;
    ctrlc::set_handler(move || {
        // When a whole process group is signalled, the signal may arrive twice.
        if first.get_or_insert_with(Instant::now).elapsed() > AGAIN {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        raised.raise();
    })?;
    Ok(stop)
}
