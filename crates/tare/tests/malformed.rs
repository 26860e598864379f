//! Some fifty files with different mistakes: no panic, no stack trace, exit code 2, a place in every message.

use crate::cli::{one_line, tare};
use crate::toy::WORKLOAD;

use std::path::Path;
use std::process::Output;
use tare_testkit::files;

const STUDY: &str = "\
study: s
workload: toy
load: {closed: {connections: 2}}
forms: {native: [], container: [container: {network: host}], vm: [vm: {}]}
";

/// Mistakes in a study: a part of [`STUDY`] and what replaces it.
const STUDIES: &[(&str, &str)] = &[
    ("study: s", "study: [s"),
    ("study: s", "study: {a: b}"),
    ("study: s", "study:"),
    ("study: s", "studdy: s"),
    ("study: s", "\tstudy: s"),
    ("study: s", "study: &a s"),
    ("study: s", "study: *a"),
    ("study: s", "study: !!str s"),
    ("study: s", "study: s\nstudy: t"),
    ("study: s", "study: s\nrepeat: 0"),
    ("study: s", "study: s\nrepeat: -1"),
    ("study: s", "study: s\nrepeat: many"),
    ("study: s", "study: s\nrepeat: 99999999999999999999999"),
    ("study: s", "study: s\ntime: {measure: 10}"),
    ("study: s", "study: s\ntime: {measure: 1ms}"),
    ("study: s", "study: s\ntime: {mesure: 10s}"),
    ("study: s", "study: s\ntime: 10s"),
    ("study: s", "study: s\nat_most: soon"),
    ("study: s", "study: s\nfrom: mars"),
    ("study: s", "study: s\nbaseline: nativ"),
    ("study: s", "study: s\nresources: {cpus: 0}"),
    ("study: s", "study: s\nresources: {cpus: 1, cpu_quota: 3}"),
    ("study: s", "study: s\nresources: {memory: 1}"),
    ("study: s", "study: s\noptions: {persistence: always}"),
    ("study: s", "study: s\nseed: x"),
    ("workload: toy", "workload: joy"),
    ("workload: toy", "workload: ../../../../../../etc"),
    ("load: {closed: {connections: 2}}", "load: {}"),
    ("load: {closed: {connections: 2}}", "load: {closed: {connections: 0}}"),
    ("load: {closed: {connections: 2}}", "load: {closed: {conections: 2}}"),
    ("load: {closed: {connections: 2}}", "load: {closed: {}, open: {}}"),
    ("load: {closed: {connections: 2}}", "load: {warp: {}}"),
    ("load: {closed: {connections: 2}}", "load: closed"),
    ("native: []", "native: [kontainer]"),
    ("native: []", "native: 7"),
    ("native: []", "Native Form: []"),
    ("{network: host}", "{network: hots}"),
    ("{network: host}", "{netwerk: host}"),
    ("vm: {}", "vm: {memory: lots}"),
    ("vm: {}", "vm: {cpus: -2}"),
    (STUDY, ""),
    (STUDY, "just words"),
    (STUDY, "- a\n- b\n"),
    (STUDY, "version: '3'\nservices:\n  web:\n    image: nginx\n    ports: ['80:80']\n"),
    (STUDY, "{\"a\": [1, 2"),
    (STUDY, "a: b: c"),
    (STUDY, "%YAML 9.9\n---\na: 1\n"),
    (STUDY, "\u{0}\u{1}\u{2}"),
];

/// Mistakes in a workload.
const WORKLOADS: &[(&str, &str)] = &[
    ("workload: toy", "workload:"),
    ("services:\n", "services: []\nservises:\n"),
    ("bundle: {packages: [redis-server]}", "bundle: {packages: [--assume-yes]}"),
    ("bundle: {packages: [redis-server]}", "bundle: {zip: x}"),
    ("bundle: {packages: [redis-server]}", "bundle: {program: other}"),
    ("bundle: {packages: [redis-server]}", "bundle: {packages: [a], image: b}"),
    ("command: [/usr/bin/toy]", "command: [toy]"),
    ("command: [/usr/bin/toy]", "command: []"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    user: root"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    user: 0:0"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    user: 4294967295"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    user: 5:4294967295"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    volumes: {data: 1GiB}"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    files: {/etc/x: ../../etc/passwd}"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    files: {/etc/x: missing.conf}"),
    ("command: [/usr/bin/toy]", "command: [/usr/bin/toy]\n    options: {o: {default: a, levels: {b: []}}}"),
    ("ports: {main: 7000}", "ports: {main: 70000}"),
    ("ports: {main: 7000}", "ports: {}"),
    ("ports: {main: 7000}", "ports: {main: 7000}\n    ready: {port: other}"),
    ("protocol: {redis: {}}", "protocol: {rediss: {}}"),
    ("protocol: {redis: {}}", "protocol: {redis: {mixx: {}}}"),
    ("protocol: {redis: {}}", "protocol: {redis: {mix: {get: -1}}}"),
    ("protocol: {redis: {}}", "protocol: {redis: {keys: 0}}"),
];

/// What `tare check` says of a study of this workload, in files of this folder.
fn checked(folder: &Path, study: &str, workload: &str) -> Output {
    files::write(&folder.join("workloads/toy/workload.yaml"), workload);
    files::write(&folder.join("study.yaml"), study);
    tare().current_dir(folder).args(["check", "study.yaml"]).output().unwrap()
}

fn check(folder: &Path, study: &str, workload: &str, wrong_file: &str) {
    let output = checked(folder, study, workload);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let what = format!("study:\n{study}\nworkload:\n{workload}\nsaid:\n{stderr}");
    assert_eq!(output.status.code(), Some(2), "{what}");
    assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{what}");
    // Lines quoted from the file are not wrapped.
    let wide = |line: &&str| line.chars().count() > 80 && !line.contains(" | ") && line.trim().contains(' ');
    assert_eq!(stderr.lines().find(wide), None, "{what}");
    let place = stderr.lines().find(|line| line.trim_start().starts_with("--> "));
    let place = place.unwrap_or_else(|| panic!("no place in the message; {what}"));
    let parts: Vec<&str> = place.trim_start().trim_start_matches("--> ").rsplitn(3, ':').collect();
    assert!(parts.len() == 3 && parts[2].ends_with(wrong_file), "{place}; {what}");
    assert!(parts[0].parse::<u32>().is_ok_and(|n| n > 0) && parts[1].parse::<u32>().is_ok_and(|n| n > 0), "{place}");
}

#[test]
fn the_files_that_are_broken_here_are_valid_before() {
    let folder = tempfile::tempdir().unwrap();
    let output = checked(folder.path(), STUDY, WORKLOAD);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn malformed_studies_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    for (straight, bent) in STUDIES {
        assert!(STUDY.contains(straight), "{straight} is not in the study");
        check(folder.path(), &STUDY.replacen(straight, bent, 1), WORKLOAD, "study.yaml");
    }
}

#[test]
fn malformed_workloads_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    for (straight, bent) in WORKLOADS {
        assert!(WORKLOAD.contains(straight), "{straight} is not in the workload");
        check(folder.path(), STUDY, &WORKLOAD.replacen(straight, bent, 1), "workload.yaml");
    }
}

#[test]
fn all_mistakes_of_a_file_come_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let study = "studdy: s\nrepeat: 0\nload: {warp: {}}\nforms: {a: [x]}\n";
    files::write(&folder.path().join("study.yaml"), study);
    let output = tare().current_dir(folder.path()).args(["run", "study.yaml"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    for wanted in ["no 'study'", "no 'workload'", "'studdy'", "0 is out of range", "'warp'", "'x'", "6 mistakes"] {
        let flat = one_line(&stderr);
        assert!(flat.contains(wanted), "{wanted} is missing in:\n{stderr}");
    }
}

#[test]
fn the_schemas_of_files_are_printed() {
    let says = |code: i32, args: &[&str]| {
        let output = tare().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    for kind in ["study", "workload"] {
        let schema: serde_json::Value = serde_json::from_slice(&says(0, &["check", "--schema", kind])).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        assert!(schema["properties"].get(kind).is_some(), "{schema:#}");
    }
    says(2, &["check", "--schema", "record"]);
    says(2, &["check"]);
}
