//! `tare report`: renders records. Needs no root and no machine.

use crate::EXIT_OK;
use crate::cli::{Format, ReportArgs};
use crate::mistake::Mistake;
use crate::paths::shown;
use crate::records::record_path;
use crate::report::{plain_style, render, render_suite, terminal_style};
use crate::terminal::print;
use crate::written::write_file;
use anyhow::Result;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tare_core::fault::Doing;
use tare_report::{AnalysedPart, Paper, Style};

/// Where a paper goes if nothing else is asked for, in the current directory.
const PAPER: &str = "paper";

pub(crate) fn report(args: &ReportArgs) -> Result<u8> {
    if args.schema {
        print(&tare_report::schema());
        return Ok(EXIT_OK);
    }
    if args.format == Format::Paper {
        return paper(args);
    }
    if args.records.len() > 1 {
        let (count, format) = (args.records.len(), args.format.name());
        let text = format!("--format {format} renders one record, and {count} are named");
        let hint =
            "name one; or make one paper of all with --format paper; or set them beside each other with `tare compare`";
        return Err(Mistake::new(format!("{text}\n  to do: {hint}")).into());
    }
    let path = record_path(args.records.first().map(PathBuf::as_path))?;
    let style = if args.out.is_some() { plain_style() } else { terminal_style() };
    let style = Style { verbose: args.verbose, ..style };
    let text = if tare_runner::is_suite(&path) {
        render_suite(&tare_runner::read_suite(&path)?, args.format, &style)?
    } else {
        render(&tare_runner::read_record(&path)?, args.format, &style)?
    };
    match &args.out {
        Some(path) => write_file(path, &text)?,
        None => print(&text),
    }
    Ok(EXIT_OK)
}

/// A paper of one or several records, in a folder of its own; prints what was written.
fn paper(args: &ReportArgs) -> Result<u8> {
    let folder = args.out.clone().unwrap_or_else(|| PathBuf::from(PAPER));
    // Before anything is read: records may be large.
    refuse_what_is_there(&folder)?;
    let records = if args.records.is_empty() { vec![record_path(None)?] } else { args.records.clone() };
    let mut paper = Paper::default();
    for path in &records {
        if tare_runner::is_suite(path) {
            let suite = tare_runner::read_suite(path)?;
            let analysed = |record| -> AnalysedPart<'_> { (record, tare_stats::analyse(record)) };
            let parts: Vec<AnalysedPart<'_>> = suite.parts.iter().map(analysed).collect();
            paper.add_suite(&suite.header, &parts);
        } else {
            let record = tare_runner::read_record(path)?;
            paper.add(&record, &tare_stats::analyse(&record));
        }
    }
    let mut written = Vec::new();
    for file in paper.files()? {
        let path = folder.join(&file.name);
        let above = path.parent().unwrap_or(&folder);
        fs::create_dir_all(above).doing(format!("make the folder {}", shown(above)))?;
        write_file(&path, &file.content)?;
        written.push(shown(&path));
    }
    print(&written.join("\n"));
    Ok(EXIT_OK)
}

/// A paper is there to be edited, so none is ever replaced, nor is anything else.
fn refuse_what_is_there(folder: &Path) -> Result<()> {
    let why = match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(false) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(true) => "is there already and is not empty".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
    };
    let text = format!("the folder for the paper, {}, {why}; nothing was written", shown(folder));
    let hint = "name a new or an empty folder with --out";
    Err(Mistake::new(format!("{text}\n  to do: {hint}")).into())
}
