//! A block whose forms stand side by side: all deployed, one generator with connections to each, and a closed loop that
//! it moves from one to the other every few milliseconds. Whoever is not loaded is idle, not frozen: what it does then
//! by itself falls into the others' slices.

use crate::Event;
use crate::alternate::{Around, Standing};
use crate::trial::{DRIVE_SLACK, PROBE_PERIOD, TrialInputs};
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask, Turns};
use tare_core::record::TrialData;
use tare_core::telemetry::TelemetryRow;
use tare_core::trial::Stage;

/// How long a form is loaded alone, before it counts and while it does.
const ALONE: (Duration, Duration) = (Duration::from_millis(300), Duration::from_secs(2));

/// Runs the trials of a block, chopped into slices of this length; none finds it. Each form is loaded `alone` as well
/// after that, where that is wanted. `None` when it was stopped: it then leaves no row.
pub(crate) fn run_chopped(
    inputs: &[TrialInputs],
    slice: Option<Duration>,
    alone: bool,
    around: &mut Around,
) -> Option<Vec<TrialData>> {
    let mut standing: Vec<Standing> =
        inputs.iter().map(|inputs| Standing::new(inputs, around.clock.timestamp())).collect();
    for (at, deployment) in standing.iter_mut().enumerate() {
        if !around.stop.raised() {
            deployment.stand_up(at as u8 + 1, false, around);
        }
    }
    if !around.stop.raised() {
        load(&mut standing, inputs, slice, around);
    }
    for (deployment, inputs) in standing.iter_mut().zip(inputs) {
        if alone && !around.stop.raised() {
            load_alone(deployment, inputs, around);
        }
    }
    let stopped = around.stop.raised();
    for deployment in &mut standing {
        deployment.finish(stopped, around);
    }
    (!stopped).then(|| standing.into_iter().map(|deployment| deployment.data).collect())
}

/// Loads all that stand, by turns, and gives each what it came to.
fn load(standing: &mut [Standing], inputs: &[TrialInputs], slice: Option<Duration>, around: &mut Around) {
    let mut loaded: Vec<(usize, LoadPlan)> = Vec::new();
    for (at, deployment) in standing.iter_mut().enumerate() {
        let (Some(entry), Some(host)) = (&deployment.entry, &mut deployment.host) else { continue };
        if let Err(fault) = host.begin_probe(&[], PROBE_PERIOD) {
            deployment.fail(fault, around);
            continue;
        }
        let trial = Standing::trial(&inputs[at], &mut deployment.data, Stage::Settle, around);
        // Every form of a block is asked the same things.
        loaded.push((at, LoadPlan { seed: inputs[0].seed, ..trial.load_plan(entry, LoadTask::Run) }));
    }
    let plans: Vec<LoadPlan> = loaded.iter().map(|(_, plan)| plan.clone()).collect();
    let driven = by_turns(plans, slice, around);
    for ((at, _), driven) in loaded.iter().zip(driven) {
        let deployment = &mut standing[*at];
        let probed = deployment.host.as_mut().map_or_else(|| Ok(Vec::new()), |host| host.end_probe());
        match keep(driven, probed) {
            Ok(part) => deployment.parts.push(part),
            Err(fault) => deployment.fail(fault, around),
        }
    }
}

/// Loads one form while all others rest, for what the whole machine counts meanwhile.
fn load_alone(deployment: &mut Standing, inputs: &TrialInputs, around: &mut Around) {
    if deployment.parts.is_empty() {
        return;
    }
    let (Some(entry), Some(host)) = (&deployment.entry, &mut deployment.host) else { return };
    let trial = Standing::trial(inputs, &mut deployment.data, Stage::Measure, around);
    let (settle, measure) = ALONE;
    let plan = LoadPlan { settle, measure, ..trial.load_plan(entry, LoadTask::Run) };
    let limit = settle + measure + plan.timeout + DRIVE_SLACK;
    let alone = host.begin_probe(&[], PROBE_PERIOD).and_then(|()| {
        let driven = around.apparatus.drive(&plan, limit, around.stop, &mut |_| Err(no_tool()), &mut |_| {});
        keep(driven, host.end_probe())
    });
    match (alone, deployment.parts.first_mut()) {
        (Ok((load, telemetry)), Some((_, rows))) => {
            rows.extend(telemetry);
            deployment.data.record.alone = Some(load);
        }
        (Err(fault), _) => deployment.fail(fault, around),
        (Ok(_), None) => {}
    }
}

fn keep(
    driven: Result<LoadSummary, Fault>,
    probed: Result<Vec<TelemetryRow>, Fault>,
) -> Result<(LoadSummary, Vec<TelemetryRow>), Fault> {
    Ok((driven?, probed?))
}

/// What each of these loads came to that one process carries out by turns.
fn by_turns(mut plans: Vec<LoadPlan>, slice: Option<Duration>, around: &mut Around) -> Vec<Result<LoadSummary, Fault>> {
    let count = plans.len();
    if plans.is_empty() {
        return Vec::new();
    }
    let mut first = plans.remove(0);
    // Each warms up, and is measured, for as long as one would that has the time for itself.
    first.settle *= count as u32;
    first.turns = Some(Box::new(Turns { slice, beside: plans }));
    let limit = first.settle + (2 * first.measure + PATIENCE) * count as u32 + first.timeout + DRIVE_SLACK;
    let mut measuring = false;
    let tell = &mut *around.tell;
    let driven = around.apparatus.drive(&first, limit, around.stop, &mut |_| Err(no_tool()), &mut |row| {
        if row.measured && !measuring {
            measuring = true;
            tell(Event::StageStarted { stage: Stage::Measure });
        }
        tell(Event::Second { row: row.clone() });
    });
    match driven {
        Ok(all) if all.by_load.len() == count => all.by_load,
        Ok(_) => vec![Err(Fault::new("the load process did not say what each of its loads came to")); count],
        Err(fault) => vec![Err(fault); count],
    }
}

/// How much longer than measuring may the turns of one load take in all, for what is not answered.
const PATIENCE: Duration = Duration::from_secs(5);

fn no_tool() -> Fault {
    Fault::new("a load that is chopped runs no tool inside the form")
}
