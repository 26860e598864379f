//! How the ratios of earlier runs varied between blocks and within deployments, from which the intervals of a future
//! run are predicted.

use super::open;
use crate::paths;
use anyhow::Result;
use rusqlite::{Connection, params};
use std::collections::{BTreeMap, BTreeSet};
use tare_core::plan::control_arm;
use tare_core::record::{Header, Record};
use tare_stats::power::{MeanSquare, Seen, Spread, seen};
use tare_stats::{Analysis, Conditions};

/// How many of the latest runs show how ratios vary: more than for the time of a deployment, because a variance is hard
/// to estimate.
const SPREADS_KEPT_IN_MIND: usize = 8;

/// Adds those of a record to the table.
pub(super) fn insert(db: &Connection, record: &Record, analysis: &Analysis) -> Result<()> {
    let run = &record.header.run;
    db.execute("DELETE FROM spreads WHERE run = ?1", [run])?;
    for Seen { arm, metric, spread, .. } in seen(record, analysis) {
        let within = (spread.within.map(|within| within.value), spread.within.map(|within| within.degrees));
        for (measure_s, square) in spread.blocks {
            db.execute(
                "INSERT INTO spreads VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![run, arm, metric, measure_s, square.value, square.degrees, within.0, within.1],
            )?;
        }
    }
    Ok(())
}

/// How the ratios varied that a run with this header waits for, in the latest runs on this machine that did the same,
/// however long they measured; and the number of these runs.
pub(crate) fn spreads(header: &Header) -> Result<(Vec<Seen>, usize)> {
    if !paths::history().exists() {
        return Ok((Vec::new(), 0));
    }
    spreads_of(&open()?, header)
}

fn spreads_of(db: &Connection, header: &Header) -> Result<(Vec<Seen>, usize)> {
    let now = tare_stats::conditions(header);
    let mut query = db.prepare(
        "SELECT arm, metric, measure_s, square, degrees, within, within_degrees, conditions, run
         FROM spreads JOIN runs USING (run) WHERE workload = ?1 AND degrees > 0 ORDER BY started DESC, run",
    )?;
    let mut found = query.query([&header.workload.name])?;
    let mut spreads: BTreeMap<(String, String), Spread> = BTreeMap::new();
    let mut runs = BTreeSet::new();
    while let Some(row) = found.next()? {
        let key: (String, String) = (row.get(0)?, row.get(1)?);
        let past: Conditions = serde_json::from_str(&row.get::<_, String>(7)?).unwrap_or_default();
        let form = if key.0 == control_arm(&header.study.baseline) { &header.study.baseline } else { &key.0 };
        let spread = spreads.entry(key.clone()).or_default();
        if spread.blocks.len() < SPREADS_KEPT_IN_MIND && tare_stats::varies_alike(&past, &now, form) {
            let square = |value, degrees| MeanSquare { value, degrees };
            let within: (Option<f64>, Option<f64>) = (row.get(5)?, row.get(6)?);
            let other = Spread {
                blocks: vec![(row.get(2)?, square(row.get(3)?, row.get(4)?))],
                within: within.0.zip(within.1).map(|(value, degrees)| square(value, degrees)),
            };
            *spread = std::mem::take(spread).and(&other);
            runs.insert(row.get::<_, String>(8)?);
        }
    }
    Ok((in_order(&spreads, header), runs.len()))
}

/// By metric, in the order of the forms; if there is no form but the baseline, its control.
fn in_order(spreads: &BTreeMap<(String, String), Spread>, header: &Header) -> Vec<Seen> {
    let titles: BTreeMap<&str, &str> = header.metrics().into_iter().map(|metric| (metric.name, metric.title)).collect();
    let baseline = &header.study.baseline;
    let forms = header.study.forms.iter().map(|form| form.name.clone());
    let mut arms: Vec<String> = forms.filter(|form| form != baseline).collect();
    if arms.is_empty() {
        arms.push(control_arm(baseline));
    }
    let mut all = Vec::new();
    for metric in header.awaited_metrics() {
        for arm in &arms {
            let Some(spread) = spreads.get(&(arm.clone(), metric.to_owned())) else { continue };
            if !spread.blocks.is_empty() {
                let title = titles.get(metric).copied().unwrap_or(metric).to_owned();
                all.push(Seen { arm: arm.clone(), metric: metric.to_owned(), title, spread: spread.clone() });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{files, power};
    use std::path::Path;

    fn header(measure: &str, boxed: &str) -> Header {
        let text = format!(
            "study: s\nworkload: redis\nload: {{closed: {{}}}}\ntime: {{measure: {measure}}}\n\
             forms: {{plain: [], boxed: [container: {{{boxed}}}]}}\n"
        );
        let workloads = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
        let read = files::read_suite_text(&text, "s", Some(&workloads)).unwrap();
        let (study, workload) = files::only_part(read, "power").unwrap();
        power::bare_header(&study, &workload)
    }

    #[test]
    fn spreads_of_the_same_forms_are_found_however_long_they_measured() {
        let db = super::super::open_at(Path::new(":memory:")).unwrap();
        let kept = |run: &str, header: &Header, square: f64| {
            let conditions = serde_json::to_string(&tare_stats::conditions(header)).unwrap();
            db.execute(
                "INSERT INTO runs VALUES (?1, ?1, 's', 'redis', '6', 9, 'complete', 'x', ?2)",
                [run, &conditions],
            )
            .unwrap();
            let measure_s = header.study.measure.as_secs_f64();
            let row = params![run, measure_s, square];
            db.execute("INSERT INTO spreads VALUES (?1, 'boxed', 'throughput', ?2, ?3, 5, NULL, NULL)", row).unwrap();
        };
        kept("1", &header("3s", ""), 1e-4);
        kept("2", &header("8s", ""), 2e-4);
        kept("3", &header("3s", "network: host"), 9.0);
        let (seen, runs) = spreads_of(&db, &header("5s", "")).unwrap();
        assert_eq!((seen.len(), runs), (1, 2), "{seen:?}");
        let square = |value| MeanSquare { value, degrees: 5.0 };
        assert_eq!(seen[0].spread, Spread { blocks: vec![(8.0, square(2e-4)), (3.0, square(1e-4))], within: None });
        assert_eq!((seen[0].arm.as_str(), seen[0].title.as_str()), ("boxed", "throughput"));
        let (seen, runs) = spreads_of(&db, &header("5s", "network: published")).unwrap();
        assert_eq!((seen.len(), runs), (1, 2), "as the default {seen:?}");
    }
}
