//! Secrets by reference: `${{env.NAME}}` in a service's environment stands for a variable in the environment of whoever
//! runs Tare.
//!
//! The value is put in when the service is started, and nowhere else: studies, workloads, records and bundles hold the
//! reference. What comes back from services and engines (logs, error messages) is searched for the values, and the
//! reference is put in their place.

use crate::environment::{PREFIX, value, variable_of, variables};
use crate::fault::Fault;
use crate::parameters::put_in;
use crate::record::TrialRecord;
use crate::trial::Outcome;
use crate::workload::Service;
use std::collections::BTreeMap;

/// The service with its secrets filled in, for the moment of its start.
///
/// # Errors
/// When a variable is not set, as it may be when a run is resumed.
pub fn with_secrets(service: &Service) -> Result<Service, Fault> {
    for name in service.environment.values().flat_map(|text| variables(text)) {
        if value(&name).is_none() {
            let message = format!("service {} refers to the variable '{name}', which is not set", service.name);
            return Err(Fault::new(message).remedy(format!("set it for Tare: `export {name}=...`")));
        }
    }
    let mut service = service.clone();
    put_in(service.environment.values_mut(), &|reference| value(variable_of(reference)?));
    Ok(service)
}

/// Replaces every secret of these services by its reference, in what they printed and in what was said about them.
pub fn take_out(record: &mut TrialRecord, services: &[Service]) {
    let secrets = secrets(services);
    if secrets.is_empty() {
        return;
    }
    let texts = record.logs.values_mut().chain(&mut record.warnings).chain(record.facts.values_mut());
    let checks = record.load.iter_mut().flat_map(|load| &mut load.checks).map(|check| &mut check.detail);
    let why = match &mut record.outcome {
        Outcome::Failed { why, .. } | Outcome::Invalid { why } | Outcome::Skipped { why } => Some(why),
        Outcome::Measured => None,
    };
    let why = why.into_iter().flat_map(|why| [&mut why.message, &mut why.remedy, &mut why.log]);
    texts.chain(checks).chain(why).for_each(|text| replace(text, &secrets));
}

/// The same in a single text.
pub fn take_out_of(text: &mut String, services: &[Service]) {
    replace(text, &secrets(services));
}

/// The secrets of services, each with the name of its variable.
fn secrets(services: &[Service]) -> Vec<(String, String)> {
    let names = services.iter().flat_map(|service| service.environment.values()).flat_map(|text| variables(text));
    let secrets: BTreeMap<String, String> = names.filter_map(|name| Some((value(&name)?, name))).collect();
    let mut secrets: Vec<(String, String)> = secrets.into_iter().filter(|(value, _)| !value.is_empty()).collect();
    // If one value is part of another, the longer one is replaced first.
    secrets.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
    secrets
}

fn replace(text: &mut String, secrets: &[(String, String)]) {
    for (value, name) in secrets {
        if text.contains(value.as_str()) {
            *text = text.replace(value.as_str(), &format!("${{{{{PREFIX}{name}}}}}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::tests::read_toy;

    const STUDY: &str = "study: s\nworkload: toy\nload: {closed: {}}\nforms: {plain: []}\n";

    fn workload(fields: &str) -> String {
        format!(
            "workload: toy\nservices:\n  toy:\n    bundle: {{packages: [toy]}}\n    ports: {{main: 7000}}\n{fields}\
             load: {{protocol: {{null: {{}}}}}}\n"
        )
    }

    #[test]
    fn a_secret_is_put_in_at_the_start_and_written_nowhere() {
        // The one variable that every process here has.
        let path = std::env::var("PATH").unwrap();
        let text =
            workload("    command: [/toy]\n    environment: {KEY: 'a ${{env.PATH}} b', N: '${{instance.name}}'}\n");
        let (study, workload) = read_toy(STUDY, &text).unwrap();
        let workload = study.instances.spell_out(&workload);
        let service = &workload.services[0];
        let told = with_secrets(service).unwrap();
        assert_eq!(told.environment["KEY"], format!("a {path} b"));
        let written = serde_json::to_string(&workload).unwrap();
        assert!(written.contains("a ${{env.PATH}} b") && !written.contains(&path), "{written}");

        let planned = crate::plan::plan(&study, &[], 1).remove(0);
        let why = Fault::new(format!("died of {path}")).with_log(format!("PATH={path}!"));
        let stage = crate::trial::Stage::Provision;
        let mut record = TrialRecord::new(planned, String::new(), Outcome::Failed { stage, why });
        record.logs.insert("toy".to_owned(), format!("I have {path}{path}"));
        record.warnings.push(format!("teardown: {path}"));
        take_out(&mut record, &workload.services);
        let written = serde_json::to_string(&record).unwrap();
        assert!(!written.contains(&path), "{written}");
        assert_eq!(record.logs["toy"], "I have ${{env.PATH}}${{env.PATH}}");
    }

    #[test]
    fn what_is_not_set_or_seen_by_all_is_a_mistake_with_its_place() {
        let cases = [
            ("    command: [/toy]\n    environment: {K: '${{env.TARE_NO_SUCH}}'}\n", "w.yaml:7:22", "'TARE_NO_SUCH'"),
            ("    command: [/toy]\n    environment: {K: '${{env.}}'}\n", "w.yaml:7:22", "no variable ''"),
            ("    command: [/toy, '${{env.PATH}}']\n", "w.yaml:6:21", "in 'command'"),
        ];
        for (fields, place, wanted) in cases {
            let told = read_toy(STUDY, &workload(fields)).unwrap_err();
            assert!(told.contains(place) && told.contains(wanted) && told.contains("hint: "), "{told}");
        }
        let told = read_toy(STUDY, &workload("    command: [/toy]\n    user: '${{env.PATH}}'\n")).unwrap_err();
        assert!(told.contains("w.yaml:7:11") && told.contains("no parameter 'env.PATH'"), "{told}");
    }
}
