//! `placement:` and `instances:` of a study: where services run, and how many instances of them.

use crate::config::{Fields, Node, NodeKind, Problems};
use crate::form::Form;
use crate::instances::Instances;
use crate::placement::{ReservedCpus, Rules};
use crate::workload::{INSTANCES_MAX, Workload};
use std::collections::BTreeSet;

/// Reads the rules by which services get their CPUs, and what is kept aside. If a form has rules of its own, these are
/// checked too.
pub(super) fn read_placement(
    fields: &mut Fields,
    forms: &[Form],
    instances: &Instances,
    workload: Option<&Workload>,
    problems: &mut Problems,
) -> (Option<Rules>, ReservedCpus) {
    let mut kept = ReservedCpus::default();
    let node = fields.get("placement");
    let placement = node.and_then(|node| Rules::read(node, Some(&mut kept), problems));
    if let Some(workload) = workload {
        // A rule may be for a service, or for one instance of it.
        let spelled_out = forms.iter().map(|form| form.instances.over(instances).spell_out(workload));
        let instances: BTreeSet<String> =
            spelled_out.flat_map(|all| all.services).map(|service| service.name).collect();
        let mut known: Vec<&str> = workload.services.iter().map(|service| service.name.as_str()).collect();
        known.extend(instances.iter().map(String::as_str));
        if let (Some(node), Some(rules)) = (node, &placement) {
            rules.refuse_unknown(&known, |name| node.place_of(&["services", name]), problems);
        }
        let whole = fields.get("forms");
        for (node, form) in whole.iter().flat_map(|node| forms.iter().map(move |form| (node, form))) {
            let place = |name: &str| node.place_of(&[entry(node, form), "placement", "services", name]);
            form.placement.iter().for_each(|rules| rules.refuse_unknown(&known, place, problems));
        }
    }
    (placement, kept)
}

/// Reads how many instances of services are deployed. If a form sets that itself, it is checked too.
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
    if let Some(node) = node {
        instances.refuse_unknown(workload, |name| node.place_of(&[name]), problems);
    }
    let whole = fields.get("forms");
    let place_of_form =
        |form: &Form, name: &str| whole.map_or(place, |node| node.place_of(&[entry(node, form), "instances", name]));
    for form in forms {
        form.instances.refuse_unknown(workload, |name| place_of_form(form, name), problems);
    }
    for counts in forms.iter().map(|form| form.instances.over(&instances)) {
        let total = counts.total(workload);
        if total > INSTANCES_MAX {
            let message = format!("a form would deploy {total} instances");
            problems.add(place, message, format!("deploy {INSTANCES_MAX} at most"));
            break;
        }
    }
    let mut told = BTreeSet::new();
    for form in forms {
        let own = !form.instances.is_empty();
        for (service, ports) in form.instances.over(&instances).fixed_ports(workload) {
            let message =
                format!("service '{service}' is to be deployed more than once, and always listens at the same port");
            let own = own && node.is_none();
            let place = if own { place_of_form(form, &service) } else { place };
            if told.insert(service) {
                let hint = format!("let the workload's command name its port as ${{{{port.{}}}}}", ports[0]);
                problems.add(place, message, hint);
            }
        }
    }
    instances
}

/// A form's name as written in `forms:`. Lists of values add to it.
fn entry<'n>(forms: &'n Node, form: &Form) -> &'n str {
    let NodeKind::Map(entries) = &forms.kind else { return "" };
    let begins = |name: &str| form.name.strip_prefix(name).is_some_and(|more| more.is_empty() || more.starts_with('-'));
    entries
        .iter()
        .map(|(name, ..)| name.as_str())
        .filter(|name| begins(name))
        .max_by_key(|name| name.len())
        .unwrap_or("")
}
