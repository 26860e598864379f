//! Images of twenty makes, each built by the engine from a folder of `tests/images`, run alike in each form.

use crate::end_to_end::lab::{Lab, flat, text};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tare_core::trial::Outcome;

/// A page with a word in it.
const HELLO: &str = "{http: {requests: [{path: /, contains: hello}]}}";
/// A row with a word in it, as the user that the images of databases make.
const ROW: &str = "{user: shop, password: secret, database: shop, \
                   operations: {read: {script: [{sql: SELECT word FROM words, expect: {rows: 1}}]}}}";
const REDIS: &str = "{redis: {mix: {get: 1, set: 1}, keys: 100, value_bytes: 8, populate: all, verify: true}}";
const MEMCACHED: &str = r#"{tcp: {populate: [{request: "set tare 0 0 5\r\nhello\r\n", reply: {until: "STORED\r\n"}}],
                            request: "get tare\r\n", reply: {until: "END\r\n"}, expect: hello}}"#;

/// What images are made from: Debian packages, all configured, with their users.
struct Base {
    name: &'static str,
    packages: &'static str,
    /// The images made from it, with their loads.
    images: &'static [(&'static str, &'static str)],
}

const SERVERS: Base = Base {
    name: "servers",
    packages: "busybox-static,dumb-init,gosu,haproxy,lighttpd,memcached,nginx-light,redis-server,runit,tini",
    images: &[
        ("busybox-alone", HELLO),
        ("busybox-script", HELLO),
        ("nginx-entry", HELLO),
        ("nginx-unprivileged", HELLO),
        ("redis-entry", REDIS),
        ("memcached-user", MEMCACHED),
        ("lighttpd-tini", HELLO),
        ("haproxy-dumb-init", HELLO),
        ("runit-two", HELLO),
    ],
};

/// By how much they need beside each other: each image is taken apart and hashed with all that it was made from.
const SCRIPTS: Base = Base {
    name: "scripts",
    packages: "busybox-static,perl,python3,ruby,ruby-webrick",
    images: &[
        ("python-user", HELLO),
        ("python-interpreter", HELLO),
        ("ruby-shell", HELLO),
        ("perl-socket", HELLO),
        ("set-user-id", HELLO),
    ],
};

const PHP: Base = Base {
    name: "php",
    packages: "apache2,php-cli,php-fpm",
    images: &[("php-built-in", HELLO), ("php-fpm-apache", HELLO)],
};

const NODE: Base = Base { name: "node", packages: "nodejs", images: &[("node-numbers", HELLO)] };

const JAVA: Base = Base { name: "java", packages: "openjdk-17-jdk-headless", images: &[("java-http", HELLO)] };

const DATABASES: Base = Base {
    name: "databases",
    packages: "gosu,mariadb-server,postgresql",
    images: &[("postgres-entry", ""), ("mariadb-entry", "")],
};

/// Folders of the base that no program of it reads.
const UNREAD: [&str; 4] = ["doc", "info", "locale", "man"];

/// Everything that the engine has of this test; it goes with the value.
struct Made {
    names: Vec<String>,
}

impl Made {
    /// Imports the tree of a base, which is kept beside the built program. What only people read is left out of it.
    fn base(base: &Base) -> Made {
        let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("made-{}.tar", base.name));
        if !tree.exists() {
            let part = tree.with_extension("part");
            let mut make = Command::new("mmdebstrap");
            make.args(["--quiet", "--variant=minbase", "--include", base.packages, "--format=tar"]);
            make.args(UNREAD.map(|folder| format!("--dpkgopt=path-exclude=/usr/share/{folder}/*")));
            succeeds(&make.arg("bookworm").arg(&part).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().unwrap());
            std::fs::rename(&part, &tree).unwrap();
        }
        let name = format!("tare-makes/{}:e2e-{}", base.name, std::process::id());
        succeeds(&Command::new("docker").args(["import", text(&tree), name.as_str()]).output().unwrap());
        Made { names: vec![name] }
    }

    /// Has the engine build an image from a folder; its name.
    fn build(&mut self, name: &str) -> String {
        let tag = format!("tare-makes/{name}:e2e-{}", std::process::id());
        let from = format!("BASE={}", self.names[0]);
        let folder = folder(name);
        let mut build = Command::new("docker");
        build.args(["build", "--quiet", "--network=none", "--build-arg", &from, "--tag", &tag, text(&folder)]);
        succeeds(&build.output().unwrap());
        self.names.push(tag.clone());
        tag
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for name in self.names.iter().rev() {
            let _ = Command::new("docker").args(["rmi", "--force", name]).output();
        }
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/images").join(name)
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The workload of an image: what whoever has it would write.
fn workload(image: &str, load: &str) -> String {
    let load = match image {
        _ if image.contains("/postgres-") => format!("{{postgres: {ROW}}}"),
        _ if image.contains("/mariadb-") => format!("{{mysql: {ROW}}}"),
        _ => load.to_owned(),
    };
    format!(
        "workload: made\n\
         services: {{app: {{bundle: {{image: \"docker-daemon:{image}\"}}, as_image: true, \
         resources: {{cpus: 1, memory: 512MiB}}}}}}\n\
         load: {{protocol: {load}}}\n"
    )
}

/// Runs every image of a base in these forms, and reports all that do not run alike.
fn run_alike(base: &Base, forms: &str) {
    let Some(lab) = Lab::with_engine(&["docker", "mmdebstrap"]) else { return };
    let mut made = Made::base(base);
    let mut wrong = Vec::new();
    for (name, load) in base.images {
        let image = made.build(name);
        lab.write(&format!("{name}/workload.yaml"), workload(&image, load));
        let study = format!(
            "study: made\nworkload: ./{name}\nload: {{closed: {{connections: 2}}}}\nrepeat: 1\ndesign: blocks\n\
             time: {{settle: 200ms, measure: 1s}}\nforms: {forms}\n"
        );
        let (study, out) = (lab.write(&format!("{name}.yaml"), study), lab.path(&format!("record-{name}")));
        let output = lab.tare(&["run", text(&study), "--out", text(&out)]);
        let said = flat(&crate::end_to_end::lab::said(&output));
        if output.status.code() != Some(0) {
            wrong.push(format!("{name}: {said}"));
            continue;
        }
        for trial in lab.record(&out).trials.iter().map(|trial| &trial.record) {
            let failures = trial.load.as_ref().map(|load| load.failures.clone());
            if trial.outcome != Outcome::Measured || failures.is_none_or(|failures| !failures.is_empty()) {
                wrong.push(format!("{name}, {}: {:?}\n{said}", trial.trial.arm(), trial.outcome));
            }
        }
    }
    lab.expect_clean();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

const HERE: &str = "{native: [], container: [container], hostnet: [container: {network: host}]}";
const GUESTS: &str = r#"{native: [], vm: [vm], "vm+container": [vm, container]}"#;

#[test]
fn servers_run_alike_in_the_forms() {
    run_alike(&SERVERS, HERE);
}

#[test]
fn programs_of_six_languages_run_alike_in_the_forms() {
    [SCRIPTS, PHP, NODE].iter().for_each(|base| run_alike(base, HERE));
}

#[test]
fn a_program_in_a_virtual_machine_of_its_own_runs_alike_in_the_forms() {
    run_alike(&JAVA, HERE);
}

#[test]
fn databases_run_alike_in_the_forms() {
    run_alike(&DATABASES, HERE);
}

#[test]
fn images_run_alike_in_guests() {
    let few = |base: &Base, images: &'static [(&'static str, &'static str)]| Base { images, ..*base };
    run_alike(&few(&SERVERS, &[("redis-entry", REDIS), ("nginx-entry", HELLO)]), GUESTS);
    run_alike(&few(&DATABASES, &[("postgres-entry", "")]), GUESTS);
}
