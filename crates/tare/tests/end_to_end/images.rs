//! Images made elsewhere that cannot run: all are refused at once, with their places, before anything starts.

use crate::end_to_end::lab::{Lab, flat, text};
use std::path::Path;
use std::process::Command;

/// An image: its name, its configuration, the script that makes its files, and the expected message.
type Image = (&'static str, &'static str, &'static str, &'static str);

const REFUSED: &[Image] = &[
    ("nobody", r#""User":"nosuchuser","Cmd":["/bin/true"]"#, "cp /bin/true bin/", "there is no user 'nosuchuser'"),
    (
        "nogroup",
        r#""User":"33:nosuchgroup","Cmd":["/bin/true"]"#,
        "cp /bin/true bin/",
        "there is no group 'nosuchgroup'",
    ),
    ("bash", r#""Cmd":["/go"]"#, "printf '#!/bin/bash\\n' > go; chmod +x go", "is a script for /bin/bash"),
    ("windows", r#""Cmd":["/go"]"#, "printf '#!/bin/sh\\r\\n' > go; chmod +x go", "Windows line endings"),
    ("closed", r#""Cmd":["/go"]"#, "printf '#!/bin/sh\\n' > go; chmod 644 go", "/go, which is not executable"),
    ("loader", r#""Cmd":["/bin/true"]"#, "cp /bin/true bin/", "is linked for the loader"),
    ("nowhere", r#""Cmd":["server","-x"]"#, ":", "'server', which is not in any folder of PATH"),
];

/// Makes an archive with one layer, like `docker save`, by tar and sha256sum.
fn save(archive: &Path, says: &str, files: &str) {
    let script = "set -e; d=$(mktemp -d); trap 'rm -rf $d' EXIT; cd $d; mkdir -p root/bin\n\
                  (cd root; eval \"$3\")\n\
                  tar -cf layer.tar --owner=0 --group=0 -C root .\n\
                  id=$(sha256sum layer.tar | cut -d' ' -f1)\n\
                  printf '{\"os\":\"linux\",\"config\":{\"ExposedPorts\":{\"8080/tcp\":{}},%s},' \"$2\" > c.json\n\
                  printf '\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\"]}}' $id >> c.json\n\
                  echo '[{\"Config\":\"c.json\",\"RepoTags\":null,\"Layers\":[\"layer.tar\"]}]' > manifest.json\n\
                  tar -cf \"$1\" manifest.json c.json layer.tar";
    let made = Command::new("sh").args(["-c", script, "sh", text(archive), says, files]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

#[test]
fn images_that_cannot_run_are_all_reported_with_their_place() {
    let Some(lab) = Lab::open(&["tar", "sha256sum"]) else { return };
    let mut workload =
        "workload: hands\nload: {service: nobody, protocol: {http: {requests: [{path: /}]}}}\nservices:\n".to_owned();
    std::fs::create_dir_all(lab.path("hands")).unwrap();
    for (name, says, files, _) in REFUSED {
        save(&lab.path(&format!("hands/{name}.tar")), says, files);
        workload += &format!("  {name}: {{bundle: {{image: ./{name}.tar}}}}\n");
    }
    lab.write("hands/workload.yaml", workload);
    let study =
        lab.write("s.yaml", "study: s\nworkload: ./hands\nload: {closed: {connections: 1}}\nforms: {native: []}\n");
    let record = lab.path("record");
    let said = lab.expect(2, &["run", text(&study), "--out", text(&record)]);
    let flat = flat(&said);
    for (line, (name, .., told)) in (4..).zip(REFUSED) {
        assert!(flat.contains(told), "{name}: '{told}' is not there: {said}");
        assert!(flat.contains(&format!("hands/workload.yaml:{line}:")), "{name}: {said}");
    }
    assert!(flat.contains(&format!("{} mistakes; nothing was started", REFUSED.len())), "{said}");
    assert_eq!(flat.matches("= hint:").count(), REFUSED.len(), "{said}");
    assert!(!record.join("record.json").exists(), "{said}");
    lab.expect_clean();
}

#[test]
fn an_unknown_compression_of_an_archive_is_reported() {
    let Some(lab) = Lab::open(&["tar", "sha256sum", "xz"]) else { return };
    let plain = lab.path("image.tar");
    save(&plain, r#""Cmd":["/bin/true"]"#, "cp /bin/true bin/");
    lab.expect(0, &["bundle", "build", "--image", text(&plain)]);
    assert!(Command::new("xz").arg(&plain).status().unwrap().success());
    let said = lab.expect(2, &["bundle", "build", "--image", text(&lab.path("image.tar.xz"))]);
    let flat = flat(&said);
    assert!(flat.contains("it is compressed with xz, which is not supported to do: decompress it"), "{said}");
}
