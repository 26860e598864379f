//! `tare check`: reads studies and workloads, starts nothing; prints the schemas of both.

use crate::cli::{CheckArgs, FileKind};
use crate::cmd::{Mistake, complain, print, tell};
use crate::{EXIT_MISTAKE, EXIT_OK, files, schema};
use anyhow::Result;
use std::path::Path;
use tare_core::study::Suite;

pub(crate) fn check(args: &CheckArgs) -> Result<u8> {
    if let Some(kind) = args.schema {
        let schema = match kind {
            FileKind::Study => schema::study(),
            FileKind::Workload => schema::workload(),
        };
        print(&serde_json::to_string_pretty(&schema)?);
        return Ok(EXIT_OK);
    }
    let mut wrong = false;
    for name in &args.files {
        match check_one(name, args.workloads.as_deref()) {
            Ok(what) => tell(&format!("{name}: {what}")),
            Err(error) if error.is::<Mistake>() => {
                complain(&error);
                wrong = true;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(if wrong { EXIT_MISTAKE } else { EXIT_OK })
}

fn check_one(name: &str, workloads: Option<&Path>) -> Result<String> {
    let path = Path::new(name);
    // A variant stands beside the workload's own file.
    let beside = path.is_file() && path.with_file_name("workload.yaml").is_file();
    let is_workload = path.join("workload.yaml").is_file() || beside;
    if is_workload {
        let workload = files::find_workload(name, workloads)?;
        return Ok(format!("workload {}, {} service(s), no mistakes", workload.name, workload.services.len()));
    }
    match files::read_suite(name, None, workloads) {
        Ok(suite) => {
            for preset in files::presets(name)? {
                files::read_suite(name, Some(&preset), workloads)?;
            }
            Ok(describe(&suite))
        }
        // A bare name may be a workload's.
        Err(study_error) => match files::find_workload(name, workloads) {
            Ok(workload) => Ok(format!("workload {}, no mistakes", workload.name)),
            Err(_) => Err(study_error),
        },
    }
}

fn describe(suite: &Suite) -> String {
    let (study, workload) = suite.parts.first().expect("a study has a part");
    let forms: Vec<&str> = study.forms.iter().map(|form| form.name.as_str()).collect();
    let of = match suite.parts.len() {
        parts if suite.is_divided() => format!("{parts} part(s)"),
        _ => format!("workload {}", workload.name),
    };
    format!("study {} of {of}, forms {}, no mistakes", suite.name, forms.join(", "))
}
