//! The arguments of `tare place`, and what they mean.

use crate::cli::RunArgs;
use crate::cmd::compared_metric;
use crate::files;
use crate::mistake::Mistake;
use anyhow::Result;
use clap::Args;
use tare_core::load::LoadProfile;
use tare_core::placement::Demand;
use tare_core::study::Study;
use tare_core::topology::Topology;
use tare_core::workload::{Service, Workload};

/// The metric that decides where the load fixes the throughput.
const OF_GIVEN_LOAD: &str = "p99_us";

const HELP: &str = "\
Of the options above, --form names the one form whose services are placed, by default the baseline; --repeat limits \
the number of blocks, by default to 32; --json prints ranking, outcome and settings; --dry-run prints ranking and \
settings without measuring.

Without --need, each service is assumed to keep as many CPUs busy as it asks for. Without --talk, each is assumed to \
spend a fifth of its time talking to the others; with it, only the named pairs talk.

Exit codes: 0 success, whatever was found; 1 trials failed or are void; 2 a mistake on the command line or in a file, \
nothing was started; 130 interrupted: what was measured is on disk, and `tare resume` continues.

Examples:
  tare place studies/shop.yaml --dry-run
  tare place shop.yaml --form container --at-most 30m --talk web:db=0.3
  tare place shop.yaml --need db=1.5 --talk web:eth0=0.2 --by p99";

/// See `Verb::Place`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    pub(super) run: RunArgs,
    /// Number of placements to measure in addition to what the kernel does by itself
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub(super) top: u32,
    /// Number of CPUs that a service keeps busy, such as db=1.5; may be repeated
    #[arg(long = "need", value_name = "SERVICE=CPUS", value_parser = need)]
    pub(super) needs: Vec<(String, f64)>,
    /// Share of its time that a service spends talking to another one, to a network card or to a disk, such as
    /// web:db=0.3 or web:eth0=0.2; may be repeated
    #[arg(long = "talk", value_name = "A:B=SHARE", value_parser = talk)]
    pub(super) talks: Vec<(String, String, f64)>,
    /// Metric that decides, such as p99 or cpu [default: throughput, peak load in a search, p99 if the load fixes the
    /// throughput]
    #[arg(long, value_name = "METRIC")]
    pub(super) by: Option<String>,
}

fn need(text: &str) -> Result<(String, f64), String> {
    let (service, cpus) = text.split_once('=').ok_or("write a service and a number, such as db=1.5")?;
    let cpus: f64 = cpus.parse().map_err(|_| format!("'{cpus}' is not a number of CPUs; write for example db=1.5"))?;
    let fits = cpus.is_finite() && cpus > 0.0;
    if fits { Ok((service.to_owned(), cpus)) } else { Err("the number of CPUs must be above 0".to_owned()) }
}

fn talk(text: &str) -> Result<(String, String, f64), String> {
    let pair = text.split_once('=').and_then(|(pair, share)| Some((pair.split_once(':')?, share)));
    let ((one, other), share) = pair.ok_or("write two names and a share, such as web:db=0.3")?;
    let number: f64 = share.parse().map_err(|_| format!("'{share}' is not a share; write for example web:db=0.3"))?;
    if one == other {
        return Err(format!("'{one}' is named twice; write for example web:db=0.3"));
    }
    let fits = (0.0..=1.0).contains(&number);
    if fits {
        Ok((one.to_owned(), other.to_owned(), number))
    } else {
        Err("a share must lie between 0 and 1".to_owned())
    }
}

/// The arguments, checked against the study and the machine.
#[derive(Debug)]
pub(super) struct Asked {
    /// The form whose services are placed.
    pub(super) form: String,
    /// What is deployed in it, each instance as a service of its own.
    pub(super) deployed: Workload,
    /// The metric that decides.
    pub(super) metric: String,
    pub(super) demand: Demand,
}

impl PlaceArgs {
    /// Checks the arguments against the study and the machine.
    ///
    /// # Errors
    /// Every argument that names something that does not exist.
    pub(super) fn asked(&self, study: &Study, workload: &Workload, topology: &Topology) -> Result<Asked> {
        let mut mistakes: Vec<String> = Vec::new();
        let forms: Vec<&str> = study.forms.iter().map(|form| form.name.as_str()).collect();
        let form = self.run.forms.first().unwrap_or(&study.baseline);
        if self.run.forms.len() > 1 {
            let named = self.run.forms.join(", ");
            mistakes.push(format!("`tare place` takes one form at a time; --form names {named}"));
        }
        for name in self.run.forms.iter().filter(|name| !forms.contains(&name.as_str())) {
            let name_of_study = &study.name;
            mistakes.push(format!("study '{name_of_study}' has no form '{name}'; it has: {}", forms.join(", ")));
        }
        mistakes.extend(files::no_such_part(&study.name, &self.run.parts));
        let placed = study.forms.iter().find(|known| known.name == *form).map(|form| study.deployed(workload, form));
        let deployed = placed.unwrap_or_else(|| workload.clone());
        // A service's name stands for all its instances.
        let mut services: Vec<&str> = deployed.services.iter().map(|service| service.name.as_str()).collect();
        services.extend(deployed.services.iter().map(|service| service.role()));
        services.sort_unstable();
        services.dedup();
        let meant = |name: &str| -> Vec<String> {
            let is = |service: &&Service| service.name == name || service.role() == name;
            let instances = deployed.services.iter().filter(is).map(|service| service.name.clone());
            let instances: Vec<String> = instances.collect();
            if instances.is_empty() { vec![name.to_owned()] } else { instances }
        };
        let devices: Vec<&str> = topology.devices.iter().map(|device| device.name.as_str()).collect();
        let ends = [services.as_slice(), devices.as_slice()].concat();
        let mut check = |flag: &str, what: &str, name: &str, known: &[&str]| {
            if !known.contains(&name) {
                mistakes.push(format!("{flag}: there is no {what} '{name}'; there are: {}", known.join(", ")));
            }
        };
        let mut demand = Demand::assumed(&deployed.services);
        for (service, need) in &self.needs {
            check("--need", "service", service, &services);
            demand.cpus.extend(meant(service).into_iter().map(|service| (service, *need)));
        }
        if !self.talks.is_empty() {
            demand.talk.clear();
        }
        for (one, other, share) in &self.talks {
            [one, other].iter().for_each(|name| check("--talk", "service, network card or disk", name, &ends));
            for (one, other) in
                meant(one).iter().flat_map(|one| meant(other).into_iter().map(move |other| (one, other)))
            {
                // In one order, so that the last value given for a pair holds.
                let pair = if *one < other { (one.clone(), other) } else { (other, one.clone()) };
                demand.talk.insert(pair, *share);
            }
        }
        for (one, other, _) in &self.talks {
            if devices.contains(&one.as_str()) && devices.contains(&other.as_str()) {
                mistakes
                    .push(format!("--talk: '{one}' and '{other}' are both devices; one of the two must be a service"));
            }
        }
        let metric = self.metric(study, workload).map_err(|error| mistakes.push(error.to_string()));
        match metric {
            Ok(metric) if mistakes.is_empty() => Ok(Asked { form: form.clone(), deployed, metric, demand }),
            _ => Err(Mistake::new(mistakes.join("\nerror: ")).into()),
        }
    }

    fn metric(&self, study: &Study, workload: &Workload) -> Result<String> {
        if let Some(name) = &self.by {
            return compared_metric(name).map(str::to_owned);
        }
        if study.peak.is_some() {
            return Ok(tare_core::record::PEAK_LOAD.to_owned());
        }
        if let Some(own) = workload.protocol.metrics.first() {
            return Ok(own.name.clone());
        }
        let closed = matches!(study.load.base(), LoadProfile::Closed { .. });
        Ok(if closed { "throughput" } else { OF_GIVEN_LOAD }.to_owned())
    }

    /// The command that repeats the search, without the number of blocks and the seed, which callers add.
    pub(super) fn command(&self) -> String {
        let run = &self.run;
        let mut text = format!("tare place {} --top {}{}", run.study, self.top, run.typed());
        self.by.iter().for_each(|metric| text += &format!(" --by {metric}"));
        self.needs.iter().for_each(|(service, cpus)| text += &format!(" --need {service}={cpus}"));
        self.talks.iter().for_each(|(one, other, share)| text += &format!(" --talk {one}:{other}={share}"));
        text
    }
}
