//! `tare scaling`: how throughput grows with connections, users or instances.

use crate::EXIT_OK;
use crate::cli::ScalingArgs;
use crate::mistake::Mistake;
use crate::records::record_path;
use crate::terminal::{columns, note, print};
use anyhow::Result;
use serde_json::json;
use std::path::Path;
use tare_core::record::Record;
use tare_stats::FormScaling;

/// The version of the JSON. Fields may be added within a version.
const SCALING_SCHEMA: u32 = 1;

pub(crate) fn scaling(args: &ScalingArgs) -> Result<u8> {
    let mut all = if args.at.is_empty() { of_steps(args)? } else { of_records(args)? };
    if let Some(form) = &args.form {
        let known: Vec<String> = all.iter().map(|scaling| scaling.form.clone()).collect();
        all.retain(|scaling| scaling.form == *form);
        if all.is_empty() {
            return Err(Mistake::new(format!("no form '{form}' was measured; measured: {}", known.join(", "))).into());
        }
    }
    if args.json {
        let value = json!({ "scaling_schema": SCALING_SCHEMA, "forms": tare_report::scaling_json(&all)? });
        print(&serde_json::to_string_pretty(&value)?);
    } else {
        print(&tare_report::scaling_text(&all, columns(std::io::stdout())));
    }
    Ok(EXIT_OK)
}

fn of_steps(args: &ScalingArgs) -> Result<Vec<FormScaling>> {
    let record = read(&record_path(args.record.as_deref())?)?;
    tare_stats::scaling_of_steps(&record).map_err(|why| {
        let hint = "run a study whose load is 'steps: {levels: [...], of: {closed: {}}}', or name one record for each \
                    number of instances: --at 1=RECORD --at 2=RECORD ...";
        Mistake::new(format!("{why}\n  to do: {hint}")).into()
    })
}

/// Reads a record and warns of what is missing in it.
fn read(path: &Path) -> Result<Record> {
    let record = tare_runner::read_record(path)?;
    for what in tare_report::missing(&record) {
        note(&format!("warning: {}: {what}", path.display()));
    }
    Ok(record)
}

fn of_records(args: &ScalingArgs) -> Result<Vec<FormScaling>> {
    let mut records: Vec<(f64, Record)> = Vec::new();
    for text in &args.at {
        let split = text.split_once('=').and_then(|(level, path)| Some((level.parse::<f64>().ok()?, path)));
        let Some((level, path)) = split.filter(|(level, _)| *level >= 1.0 && level.is_finite()) else {
            let hint = "write a number, 1 or more, and a record, such as --at 2=records/two";
            return Err(Mistake::new(format!("'{text}' is not a number and a record\n  to do: {hint}")).into());
        };
        records.push((level, read(Path::new(path))?));
    }
    for (at, (level, record)) in records.iter().enumerate() {
        let run = &record.header.run;
        let Some((other, _)) = records[..at].iter().find(|(_, other)| other.header.run == *run) else { continue };
        let text = format!("run {run} is named twice, at {other} and at {level}: its blocks would be counted twice");
        return Err(Mistake::new(format!("{text}\n  to do: name each record once, with its own number")).into());
    }
    let workloads: Vec<&str> = records.iter().map(|(_, record)| record.header.workload.name.as_str()).collect();
    if let Some(other) = workloads.iter().find(|name| **name != workloads[0]) {
        let text = format!("the records have different workloads, '{}' and '{other}'", workloads[0]);
        return Err(Mistake::new(text).into());
    }
    Ok(tare_stats::scaling_of_records(&records, &args.of))
}
