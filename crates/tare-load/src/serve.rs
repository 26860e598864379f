//! The load process: it reads a plan and further orders, and writes lines.

use crate::endpoint;
use crate::engine::{Emit, Turns as Seats, open_files};
use crate::protocol::{ErasedProtocol, protocol_named};
use serde::Deserialize;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use tare_core::fault::{Doing, Fault};
use tare_core::load::{LoadLine, LoadOrder, LoadPlan, LoadProfile, LoadSummary, Turns};

/// A plan longer than this is not a plan: 16 MiB.
const PLAN_MAX: u64 = 16 << 20;
/// More operations in flight than this are a typing error; each takes 32 bytes.
const IN_FLIGHT_MAX: u64 = 10_000_000;

/// Carries out the one [`LoadPlan`] on `stdin` and writes [`LoadLine`]s to `stdout`, each flushed; the last is `Done`
/// or `Failed`. The plan is followed by [`LoadOrder`]s, one per line: every load can be told to end early; a guided one
/// also gets its levels this way, and ends when its orders do. The exit code is a success exactly if the last line is
/// `Done`. A plan names one of `protocols`, such as [`PROTOCOLS`](crate::PROTOCOLS).
pub fn serve(
    protocols: &[&'static dyn ErasedProtocol],
    stdin: impl Read + Send + 'static,
    stdout: impl Write,
) -> ExitCode {
    serve_confined(protocols, stdin, stdout, |_| Ok(None))
}

/// Like [`serve`], with `confine`, which is called once the plan is known and before anything is done: it restricts
/// this process, which has one thread, to what the plan needs. It returns the connection to the process that freezes
/// services between turns, if there is one: see [`serve_freezer`](crate::serve_freezer).
pub fn serve_confined(
    protocols: &[&'static dyn ErasedProtocol],
    stdin: impl Read + Send + 'static,
    mut stdout: impl Write,
    confine: impl FnOnce(&LoadPlan) -> Result<Option<UnixStream>, Fault>,
) -> ExitCode {
    let mut write = |line: LoadLine| -> Result<(), Fault> {
        let mut text = serde_json::to_vec(&line).expect("a line is plain data");
        text.push(b'\n');
        stdout.write_all(&text).and_then(|()| stdout.flush()).doing("write a line for the runner")
    };
    let mut stdin = BufReader::new(stdin);
    let result = read_plan(&mut stdin).and_then(|plan| {
        let freezing = confine(&plan)?;
        let orders = orders(stdin);
        let emit = Emit::new(&mut write, Some(orders));
        match &plan.turns {
            Some(turns) => take_turns(protocols, &plan, turns, freezing, emit),
            None => carry_out(protocols, &plan, &mut { emit }),
        }
    });
    let last = match result {
        Ok(summary) => LoadLine::Done(Box::new(summary)),
        Err(fault) => LoadLine::Failed(fault),
    };
    let done = matches!(last, LoadLine::Done(_));
    // If nobody reads any more, only the exit code can report it.
    if write(last).is_ok() && done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_plan(stdin: &mut impl Read) -> Result<LoadPlan, Fault> {
    // Reads the plan and nothing after it.
    let mut plan = serde_json::Deserializer::from_reader(stdin.take(PLAN_MAX));
    LoadPlan::deserialize(&mut plan).doing("understand the plan on standard input")
}

/// Reads orders in a thread of its own, which nothing waits for: it ends with its input or the process.
fn orders(mut stdin: impl BufRead + Send + 'static) -> Receiver<LoadOrder> {
    let (sender, orders) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        loop {
            line.clear();
            match stdin.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => {}
                // An order that cannot be understood ends the reading, because the sender is out of step.
                Ok(_) => {
                    let order = serde_json::from_str(line.trim()).ok();
                    if order.is_none_or(|order| sender.send(order).is_err()) {
                        return;
                    }
                }
            }
        }
    });
    orders
}

/// Carries out loads that take turns, each in threads of its own. A load that fails does not affect the others.
fn take_turns(
    protocols: &[&'static dyn ErasedProtocol],
    plan: &LoadPlan,
    turns: &Turns,
    freezing: Option<UnixStream>,
    emit: Emit<'_>,
) -> Result<LoadSummary, Fault> {
    let plans: Vec<&LoadPlan> = std::iter::once(plan).chain(&turns.beside).collect();
    let connections = plans.iter().map(|plan| match plan.profile {
        LoadProfile::Closed { connections, .. } => u64::from(connections),
        _ => 0,
    });
    open_files(connections.sum())?;
    let mut seats = Seats::seats(plan, turns, freezing)?.into_iter();
    let (Some(own), Some((first, others))) = (seats.next(), plans.split_first()) else {
        unreachable!("the plan itself is among them")
    };
    let by_load = std::thread::scope(|scope| {
        let beside: Vec<_> = others
            .iter()
            .zip(seats)
            .map(|(plan, seat)| {
                scope.spawn(move || carry_out(protocols, plan, &mut Emit::new(&mut |_| Ok(()), None).seated(seat)))
            })
            .collect();
        let own = carry_out(protocols, first, &mut emit.seated(own));
        let panicked = |_| Err(Fault::new("a load stopped at a broken invariant; this is a defect of tare"));
        let beside = beside.into_iter().map(|load| load.join().unwrap_or_else(panicked));
        std::iter::once(own).chain(beside).collect()
    });
    Ok(LoadSummary { by_load, ..LoadSummary::default() })
}

fn carry_out(
    protocols: &[&'static dyn ErasedProtocol],
    plan: &LoadPlan,
    emit: &mut Emit<'_>,
) -> Result<LoadSummary, Fault> {
    let protocol = protocol_named(protocols, &plan.protocol).ok_or_else(|| {
        let known: Vec<_> = protocols.iter().map(|protocol| protocol.name()).collect();
        Fault::new(format!("there is no protocol '{}'", plan.protocol))
            .remedy(format!("use one of {}", known.join(", ")))
    })?;
    if let LoadProfile::Closed { connections, pipeline } = *plan.profile.base()
        && u64::from(connections) * u64::from(pipeline) > IN_FLIGHT_MAX
    {
        let message =
            format!("{connections} connections of {pipeline} operations are more than {IN_FLIGHT_MAX} in flight");
        return Err(Fault::new(message).remedy("lower 'connections' or 'pipeline'"));
    }
    if emit.takes_turns() && !protocol.tells_seconds() {
        let message = format!("protocol '{}' runs a tool, which cannot take turns with others", plan.protocol);
        return Err(Fault::new(message).remedy("use `design: blocks`").as_mistake());
    }
    // A tool inside the form may need no port; then nothing is loaded from here.
    if plan.endpoint != LoadPlan::NOWHERE || !protocol.facts(&plan.options).runs_inside {
        for endpoint in std::iter::once(&plan.endpoint).chain(&plan.also).chain(plan.services.values().flatten()) {
            endpoint::check(*endpoint, &plan.allowed)?;
        }
    }
    let summary = protocol.drive(plan, emit)?;
    if emit.takes_turns() {
        return Err(Fault::new(format!("protocol '{}' does not take turns with others", plan.protocol)).as_mistake());
    }
    Ok(summary)
}
