//! Where a study's workload is searched for, and the messages if it or its sources are missing.

use crate::cli::said_in as said;
use crate::toy::WORKLOAD;
use tare_testkit::files::write;

fn study(workload: &str) -> String {
    format!("study: s\nworkload: {workload}\nload: {{closed: {{}}}}\nforms: {{native: []}}\n")
}

#[test]
fn a_workload_is_found_beside_its_study_and_above() {
    for (workload, place) in [
        ("bar", "mine/workloads/bar"),
        ("bar", "mine/bar"),
        ("bar", "workloads/bar"),
        ("./bar", "mine/bar"),
        ("../bar", "bar"),
        ("parts/bar", "mine/parts/bar"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        // Found from elsewhere too: only where the study stands matters.
        let elsewhere = folder.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        write(&folder.join("mine/foo.yaml"), &study(workload));
        let study = folder.join("mine/foo.yaml");
        let absent = said(&elsewhere, &["run", "--dry-run", study.to_str().unwrap()]);
        assert_eq!(absent.0, Some(2), "{}", absent.1);
        write(&folder.join(place).join("workload.yaml"), WORKLOAD);
        for (from, name) in [(elsewhere.as_path(), study.to_str().unwrap()), (&folder.join("mine"), "foo.yaml")] {
            let (code, text) = said(from, &["run", "--dry-run", name]);
            assert!(code == Some(0) && text.contains("workload toy"), "{workload} in {place}, from {from:?}:\n{text}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let absolute = folder.path().join("far/bar");
    write(&absolute.join("workload.yaml"), WORKLOAD);
    write(&folder.path().join("foo.yaml"), &study(absolute.to_str().unwrap()));
    assert_eq!(said(folder.path(), &["check", "foo.yaml"]).0, Some(0));
}

#[test]
fn the_nearest_workload_of_a_name_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("mine/foo.yaml"), &study("bar"));
    let named = |name: &str| WORKLOAD.replace("workload: toy", &format!("workload: {name}"));
    for (place, name) in
        [("workloads/bar", "above"), ("mine/bar", "beside"), ("mine/workloads/bar", "nearest"), ("said/bar", "said")]
    {
        write(&folder.join(place).join("workload.yaml"), &named(name));
        let more: &[&str] = if name == "said" { &["--workloads", "said"] } else { &[] };
        let (_, text) = said(folder, &[&["check", "mine/foo.yaml"], more].concat());
        assert!(text.contains(&format!("of workload {name},")), "{place}: {text}");
    }
}

#[test]
fn a_missing_workload_is_reported_with_every_place_searched() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("mine/foo.yaml"), &study("bar"));
    write(&folder.path().join("mine/workloads/baz/workload.yaml"), WORKLOAD);
    for verb in [&["run", "--dry-run"][..], &["run"], &["check"]] {
        let (code, text) = said(folder.path(), &[verb, &["mine/foo.yaml"]].concat());
        assert_eq!(code, Some(2), "{text}");
        for wanted in [
            "mine/foo.yaml:2:11",
            "mine/workloads/bar/workload.yaml",
            "mine/bar/workload.yaml",
            "mine/../workloads/bar/workload.yaml",
            " workloads/bar/workload.yaml",
            "did you mean 'baz'",
        ] {
            assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
        }
    }
    let (code, text) = said(folder.path(), &["peak", "--dry-run", "--workload", "bar", "--p99", "9ms"]);
    assert!(code == Some(2) && text.contains("workloads/bar/workload.yaml"), "{text}");
}

#[test]
fn missing_sources_of_bundles_are_reported_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("foo.yaml"), &study("./bar"));
    for (source, place) in [("folder: ./app", "4:"), ("image: ./app.tar", "4:"), ("folder: ../app", "4:")] {
        let text = WORKLOAD.replace("packages: [redis-server]", source);
        write(&folder.path().join("bar/workload.yaml"), &text);
        for verb in [&["run", "--dry-run"][..], &["run"], &["check"]] {
            let (code, text) = said(folder.path(), &[verb, &["foo.yaml"]].concat());
            assert_eq!(code, Some(2), "{text}");
            assert!(text.contains(&format!("workload.yaml:{place}")) && text.contains("does not exist"), "{text}");
        }
    }
    // Images in registries are not checked.
    write(&folder.path().join("bar/workload.yaml"), &WORKLOAD.replace("packages: [redis-server]", "image: a/b:1"));
    assert_eq!(said(folder.path(), &["run", "--dry-run", "foo.yaml"]).0, Some(0));
    let text = WORKLOAD.replace("packages: [redis-server]", "folder: ./app");
    write(&folder.path().join("bar/workload.yaml"), &text);
    std::fs::create_dir(folder.path().join("bar/app")).unwrap();
    assert_eq!(said(folder.path(), &["run", "--dry-run", "foo.yaml"]).0, Some(0));
}

#[test]
fn a_file_beside_a_workload_is_what_its_content_says() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("workload.yaml"), WORKLOAD);
    let divided = "study: s\nworkload: .\nload: {closed: {}}\nforms: {native: []}\nparts: {a: {panel: A}}\n";
    for (name, text) in [("study.yaml", study(".")), ("divided.yaml", divided.to_owned())] {
        write(&folder.join(name), &text);
        for verb in [&["check"][..], &["run", "--dry-run"]] {
            let (code, text) = said(folder, &[verb, &[name]].concat());
            assert!(code == Some(0) && text.contains("study s"), "{verb:?} {name}: {text}");
        }
    }
    // Its mistakes are reported as those of a study.
    write(&folder.join("study.yaml"), &format!("{}colour: blue\n", study(".")));
    let (code, text) = said(folder, &["check", "study.yaml"]);
    assert!(code == Some(2) && text.contains("1 mistake;") && text.contains("no field 'colour'"), "{text}");
    let unnamed = study(".").replace("study: s\n", "");
    write(&folder.join("study.yaml"), &unnamed);
    let (code, text) = said(folder, &["check", "study.yaml"]);
    assert!(code == Some(2) && text.contains("'study'") && !text.contains("'services'"), "{text}");
    // A variant is a workload, even if its services are still missing.
    write(&folder.join("other.yaml"), &WORKLOAD.replace("workload: toy", "workload: other"));
    let (code, text) = said(folder, &["check", "other.yaml"]);
    assert!(code == Some(0) && text.contains("workload other"), "{text}");
    write(&folder.join("other.yaml"), "workload: other\nload: {protocol: {redis: {}}}\n");
    let (code, text) = said(folder, &["check", "other.yaml"]);
    assert!(code == Some(2) && text.contains("'services'"), "{text}");
}

#[test]
fn mistakes_name_plain_paths_and_how_to_name_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(&folder.join("mine/foo.yaml"), &study("./bar"));
    write(&folder.join("mine/bar/workload.yaml"), &format!("{WORKLOAD}colour: blue\n"));
    let (code, text) = said(folder, &["check", "mine/foo.yaml"]);
    assert!(code == Some(2) && text.contains("--> mine/bar/workload.yaml:"), "{text}");
    // A bare name is looked up elsewhere.
    let (code, text) = said(&folder.join("mine"), &["bundle", "build", "--workload", "bar"]);
    let needs_root = text.contains("needs root");
    assert!(needs_root || (code == Some(2) && text.contains("write ./bar")), "{text}");
}

#[test]
fn missing_files_are_reported_with_all_other_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let workload = "workload: w\nservices:\n  a: {bundle: {image: ./none.tar}, ports: {p: 1}}\n  \
                    b: {bundle: {folder: nowhere}, command: [/x], ports: {p: 2}, files: {/etc/x: x.conf}, wrong: 1}\n  \
                    c: {bundle: {image: registry/name}, command: [/x], ports: {p: 3}}\n\
                    load: {service: a, protocol: {redis: {}}}\n";
    // A workload's file may have any name: its content decides.
    for name in ["w/workload.yaml", "v/mine.yaml"] {
        write(&folder.path().join(name), workload);
        let (code, text) = said(folder.path(), &["check", name]);
        assert_eq!(code, Some(2), "{text}");
        for place in [":3:23", ":4:24", ":4:80", ":4:89"] {
            assert!(text.contains(&format!("{name}{place}\n")), "{place}: {text}");
        }
        assert!(text.contains("4 mistakes; nothing was started"), "{text}");
    }
}
