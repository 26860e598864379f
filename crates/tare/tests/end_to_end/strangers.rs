//! A server that Tare has never seen: an image made elsewhere and a workload folder of twenty lines, no Rust.

use crate::end_to_end::lab::{Lab, flat, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use tare_core::trial::Outcome;

const WORKLOAD: &str = "\
workload: stranger
about: memcached out of somebody's image
services:
  cache:
    bundle: {image: ../images/stranger.tar.gz}
    ports: {cache: 11211}
    volumes: {/data: 16MiB}
load:
  protocol:
    tcp:
      request: \"get tare\\r\\n\"
      reply: {until: \"END\\r\\n\"}
";

const STUDY: &str = "\
study: strange
workload: ./stranger
load: {closed: {connections: 8}}
time: {settle: 200ms, measure: 1s}
repeat: 1
design: blocks
forms: {native: [], container: [container], hostnet: [container: {network: host}], bridge: [container: {network: bridge}]}
";

/// What an image says of itself is all there is, by the engine's own name for it.
const TOLD: &str = "\
workload: told
services: {cache: {bundle: {image: 'TAG'}}}
load: {protocol: {tcp: {request: \"get tare\\r\\n\", reply: {until: \"END\\r\\n\"}}}}
";

/// A program without a path, a user by name, a port that only root may use, and a directory that is not there.
const DOCKERFILE: &str = "\
FROM stranger:e2e
COPY passwd group /etc/
ENV PATH=/usr/local/bin:/usr/bin SIZE=64
USER cache
WORKDIR /var/cache/told
EXPOSE 611/tcp 53/udp
VOLUME /var/lib/told
ENTRYPOINT [\"memcached\"]
CMD [\"-l\", \"0.0.0.0\", \"-p\", \"611\", \"-U\", \"0\", \"-m\", \"64\"]
";

/// Runs a shell's commands with `arguments`.
fn shell(script: &str, arguments: &[&str]) {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let made = Command::new("sh").args(["-ec", script, "sh"]).args(arguments).env("PATH", path).output().unwrap();
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Has the engine hold the image `stranger:e2e`, made by other means than Tare's own: a tree of packages, imported,
/// then saved by the engine. It is kept beside the built program, as bundles are; tells where.
fn have_the_image() -> PathBuf {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("stranger.tar.gz");
    shell(
        "[ -e \"$2\" ] || { \
           mmdebstrap --quiet --variant=extract --include=memcached \"$1\" - | \
             docker import --change 'CMD [\"memcached\", \"-l\", \"0.0.0.0\"]' - stranger:e2e; \
           docker save stranger:e2e | gzip -1 > \"$2.part\"; mv \"$2.part\" \"$2\"; }; \
         docker load --quiet --input \"$2\"",
        &[&codename(), text(&kept)],
    );
    kept
}

#[test]
fn an_image_made_elsewhere_runs_in_the_forms() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    lab.write("stranger/workload.yaml", WORKLOAD);
    let study = lab.write("strange.yaml", STUDY);
    let kept = have_the_image();
    lab.write("images/stranger.tar.gz", std::fs::read(kept).unwrap());
    lab.expect(0, &["check", text(&study)]);
    let (_, read) = lab.run(STUDY);
    assert_eq!(read.trials.len(), 5);
    for trial in &read.trials {
        assert_eq!(trial.record.outcome, Outcome::Measured, "{}", trial.record.trial.arm());
        assert_eq!(trial.record.mapped, read.trials[0].record.mapped);
    }
    shell("docker rmi stranger:e2e", &[]);
}

#[test]
fn what_an_image_says_is_enough_to_run_it() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    have_the_image();
    // A tag that no run here has seen, for the store remembers what it has fetched.
    let tag = format!("tare-told:e2e-{}", std::process::id());
    lab.write("told/workload.yaml", TOLD.replace("TAG", &tag));
    // How an image is read does not depend on the form; how one is run in each is seen before.
    let mut forms = "forms: {native: [], container: [container]}\n";
    let (rest, all) = STUDY.split_at(STUDY.find("forms:").expect("it names its forms"));
    if std::env::var_os("TARE_THOROUGH").is_some() {
        forms = all;
    }
    let study = lab.write("told.yaml", rest.replace("stranger", "told") + forms);
    lab.write("image/Dockerfile", DOCKERFILE);
    lab.write("image/passwd", "root:x:0:0::/:/bin/sh\ncache:x:4321:4322::/:/bin/sh\n");
    lab.write("image/group", "root:x:0:\ncache:x:4322:\n");
    shell("docker build --quiet --tag \"$1\" \"$2\"", &[&tag, text(&lab.path("image"))]);
    let flat = |args: &[&str]| flat(&lab.expect(0, args));
    let told = flat(&["check", text(&study)]);
    assert!(told.contains("which is read when the bundle is built"), "{told}");
    let record = lab.path("told-record");
    lab.expect(0, &["run", text(&study), "--out", text(&record)]);
    lab.expect_clean();
    let told = flat(&["check", text(&study)]);
    assert!(told.contains("service cache: command from the image: memcached -l 0.0.0.0 -p 611 -U 0 -m 64"), "{told}");
    let told = flat(&["run", text(&study), "--dry-run"]);
    assert!(told.contains("service cache: volumes from the image: /var/lib/told, empty"), "{told}");
    let read = lab.record(&record);
    let service = &read.header.workload.services[0];
    assert_eq!((service.command[0].as_str(), service.user), ("/usr/bin/memcached", (4321, 4322)));
    assert_eq!((service.environment["SIZE"].as_str(), service.ports["611"]), ("64", 611));
    assert_eq!(service.directory.as_deref(), Some("/var/cache/told"));
    assert_eq!(service.image.as_ref().unwrap().taken["user"], "cache, which is 4321:4322");
    assert_eq!(read.trials.len(), read.header.plan.len());
    for trial in &read.trials {
        assert_eq!(trial.record.outcome, Outcome::Measured, "{}", trial.record.trial.arm());
        assert_eq!(trial.record.mapped, read.trials[0].record.mapped);
    }
    shell("docker rmi \"$1\" stranger:e2e", &[&tag]);
}

fn codename() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap();
    let line = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap();
    line.trim_matches('"').to_owned()
}

#[test]
fn archives_that_are_wrong_are_refused_with_their_entry() {
    let Some(lab) = Lab::open(&["tar"]) else { return };
    let outside = lab.path("outside");
    std::fs::create_dir_all(&outside).unwrap();
    let files: [(&str, Vec<u8>); 6] = [
        ("empty.tar", Vec::new()),
        ("words.tar", b"these are words, not an archive".to_vec()),
        ("zeros.tar", vec![0; 10_240]),
        ("gzip.tar.gz", vec![0x1f, 0x8b, 8, 0, 0, 0]),
        ("zstd.tar.zst", vec![0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]),
        (
            "cut.tar",
            tar_with("manifest.json", b"[{\"Config\":\"c\",\"Layers\":[\"../../outside/l.tar\"]}]")[..600].to_vec(),
        ),
    ];
    for (name, bytes) in files {
        lab.write(&format!("bad/{name}"), bytes);
    }
    let escapes =
        tar_with("manifest.json", b"[{\"Config\":\"../../etc/passwd\",\"Layers\":[\"../../outside/l.tar\"]}]");
    lab.write("bad/escapes.tar", escapes);
    for entry in std::fs::read_dir(lab.path("bad")).unwrap() {
        let path = entry.unwrap().path();
        let said = lab.expect(2, &["bundle", "build", "--image", text(&path)]);
        assert!(said.contains(path.file_name().unwrap().to_str().unwrap()), "the file is named: {said}");
        assert!(!said.contains("RUST_BACKTRACE"), "{said}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    lab.expect(2, &["bundle", "build", "--image", "/no/such/image.tar"]);
    lab.expect(2, &["bundle", "build", "--folder", "/no/such/folder"]);
}

/// A tar archive of one file.
fn tar_with(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..108].copy_from_slice(b"0000644\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(content);
    archive.resize(archive.len().div_ceil(512) * 512 + 1024, 0);
    archive
}
