//! Two forms loaded at the same time, on disjoint CPUs.

use crate::alternate::{BlockContext, Deployment, finish, stand_up};
use crate::inside::inside;
use crate::trial::{Early, PROBE_PERIOD, TrialInputs, drive_limit};
use crate::{Event, RunInside};
use tare_core::fault::Fault;
use tare_core::load::{LoadTask, SecondRow};
use tare_core::record::TrialData;
use tare_core::trial::Stage;
use tare_core::units::CpuSet;

/// Half of the CPUs for each of two; if there is only one CPU, both get it, which only works for generators.
pub(crate) fn halves(cpus: &CpuSet) -> [CpuSet; 2] {
    let all = cpus.cpus();
    if all.len() < 2 {
        return [cpus.clone(), cpus.clone()];
    }
    // The halves must be equal, so one CPU of an odd number is not used.
    let half = all.len() / 2;
    [&all[..half], &all[half..2 * half]].map(|cpus| CpuSet::new(cpus.iter().copied()))
}

/// Runs the two trials of a pair. `None` if it was stopped: it then leaves no row.
pub(crate) fn run_duet(inputs: &[TrialInputs], context: &mut BlockContext) -> Option<Vec<TrialData>> {
    let mut pair = stand_up(inputs, true, context);
    let stands = |deployment: &Deployment| deployment.entry.is_some();
    if !context.stop.raised() {
        match pair.as_mut_slice() {
            [one, other] if stands(one) && stands(other) => together([one, other], inputs, context),
            _ => pair
                .iter_mut()
                .filter(|deployment| stands(deployment))
                .for_each(|alone| leave_out(alone, inputs, context)),
        }
    }
    finish(pair, context)
}

/// Skips a form whose partner is missing: its figures could not be compared with anything.
fn leave_out(alone: &mut Deployment, inputs: &[TrialInputs], context: &mut BlockContext) {
    let own = inputs.iter().find(|inputs| *inputs.planned == alone.data.record.trial);
    let own = own.expect("every deployment has its inputs");
    let why = Fault::new("the form to be measured beside it did not start, or failed");
    Deployment::trial(own, &mut alone.data, Stage::Settle, context).end(Early::Unavailable(why));
    alone.entry = None;
}

fn together(mut pair: [&mut Deployment; 2], inputs: &[TrialInputs], context: &mut BlockContext) {
    let (mut plans, mut loaded) = (Vec::new(), Vec::new());
    for at in 0..2 {
        let deployment = &mut pair[at];
        let (Some(entry), Some(host)) = (&deployment.entry, &mut deployment.host) else { return };
        let begun = host.thaw().and_then(|()| host.begin_probe(&[], PROBE_PERIOD));
        if let Err(fault) = begun {
            let faults = if at == 0 { [Some(fault), None] } else { [None, Some(fault)] };
            return end_both(pair, faults, inputs, context);
        }
        let trial = Deployment::trial(&inputs[at], &mut deployment.data, Stage::Settle, context);
        plans.push(trial.load_plan(entry, LoadTask::Run));
        loaded.push(entry.instance.clone());
    }
    let limit = drive_limit(&plans[0]);
    let tell = &mut *context.tell;
    let rows: &mut [Vec<SecondRow>; 2] = &mut Default::default();
    let mut each_second = |at: usize, row: &SecondRow| {
        rows[at].push(row.clone());
        if at == 0 {
            tell(Event::Second { row: row.clone() });
        }
    };
    let driven = {
        let [one, other] = &mut pair;
        let (Some(one), Some(other)) = (&mut one.host, &mut other.host) else { return };
        let mut one = inside(one.as_mut(), &loaded[0], context.stop);
        let mut other = inside(other.as_mut(), &loaded[1], context.stop);
        let insides: Vec<&mut RunInside> = vec![&mut one, &mut other];
        context.apparatus.drive_all(&plans, limit, context.stop, insides, &mut each_second)
    };
    let mut faults = [None, None];
    for (at, (deployment, driven)) in pair.iter_mut().zip(driven).enumerate() {
        deployment.data.seconds = std::mem::take(&mut rows[at]);
        let Some(host) = &mut deployment.host else { continue };
        let probed = host.end_probe();
        match driven.and_then(|load| Ok((load, probed?))) {
            Ok(part) => deployment.parts.push(part),
            Err(fault) => faults[at] = Some(fault),
        }
    }
    if faults.iter().any(Option::is_some) {
        end_both(pair, faults, inputs, context);
    }
}

/// Ends both: if one fails, the other was not loaded beside it all the time.
fn end_both(
    pair: [&mut Deployment; 2],
    faults: [Option<Fault>; 2],
    inputs: &[TrialInputs],
    context: &mut BlockContext,
) {
    for (deployment, fault) in pair.into_iter().zip(faults) {
        match fault {
            Some(fault) => deployment.fail(fault, context),
            None => leave_out(deployment, inputs, context),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_of_a_size_and_disjoint() {
        assert_eq!(halves(&CpuSet::new([0, 1, 2, 3])), [CpuSet::new([0, 1]), CpuSet::new([2, 3])]);
        assert_eq!(halves(&CpuSet::new([0, 1, 2])), [CpuSet::new([0]), CpuSet::new([1])]);
        assert_eq!(halves(&CpuSet::new([7])), [CpuSet::new([7]), CpuSet::new([7])]);
    }
}
