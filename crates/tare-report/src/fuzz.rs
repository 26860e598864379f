//! What must bear any bytes: a record of somebody else, analysed and shown in every format. The table makes a test of
//! it for the gate; `cargo xtask fuzz` runs it for as long as one likes.

use crate::{FORMATS, Paper, Style};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use tare_core::profile::unfolded;
use tare_core::record::{Header, Record, TrialData, TrialRecord};
use tare_stats::analyse;

hostile::targets! {
    report { files: &["../tare-runner/samples/record.txt"], words: REPORT, cases: 120 }
}

/// A record as files in one text, each after a line of `== ` and its path: what can be read can be analysed and shown.
pub fn report(bytes: &[u8]) {
    let Some(record) = read(bytes) else { return };
    let analysis = analyse(&record);
    for row in FORMATS {
        let text = (row.render)(&record, &analysis, &Style::default());
        let text = text.unwrap_or_else(|fault| panic!("{}: {fault}", row.name));
        match row.name {
            "json" => drop(serde_json::from_str::<serde_json::Value>(&text).expect("it is JSON")),
            "html" | "paper" => assert!(!text.contains(MARKUP), "a name in a record is part of the page's markup"),
            _ => {}
        }
    }
    let mut paper = Paper::default();
    paper.add(&record, &analysis);
    for file in paper.files().unwrap_or_else(|fault| panic!("paper: {fault}")) {
        let told = outside_of_fences(&file.content);
        assert!(!told.contains(MARKUP), "a name in a record is part of the markup of {}", file.name);
    }
}

/// The lines that Markdown does not take as they are.
fn outside_of_fences(text: &str) -> String {
    let (mut fence, mut told) = (None, Vec::new());
    for line in text.lines() {
        let begins = line.starts_with("```").then(|| line.trim_end_matches("sh"));
        match fence {
            Some(end) if line == end => fence = None,
            Some(_) => {}
            None if begins.is_some() => fence = begins,
            None => told.push(line),
        }
    }
    told.join("\n")
}

fn read(bytes: &[u8]) -> Option<Record> {
    let files: BTreeMap<String, Vec<u8>> = hostile::files(bytes).collect();
    let header: Header = serde_json::from_slice(files.get("record.json")?).ok()?;
    let end = files.get("end.json").and_then(|end| serde_json::from_slice(end).ok());
    let [trials, profiles] = ["trials", "profiles"].map(|folder| {
        let of = files.keys().filter_map(|name| name.strip_prefix(folder)?.strip_suffix("trial.json"));
        of.filter_map(|number| trial(&files, &format!("{folder}{number}"))).collect()
    });
    Some(Record { header, trials, profiles, end })
}

fn trial(files: &BTreeMap<String, Vec<u8>>, folder: &str) -> Option<TrialData> {
    let mut record: TrialRecord = serde_json::from_slice(files.get(&format!("{folder}trial.json"))?).ok()?;
    if let (Some(profile), Some(text)) = (&mut record.profile, files.get(&format!("{folder}stacks.folded"))) {
        profile.stacks = unfolded(&String::from_utf8_lossy(text));
    }
    let (seconds, telemetry) =
        (rows(files, &format!("{folder}seconds.jsonl")), rows(files, &format!("{folder}telemetry.jsonl")));
    Some(TrialData { record, seconds, telemetry })
}

fn rows<T: DeserializeOwned>(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Vec<T> {
    let lines = files.get(name).into_iter().flat_map(|text| text.split(|byte| *byte == b'\n'));
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

/// No page has such an element.
const MARKUP: &str = "<hostile>";
const REPORT: &[&str] = &[
    "1e308",
    "-1",
    "0",
    "1e-320",
    "18446744073709551615",
    ":null,",
    "\"\"",
    "{}",
    "[]",
    "\"native\"",
    "\"nowhere\"",
    ",",
    ":",
    "}",
    "\n== end.json\n",
    "\n== trials/0001/seconds.jsonl\n",
    "\"<hostile>\"",
    "<hostile>",
    "\\u0000",
    "\\ud83d\\ude00",
];
