//! `placement:` and `instances:` of a study: where services run, and how often.

use crate::config::{Fields, Problems};
use crate::form::Form;
use crate::instances::{INSTANCES_MAX, Instances};
use crate::placement::{Kept, Rules};
use crate::workload::Workload;
use std::collections::BTreeSet;

/// By which rules services get their CPUs, and what is kept from them. Where a form has rules of its own, these are
/// looked through too.
pub(super) fn read_placement(
    fields: &mut Fields,
    forms: &[Form],
    instances: &Instances,
    workload: Option<&Workload>,
    problems: &mut Problems,
) -> (Option<Rules>, Kept) {
    let mut kept = Kept::default();
    let node = fields.get("placement");
    let placement = node.and_then(|node| Rules::read(node, Some(&mut kept), problems));
    if let Some(workload) = workload {
        // A rule may be for a service, or for one instance of it.
        let spelled_out = forms.iter().map(|form| form.instances.over(instances).spell_out(workload));
        let instances: BTreeSet<String> =
            spelled_out.flat_map(|all| all.services).map(|service| service.name).collect();
        let mut known: Vec<&str> = workload.services.iter().map(|service| service.name.as_str()).collect();
        known.extend(instances.iter().map(String::as_str));
        let place = node.map_or(fields.place(), |node| node.place);
        let of_forms = forms.iter().filter_map(|form| form.placement.as_ref());
        let place_of_forms = fields.get("forms").map_or(place, |node| node.place);
        placement.iter().for_each(|rules| rules.refuse_unknown(&known, place, problems));
        of_forms.for_each(|rules| rules.refuse_unknown(&known, place_of_forms, problems));
    }
    (placement, kept)
}

/// How often services are deployed. Where a form says so itself, that is looked through too.
pub(super) fn read_instances(
    fields: &mut Fields,
    forms: &[Form],
    workload: Option<&Workload>,
    problems: &mut Problems,
) -> Instances {
    let node = fields.get("instances");
    let instances = node.and_then(|node| Instances::read(node, problems)).unwrap_or_default();
    let Some(workload) = workload else { return instances };
    let place = node.map_or(fields.place(), |node| node.place);
    instances.refuse_unknown(workload, place, problems);
    let place_of_forms = fields.get("forms").map_or(place, |node| node.place);
    for form in forms {
        form.instances.refuse_unknown(workload, place_of_forms, problems);
    }
    for counts in forms.iter().map(|form| form.instances.over(&instances)) {
        let total = counts.total(workload);
        if total > INSTANCES_MAX {
            let message = format!("a form would deploy {total} instances");
            problems.add(place, message, format!("deploy {INSTANCES_MAX} at most"));
            break;
        }
    }
    let all = forms.iter().map(|form| (form.instances.over(&instances), !form.instances.is_empty()));
    let mut told = BTreeSet::new();
    for (counts, own) in all {
        for (service, ports) in counts.fixed_ports(workload) {
            let message =
                format!("service '{service}' is to be deployed more than once, and always listens at the same port");
            let own = own && node.is_none();
            if told.insert(service) {
                let hint = format!("let the workload's command name its port as ${{{{port.{}}}}}", ports[0]);
                problems.add(if own { place_of_forms } else { place }, message, hint);
            }
        }
    }
    instances
}
