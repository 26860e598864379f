//! Code that must withstand any bytes: reading the files of a record. The table makes a test of each target for the
//! gate; `cargo xtask fuzz` runs them for as long as one likes.

use crate::{RecordDir, read_record, read_suite};
use std::time::Duration;
use tare_core::fault::Fault;

hostile::targets! {
    record { files: &["samples/record.txt"], words: RECORD, cases: 300, samples: &[
        b"== record.json\n{\"schema\": 2, \"tare\": \"9.9\"}\n",
        b"== suite.json\n{\"schema\": 1, \"tare\": \"0.1.0\", \"study\": \"s\", \"question\": \"\", \"preset\": null,\
          \"started\": \"\", \"command\": \"\", \"parts\": [\"one\", \"..\"]}\n== one/record.json\n{}\n",
        b"== events.jsonl\n{\"at\": \"2026-02-28T23:59:59Z\", \"event\": {\"run-started\": {}}}\n\
          {\"at\": \"2026-03-01T00:00:00.5Z\", \"event\": {\"settled\": {}}}\n{\"at\": \"9999-12",
    ] }
}

/// A record as files in one text, each after a line of `== ` and its path. It is read, or refused with a fault that
/// says what to do, and the time spent is computed from its events, whatever they contain.
pub fn record(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let path = folder.path().join("record");
    std::fs::create_dir_all(path.join("trials")).expect("it is ours");
    for (name, content) in hostile::files(bytes) {
        let file = path.join(name);
        let made = std::fs::create_dir_all(file.parent().expect("it is in the record"));
        // A name may be that of a folder, or too long.
        let _ = made.and_then(|()| std::fs::write(&file, content));
    }
    tell(read_record(&path).map(|record| record.lost().len()));
    tell(read_suite(&path).map(|suite| suite.parts.len()));
    match RecordDir::open(&path) {
        Ok(record) => assert!(record.spent() < Duration::MAX),
        Err(fault) => assert!(!fault.message.is_empty(), "{fault:?}"),
    }
}

fn tell(read: Result<usize, Fault>) {
    if let Err(fault) = read {
        assert!(!fault.message.is_empty() && !fault.remedy.is_empty(), "{fault:?}");
    }
}

const RECORD: &[&str] = &[
    "\n== record.json\n",
    "\n== trials/0000/trial.json\n",
    "\n== trials/0000/seconds.jsonl\n",
    "\n== end.json\n",
    "\n== events.jsonl\n",
    "{\"at\":\"2026-11-26T01:02:03.25Z\",\"event\":{\"run-started\":{}}}\n",
    "{\"at\":\"9999-12-31T24:00:61Z\",\"event\":1}\n",
    "\n== trials/0001/telemetry.jsonl\n",
    "\n== profiles/0000/trial.json\n",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    ":null,",
    "\"\"",
    "\n",
    "1e400",
    "-1",
    "\"measured\"",
    "\"failed\"",
    "\"schema\":1",
    "\"profile\":{}",
];
