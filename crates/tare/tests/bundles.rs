//! Builds the bundles of the shipped workloads from this machine's package archive, as a run would, ahead of time.

use assert_cmd::Command;

/// The workloads that end-to-end tests run, whose bundles are built here beside other tests; with `TARE_THOROUGH` all.
const RUN_BY_TESTS: [&str; 4] = ["redis", "redis-scaleout", "linpack", "storage"];

/// The workloads of the source tree.
fn workloads() -> Vec<String> {
    if std::env::var_os("TARE_THOROUGH").is_none() {
        return RUN_BY_TESTS.map(str::to_owned).to_vec();
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads");
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// The output of `tare bundle build`, line by line.
fn built(arguments: &[&str]) -> Vec<String> {
    let program = std::env::var_os("TARE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_tare").into());
    let mut command = Command::new(program);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).args(["bundle", "build"]).args(arguments);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_bundles_of_shipped_workloads_are_built_and_keep_their_digests() {
    let Some(()) = tare_testkit::needs::root() else { return };
    if !std::path::Path::new("/usr/bin/mmdebstrap").exists() {
        return println!("skipped: building bundles needs root and mmdebstrap");
    }
    for name in workloads() {
        let digests = built(&["--workload", &name]);
        assert!(!digests.is_empty() && digests.iter().all(|line| line.starts_with("sha256:")), "{name}: {digests:?}");
        assert_eq!(built(&["--workload", &name]), digests, "{name}: what is kept is found again");
    }
    // The engine for guests, which only the tests in guests that `TARE_THOROUGH` runs have need of.
    if std::env::var_os("TARE_THOROUGH").is_some() {
        assert_eq!(built(&["--packages", "docker.io", "iptables"]).len(), 1);
    }
}
