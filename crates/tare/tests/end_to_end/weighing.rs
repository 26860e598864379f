//! From the name of an image to its table, in one command.

use crate::end_to_end::lab::{Lab, flat, said, text};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// A Redis that keeps nothing, as whoever makes an image would have it: a port, a volume, and a program by its name.
const CHANGES: &[&str] = &[
    "ENV PATH=/usr/local/bin:/usr/bin:/bin",
    "EXPOSE 6379/tcp",
    "VOLUME /data",
    "WORKDIR /data",
    "ENTRYPOINT [\"redis-server\"]",
    "CMD [\"--bind\", \"0.0.0.0\", \"--protected-mode\", \"no\", \"--save\", \"\"]",
];

/// An image of the engine that goes with the value.
struct Image(String);

impl Image {
    /// Has the engine import a tree of packages under a name that no run here has seen. The tree is kept beside the
    /// built program.
    fn import(name: &str, changes: &[&str]) -> Image {
        let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weighing-redis.tar");
        let image = Image(format!("tare-weighing/{name}:e2e-{}", std::process::id()));
        shell(
            "[ -e \"$1\" ] || { \
               mmdebstrap --quiet --variant=extract --include=redis-server,dash,coreutils \"$2\" - > \"$1.part\"; \
               mv \"$1.part\" \"$1\"; }",
            &[text(&tree), codename().as_str()],
        );
        let mut import = Command::new("docker");
        import.arg("import");
        for change in changes {
            import.args(["--change", *change]);
        }
        let made = import.args([text(&tree), image.0.as_str()]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        image
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let _ = Command::new("docker").args(["rmi", self.0.as_str()]).output();
    }
}

fn shell(script: &str, arguments: &[&str]) {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let made = Command::new("sh").args(["-ec", script, "sh"]).args(arguments).env("PATH", path).output().unwrap();
    assert!(made.status.success(), "{script}: {}", String::from_utf8_lossy(&made.stderr));
}

fn codename() -> String {
    let release = std::fs::read_to_string("/etc/os-release").unwrap();
    let line = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap();
    line.trim_matches('"').to_owned()
}

#[test]
fn an_image_is_weighed_by_its_name_and_again_by_its_folder() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    let image = Image::import("redis", CHANGES);
    let out = lab.path("weigh-redis");
    // Half a minute of measuring shows no more of what is found out than the folder does.
    let thorough = std::env::var_os("TARE_THOROUGH").is_some();
    let verb = if thorough { "weigh" } else { "init" };
    let typed = [verb, image.0.as_str(), "--at-most", "12s", "--out", text(&out)];
    let said = flat(&lab.expect(0, &typed));
    lab.expect_clean();
    assert!(said.contains("port 6379: the image exposes it (--port)"), "{said}");
    assert!(said.contains("load GET and SET: port 6379 speaks Redis ("), "{said}");
    assert!(said.contains("it takes its port by --port, so forms stand side by side"), "{said}");
    assert!(said.contains(" connections") && said.contains("(--connections)"), "{said}");
    let forms = if thorough { &["native", "container", "container-hostnet"][..] } else { &[] };
    assert!(forms.iter().all(|form| said.contains(form)), "{said}");
    let next = if thorough { "to repeat it" } else { "to run it" };
    assert!(said.contains(&format!("{next}: tare run {}", text(&out))), "{said}");
    let workload = std::fs::read_to_string(out.join("workload.yaml")).unwrap();
    assert!(workload.contains(&format!("bundle: {{image: \"docker-daemon:{}\"}}", image.0)), "{workload}");
    // The same command takes the folder as it is; another one does not write over it.
    let again = flat(&lab.expect(0, &["init", image.0.as_str(), "--at-most", "12s", "--out", text(&out)]));
    assert!(again.contains("exists already, made by this command"), "{again}");
    let refused = flat(&lab.expect(2, &["init", image.0.as_str(), "--port", "6379", "--out", text(&out)]));
    assert!(refused.contains("--out DIR"), "{refused}");
    assert_eq!(std::fs::read_to_string(out.join("workload.yaml")).unwrap(), workload);
    lab.expect(0, &["check", text(&out)]);
    let planned = flat(&lab.expect(0, &["run", text(&out), "--dry-run"]));
    assert!(planned.contains("container-hostnet") && planned.contains("Nothing was started"), "{planned}");
}

/// Serves the files of the folder that it starts in. It keeps connections, and prints nothing.
const SERVER: &str = "\
import http.server, sys
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(('', int(sys.argv[1])), Handler).serve_forever()
";

#[test]
fn a_command_of_this_machine_is_weighed_with_the_files_that_it_uses() {
    let Some(lab) = Lab::with_engine(&["python3"]) else { return };
    // In every form /tmp is empty.
    let app = tempfile::tempdir_in("/var/tmp").unwrap();
    // It is never started as root.
    std::fs::set_permissions(app.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(app.path().join("page.html"), "a page\n").unwrap();
    std::fs::write(app.path().join("server.py"), SERVER).unwrap();
    let out = lab.path("weigh-server");
    let server = ["--", "/usr/bin/python3", "server.py", "{port}"];
    let options = ["init", "--http", "/page.html", "--connections", "4", "--at-most", "8s", "--out", text(&out)];
    let typed = [&options[..], &server].concat();
    let make = || {
        let output = lab.command(&typed).current_dir(app.path()).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        flat(&said)
    };
    let told = make();
    lab.expect_clean();
    assert!(told.contains("files of this machine"), "{told}");
    assert!(told.contains("it takes its port by {port}, so forms stand side by side"), "{told}");
    let root = out.join("root");
    let copied = root.join(app.path().canonicalize().unwrap().strip_prefix("/").unwrap()).join("page.html");
    assert_eq!(std::fs::read_to_string(copied).unwrap(), "a page\n");
    let list = std::fs::read_to_string(out.join("files.txt")).unwrap();
    assert!(list.contains("/http/server.py\n") && list.contains("page.html\n"), "{list}");
    assert!(!root.join("proc").exists() && !root.join("etc/shadow").exists());
    let workload = std::fs::read_to_string(out.join("workload.yaml")).unwrap();
    for line in ["workload: server\n", "bundle: {folder: \"root\"}\n", "\"server.py\", \"${{port.main}}\"]\n"] {
        assert!(workload.contains(line), "{line}: {workload}");
    }
    // The same command takes the folder as it is, and the study has what was copied, whatever becomes of the page.
    std::fs::write(app.path().join("server.py"), SERVER).unwrap();
    let again = make();
    assert!(again.contains("exists already, made by this command"), "{again}");
    assert!(!again.contains("has changed since"), "it is the same as before: {again}");
    std::fs::write(app.path().join("server.py"), format!("{SERVER}# edited\n")).unwrap();
    let told = make();
    assert!(told.contains("server.py has changed since") && told.contains("--out DIR"), "{told}");
    if std::env::var_os("TARE_THOROUGH").is_none() {
        // Eight seconds of measuring, after as many to start: crates' tests hold what folders as bundles are.
        return;
    }
    std::fs::remove_file(app.path().join("page.html")).unwrap();
    let record = lab.path("record");
    let run = ["run", text(&out), "--form", "native", "--form", "container", "--out", text(&record)];
    let ran = flat(&lab.expect(0, &run));
    lab.expect_clean();
    assert!(ran.contains("native") && ran.contains("container"), "{ran}");
}

#[test]
fn a_command_that_does_not_serve_is_said_with_what_to_do() {
    let Some(lab) = Lab::open(&[]) else { return };
    let out = lab.path("out");
    let refuse_in = |here: &Path, code: i32, words: &[&str], wanted: &str| {
        let typed = [&["weigh", "--out", text(&out), "--"][..], words].concat();
        let output = lab.command(&typed).env_remove("SUDO_UID").current_dir(here).output().unwrap();
        let said = flat(&said(&output));
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains(wanted), "{words:?}: '{wanted}' is not there: {said}");
        lab.expect_clean();
        assert!(!out.exists(), "{words:?}: nothing is left");
    };
    // Everybody reaches that.
    let refuse = |code: i32, words: &[&str], wanted: &str| refuse_in(Path::new("/"), code, words, wanted);
    refuse(2, &["./none-such", "{port}"], "cannot be started");
    refuse(2, &["none-such"], "in no folder of PATH");
    refuse(2, &["wrk", "http://{address}/"], "nothing to weigh was named before --");
    refuse(1, &["sh", "-c", "echo no key was given; exit 3"], "no key was given");
    let closed = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(closed.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    refuse_in(closed.path(), 2, &["sleep", "600"], "move it below /srv or /opt");
}

/// An image with these `changes` is refused with this exit code and these words, and nothing of it is left.
fn refuse(lab: &Lab, code: i32, name: &str, changes: &[&str], wanted: &str) {
    let (image, out) = (Image::import(name, changes), lab.path("out"));
    let said = flat(&lab.expect(code, &["weigh", image.0.as_str(), "--out", text(&out)]));
    assert!(said.contains(wanted), "{name}: '{wanted}' is not there: {said}");
    lab.expect_clean();
    assert!(!out.exists(), "{name}: nothing is left");
}

/// With the load tool of Debian's redis-tools.
#[test]
fn a_tool_is_tried_before_forms_are_measured() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker", "redis-benchmark"]) else { return };
    let (image, out) = (Image::import("tooled", CHANGES), lab.path("weigh-tooled"));
    let tool = "redis-benchmark -h {host} -p {port} -c {connections} -t set -n 20000";
    let csv = format!("{tool} --csv");
    let typed = ["init", image.0.as_str(), "--connections", "8", "--out", text(&out)];
    let refused = flat(&lab.expect(2, &[&typed[..], &["--tool", csv.as_str()]].concat()));
    assert!(refused.contains("neither a throughput") && refused.contains("--number PATTERN"), "{refused}");
    assert!(!out.exists(), "nothing is left");
    let said = flat(&lab.expect(0, &[&typed[..], &["--tool", tool]].concat()));
    lab.expect_clean();
    assert!(said.contains("the load made ") && said.contains(" op/s, p50 "), "{said}");
    let workload = std::fs::read_to_string(out.join("workload.yaml")).unwrap();
    assert!(workload.contains("\"${host}\", \"-p\", \"${port}\""), "{workload}");
}

const PATH: &str = "ENV PATH=/usr/bin:/bin";

#[test]
fn an_image_that_listens_nowhere_is_given_up_after_a_while() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    let changes = &[PATH, "EXPOSE 80", "CMD [\"sleep\", \"600\"]"];
    refuse(&lab, 1, "deaf", changes, "listens at no TCP port");
}

#[test]
fn what_cannot_be_weighed_is_said_with_what_to_do() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    let out = lab.path("out");
    refuse(&lab, 2, "silent", &[], "neither ENTRYPOINT nor CMD");
    let script = "CMD [\"dash\", \"-c\", \"echo you must set APP_SECRET; exit 3\"]";
    refuse(&lab, 1, "ends", &[PATH, "EXPOSE 80", script], "--env APP_SECRET=VALUE");
    let said = flat(&lab.expect(2, &["weigh", "tare-weighing/none-such:1", "--out", text(&out)]));
    assert!(said.contains("none-such") && said.contains("docker://"), "{said}");
}
