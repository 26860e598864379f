//! Puts together what the workers counted: a row a second, a summary at the end.

use super::saturation::{self, Effort};
use super::tally::{Ledger, Report, Tally};
use super::timeline::Timeline;
use crate::clock::{self, SECOND_NS};
use crate::histogram::Histogram;
use crate::protocol::{Emit, FAILURES, Failure, Verified};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{Check, LoadLine, LoadPlan, LoadSummary, OperationSummary, SecondRow};

/// One worker, seen from the gatherer.
struct Crew {
    spares: Sender<Box<Tally>>,
    in_flight: u64,
    effort: Effort,
}

/// A span that not every worker has handed over yet.
struct Open {
    cut: usize,
    missing: usize,
    times: Histogram,
    errors: u64,
}

/// The gathering side of a run.
pub(crate) struct Gather {
    operations: Vec<String>,
    measure: Duration,
    crew: Vec<Crew>,
    open: VecDeque<Open>,
    times: Vec<Histogram>,
    errors: Vec<u64>,
    failures: [u64; FAILURES],
    ledger: Ledger,
    span: (u64, u64),
    cpu_ns: u64,
    cpu_mark_ns: u64,
}

impl Gather {
    /// A gatherer for these operations, of which `measure` will be measured.
    pub(crate) fn new(operations: Vec<String>, measure: Duration) -> Self {
        let count = operations.len();
        Gather {
            operations,
            measure,
            crew: Vec::new(),
            open: VecDeque::new(),
            times: (0..count).map(|_| Histogram::new()).collect(),
            errors: vec![0; count],
            failures: [0; FAILURES],
            ledger: Ledger::new(count),
            span: (0, 0),
            cpu_ns: 0,
            cpu_mark_ns: 0,
        }
    }

    /// Adds the next worker, which keeps `in_flight` operations going; returns where it gets its tallies back.
    pub(crate) fn worker(&mut self, in_flight: u64) -> Receiver<Box<Tally>> {
        let (spares, back) = channel();
        self.crew.push(Crew { spares, in_flight, effort: Effort::default() });
        back
    }

    /// What was sent and answered over the whole run.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Waits until `workers` are connected.
    ///
    /// # Errors
    /// The first worker's that cannot.
    pub(crate) fn await_connected(&mut self, workers: usize, reports: &Receiver<Report>) -> Result<(), Fault> {
        for _ in 0..workers {
            match reports.recv() {
                Ok(Report::Connected) => {}
                Ok(Report::Ended(result)) => return Err(result.err().unwrap_or_else(ended_early)),
                Ok(Report::Cut { .. }) => unreachable!("nothing is counted before the start"),
                Err(_) => return Err(ended_early()),
            }
        }
        Ok(())
    }

    /// Collects to the end of the run and emits its rows.
    ///
    /// # Errors
    /// The first worker's that fails, or that nobody reads the rows.
    pub(crate) fn collect(
        &mut self,
        timeline: &Timeline,
        reports: &Receiver<Report>,
        emit: &mut Emit<'_>,
    ) -> Result<(), Fault> {
        self.span = (timeline.measure_start_ns, timeline.measure_end_ns);
        self.cpu_mark_ns = clock::thread_cpu_ns();
        let mut running = self.crew.len();
        while running > 0 {
            match reports.recv() {
                Ok(Report::Cut { worker, cut, tally }) => {
                    if let Some(row) = self.take(timeline, worker, cut, tally) {
                        emit(LoadLine::Second(row))?;
                    }
                }
                Ok(Report::Ended(result)) => {
                    self.ledger.merge(&result?);
                    running -= 1;
                }
                Ok(Report::Connected) => unreachable!("all are connected"),
                Err(_) => return Err(ended_early()),
            }
        }
        Ok(())
    }

    /// Takes one worker's tally of one span; a row when it was the last worker's.
    fn take(&mut self, timeline: &Timeline, worker: usize, cut: usize, mut tally: Box<Tally>) -> Option<SecondRow> {
        let span = timeline.cuts[cut];
        let workers = self.crew.len();
        let at = self.open.iter().position(|open| open.cut == cut).unwrap_or_else(|| {
            self.open.push_back(Open { cut, missing: workers, times: Histogram::new(), errors: 0 });
            self.open.len() - 1
        });
        let open = &mut self.open[at];
        tally.times.iter().for_each(|times| open.times.merge(times));
        open.errors += tally.errors.iter().sum::<u64>();
        open.missing -= 1;
        let crew = &mut self.crew[worker];
        if span.measured {
            self.times.iter_mut().zip(&tally.times).for_each(|(to, from)| to.merge(from));
            self.errors.iter_mut().zip(&tally.errors).for_each(|(to, from)| *to += from);
            self.failures.iter_mut().zip(&tally.failures).for_each(|(to, from)| *to += from);
            crew.effort.cpu_ns += tally.cpu_ns;
            crew.effort.replies += tally.replies;
            crew.effort.crowd += tally.crowd;
        } else {
            self.cpu_mark_ns = clock::thread_cpu_ns();
        }
        tally.clear();
        // A worker that is gone needs no tally any more.
        let _ = crew.spares.send(tally);
        if open.missing > 0 {
            return None;
        }
        let open = self.open.remove(at)?;
        Some(SecondRow {
            at_ns: span.at_ns,
            measured: span.measured,
            seconds: (span.at_ns - span.from_ns) as f64 / SECOND_NS as f64,
            operations: open.times.total(),
            errors: open.errors,
            p50_us: open.times.quantile(0.5) as f64 / 1e3,
            p99_us: open.times.quantile(0.99) as f64 / 1e3,
            max_us: open.times.longest() as f64 / 1e3,
            ..SecondRow::default()
        })
    }

    /// Adds the calling thread's own CPU time since measuring began.
    pub(crate) fn own_cpu(&mut self) {
        self.cpu_ns = clock::thread_cpu_ns() - self.cpu_mark_ns;
    }

    /// The summary. `verified` is what the server's own counts gave.
    pub(crate) fn finish(self, plan: &LoadPlan, verified: Verified) -> LoadSummary {
        let sent: u64 = self.ledger.sent.iter().sum();
        let answered: u64 = self.ledger.answered.iter().sum();
        let rows = self.operations.iter().zip(self.times.iter().zip(&self.errors));
        let summary = |(times, errors): (&Histogram, &u64)| {
            let exported = times.export();
            OperationSummary {
                count: times.total(),
                errors: *errors,
                service_time: exported.clone(),
                response_time: exported,
            }
        };
        let operations = rows.map(|(name, row)| (name.clone(), summary(row))).collect();
        let workers_ns: u64 = self.crew.iter().map(|crew| crew.effort.cpu_ns).sum();
        let saturated =
            self.crew.iter().find_map(|crew| saturation::verdict(crew.effort, self.measure, crew.in_flight));
        let lost: u64 = self.failures.iter().sum();
        let mut checks = vec![Check {
            name: "every request was answered".into(),
            passed: sent == answered,
            detail: format!("{sent} sent, {answered} answered; {lost} failures while measuring"),
        }];
        checks.extend(verified.checks);
        let named = Failure::ALL.iter().map(|failure| (failure.name().to_owned(), self.failures[*failure as usize]));
        LoadSummary {
            measure_start_ns: self.span.0,
            measure_end_ns: self.span.1,
            operations,
            dropped: 0,
            generator_cpu_s: (workers_ns + self.cpu_ns) as f64 / SECOND_NS as f64,
            generator_cpus: plan.cpus.len().max(1) as u32,
            saturated,
            checks,
            failures: named.filter(|(_, count)| *count > 0).collect(),
            facts: verified.facts,
            ..LoadSummary::default()
        }
    }
}

fn ended_early() -> Fault {
    Fault::new("a load worker ended before its time")
}
