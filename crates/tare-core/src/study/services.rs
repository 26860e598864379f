//! `options:` and `resources:` of a study or of a form: how services are configured, and what they get.

use super::Study;
use crate::config::{Fields, Node, Problems};
use crate::form::Form;
use crate::instances::Ports;
use crate::workload::{OwnResources, Workload, refuse_idle_quota};
use std::collections::BTreeMap;

impl Study {
    /// The workload as it is deployed in a form, with the form's own options and resources if there are any, otherwise
    /// the study's. Every instance is a service of its own.
    pub fn deployed(&self, workload: &Workload, form: &Form) -> Workload {
        self.deployed_beside(workload, form, &mut Ports::default())
    }

    /// The same, beside other forms on one machine whose workloads were made with the same `ports`: see
    /// [`Instances::spell_out_beside`](crate::instances::Instances::spell_out_beside).
    pub fn deployed_beside(&self, workload: &Workload, form: &Form, ports: &mut Ports) -> Workload {
        let mut levels = self.options.clone();
        levels.extend(form.options.clone());
        let mut told = resolved(workload, &levels);
        for service in &mut told.services {
            service.resources = form.resources.over(service.resources);
        }
        form.instances.over(&self.instances).spell_out_beside(&told, ports)
    }

    /// The workload with the arguments of its options in the commands, as it is when a form says nothing else.
    pub fn resolved(&self, workload: &Workload) -> Workload {
        resolved(workload, &self.options)
    }
}

/// Puts the arguments of each option's level into the commands; if no level was chosen, those of the default. A
/// workload without options stays as it is, such as that of a record, whose commands already hold the arguments.
fn resolved(workload: &Workload, levels: &BTreeMap<String, String>) -> Workload {
    let mut workload = workload.clone();
    for service in &mut workload.services {
        for (name, option) in std::mem::take(&mut service.options) {
            let level = levels.get(&name).unwrap_or(&option.default);
            service.command.extend(option.levels.get(level).cloned().unwrap_or_default());
        }
    }
    workload
}

/// Overrides each service's resources with those of the study.
pub(super) fn override_resources(node: Option<&Node>, workload: &mut Workload, problems: &mut Problems) {
    let Some(own) = node.and_then(|node| OwnResources::read(node, problems)) else { return };
    for service in &mut workload.services {
        service.resources = own.over(service.resources);
    }
    refuse_idle_quotas(node, &own, workload, problems);
}

/// A form's own resources; `workload` already has those of the study.
pub(super) fn read_own_resources(node: &Node, workload: Option<&Workload>, problems: &mut Problems) -> OwnResources {
    let Some(own) = OwnResources::read(node, problems) else { return OwnResources::default() };
    workload.into_iter().for_each(|workload| refuse_idle_quotas(Some(node), &own, workload, problems));
    own
}

/// Reports only once, if several services have the same quota, that it can never be used up.
fn refuse_idle_quotas(node: Option<&Node>, own: &OwnResources, workload: &Workload, problems: &mut Problems) {
    let Some(node) = node.filter(|_| own.cpus.is_some() || own.cpu_quota.is_some()) else { return };
    let before = problems.len();
    for service in &workload.services {
        refuse_idle_quota(own.over(service.resources), node.place, problems);
        if problems.len() > before {
            break;
        }
    }
}

/// The levels that are chosen for options of the workload's services.
pub(super) fn read_options(
    node: Option<&Node>,
    workload: Option<&Workload>,
    problems: &mut Problems,
) -> BTreeMap<String, String> {
    let Some(node) = node else { return BTreeMap::new() };
    let Some(fields) = Fields::of(node, "options", problems) else { return BTreeMap::new() };
    let Some(workload) = workload else { return BTreeMap::new() };
    let offered: BTreeMap<&str, Vec<&str>> = workload
        .services
        .iter()
        .flat_map(|service| &service.options)
        .map(|(name, option)| (name.as_str(), option.levels.keys().map(String::as_str).collect()))
        .collect();
    let mut chosen = BTreeMap::new();
    for (name, place, value) in fields.entries() {
        let Some(levels) = offered.get(name.as_str()) else {
            let known: Vec<&str> = offered.keys().copied().collect();
            Node::unknown(name, *place, &format!("option of workload '{}'", workload.name), &known, problems);
            continue;
        };
        let Some(level) = value.text(problems) else { continue };
        if !levels.contains(&level.as_str()) {
            Node::unknown(&level, value.place, &format!("level of '{name}'"), levels, problems);
        }
        chosen.insert(name.clone(), level);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use crate::study::tests::{TextOf, read};
    use crate::workload::Workload;

    /// A study of these forms, with the workload as each of them gets it.
    fn deployed(forms: &str, more: &str) -> Result<Vec<Workload>, String> {
        let baseline = "plain";
        let text = format!("{}{more}\n", TextOf { baseline, forms, design: "blocks" });
        let (study, workload) = read(&text).map_err(|found| found.join("\n"))?;
        Ok(study.forms.iter().map(|form| study.deployed(&workload, form)).collect())
    }

    #[test]
    fn a_forms_own_levels_go_over_those_of_the_study() {
        let forms = "{plain: [], careful: {options: {care: high}}, boxed: {layers: [box], options: {care: low}}}";
        let commands = |more: &str| -> Vec<Vec<String>> {
            deployed(forms, more).unwrap().into_iter().map(|mut all| all.services.remove(0).command).collect()
        };
        let (low, high): (&[&str], &[&str]) = (&["/usr/bin/toy"], &["/usr/bin/toy", "--careful"]);
        assert_eq!(commands(""), [low, high, low]);
        assert_eq!(commands("options: {care: high}"), [high, high, low]);
    }

    #[test]
    fn what_is_resolved_already_stays_as_it_is() {
        let text = TextOf { baseline: "plain", forms: "{plain: {options: {care: high}}}", design: "blocks" };
        let (study, workload) = read(&text.to_string()).unwrap();
        let once = study.deployed(&workload, &study.forms[0]);
        assert_eq!(study.deployed(&once, &study.forms[0]), once);
        assert_eq!(study.resolved(&workload).services[0].command, ["/usr/bin/toy"]);
    }

    #[test]
    fn a_forms_own_resources_go_over_those_of_the_study() {
        let forms = "{plain: [], small: {resources: {memory: 96MiB, cpu_quota: 0.5}}, free: {layers: box, \
                     resources: {cpu_quota: none}}}";
        let given = |more: &str| -> Vec<(Option<f64>, u64)> {
            let all = deployed(forms, more).unwrap();
            let resources = all.iter().map(|workload| workload.services[0].resources);
            resources.map(|given| (given.cpu_quota, given.memory_bytes >> 20)).collect()
        };
        assert_eq!(given(""), [(None, 512), (Some(0.5), 96), (None, 512)]);
        let study = "resources: {cpu_quota: 0.7, memory: 256MiB}";
        assert_eq!(given(study), [(Some(0.7), 256), (Some(0.5), 96), (None, 256)]);
    }

    #[test]
    fn mistakes_in_what_is_a_forms_own_are_told_with_their_places_all_at_once() {
        let forms = "{plain: {options: {car: high}, resources: {memry: 1GiB}}, b: {options: {care: hgh}}, \
                     c: {resources: {cpu_quota: 2}}}";
        let told = deployed(forms, "").unwrap_err();
        for wanted in ["did you mean 'care'?", "did you mean 'memory'?", "did you mean 'high'?", "can never be used"] {
            assert!(told.contains(wanted), "{wanted}: {told}");
        }
        assert_eq!(told.matches("s.yaml:5").count(), 4, "{told}");
    }

    #[test]
    fn a_form_says_what_is_its_own() {
        let forms = "{plain: {options: {care: high}}, small: {layers: [box], resources: {cpu_quota: 0.5}}}";
        let (study, _) = read(&TextOf { baseline: "plain", forms, design: "blocks" }.to_string()).unwrap();
        let told: Vec<String> = study.forms.iter().map(super::Form::describe).collect();
        assert_eq!(told, ["plain process, care=high", "box, cpu_quota=0.5"]);
        // From a record that is older than options are.
        let old = serde_json::json!({"name": "old", "layers": []});
        let old: super::Form = serde_json::from_value(old).unwrap();
        assert!(old.options.is_empty() && old.resources.is_empty());
        assert_eq!(serde_json::to_value(old).unwrap(), serde_json::json!({"name": "old", "layers": []}));
    }
}
