//! Files that other users may have prepared: in the folder in which Tare is started, and in records.

use crate::cli::{one_line, said_in, tare};
use crate::records::write_record;
use crate::sample;
use crate::toy::WORKLOAD;

use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::Path;
use tare_runner::RecordDir;
use tare_testkit::files::write;

/// The exit code and output of `tare` in `folder`, as one line.
fn said(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let (code, text) = said_in(folder, args);
    (code, one_line(&text))
}

const STUDY: &str = "study: planted\nworkload: toy\nload: {closed: {}}\nforms: {native: []}\n";

#[test]
fn a_name_never_means_a_file_in_the_current_folder() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for planted in ["canonical", "studies/canonical.yaml", "mine", "studies/other.yaml"] {
        write(&folder.join(planted), STUDY);
    }
    for planted in ["redis", "workloads/toy/workload.yaml"] {
        write(&folder.join(planted), WORKLOAD);
    }
    for verb in [&["run", "--dry-run", "canonical"][..], &["run", "--dry-run"], &["check", "canonical"]] {
        let (code, text) = said(folder, verb);
        assert!(code == Some(0) && text.contains("study canonical") && !text.contains("planted"), "{verb:?}: {text}");
    }
    let (code, text) = said(folder, &["run", "--dry-run", "mine"]);
    assert!(code == Some(2) && text.contains("to use the file here, write ./mine"), "{text}");
    let (code, text) = said(folder, &["run", "--dry-run", "./mine"]);
    assert!(code == Some(0) && text.contains("study planted"), "{text}");
    let (_, text) = said(folder, &["check", "redis"]);
    assert!(!text.contains("workload toy"), "{text}");
    // Names are looked up here only in folders of root or of the user.
    assert_eq!(said(folder, &["run", "--dry-run", "other"]).0, Some(0));
    let Some(()) = tare_testkit::needs::root() else { return };
    lchown(folder.join("studies"), Some(4242), None).unwrap();
    let (code, text) = said(folder, &["run", "--dry-run", "other"]);
    assert!(code == Some(2) && text.contains("to use the file here, write ./studies/other.yaml"), "{text}");
    lchown(folder.join("workloads"), Some(4242), None).unwrap();
    let (code, text) = said(folder, &["run", "--dry-run", "./studies/other.yaml", "--workloads", "nowhere"]);
    // Beside a study given by path, a workload is found by its name: its owner could also have changed the study.
    assert!(code == Some(0), "{text}");
    lchown(folder.join("studies"), Some(0), None).unwrap();
    std::fs::copy(folder.join("studies/other.yaml"), folder.join("here.yaml")).unwrap();
    for here in ["here.yaml", "./here.yaml"] {
        let (code, text) = said(folder, &["run", "--dry-run", here, "--workloads", "nowhere"]);
        assert!(code == Some(2) && text.contains("no workload 'toy'"), "{here}: {text}");
    }
    let (code, text) = said(folder, &["run", "--dry-run", "./studies/other.yaml", "--workloads", "nowhere"]);
    assert!(code == Some(2) && text.contains("no workload 'toy'"), "{text}");
    let (code, text) = said(folder, &["peak", "--dry-run", "--workload", "toy", "--p99", "9ms"]);
    assert!(code == Some(2) && text.contains("no workload 'toy'"), "{text}");
}

#[test]
fn the_message_says_what_a_wrong_path_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (place, what) in [("./empty", "is a folder without a study.yaml"), ("missing.yaml", "cannot be read")] {
        let (code, text) = said(folder.path(), &["check", place]);
        assert!(code == Some(2) && text.contains(what), "{text}");
        assert!(text.contains("redis") && text.contains("canonical"), "what can be named is: {text}");
    }
}

/// Root starts Tare in somebody else's folder, without `--out`.
#[test]
fn records_are_not_written_where_another_user_decides() {
    let Some(()) = tare_testkit::needs::root() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (here, elsewhere) = (folder.path().join("here"), folder.path().join("elsewhere"));
    std::fs::create_dir_all(&elsewhere).unwrap();
    write(&here.join("study.yaml"), STUDY);
    write(&here.join("workloads/toy/workload.yaml"), WORKLOAD);
    let refused = |why: &str| {
        for verb in [&["run", "./study.yaml"][..], &["resume"]] {
            let (code, text) = said(&here, verb);
            assert!(
                code == Some(2) && text.contains("cannot use the default place for records, records/: "),
                "{why}, {verb:?}: {text}"
            );
            assert!(text.contains(why) && text.contains("--out"), "{why}, {verb:?}: {text}");
        }
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0, "{why}");
    };
    let records = here.join("records");
    std::os::unix::fs::symlink(&elsewhere, &records).unwrap();
    lchown(&records, Some(4242), None).unwrap();
    refused("records belongs to user 4242");
    std::fs::remove_file(&records).unwrap();
    std::fs::create_dir(&records).unwrap();
    lchown(&records, Some(4242), None).unwrap();
    refused("records belongs to user 4242");
    lchown(&records, Some(0), None).unwrap();
    std::fs::set_permissions(&here, std::fs::Permissions::from_mode(0o775)).unwrap();
    refused("here may be written to by group");
}

/// Makes the sample's record.
fn sample_at(path: &Path) {
    write_record(path, &sample::record());
}

/// As after `cp -r`, which keeps links and pipes and makes root their owner.
#[test]
fn links_and_pipes_in_a_record_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let (sound, strange) = (folder.path().join("sound"), folder.path().join("strange"));
    [&sound, &strange].into_iter().for_each(|path| sample_at(path));
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "\"hunter2\"\n").unwrap();
    let place = strange.join("trials/0001/trial.json");
    let (one, other) = (sound.to_str().unwrap(), strange.to_str().unwrap());
    let verbs = [
        &["resume", other][..],
        &["report", other],
        &["compare", one, other],
        &["gate", "--max-overhead", "5%", "--record", other],
        &["gate", "--record", one, "--baseline", other],
        &["history", "--add", other],
        &["scaling", "--at", &format!("1={one}"), "--at", &format!("2={other}")],
    ];
    for what in ["is a link", "is a pipe"] {
        std::fs::remove_file(&place).unwrap();
        if what == "is a link" {
            std::os::unix::fs::symlink(&secret, &place).unwrap();
        } else {
            rustix::fs::mkfifoat(rustix::fs::CWD, &place, rustix::fs::Mode::RWXU).unwrap();
        }
        for verb in verbs {
            let (code, text) = said(folder.path(), verb);
            assert!(code == Some(2) && text.contains(what) && text.contains("to do: "), "{verb:?}: {text}");
            assert!(text.contains("trials/0001/trial.json") && !text.contains("hunter2"), "{verb:?}: {text}");
        }
    }
    let named = folder.path().join("latest");
    std::os::unix::fs::symlink("sound", &named).unwrap();
    for verb in ["resume", "report"] {
        assert_eq!(said(folder.path(), &[verb, "latest"]).0, Some(0), "{verb}: a record may be named by a link");
    }
}

/// Root writes where everybody may write, and another user has put a link of that name there.
#[test]
fn a_report_does_not_follow_another_users_link() {
    let Some(()) = tare_testkit::needs::root() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (record, shared, target) = (folder.path().join("r"), folder.path().join("tmp"), folder.path().join("x.sh"));
    sample_at(&record);
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
    let link = shared.join("report");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    lchown(&link, Some(4242), None).unwrap();
    let gate =
        ["gate", "--max-overhead", "90%", "--form", "container-hostnet", "--record", "r", "--junit", "tmp/report"];
    for verb in [&["report", "r", "--out", "tmp/report"][..], &gate] {
        std::fs::write(&target, "root's").unwrap();
        let (code, text) = said(folder.path(), verb);
        assert!(code == Some(2) && text.contains("tmp/report is a link of user 4242"), "{verb:?}: {text}");
        assert!(text.contains("to do: ") && link.is_symlink(), "{verb:?}: {text}");
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "root's", "{verb:?}");
        // The user who called sudo does not count as another one.
        let output = tare().current_dir(folder.path()).env("SUDO_UID", "4242").args(verb).output().unwrap();
        assert!(output.status.success(), "{verb:?}: {output:?}");
        assert!(std::fs::read_to_string(&target).unwrap().len() > 99 && link.is_symlink(), "{verb:?}");
    }
}

#[test]
fn a_record_whose_services_are_named_by_paths_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    for (number, name) in ["../../escaped", "/escaped", "a/b", ".volumes", "..", ".", ""].into_iter().enumerate() {
        let mut record = sample::record();
        name.clone_into(&mut record.header.workload.services[0].name);
        let path = folder.path().join(format!("record-{number}"));
        RecordDir::create(&path, &record.header).unwrap();
        for verb in ["resume", "report"] {
            let (code, text) = said(folder.path(), &[verb, path.to_str().unwrap()]);
            assert_eq!(code, Some(1), "{name}: {text}");
            assert!(text.contains(&format!("'{name}' is not a valid name of a service")), "{verb} {name}: {text}");
        }
    }
    // Only the name is wrong: otherwise the record can be read.
    let path = folder.path().join("sound");
    RecordDir::create(&path, &sample::record().header).unwrap();
    assert!(!said(folder.path(), &["report", path.to_str().unwrap()]).1.contains("valid name of a service"));
}
