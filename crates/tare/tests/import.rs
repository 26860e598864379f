//! A Compose file becomes a folder that can be checked and run.

use crate::cli::{one_line, said_in};
use std::path::{Path, PathBuf};
use tare_testkit::files;

/// A folder with a copy of one of the stacks that tare-compose is tested with.
fn stack(name: &str, copied: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let stacks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tare-compose/tests/stacks").join(name);
    let folder = tempfile::tempdir().unwrap();
    for file in copied {
        files::write(&folder.path().join("stack").join(file), &std::fs::read(stacks.join(file)).unwrap());
    }
    let place = folder.path().to_owned();
    (folder, place)
}

#[test]
fn a_compose_file_becomes_a_study_without_mistakes() {
    // None of its images is built: an engine that is here would not have it.
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_owned();
    let text = "services:\n  web:\n    image: shop/web:1\n    ports: ['8080:80']\n    depends_on: [cache]\n    \
                environment: {CACHE: 'redis://cache:6379'}\n    cap_add: [SYS_NICE]\n  cache:\n    image: redis:7\n";
    files::write(&place.join("stack/compose.yaml"), text);
    let (code, told) = said_in(&place, &["import", "stack", "--out", "poll"]);
    assert_eq!(code, Some(0), "{told}");
    let flat = one_line(&told);
    for wanted in
        ["stack/compose.yaml:7:5: services.web.cap_add:", "the load goes to web at port 80", "tare run poll/study.yaml"]
    {
        assert!(flat.contains(wanted), "{wanted}: {flat}");
    }
    let (code, told) = said_in(&place, &["check", "poll/study.yaml", "poll/workload.yaml"]);
    assert_eq!(code, Some(0), "{told}");
    let (code, told) = said_in(&place, &["import", "stack", "--out", "poll"]);
    assert!(code == Some(2) && told.contains("exists already"), "{told}");
}

#[test]
fn a_strict_import_writes_nothing_where_a_key_differs() {
    let (_folder, place) = stack("vote", &["compose.yaml", ".env"]);
    let (code, told) = said_in(&place, &["import", "stack/compose.yaml", "--strict", "--out", "poll"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(one_line(&told).contains("'networks' cannot mean the same in all forms"), "{told}");
    assert!(!place.join("poll").exists());
}

#[test]
fn what_keeps_a_stack_from_running_is_told_with_its_line() {
    let (_folder, place) = stack("monitoring", &["compose.yaml", "prometheus/prometheus.yml"]);
    let (code, told) = said_in(&place, &["import", "stack", "--out", "watch"]);
    assert_eq!(code, Some(2), "{told}");
    let flat = one_line(&told);
    assert!(flat.contains("keep it from running") && flat.contains("stack/compose.yaml:20:"), "{flat}");
    // It is written all the same, to be edited.
    assert!(place.join("watch/workload.yaml").exists(), "{flat}");
}
