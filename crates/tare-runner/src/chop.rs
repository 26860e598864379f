//! A block whose forms are deployed side by side: one generator has connections to all of them and moves a closed loop
//! from one to the next every few milliseconds. A form that is not loaded is idle, and frozen only if the study says
//! so; otherwise its own activity falls into the others' slices.

use crate::Event;
use crate::alternate::{BlockContext, Deployment, finish, stand_up};
use crate::probe_rests::{Loads, rest_half, rests_by_turns};
use crate::trial::{DRIVE_SLACK, PROBE_PERIOD, TrialInputs, drive_limit};
use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;
use tare_core::fault::Fault;
use tare_core::held::Held;
use tare_core::load::{LoadPlan, LoadSummary, LoadTask, TurnLength, Turns};
use tare_core::record::{Slice as Part, TrialData};
use tare_core::study::Study;
use tare_core::telemetry::{Scope, TelemetryRow};
use tare_core::trial::Stage;
use tare_stats::{Loss, Warmth, resting_share};

/// How long a form that is loaded alone warms up.
const ALONE_SETTLES: Duration = Duration::from_millis(300);

/// The limits for how long it is measured alone, which is otherwise as long as all its turns together. A second has
/// enough ticks of 4 ms to show the parts of CPU time.
const ALONE_LASTS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(2));

/// How long a form of the study is loaded alone: warm-up, and measurement.
pub(crate) fn alone_for(study: &Study) -> (Duration, Duration) {
    (ALONE_SETTLES, study.measure.clamp(ALONE_LASTS.0, ALONE_LASTS.1))
}

/// In how many of the first blocks of a form it is loaded alone.
pub(crate) const BLOCKS_ALONE: u32 = 3;

/// How often counters are read if a deployment is measured in pieces, which last at most seconds.
const PROBE_PERIOD_OF_PIECES: Duration = Duration::from_millis(250);

/// The longest turns, with which others are compared, and for how long at most each load is active in turns of several
/// lengths, unless the least number of cycles takes longer. If a service is cold in turns of the first length, the
/// second is tried.
pub(crate) const COMPARED: [(Duration, Duration); 2] =
    [(Duration::from_millis(200), Duration::from_secs(5)), (Duration::from_secs(1), Duration::from_secs(10))];

/// As long as the longest turns with which others are compared.
pub(crate) const LONGEST: Slice = Slice::AtLeast(COMPARED[1].0);

/// How long at least each load is active while lengths from 10 to 200 ms are compared: six cycles of turns of all of
/// them.
pub(crate) const COMPARED_LEAST: Duration = Duration::from_millis(3300);

/// How long slices are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slice {
    /// As long as the study says.
    Asked(Duration),
    /// Ten response times, but at least this long, which an earlier block found.
    AtLeast(Duration),
    /// To be found by comparing turns of several lengths first.
    Unknown,
}

/// Runs the trials of a block, chopped into slices, and measures them in this many `pieces` if given. If `alone` is
/// set, each form is then loaded alone as well. `None` if it was stopped: it then leaves no row.
pub(crate) fn run_chopped(
    inputs: &[TrialInputs],
    slice: Slice,
    pieces: Option<u32>,
    alone: bool,
    context: &mut BlockContext,
) -> Option<Vec<TrialData>> {
    let mut standing = stand_up(inputs, false, context);
    let mut turns = match slice {
        Slice::Asked(slice) => Turns { slice: Some(slice), ..Turns::default() },
        Slice::AtLeast(at_least) => Turns { at_least: Some(at_least), ..Turns::default() },
        Slice::Unknown => Turns::default(),
    };
    // Measuring in pieces only shows variation, and is over soon.
    if slice == Slice::Unknown && pieces.is_none() && !context.stop.raised() {
        turns.at_least = compare_lengths(&mut standing, inputs, context);
    }
    for number in 0..pieces.unwrap_or(1) {
        if !context.stop.raised() {
            let took = load(&mut standing, inputs, turns.clone(), Piece { number, of: pieces }, context);
            // Later pieces use turns as long as those that the first one found.
            turns.slice = took.or(turns.slice);
        }
    }
    let mut resting = vec![Vec::new(); standing.len()];
    for at in (0..standing.len()).filter(|_| alone) {
        if !context.stop.raised() {
            load_alone(&mut standing, at, &inputs[at], &mut resting, context);
        }
    }
    for (deployment, shares) in standing.iter_mut().zip(resting) {
        let count = shares.len() as f64;
        deployment.data.record.resting_cpu = shares.into_iter().reduce(f64::add).map(|sum| sum / count);
    }
    finish(standing, context)
}

/// What each form runs in, for the load process, which freezes the forms that wait if the study says so. It is
/// collected again for each load, so that the hosts know what to thaw if the load process dies.
fn hold(standing: &mut [Deployment], inputs: &[TrialInputs], context: &mut BlockContext) -> Vec<Vec<Held>> {
    if !inputs.first().is_some_and(|inputs| inputs.study.design.freezes()) {
        return Vec::new();
    }
    let hold = |deployment: &mut Deployment| {
        let held = deployment.host.as_mut().filter(|_| deployment.entry.is_some()).map(|host| host.held());
        match held {
            Some(Ok(held)) => held,
            Some(Err(fault)) => {
                deployment.fail(fault, context);
                Vec::new()
            }
            None => Vec::new(),
        }
    };
    standing.iter_mut().map(hold).collect()
}

/// Of the forms that are loaded.
fn of(held: &[Vec<Held>], loaded: &[(usize, LoadPlan)]) -> Vec<Vec<Held>> {
    loaded.iter().filter_map(|(at, _)| held.get(*at).cloned()).collect()
}

/// Thaws everything, whatever became of the load process.
fn run_on(standing: &mut [Deployment], held: &[Vec<Held>]) {
    // Forms that have failed stay as they are.
    for deployment in standing.iter_mut().take(held.len()).filter(|deployment| deployment.entry.is_some()) {
        // A form that cannot be thawed is noticed when its services are checked, and reported at its teardown.
        let _ = deployment.host.as_mut().map(|host| host.thaw());
    }
}

/// Loads all deployed forms in turns of several lengths, and finds how long slices must be so that no form is cold in
/// them. None if that cannot be determined.
fn compare_lengths(
    standing: &mut [Deployment],
    inputs: &[TrialInputs],
    context: &mut BlockContext,
) -> Option<Duration> {
    let mut found: Option<Warmth> = None;
    for (compared_to, measure) in COMPARED {
        let measure = inputs.first()?.study.measure.min(measure);
        let held = hold(standing, inputs, context);
        let loaded = plans(standing, inputs, context);
        let plans = loaded.iter().map(|(_, plan)| LoadPlan { measure, ..plan.clone() }).collect();
        // Leave out lengths that are known to be too short.
        let at_least = found.as_ref().map(|found| found.losses.last().map_or(Duration::ZERO, Loss::slice));
        let turns = Turns { at_least, compared_to: Some(compared_to), held: of(&held, &loaded), ..Turns::default() };
        let began = context.clock.now();
        let driven = by_turns(plans, turns, context);
        run_on(standing, &held);
        let share = context.clock.now().saturating_sub(began) / loaded.len().max(1) as u32;
        // A load that fails here will fail again when it counts.
        let there = loaded.iter().zip(driven).filter_map(|((at, _), load)| Some((*at, load.ok()?.lengths)));
        let there: Vec<(usize, Vec<TurnLength>)> = there.collect();
        let now = Warmth::of(&there.iter().map(|(_, lengths)| lengths.as_slice()).collect::<Vec<_>>());
        for (at, lengths) in there.into_iter().filter(|_| now.is_some() || found.is_none()) {
            let record = &mut standing[at].data.record;
            record.lengths = lengths;
            *record.stages.entry(Stage::Settle).or_default() += share.as_secs_f64();
        }
        found = now.or(found);
        if found.as_ref().is_none_or(|found| !found.cold || Duration::from_nanos(found.longest_ns) < compared_to) {
            break;
        }
    }
    found.map(|found| found.slice())
}

/// The load plans of all deployed forms.
fn plans(standing: &mut [Deployment], inputs: &[TrialInputs], context: &mut BlockContext) -> Vec<(usize, LoadPlan)> {
    let plan = |(at, deployment): (usize, &mut Deployment)| {
        let entry = deployment.entry.as_ref().filter(|_| deployment.host.is_some())?;
        let trial = Deployment::trial(&inputs[at], &mut deployment.data, Stage::Settle, context);
        // Every form of a block gets the same requests.
        Some((at, LoadPlan { seed: inputs[0].seed, ..trial.load_plan(entry, LoadTask::Run) }))
    };
    standing.iter_mut().enumerate().filter_map(plan).collect()
}

/// A part of the time in which the deployments of a block are measured.
#[derive(Clone, Copy)]
struct Piece {
    /// Counted from 0.
    number: u32,
    /// The number of pieces; none if there is only one, the whole.
    of: Option<u32>,
}

impl Piece {
    /// The plan of one load in this piece. The first piece settles for all; the others only warm up for the least
    /// number of turns.
    fn plan(self, plan: LoadPlan) -> LoadPlan {
        let settle = if self.number == 0 { plan.settle } else { Duration::ZERO };
        let seed = plan.seed.wrapping_add(u64::from(self.number) << 32);
        LoadPlan { settle, measure: plan.measure / self.of.unwrap_or(1).max(1), seed, ..plan }
    }

    fn probe_period(self) -> Duration {
        self.of.map_or(PROBE_PERIOD, |_| PROBE_PERIOD_OF_PIECES)
    }
}

/// Loads all deployed forms in turns, and stores the result of each. Returns how long turns were.
fn load(
    standing: &mut [Deployment],
    inputs: &[TrialInputs],
    turns: Turns,
    piece: Piece,
    context: &mut BlockContext,
) -> Option<Duration> {
    for deployment in standing.iter_mut().filter(|deployment| deployment.entry.is_some()) {
        let Some(Err(fault)) = deployment.host.as_mut().map(|host| host.begin_probe(&[], piece.probe_period())) else {
            continue;
        };
        deployment.fail(fault, context);
    }
    if piece.of.is_none() {
        rest_probes(standing, inputs, context);
    }
    let held = hold(standing, inputs, context);
    let loaded = plans(standing, inputs, context);
    let serving = loaded.iter().map(|(at, _)| serving(&mut standing[*at])).collect();
    let arms: Vec<String> = loaded.iter().map(|(at, _)| inputs[*at].planned.arm()).collect();
    let plans: Vec<LoadPlan> = loaded.iter().map(|(_, plan)| piece.plan(plan.clone())).collect();
    let began = context.clock.now();
    let mut driven = by_turns(plans, Turns { held: of(&held, &loaded), serving, ..turns }, context);
    run_on(standing, &held);
    let share = context.clock.now().saturating_sub(began) / loaded.len().max(1) as u32;
    same_for_all(&mut driven);
    let turns = driven.iter().flatten().filter_map(|load| load.turns);
    let slice = turns.map(|turns| Duration::from_nanos(turns.slice_ns)).max();
    for (place, ((at, _), driven)) in loaded.iter().zip(driven).enumerate() {
        let deployment = &mut standing[*at];
        *deployment.data.record.stages.entry(Stage::Measure).or_default() += share.as_secs_f64();
        let probed = deployment.host.as_mut().map_or_else(|| Ok(Vec::new()), |host| host.end_probe());
        match keep(driven, probed) {
            Ok((mut load, telemetry)) => {
                let by_arm = &mut deployment.data.record.cpu_by_turn;
                for (arm, used) in arms.iter().zip(std::mem::take(&mut load.cpu_by_turn)) {
                    let so_far = by_arm.entry(arm.clone()).or_default();
                    *so_far = *so_far + used;
                }
                let unfrozen = !held.is_empty() && load.turns.is_some_and(|turns| turns.freeze_ns.is_none());
                deployment.data.record.warnings.extend(unfrozen.then(|| {
                    "not every form that waited could be frozen, so its work may be counted in others' turns".to_owned()
                }));
                if piece.of.is_some() {
                    let place = piece.number * loaded.len() as u32 + place as u32;
                    deployment.data.record.slices.push(part_of(&load, piece.number, place));
                }
                deployment.parts.push((load, telemetry));
            }
            Err(fault) => deployment.fail(fault, context),
        }
    }
    slice
}

/// Lets all samplers pause at the same times, so that the report can say what they cost.
fn rest_probes(standing: &mut [Deployment], inputs: &[TrialInputs], context: &mut BlockContext) {
    let Some(first) = inputs.first() else { return };
    let stand = standing.iter().filter(|deployment| deployment.entry.is_some()).count() as u32;
    let half = rest_half(first.run_seed(), first.nth_of_its_kind);
    let loads = Loads { planned: inputs.len() as u32, stand };
    let rests = rests_by_turns(first.study, loads, first.run_seed(), half);
    for deployment in standing.iter_mut().filter(|deployment| !rests.is_empty() && deployment.entry.is_some()) {
        deployment.data.record.rest_half = Some(half);
        if let Some(Err(fault)) = deployment.host.as_mut().map(|host| host.rest_probe(&rests)) {
            deployment.fail(fault, context);
        }
    }
}

/// The scopes that serve a load, so that their usage in others' turns can be counted; empty if that is unknown, which
/// is not the fault of a form.
fn serving(deployment: &mut Deployment) -> Vec<Scope> {
    deployment.host.as_mut().and_then(|host| host.serving().ok()).unwrap_or_default()
}

/// A piece as a slice of its trial; its metrics are computed when all pieces are over.
fn part_of(load: &LoadSummary, round: u32, place: u32) -> Part {
    let (start_ns, end_ns) = (load.measure_start_ns, load.measure_end_ns);
    Part { round, place, start_ns, end_ns, metrics: BTreeMap::new() }
}

/// Loads the form with index `at` while all others are idle, for counters of the whole machine. Also notes what each of
/// the others uses meanwhile.
fn load_alone(
    standing: &mut [Deployment],
    at: usize,
    inputs: &TrialInputs,
    resting: &mut [Vec<f64>],
    context: &mut BlockContext,
) {
    if standing[at].parts.is_empty() || standing[at].entry.is_none() {
        return;
    }
    // If a form cannot be sampled, its usage is unknown, which is not the fault of a form.
    let sampled: Vec<bool> =
        (standing.iter_mut().enumerate()).map(|(other, deployment)| other != at && deployment.begin_rest()).collect();
    let load = load_one(&mut standing[at], inputs, context);
    for (other, deployment) in standing.iter_mut().enumerate().filter(|(other, _)| sampled[*other]) {
        let rows = deployment.host.as_mut().and_then(|host| host.end_probe().ok());
        resting[other].extend(load.as_ref().zip(rows).and_then(|(load, rows)| resting_share(load, &rows)));
    }
}

/// Loads one form and keeps the result.
fn load_one(deployment: &mut Deployment, inputs: &TrialInputs, context: &mut BlockContext) -> Option<LoadSummary> {
    let (Some(entry), Some(host)) = (&deployment.entry, &mut deployment.host) else { return None };
    let trial = Deployment::trial(inputs, &mut deployment.data, Stage::Measure, context);
    let (settle, measure) = alone_for(inputs.study);
    let plan = LoadPlan { settle, measure, ..trial.load_plan(entry, LoadTask::Run) };
    let began = context.clock.now();
    let alone = host.begin_probe(&[], PROBE_PERIOD).and_then(|()| {
        let driven =
            context.apparatus.drive(&plan, drive_limit(&plan), context.stop, &mut |_| Err(no_tool()), &mut |_| {});
        keep(driven, host.end_probe())
    });
    let took = context.clock.now().saturating_sub(began);
    *deployment.data.record.stages.entry(Stage::Measure).or_default() += took.as_secs_f64();
    match (alone, deployment.parts.first_mut()) {
        (Ok((load, telemetry)), Some((_, rows))) => {
            rows.extend(telemetry);
            deployment.data.record.alone = Some(load.clone());
            Some(load)
        }
        // Its result in turns stays valid; a service that is gone is noticed when services are checked.
        (Err(fault), _) => {
            deployment
                .data
                .record
                .warnings
                .push(format!("not loaded alone, so differences are not explained: {fault}"));
            None
        }
        (Ok(_), None) => None,
    }
}

fn keep(
    driven: Result<LoadSummary, Fault>,
    probed: Result<Vec<TelemetryRow>, Fault>,
) -> Result<(LoadSummary, Vec<TelemetryRow>), Fault> {
    Ok((driven?, probed?))
}

/// The cost of moves is subtracted from all loads of a block or from none, and second halves count for all loads or for
/// none: if they are unknown for one load, using them for the others would create a difference.
fn same_for_all(driven: &mut [Result<LoadSummary, Fault>]) {
    let mut turns: Vec<_> = driven.iter_mut().flatten().filter_map(|load| load.turns.as_mut()).collect();
    let moves = turns.iter().all(|turns| turns.move_ns.is_some());
    let halves = moves && turns.iter().all(|turns| turns.warming.is_some());
    for turns in &mut turns {
        turns.untold = !moves && turns.move_ns.is_none();
        turns.move_ns = turns.move_ns.filter(|_| moves);
        turns.warming = turns.warming.filter(|_| halves);
    }
}

/// The result of each of these loads, which one process carries out in turns.
fn by_turns(mut plans: Vec<LoadPlan>, turns: Turns, context: &mut BlockContext) -> Vec<Result<LoadSummary, Fault>> {
    let count = plans.len();
    if plans.is_empty() {
        return Vec::new();
    }
    let patience = turns.patience();
    let timeout = plans.iter().map(|plan| plan.timeout).max().unwrap_or_default();
    let mut first = plans.remove(0);
    // Each warms up, and is measured, for as long as a single load would be.
    first.settle *= count as u32;
    first.turns = Some(Box::new(Turns { beside: plans, ..turns }));
    let limit = first.settle + (2 * first.measure + patience + timeout) * count as u32 + DRIVE_SLACK;
    let mut measuring = false;
    let tell = &mut *context.tell;
    let driven = context.apparatus.drive(&first, limit, context.stop, &mut |_| Err(no_tool()), &mut |row| {
        if row.measured && !measuring {
            measuring = true;
            tell(Event::StageStarted { stage: Stage::Measure });
        }
        // Seconds are not reported: a load has only some turns of each, which would be mistaken for its rate.
    });
    match driven {
        Ok(all) if all.by_load.len() == count => all.by_load,
        Ok(_) => vec![Err(Fault::new("the load process did not report a result for each of its loads")); count],
        Err(fault) => vec![Err(fault); count],
    }
}

fn no_tool() -> Fault {
    Fault::new("a chopped load cannot run a tool inside the form")
}
