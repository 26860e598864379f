//! One file per verb.

pub(crate) mod advise;
pub(crate) mod bundle;
pub(crate) mod check;
pub(crate) mod clean;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod freezing;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod import;
pub(crate) mod lab;
pub(crate) mod load;
pub(crate) mod look;
pub(crate) mod manual;
pub(crate) mod peak;
pub(crate) mod place;
pub(crate) mod power;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod run;
pub(crate) mod scaling;
pub(crate) mod serve;
pub(crate) mod weigh;

use crate::mistake::Mistake;
use crate::{EXIT_OK, catalog};
use anyhow::Result;
use std::process::ExitCode;
use tare_core::load::{LoadPlan, LoadProfile};
use tare_core::record::TrialMetric;
use tare_layers::least::{self, RetainedRights};

/// `tare resources`: prints as JSON what this process really gets.
pub(crate) fn resources() -> Result<u8> {
    println!("{}", serde_json::to_string(&tare_telemetry::resource_report())?);
    Ok(EXIT_OK)
}

/// `tare drive`: carries out a load plan with the least privileges that it needs.
pub(crate) fn drive() -> ExitCode {
    let confine = |plan: &LoadPlan| {
        let trace = matches!(plan.profile.base(), LoadProfile::Replay { .. });
        let freezing = plan.turns.as_ref().filter(|turns| !turns.held.is_empty());
        let freezing = freezing.map(|turns| freezing::begin(&turns.held)).transpose()?;
        least::become_load(if trace { RetainedRights::Reading } else { RetainedRights::Nothing })?;
        Ok(freezing)
    };
    tare_load::serve_confined(&catalog::protocols(), std::io::stdin(), std::io::stdout().lock(), confine)
}

/// `tare probe`: samples counters with the least privileges that it needs.
pub(crate) fn probe() -> ExitCode {
    match least::become_sampler() {
        Ok(()) => tare_telemetry::serve(std::io::stdin(), std::io::stdout().lock()),
        Err(fault) => {
            eprintln!("{fault}");
            ExitCode::FAILURE
        }
    }
}

/// `tare peer`: serves until it is stopped.
pub(crate) fn peer(args: &crate::cli::PeerArgs) -> Result<u8> {
    let crate::cli::PeerArgs { listen, threads, nodelay, send_buffer, receive_buffer } = *args;
    let (send_buffer, receive_buffer) = (send_buffer.0, receive_buffer.0);
    let options = tare_load::PeerOptions { listen, threads, nodelay, send_buffer, receive_buffer };
    tare_load::serve_peer(&options, std::io::stdout())?;
    Ok(EXIT_OK)
}

/// The full name of the metric called `name`, if forms are compared by it.
pub(crate) fn compared_metric(name: &str) -> Result<&'static str> {
    match TrialMetric::called(name) {
        Some(metric) if metric.compared => Ok(metric.name),
        shown => {
            let known = TrialMetric::compared_names();
            let what = match shown {
                Some(_) => format!("metric '{name}' is shown but not compared"),
                None => format!("unknown metric '{name}'"),
            };
            let hint = "name one of these; short names work too: p99 for p99_us, cpu for cpu_busy_us_per_op";
            Err(Mistake::new(format!("{what}; comparable: {known}\n  to do: {hint}")).into())
        }
    }
}
