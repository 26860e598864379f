//! Records that somebody else has made, with something else in the place of a file or folder.

use crate::stage;

use rustix::fs::{CWD, Mode, mkfifoat};
use stage::{header, run};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use tare_core::fault::Fault;
use tare_core::profile::Profiled;
use tare_core::record::{SCHEMA, SuiteHeader};
use tare_runner::{RecordDir, create_suite, read_record, read_suite, read_suite_header};

/// The files and folders of a record that are read, those of a trial and of a profile among them.
const READ: [&str; 11] = [
    "record.json",
    "end.json",
    "trials",
    "trials/0000",
    "trials/0000/trial.json",
    "trials/0000/seconds.jsonl",
    "trials/0000/telemetry.jsonl",
    "profiles",
    "profiles/0000",
    "profiles/0000/trial.json",
    "profiles/0000/stacks.folded",
];

fn told(fault: &Fault, place: &Path, what: &str) {
    assert!(fault.message.contains(&format!("{} {what}", place.display())), "{what}: {fault}");
    assert!(fault.mistake && !fault.remedy.is_empty(), "{fault:?}");
}

#[test]
fn nothing_in_a_record_is_followed_or_waited_for() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("r");
    let mut header = header(&["plain"], 1);
    header.study.profile = Some(Profiled::All);
    run(&path, &header, &[], None);
    let whole = read_record(&path).unwrap();
    let named = above.path().join("latest");
    symlink(&path, &named).unwrap();
    assert_eq!(read_record(&named).unwrap(), whole, "a record may be called by a link");
    let aside = above.path().join("aside");
    for name in READ {
        let place = path.join(name);
        fs::rename(&place, &aside).unwrap();
        // To what it was, so that who follows it sees nothing wrong.
        symlink(&aside, &place).unwrap();
        told(&read_record(&path).unwrap_err(), &place, "is a link instead of a");
        fs::remove_file(&place).unwrap();
        mkfifoat(CWD, &place, Mode::RWXU).unwrap();
        told(&read_record(&path).unwrap_err(), &place, "is a pipe instead of a");
        fs::remove_file(&place).unwrap();
        if aside.is_dir() {
            File::create(&place).unwrap();
            told(&read_record(&path).unwrap_err(), &place, "is a file instead of a folder");
            fs::remove_file(&place).unwrap();
        } else {
            symlink("/dev/zero", &place).unwrap();
            told(&read_record(&path).unwrap_err(), &place, "is a link instead of a file");
            fs::remove_file(&place).unwrap();
            fs::create_dir(&place).unwrap();
            told(&read_record(&path).unwrap_err(), &place, "is a folder instead of a file");
            fs::remove_dir(&place).unwrap();
        }
        fs::rename(&aside, &place).unwrap();
    }
    assert_eq!(read_record(&path).unwrap(), whole);
}

#[test]
fn no_file_of_a_record_is_read_without_end() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("r");
    let mut header = header(&["plain"], 1);
    header.study.profile = Some(Profiled::All);
    run(&path, &header, &[], None);
    let (mib, gib) = (1_u64 << 20, 1_u64 << 30);
    for (name, most) in [
        ("record.json", 64 * mib),
        ("end.json", 64 * mib),
        ("trials/0000/trial.json", 64 * mib),
        ("trials/0000/seconds.jsonl", 4 * gib),
        ("trials/0000/telemetry.jsonl", 4 * gib),
        ("profiles/0000/stacks.folded", gib),
    ] {
        let (place, aside) = (path.join(name), above.path().join("aside"));
        fs::copy(&place, &aside).unwrap();
        // It takes no room on the disk.
        File::options().write(true).open(&place).unwrap().set_len(most + 1).unwrap();
        told(&read_record(&path).unwrap_err(), &place, "is larger than ");
        fs::rename(&aside, &place).unwrap();
    }
    // A row is not gathered without end either.
    let rows = path.join("trials/0000/seconds.jsonl");
    let text = fs::read_to_string(&rows).unwrap();
    File::options().write(true).open(&rows).unwrap().set_len(gib).unwrap();
    let fault = read_record(&path).unwrap_err();
    let wanted = format!("seconds.jsonl:{}: it is damaged", text.lines().count() + 1);
    assert!(fault.message.contains(&wanted) && fault.mistake, "{fault}");
    fs::write(&rows, text).unwrap();
    let events = path.join("events.jsonl");
    File::options().write(true).open(&events).unwrap().set_len(gib + 1).unwrap();
    told(&RecordDir::open(&path).unwrap_err(), &events, "is larger than ");
    fs::remove_file(&events).unwrap();
    symlink(&rows, &events).unwrap();
    told(&RecordDir::open(&path).unwrap_err(), &events, "is a link");
}

#[test]
fn a_trial_is_read_once_however_many_folders_there_are() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("r");
    run(&path, &header(&["plain"], 1), &[], None);
    let whole = read_record(&path).unwrap();
    for name in ["0", "00000", "+0", ".0000.partial"] {
        fs::create_dir(path.join("trials").join(name)).unwrap();
    }
    assert_eq!(read_record(&path).unwrap(), whole);
}

#[test]
fn a_part_lies_in_the_record_under_its_own_name() {
    let above = tempfile::tempdir().unwrap();
    let path = above.path().join("suite");
    let mut part = header(&["plain"], 1);
    part.study.name = "one".to_owned();
    let suite = |parts: &[&str]| SuiteHeader {
        schema: SCHEMA,
        tare: "0".to_owned(),
        study: "s".to_owned(),
        question: String::new(),
        preset: None,
        started: "2026-01-31T23:59:59Z".to_owned(),
        command: "tare run s".to_owned(),
        parts: parts.iter().map(|part| (*part).to_owned()).collect(),
    };
    let call = |parts: &[&str]| fs::write(path.join("suite.json"), serde_json::to_vec(&suite(parts)).unwrap()).unwrap();
    create_suite(&path, &suite(&["one", "two"])).unwrap();
    run(&path.join("one"), &part, &[], None);
    let whole = read_suite(&path).unwrap();
    assert_eq!((whole.parts.len(), read_suite_header(&path).unwrap()), (1, whole.header.clone()));
    let named = above.path().join("latest");
    symlink(&path, &named).unwrap();
    assert_eq!(read_suite(&named).unwrap(), whole);
    // Another's record, wherever it is, is no part of this one, whatever calls it so.
    let other = above.path().join("other");
    run(&other, &part, &[], None);
    symlink(&other, path.join("two")).unwrap();
    told(&read_suite(&path).unwrap_err(), &path.join("two"), "is a link instead of a folder");
    fs::remove_file(path.join("two")).unwrap();
    for wrong in ["../other", "..", ".", "", other.to_str().unwrap()] {
        call(&["one", wrong]);
        told(&read_suite(&path).unwrap_err(), &path.join("suite.json"), &format!("has a part '{wrong}'"));
    }
    call(&["one", "one"]);
    told(&read_suite(&path).unwrap_err(), &path.join("suite.json"), "has a part 'one'");
    call(&["one", "two"]);
    part.study.name = "../other".to_owned();
    run(&path.join("two"), &part, &[], None);
    told(&read_suite(&path).unwrap_err(), &path.join("two"), "contains the record of another part, '../other'");
    fs::remove_file(path.join("suite.json")).unwrap();
    symlink(named.join("one/record.json"), path.join("suite.json")).unwrap();
    told(&read_suite(&path).unwrap_err(), &path.join("suite.json"), "is a link");
}
