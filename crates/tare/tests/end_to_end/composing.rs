//! From a Compose file to its table, in one command; and whole stacks in every form.

use crate::end_to_end::lab::{Lab, flat, text};
use std::path::{Path, PathBuf};
use std::process::Command;
use tare_core::trial::Outcome;

/// A page that asks Redis.
const APP: &str = r#"
import os, socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

host, port = os.environ["CACHE"].split(":")

class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with socket.create_connection((host, int(port))) as cache:
            cache.sendall(b"INCR visits\r\n")
            body = b"visits " + cache.recv(100)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

print(os.environ["MARK"], flush=True)
ThreadingHTTPServer(("0.0.0.0", 8000), Page).serve_forever()
"#;

const DOCKERFILE: &str = "\
FROM BASE AS app
ARG MARK=none
ENV MARK=$MARK
COPY app.py /srv/app.py
EXPOSE 8000 9000
CMD [\"python3\", \"/srv/app.py\"]
FROM app AS other
COPY not-there /
";

const COMPOSE: &str = "\
name: NAME
services:
  web:
    build: {context: ., dockerfile: Page.Dockerfile, target: app, args: {MARK: built-by-compose}}
    ports: ['8080:8000']
    environment: {CACHE: 'cache:6379'}
    depends_on: [cache]
    cap_add: [SYS_NICE]
  cache:
    image: BASE
    command: [redis-server, --bind, 0.0.0.0, --protected-mode, 'no', --save, '']
    expose: ['6379']
";

/// Images of the engine that go with the value.
struct Images(Vec<String>);

impl Images {
    /// Has the engine import a tree of packages, which is kept beside the built program under the name `kept`.
    fn import(&mut self, image: &str, kept: &str, options: &str, packages: &str) {
        let tree = Path::new(env!("CARGO_TARGET_TMPDIR")).join(kept);
        let script = "codename=$(. /etc/os-release; echo $VERSION_CODENAME)\n\
                      [ -e \"$1\" ] || { \
                        mmdebstrap --quiet $3 --include=\"$4\" \"$codename\" - > \"$1.part\"; mv \"$1.part\" \"$1\"; }\n\
                      docker import --change 'ENV PATH=/usr/bin:/usr/sbin:/bin:/sbin' \"$1\" \"$2\"";
        let path = "/usr/sbin:/usr/bin:/sbin:/bin";
        let mut command = Command::new("sh");
        command.args(["-ec", script, "sh", text(&tree), image, options, packages]).env("PATH", path);
        let made = command.output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        self.0.push(image.to_owned());
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        // What was built of an image goes before it.
        for name in self.0.iter().rev() {
            let _ = Command::new("docker").args(["rmi", "-f", name]).output();
        }
    }
}

#[test]
fn a_compose_file_is_weighed_by_its_name_and_again_by_its_folder() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker"]) else { return };
    let mut images = Images(Vec::new());
    let name = format!("tare-composing-{}", std::process::id());
    let base = format!("{name}/base:1");
    images.import(&base, "composing-small.tar", "--variant=extract", "redis-server,python3,dash,coreutils");
    images.0.push(format!("{name}-web"));
    lab.write("stack/app.py", APP);
    lab.write("stack/Page.Dockerfile", DOCKERFILE.replace("BASE", &base));
    let file = lab.write("stack/compose.yaml", COMPOSE.replace("BASE", &base).replace("NAME", &name));
    let out = lab.path("weigh-stack");
    // Half a minute of measuring shows no more of what is found out than the folder does.
    let thorough = std::env::var_os("TARE_THOROUGH").is_some();
    let verb = if thorough { "weigh" } else { "init" };
    let said = flat(&lab.expect(0, &[verb, text(&file), "--at-most", "12s", "--out", text(&out)]));
    lab.expect_clean();
    let wanted = [
        "services.web.cap_add:".to_owned(),
        format!("image {name}-web of service web: built by the engine"),
        "port 8000: the Compose file names it (--port)".to_owned(),
        "load GET /: port 8000 speaks HTTP (".to_owned(),
        " connections".to_owned(),
    ];
    for wanted in wanted {
        assert!(said.contains(&wanted), "'{wanted}' is not there: {said}");
    }
    let forms = if thorough { &["native", "container", "container-hostnet"][..] } else { &[] };
    assert!(forms.iter().all(|form| said.contains(form)), "{said}");
    let workload = std::fs::read_to_string(out.join("workload.yaml")).unwrap();
    assert!(workload.contains("${{addresses.cache.6379}}") && workload.contains("service: web"), "{workload}");
    let again = flat(&lab.expect(0, &["init", text(&file), "--at-most", "12s", "--out", text(&out)]));
    assert!(again.contains("exists already, made by this command"), "{again}");
    assert!(!again.contains("has changed since") && !again.contains("weighed as it is now"), "{again}");
    // What has changed since is told, and the folder is taken nevertheless.
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + "# edited\n").unwrap();
    lab.write("stack/app.py", format!("{APP}# edited\n"));
    let told = flat(&lab.expect(0, &["init", text(&file), "--at-most", "12s", "--out", text(&out)]));
    for wanted in ["compose.yaml has changed since", "is weighed as it is now", "or name another: --out DIR"] {
        assert!(told.contains(wanted), "'{wanted}' is not there: {told}");
    }
    lab.expect(0, &["check", text(&out)]);
    let planned = flat(&lab.expect(0, &["run", text(&out), "--dry-run"]));
    assert!(planned.contains("container-hostnet") && planned.contains("Nothing was started"), "{planned}");
}

#[test]
fn what_keeps_a_compose_file_from_running_is_told_before_anything_starts() {
    let Some(lab) = Lab::open(&[]) else { return };
    let text_of = "services:\n  web:\n    build: ./none\n    ports: ['80']\n    gpus: all\n";
    let (file, out) = (lab.write("stack/compose.yaml", text_of), lab.path("out"));
    let said = flat(&lab.expect(2, &["weigh", text(&file), "--out", text(&out)]));
    assert!(said.contains("compose.yaml:5:5") && said.contains("'services.web.gpus' keeps it from running"), "{said}");
    let said = flat(&lab.expect(2, &["weigh", text(&file), "--cpus", "2", "--out", text(&out)]));
    assert!(said.contains("write 'cpus:' at the service that is meant"), "{said}");
    let said = flat(&lab.expect(2, &["weigh", "my/app:1", "--service", "web", "--out", text(&out)]));
    assert!(said.contains("--service is for Compose files"), "{said}");
    assert!(!out.exists() && !said.contains("building"), "{said}");
}

/// What all images of the stacks are built from.
const BASE: &str = "local/debian:test";
const PACKAGES: &str = "apache2,libapache2-mod-php,mariadb-server,nginx,php-mysql,postgresql,python3,\
                        python3-psycopg2,redis-server";

/// How they are installed: without what only people read, for each of the images is hashed with all of it.
const WITHOUT_DOCUMENTS: &str = "--variant=minbase --dpkgopt=path-exclude=/usr/share/doc/* \
                                 --dpkgopt=path-exclude=/usr/share/locale/* --dpkgopt=path-exclude=/usr/share/man/*";

/// A stack with the services whose images are built, and the services that it deploys.
const STACKS: [(&str, &[&str], usize); 3] =
    [("vote", &["web", "worker", "db"], 4), ("blog", &["db", "web"], 2), ("shop", &["proxy", "app", "db"], 3)];

fn folder(stack: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stacks").join(stack)
}

#[test]
fn whole_stacks_run_in_every_form() {
    let Some(lab) = Lab::with_engine(&["mmdebstrap", "docker", "qemu-system-x86_64"]) else { return };
    let mut images = Images(Vec::new());
    images.import(BASE, "composing-stacks-small.tar", WITHOUT_DOCUMENTS, PACKAGES);
    for (stack, built, count) in STACKS {
        images.0.extend(built.iter().map(|service| format!("tare-{stack}-{service}")));
        let out = lab.path(stack);
        let said = lab.expect(0, &["init", text(&folder(stack)), "--connections", "2", "--out", text(&out)]);
        lab.expect_clean();
        assert!(flat(&said).contains("port 80: the Compose file names it"), "{stack}: {said}");
        let study = format!(
            "study: {stack}\nworkload: ./{stack}\nload: {{closed: {{connections: 2}}}}\nrepeat: 1\ndesign: blocks\n\
             time: {{settle: 200ms, measure: 1s}}\n\
             forms: {{native: [], container: [container], vm: [vm], vm+container: [vm, container]}}\n"
        );
        let study = lab.write(&format!("{stack}-study.yaml"), study);
        let record = lab.path(&format!("{stack}-record"));
        lab.expect(0, &["run", text(&study), "--out", text(&record)]);
        lab.expect_clean();
        let record = lab.record(&record);
        assert_eq!(record.header.workload.services.len(), count, "{stack}");
        // Each form, and the baseline once more.
        assert_eq!((record.trials.len(), record.header.plan.len()), (5, 5), "{stack}");
        for trial in record.trials.iter().map(|trial| &trial.record) {
            assert_eq!(trial.outcome, Outcome::Measured, "{stack}: {}", trial.trial.arm());
            assert!(trial.load.as_ref().unwrap().failures.is_empty(), "{stack}: {}", trial.trial.arm());
        }
    }
}
