//! The load process: a plan in, lines out.

use crate::endpoint;
use crate::protocol::{Emit, PROTOCOLS};
use std::io::{Read, Write};
use std::process::ExitCode;
use tare_core::fault::{Doing, Fault};
use tare_core::load::{LoadLine, LoadPlan, LoadProfile, LoadSummary};

/// A plan longer than this is not a plan: 16 MiB.
const PLAN_MAX: u64 = 16 << 20;
/// More operations in flight than this are a slip of the finger; each takes 24 bytes.
const IN_FLIGHT_MAX: u64 = 10_000_000;

/// Carries out the one [`LoadPlan`] on `stdin` and writes [`LoadLine`]s to `stdout`, each flushed; the last is `Done`
/// or `Failed`. The exit code is a success exactly when it is `Done`.
pub fn serve(mut stdin: impl Read, mut stdout: impl Write) -> ExitCode {
    let mut emit = |line: LoadLine| -> Result<(), Fault> {
        let mut text = serde_json::to_vec(&line).expect("a line is plain data");
        text.push(b'\n');
        stdout.write_all(&text).and_then(|()| stdout.flush()).doing("write a line for the runner")
    };
    let last = match read_plan(&mut stdin).and_then(|plan| carry_out(&plan, &mut emit)) {
        Ok(summary) => LoadLine::Done(Box::new(summary)),
        Err(fault) => LoadLine::Failed(fault),
    };
    let done = matches!(last, LoadLine::Done(_));
    // When nobody reads any more there is nobody to tell but the exit code.
    if emit(last).is_ok() && done { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read_plan(stdin: &mut impl Read) -> Result<LoadPlan, Fault> {
    let mut text = Vec::new();
    stdin.take(PLAN_MAX).read_to_end(&mut text).doing("read the plan")?;
    serde_json::from_slice(&text).doing("understand the plan on standard input")
}

fn carry_out(plan: &LoadPlan, emit: &mut Emit<'_>) -> Result<LoadSummary, Fault> {
    let row = PROTOCOLS.iter().find(|row| row.name == plan.protocol).ok_or_else(|| {
        let known: Vec<_> = PROTOCOLS.iter().map(|row| row.name).collect();
        Fault::new(format!("there is no protocol '{}'", plan.protocol))
            .remedy(format!("use one of {}", known.join(", ")))
    })?;
    if let LoadProfile::Closed { connections, pipeline } = plan.profile {
        if connections == 0 || pipeline == 0 || plan.timeout.is_zero() {
            return Err(Fault::new("connections, pipeline and timeout must be above 0"));
        }
        if u64::from(connections) * u64::from(pipeline) > IN_FLIGHT_MAX {
            let message =
                format!("{connections} connections of {pipeline} operations are more than {IN_FLIGHT_MAX} in flight");
            return Err(Fault::new(message).remedy("lower 'connections' or 'pipeline'"));
        }
    }
    endpoint::check(plan.endpoint, &plan.allowed)?;
    (row.drive)(plan, emit)
}
