//! `tare check`: checks studies, workloads and labs without starting anything, and prints their schemas.

use crate::cli::{CheckArgs, FileKind};
use crate::mistake::Mistake;
use crate::terminal::{complain, note, print, tell};
use crate::{EXIT_MISTAKE, EXIT_OK, files, images, lab, schema, sources};
use anyhow::Result;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use tare_core::config::{Place, Problem};
use tare_core::study::Suite;
use tare_core::workload::Workload;

pub(crate) fn check(args: &CheckArgs) -> Result<u8> {
    if let Some(kind) = args.schema {
        let schema = match kind {
            FileKind::Study => schema::study(),
            FileKind::Workload => schema::workload(),
            FileKind::Lab => schema::lab(),
        };
        print(&serde_json::to_string_pretty(&schema)?);
        return Ok(EXIT_OK);
    }
    let mut wrong = false;
    let mut told = Told::default();
    for name in &args.files {
        match check_one(name, args.workloads.as_deref()) {
            Ok(what) => tell(&format!("{name}: {what}")),
            Err(error) => {
                match told.leave_out(error.downcast::<Mistake>()?) {
                    Some(rest) => complain(&rest.into()),
                    None => note(&format!("{name}: its mistakes are listed above")),
                }
                wrong = true;
            }
        }
    }
    Ok(if wrong { EXIT_MISTAKE } else { EXIT_OK })
}

/// The mistakes printed so far. A study has those of its workload too, and several files may share a workload.
#[derive(Default)]
struct Told(HashSet<(PathBuf, Place, String)>);

impl Told {
    /// Those of these mistakes that were not printed yet; none if there are none. A file is the same by any path.
    fn leave_out(&mut self, mistake: Mistake) -> Option<Mistake> {
        let Mistake::InFiles(mut problems) = mistake else { return Some(mistake) };
        problems.retain(|Problem { file, place, message, .. }| {
            let file = Path::new(file).canonicalize().unwrap_or_else(|_| PathBuf::from(file));
            self.0.insert((file, *place, message.clone()))
        });
        (!problems.is_empty()).then(|| Mistake::in_files(problems))
    }
}

fn check_one(name: &str, workloads: Option<&Path>) -> Result<String> {
    let path = Path::new(name);
    if path.is_file() && sources::kind(path) == Some(FileKind::Lab) {
        let machines = match lab::read(path)?.machines.len() {
            1 => "one machine".to_owned(),
            many => format!("{many} machines"),
        };
        return Ok(format!("lab of {machines}, no mistakes"));
    }
    // A folder with a study is that study, which reads the workload too.
    if is_workload(path) && !(name.contains('/') && path.join(files::STUDY_FILE).is_file()) {
        // A folder here may have the name of a workload that is looked for elsewhere.
        let inside = path.join("workload.yaml");
        let file = if inside.is_file() { inside.display().to_string() } else { name.to_owned() };
        let workload = files::find_workload(&file, workloads)?;
        let services = match workload.services.len() {
            1 => "one service".to_owned(),
            many => format!("{many} services"),
        };
        let what = format!("workload {}, {services}, no mistakes", workload.name);
        return Ok(with_images(what, [&workload]));
    }
    match files::read_suite(name, None, workloads) {
        Ok(suite) => {
            for preset in files::presets(name)? {
                files::read_suite(name, Some(&preset), workloads)?;
            }
            Ok(describe(&suite))
        }
        Err(study_error) => {
            let text = match study_error.downcast::<Mistake>()? {
                Mistake::Typed(text) => text,
                found => return Err(found.into()),
            };
            // A bare name may be that of a workload.
            match files::find_workload(name, workloads) {
                Ok(workload) => Ok(with_images(format!("workload {}, no mistakes", workload.name), [&workload])),
                Err(error) => match error.downcast::<Mistake>()? {
                    found @ Mistake::InFiles(_) => Err(found.into()),
                    Mistake::Typed(_) => {
                        let others = files::workloads_there_are(workloads);
                        Err(Mistake::new(format!("{text}\nthere is no workload of that name either; {others}")).into())
                    }
                },
            }
        }
    }
}

/// Whether a path is that of a workload, by its content: a workload's folder, or a file that reads as one. A file that
/// reads as neither kind counts by its place: a variant stands beside the workload's own file, though a study may too.
fn is_workload(path: &Path) -> bool {
    if !path.is_file() {
        return path.join("workload.yaml").is_file();
    }
    match sources::kind(path) {
        Some(kind) => kind == FileKind::Workload,
        None => path.with_file_name("workload.yaml").is_file(),
    }
}

fn describe(suite: &Suite) -> String {
    let (study, workload) = suite.parts.first().expect("a study has a part");
    let forms: Vec<&str> = study.forms.iter().map(|form| form.name.as_str()).collect();
    let of = match suite.parts.len() {
        1 if suite.is_divided() => "one part".to_owned(),
        parts if suite.is_divided() => format!("{parts} parts"),
        _ => format!("workload {}", workload.name),
    };
    let what = format!("study {} of {of}, forms {}, no mistakes", suite.name, forms.join(", "));
    with_images(what, suite.parts.iter().map(|(_, workload)| workload))
}

/// Adds what services take from images, each line once.
fn with_images<'w>(what: String, workloads: impl IntoIterator<Item = &'w Workload>) -> String {
    let mut lines = vec![what];
    for line in workloads.into_iter().flat_map(images::lines).map(|line| format!("  {line}")) {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_printed_once_by_whatever_path_its_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (direct, around) =
            (folder.path().join("w.yaml"), folder.path().join("..").join(folder.path().file_name().unwrap()));
        std::fs::write(&direct, "workload: x\n").unwrap();
        let problem = |file: &Path, line, message: &str| Problem {
            file: file.display().to_string(),
            place: Place { line, column: 1, width: 1 },
            message: message.to_owned(),
            hint: String::new(),
            excerpt: String::new(),
            known: Vec::new(),
        };
        let left = |told: &mut Told, problems: Vec<Problem>| {
            told.leave_out(Mistake::in_files(problems)).map(|rest| match rest {
                Mistake::InFiles(problems) => problems.len(),
                Mistake::Typed(_) => 0,
            })
        };
        let mut told = Told::default();
        assert_eq!(left(&mut told, vec![problem(&direct, 1, "a"), problem(&direct, 2, "a")]), Some(2));
        let again = around.join("w.yaml");
        assert_eq!(left(&mut told, vec![problem(&again, 1, "a"), problem(&again, 2, "a")]), None);
        // Another message at the same place, or the same one in another file, is another mistake.
        assert_eq!(left(&mut told, vec![problem(&again, 1, "b"), problem(&again, 2, "a")]), Some(1));
        assert_eq!(left(&mut told, vec![problem(&folder.path().join("v.yaml"), 1, "a")]), Some(1));
        assert!(told.leave_out(Mistake::new("there is no study 'x'")).is_some());
    }
}
