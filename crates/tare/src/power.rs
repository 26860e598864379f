//! Predicts what a study will show on this machine from earlier runs.

pub(crate) mod show;

use crate::version::VERSION;
use crate::{catalog, history};
use anyhow::Result;
use show::Basis;
use std::collections::BTreeMap;
use tare_core::record::{Header, SCHEMA};
use tare_core::study::Study;
use tare_core::workload::Workload;
use tare_runner::Pace;
use tare_stats::power::{Ahead, Power, power};

/// The half-width to predict if neither the study nor the user names one.
const ASKED: f64 = 0.01;

/// The times for which half-widths are predicted, s.
const TIMES_S: [f64; 3] = [60.0, 300.0, 1800.0];

/// The forecast from earlier runs, if there are any. Nothing is started.
pub(crate) fn foreseen(
    study: &Study,
    workload: &Workload,
    pace: &Pace,
    half_width: Option<f64>,
) -> Result<Option<(Power, Basis)>> {
    if study.peak.is_some() {
        return Ok(None);
    }
    let header = bare_header(study, workload);
    let (seen, runs) = history::spreads(&header)?;
    let basis = Basis { deployments: 0, runs, took: None, finds_slices: false };
    Ok(power(&seen, &ahead(study, pace, half_width)).map(|power| (power, basis)))
}

/// The same in a few lines below a plan, or how to find it out.
pub(crate) fn foreseen_text(study: &Study, workload: &Workload, pace: &Pace, width: usize) -> String {
    let mut study = study.clone();
    study.set_apart(workload, &catalog::Tables);
    // A plan can be shown without a readable history.
    match foreseen(&study, workload, pace, None).unwrap_or_default() {
        Some((power, basis)) => show::text(&power, &basis, width),
        None if study.peak.is_some() => String::new(),
        None => show::unknown(width),
    }
}

/// A header with the conditions of a run, as far as they are known before it.
pub(crate) fn bare_header(study: &Study, workload: &Workload) -> Header {
    Header {
        schema: SCHEMA,
        tare: VERSION.clone(),
        run: String::new(),
        started: String::new(),
        command: String::new(),
        study: study.clone(),
        workload: workload.clone(),
        seed: 0,
        plan: Vec::new(),
        forms: BTreeMap::new(),
        environment: tare_telemetry::environment(),
        topology: None,
        bundles: BTreeMap::new(),
        placement: BTreeMap::new(),
    }
}

/// What to predict of a study: the half-widths of its intervals, and when they reach the requested one.
pub(crate) fn ahead(study: &Study, pace: &Pace, half_width: Option<f64>) -> Ahead {
    Ahead {
        asked: half_width.or(study.design.half_width).unwrap_or(ASKED),
        times_s: TIMES_S.to_vec(),
        measure_s: study.measure.as_secs_f64(),
        costs: pace.costs(study),
    }
}
