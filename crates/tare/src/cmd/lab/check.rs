//! `tare lab check`: what each machine of a lab is, and what it can measure.

use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tare_core::fault::{Doing, Fault};
use tare_core::host::Availability;
use tare_core::lab::Machine;
use tare_layers::agent::{AgentHost, ClockReading, MachineFacts};
use tare_layers::lab::{Program, program_path, reach};

/// How often clocks are compared: of so many answers one is likely to be quick.
const CLOCK_TRIES: u32 = 16;

/// What was found on a machine. What is unknown is absent.
#[derive(Debug, Default, Serialize)]
pub(super) struct Finding {
    pub(super) machine: String,
    /// How it is reached.
    pub(super) way: String,
    /// Where load reaches it.
    pub(super) network: Option<IpAddr>,
    /// Where Tare's program is, or would be put.
    pub(super) program: String,
    /// Whether anything ran there.
    pub(super) reached: bool,
    pub(super) root: Option<bool>,
    pub(super) kernel: Option<String>,
    pub(super) architecture: Option<String>,
    pub(super) cpus: Option<usize>,
    /// Its clock beside this machine's.
    pub(super) clock: Option<ClockReading>,
    /// What its own `tare doctor` says of layers.
    pub(super) forms: Option<Vec<FormSeen>>,
    /// What was in the way.
    pub(super) fault: Option<Fault>,
}

/// Whether a machine can have a layer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FormSeen {
    pub(super) layer: String,
    pub(super) availability: Availability,
}

/// As much of the doctor's report as is shown.
#[derive(Deserialize)]
struct Report {
    forms: Vec<FormSeen>,
}

/// Reaches a machine, within this time, and asks it.
pub(super) fn examine(machine: &Machine, program: &Program, within: Duration) -> Finding {
    let began = Instant::now();
    let mut finding = Finding::before(machine, program);
    match reach(machine, program, within) {
        Ok(mut reached) => {
            finding.note(&reached.facts);
            let left = within.saturating_sub(began.elapsed());
            finding.fault = finding.ask(&mut reached.agent, left).err();
            reached.leave();
        }
        Err(unreached) => {
            (finding.reached, finding.root) = (unreached.is_reached, unreached.root);
            (finding.architecture, finding.fault) = (unreached.architecture, Some(unreached.fault));
        }
    }
    finding
}

impl Finding {
    /// Nothing but what the lab says.
    pub(super) fn before(machine: &Machine, program: &Program) -> Finding {
        Finding {
            machine: machine.name.clone(),
            way: machine.way.words(),
            network: machine.network,
            program: program_path(machine, program),
            ..Finding::default()
        }
    }

    fn note(&mut self, facts: &MachineFacts) {
        (self.reached, self.root, self.cpus) = (true, Some(facts.root), Some(facts.cpus));
        self.kernel = Some(facts.kernel.clone());
        self.architecture = Some(facts.architecture.clone());
    }

    fn ask(&mut self, agent: &mut AgentHost, within: Duration) -> Result<(), Fault> {
        self.clock = Some(agent.wall_clock(CLOCK_TRIES)?);
        if let Some(address) = self.network
            && !agent.has_address(address)?
        {
            let message = format!("{} does not have the address {address}, at which load is to reach it", self.machine);
            let remedy = "give it to one of its interfaces, or correct `network:` in the lab file";
            return Err(Fault::new(message).remedy(remedy));
        }
        let end = agent.carry_out(&["doctor", "--no-noise", "--json"], within)?;
        let report: Report = serde_json::from_str(&end.stdout)
            .doing("understand what `tare doctor` says there")
            .map_err(|fault| fault.with_log(end.stderr.trim_end()))?;
        self.forms = Some(report.forms);
        Ok(())
    }

    /// What it can measure, in words; none if that is unknown. Plain processes need nothing but root.
    pub(super) fn weighs(&self) -> Option<String> {
        let layers = self.forms.as_ref()?.iter().filter_map(|form| match form.availability {
            Availability::Ready(_) => Some(form.layer.clone()),
            Availability::Emulated(..) => Some(format!("{} (only EMULATED)", form.layer)),
            Availability::Unavailable(_) => None,
        });
        Some(std::iter::once("native".to_owned()).chain(layers).collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_doctors_report_of_another_machine_is_understood() {
        let said = r#"{"forms": [
            {"layer": "box", "about": "", "words": "Boxes 1", "ways": [], "availability": {"ready": {"a": "b"}}},
            {"layer": "guest", "availability": {"emulated": [{}, {"message": "slow"}]}},
            {"layer": "moon", "availability": {"unavailable": {"message": "too far"}}}], "checks": [], "noise": null}"#;
        let report: Report = serde_json::from_str(said).unwrap();
        let finding = Finding { forms: Some(report.forms), ..super::super::show::tests::finding("sut") };
        assert_eq!(finding.weighs().unwrap(), "native, box, guest (only EMULATED)");
    }
}
