//! The resources that a service gets, and how a study or a form overrides them.

use super::Resources;
use crate::config::{Fields, Node, Place, Problems};
use crate::units::show_bytes;
use serde::{Deserialize, Serialize};

/// The resources of services that are stated in one place; what is not stated is left to the settings it overrides.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct OwnResources {
    /// Whole CPUs that a service may run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// The CPU quota, or that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_quota: Option<Quota>,
    /// Memory in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// A CPU quota.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Quota {
    /// No quota, whatever it overrides.
    None,
    /// CPU time per second of real time, in CPUs.
    Cpus(f64),
}

impl OwnResources {
    /// Whether nothing is stated.
    pub fn is_empty(&self) -> bool {
        *self == OwnResources::default()
    }

    /// Reads a `resources:` map. `None` when it is unclear what is meant; then a problem was added.
    pub(crate) fn read(node: &Node, problems: &mut Problems) -> Option<OwnResources> {
        let mut fields = Fields::of(node, "resources", problems)?;
        let cpus = fields.integer("cpus", 1..=4096, problems).map(|cpus| cpus as u32);
        let cpu_quota = fields.get("cpu_quota").and_then(|node| read_quota(node, problems));
        let memory_bytes = match fields.get("memory") {
            Some(node) => {
                let bytes = node.bytes(problems)?;
                if bytes < 8 << 20 {
                    problems.add(
                        node.place,
                        "no service starts with less than 8 MiB of memory",
                        "write for example 256MiB",
                    );
                }
                Some(bytes)
            }
            None => None,
        };
        fields.finish(problems);
        Some(OwnResources { cpus, cpu_quota, memory_bytes })
    }

    /// These, completed from `base` where they state nothing.
    #[must_use]
    pub fn over(&self, base: Resources) -> Resources {
        Resources {
            cpus: self.cpus.unwrap_or(base.cpus),
            cpu_quota: match self.cpu_quota {
                Some(Quota::Cpus(cpus)) => Some(cpus),
                Some(Quota::None) => None,
                None => base.cpu_quota,
            },
            memory_bytes: self.memory_bytes.unwrap_or(base.memory_bytes),
        }
    }

    /// What is stated, as a study writes it: `cpu_quota=0.5`, `memory=96 MiB`.
    pub fn words(&self) -> Vec<String> {
        let quota = self.cpu_quota.map(|quota| match quota {
            Quota::None => "cpu_quota=none".to_owned(),
            Quota::Cpus(cpus) => format!("cpu_quota={cpus}"),
        });
        let cpus = self.cpus.map(|cpus| format!("cpus={cpus}"));
        let memory = self.memory_bytes.map(|bytes| format!("memory={}", show_bytes(bytes)));
        [cpus, quota, memory].into_iter().flatten().collect()
    }

    /// Whether it determines the property of this name that the resource probe reads
    /// ([`Property`](crate::host::Property)): a difference there is then intended.
    pub fn decides(&self, property: &str) -> bool {
        match property {
            "cpus" | "cpu_numbers" => self.cpus.is_some(),
            // A quota throttles the probe's own steps too.
            "cpu_quota" | "spin_rate" => self.cpu_quota.is_some(),
            "memory_limit_bytes" => self.memory_bytes.is_some(),
            // A guest gets as much memory as its services.
            "memory_total_bytes" => self.memory_bytes.is_some(),
            _ => false,
        }
    }
}

/// Reads a number of CPUs, or `none`.
fn read_quota(node: &Node, problems: &mut Problems) -> Option<Quota> {
    if node.text(&mut Problems::default()).as_deref() == Some("none") {
        return Some(Quota::None);
    }
    let cpus = node.number(problems)?;
    if cpus >= 0.01 {
        return Some(Quota::Cpus(cpus));
    }
    problems.add(node.place, "no service starts with a quota below 0.01 CPU", "write CPUs, such as 0.5, or 'none'");
    None
}

/// Reports a quota that is more than the CPUs can give.
pub(crate) fn refuse_idle_quota(resources: Resources, place: Place, problems: &mut Problems) {
    if let Some(quota) = resources.cpu_quota.filter(|quota| *quota > f64::from(resources.cpus)) {
        let message = format!("a quota of {quota} CPUs on {} CPUs can never be used", resources.cpus);
        problems.add(place, message, "lower 'cpu_quota' or raise 'cpus'");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    fn read(text: &str) -> Result<OwnResources, String> {
        let read = config::read("s.yaml", text, OwnResources::read);
        read.map_err(|told| told.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn what_is_not_said_is_left_to_what_it_goes_over() {
        let base = Resources { cpus: 2, cpu_quota: Some(0.5), memory_bytes: 1 << 30 };
        assert_eq!(read("{}").unwrap().over(base), base);
        assert!(read("{}").unwrap().is_empty());
        let less = read("{memory: 96MiB}").unwrap();
        assert_eq!(less.over(base), Resources { memory_bytes: 96 << 20, ..base });
        assert_eq!(read("{cpu_quota: none}").unwrap().over(base).cpu_quota, None);
        let all = read("{cpus: 3, cpu_quota: 1.5, memory: 8MiB}").unwrap();
        assert_eq!(all.over(base), Resources { cpus: 3, cpu_quota: Some(1.5), memory_bytes: 8 << 20 });
        assert_eq!(all.words(), ["cpus=3", "cpu_quota=1.5", "memory=8 MiB"]);
        assert!(less.decides("memory_limit_bytes") && !less.decides("cpus"));
        let written = serde_json::to_value(all).unwrap();
        assert_eq!(serde_json::from_value::<OwnResources>(written).unwrap(), all);
    }

    #[test]
    fn a_quota_is_a_number_or_none() {
        assert!(read("{cpu_quota: 0}").unwrap_err().contains("write CPUs, such as 0.5, or 'none'"));
        assert!(read("{cpu_quota: lots}").is_err());
        assert!(read("{memry: 96MiB}").unwrap_err().contains("did you mean 'memory'?"));
    }
}
