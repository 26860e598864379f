//! The page that starts runs, with a stand-in for the program that it starts.

use crate::browser::Site;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_serve::{OfferedForm, Weighing};

/// Does what Tare does with a study, as far as it is seen from here, and notes how it was called. A study with "wrong"
/// in it has a mistake, and a run of one with "dirty" is refused. Any other run goes on until there is a file `go`.
const STAND_IN: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
case "$1" in
doctor)
    echo 'a note' >&2
    echo '{"forms": [{"layer": "box", "words": "Boxes 1.2", "availability": {"ready": {}}},'
    echo '{"layer": "guest", "words": "", "availability": {"emulated": [{}, {"message": "it has no KVM"}]}}]}'
    ;;
check)
    if grep -q wrong "$2"; then
        echo "error: $2:2:1: unknown key 'wrong'" >&2
        echo "  to do: write <right>" >&2
        exit 2
    fi
    echo "$2: no mistakes"
    ;;
run)
    if [ "$3" = --dry-run ]; then
        echo "12 trials, about 3m"
    elif grep -q dirty "$2"; then
        echo "error: a dead run left <something>" >&2
        exit 1
    else
        echo "record: $4"
        mkdir "$4"
        echo '{}' > "$4/record.json"
        until [ -e "$here/go" ]; do sleep 0.02; done
        echo "the end"
    fi
    ;;
esac
"#;

const FORMS: [OfferedForm; 3] = [
    OfferedForm { name: "native", stack: "[]", layers: &[] },
    OfferedForm { name: "boxed", stack: "[box: {}]", layers: &["box"] },
    OfferedForm { name: "guest", stack: "[guest: {}]", layers: &["guest"] },
];

/// A machine with two workloads and one study.
struct Machine {
    folder: tempfile::TempDir,
    program: PathBuf,
    is_taken: AtomicBool,
}

impl Machine {
    fn new() -> Arc<Machine> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("stand-in");
        std::fs::write(&program, STAND_IN).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Arc::new(Machine { folder, program, is_taken: AtomicBool::new(false) })
    }

    /// How the program was called, a line each.
    fn calls(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default()
    }

    /// Has runs come to their ends.
    fn go(&self) {
        std::fs::write(self.folder.path().join("go"), "").unwrap();
    }

    fn site(self: &Arc<Machine>) -> Site {
        let machine = self.clone();
        Site::that(|_| {}, |server| server.allow_runs(machine).unwrap())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // A run that a failed test has started does not stay.
        self.go();
    }
}

impl Weighing for Machine {
    fn program(&self) -> &Path {
        &self.program
    }

    fn workloads(&self) -> Vec<String> {
        vec!["nginx".to_owned(), "redis".to_owned()]
    }

    fn forms(&self) -> &'static [OfferedForm] {
        &FORMS
    }

    fn studies(&self) -> Vec<String> {
        vec!["canonical".to_owned()]
    }

    fn study(&self, name: &str) -> Result<Option<String>, Fault> {
        Ok((name == "canonical").then(|| "study: canonical # <b>\n".to_owned()))
    }

    fn may_run(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn is_free(&self) -> Result<(), Fault> {
        let fault = || Fault::new("a run is in progress on this machine (process 7: tare run other)");
        if self.is_taken.load(Ordering::Relaxed) { Err(fault()) } else { Ok(()) }
    }
}

/// What a page says, with its slashes.
fn plain(page: &str) -> String {
    page.replace("&#x2f;", "/").replace("&#x27;", "'").replace("&lt;", "<").replace("&quot;", "\"")
}

fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_may_start_no_runs_has_no_such_page() {
    let site = Site::of(|_| {});
    assert_eq!(site.get("/new").status, 404);
    for form in ["do=start&name=a&text=study:+a", "do=check&text=a", "do=look", ""] {
        assert_eq!(site.post("/new", form).status, 404, "{form}");
    }
    assert!(!site.get("/").body.contains("New run"));
    assert_eq!(std::fs::read_dir(site.folder.path()).unwrap().filter(is_new).count(), 0);
}

/// Whether a file is one that the page writes.
fn is_new(entry: &std::io::Result<std::fs::DirEntry>) -> bool {
    let name = entry.as_ref().unwrap().file_name().into_string().unwrap();
    name.starts_with(".tare-new") || name.starts_with(".tare-run")
}

#[test]
fn the_page_offers_what_the_doctor_found() {
    let machine = Machine::new();
    let site = machine.site();
    site.lives("abcdef");
    let page = plain(&site.get("/new").body);
    assert!(
        page.contains("looks when it is opened while no run is in progress") && machine.calls().is_empty(),
        "{page}"
    );
    let site = machine.site();
    for _ in 0..2 {
        let page = plain(&site.get("/new").body);
        for wanted in [
            "aria-current=\"page\">New run</a>",
            "value=\"boxed\" checked> <span><b>boxed</b> <small>Boxes 1.2",
            "value=\"guest\"> <span><b>guest</b> <small>only EMULATED: it has no KVM",
            "<option selected>nginx</option>",
            "/new?study=canonical\">canonical</a>",
        ] {
            assert!(page.contains(wanted), "{wanted} is missing: {page}");
        }
    }
    assert_eq!(machine.calls(), "doctor --json --no-noise\n", "once is enough");
    let again = site.post("/new", "do=look");
    assert!(again.status == 303 && again.head.contains(&format!("location: /{}/new", site.key)), "{again:?}");
    site.get("/new");
    assert_eq!(machine.calls().lines().count(), 2);
    let page = site.get("/new?study=canonical").body;
    assert!(page.contains("study: canonical # &lt;b&gt;\n</textarea>"), "{page}");
    assert_eq!(site.get("/new?study=../canonical").status, 404);
    assert!(site.get("/").body.contains(&format!("<a href=\"/{}/new\">New run</a>", site.key)));
}

#[test]
fn a_study_is_made_and_checked_and_mistakes_are_shown_with_their_place() {
    let machine = Machine::new();
    let site = machine.site();
    let chosen = "do=make&name=mine&workload=redis&form=boxed&form=native&connections=4&repeat=3&minutes=2&ruler=2%25";
    let made = site.post("/new", chosen);
    let page = plain(&made.body);
    assert_eq!(made.status, 200, "{page}");
    for wanted in ["study: \"mine\"", "at_most: 2m", "  boxed: [box: {}]", ": no mistakes", "12 trials, about 3m"] {
        assert!(page.contains(wanted), "{wanted} is missing: {page}");
    }
    let draft = site.folder.path().canonicalize().unwrap().join(".tare-new.yaml");
    let text = std::fs::read_to_string(&draft).unwrap();
    assert!(text.starts_with("study: \"mine\"\nworkload: \"redis\"\nbaseline: native\n"), "{text}");
    let calls = format!("check {0}\nrun {0} --dry-run\n", draft.display());
    assert!(machine.calls().starts_with(&calls), "{}", machine.calls());
    let said = site.post("/new", "do=make&name=mine&workload=other&form=boxed&connections=4&repeat=3");
    assert!(said.status == 422 && said.body.contains("Choose one of the workloads."), "{said:?}");
    // The check and the start of what is wrong.
    for act in ["check", "start"] {
        let said = site.post("/new", &format!("do={act}&name=mine&text=study:+mine%0D%0Awrong:+%3Cb%3E"));
        let page = plain(&said.body);
        assert_eq!(said.status, 422, "{page}");
        assert!(page.contains(&format!("{}:2:1: unknown key 'wrong'\n", draft.display())), "{page}");
        assert!(page.contains("to do: write <right") && !page.contains("12 trials"), "{page}");
        assert!(said.body.contains("wrong: &lt;b&gt;</textarea>"), "{}", said.body);
    }
    assert_eq!(std::fs::read_to_string(&draft).unwrap(), "study: mine\nwrong: <b>\n");
    assert!(!machine.calls().contains("--out"), "{}", machine.calls());
}

#[test]
fn one_run_at_a_time_is_started_as_a_file_that_the_server_wrote() {
    let machine = Machine::new();
    let site = machine.site();
    let start = || site.post("/new", "do=start&name=mine&text=study:+mine");
    machine.is_taken.store(true, Ordering::Relaxed);
    let said = start();
    assert!(said.status == 409 && said.body.contains("process 7: tare run other"), "{said:?}");
    machine.is_taken.store(false, Ordering::Relaxed);
    let said = start();
    assert!(said.status == 303 && said.head.contains(&format!("location: /{}/now", site.key)), "{said:?}");
    let records = site.folder.path().canonicalize().unwrap();
    let study = records.join(".tare-run-mine.yaml");
    let call = format!("run {} --out {}\n", study.display(), records.join("mine").display());
    assert!(machine.calls().ends_with(&call), "{}", machine.calls());
    assert_eq!(std::fs::read_to_string(&study).unwrap(), "study: mine\n");
    let bits = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!([&study, &records.join(".tare-run-mine.log")].map(|path| bits(path)), [0o600; 2]);
    let said = start();
    assert!(said.status == 409 && plain(&said.body).contains("'mine' was started from here"), "{said:?}");
    assert!(!records.join(".tare-run-mine-2.yaml").exists());
    let page = plain(&site.get("/new").body);
    assert!(page.contains("<b>mine</b> was started from here (process ") && page.contains("record: /"), "{page}");
    machine.go();
    wait_for("the run never ends", || site.get("/new").body.contains("has ended (exit status: 0)"));
    assert_eq!(start().status, 303);
    assert!(records.join("mine-2").is_dir() && records.join(".tare-run-mine-2.log").is_file());
}

#[test]
fn a_run_goes_on_when_the_server_ends() {
    let machine = Machine::new();
    let mut site = machine.site();
    assert_eq!(site.post("/new", "do=start&name=mine&text=study:+mine").status, 303);
    let log = site.folder.path().join(".tare-run-mine.log");
    site.stop();
    machine.go();
    wait_for("the run has ended with the server", || std::fs::read_to_string(&log).unwrap().ends_with("the end\n"));
}

#[test]
fn a_run_that_is_refused_says_why_and_leaves_nothing() {
    let machine = Machine::new();
    let site = machine.site();
    let said = site.post("/new", "do=start&name=mine&text=study:+dirty");
    let page = plain(&said.body);
    assert!(said.status == 409 && page.contains("error: a dead run left <something"), "{page}");
    assert!(said.body.contains("&lt;something") && page.contains("exit status: 1"), "{}", said.body);
    let left: Vec<_> = std::fs::read_dir(site.folder.path()).unwrap().filter(is_new).collect();
    assert_eq!(left.len(), 1, "the study that was looked at last stays: {left:?}");
}

#[test]
fn nothing_but_names_and_texts_within_bounds_is_started_and_only_by_its_own_page() {
    let machine = Machine::new();
    let site = machine.site();
    let host = format!("Host: {}\r\n", site.address);
    let form = "do=start&name=mine&text=study:+mine";
    for lines in ["", "Origin: null\r\n", "Origin: http://evil.example\r\n"] {
        assert_eq!(site.post_with("/new", form, &format!("{host}{lines}")).status, 403, "{lines}");
    }
    assert!(machine.calls().is_empty(), "{}", machine.calls());
    for name in ["..%2Fmine", "%2Ftmp%2Fmine", ".mine", "--help", "a+b", "a%0Ab", ""] {
        let said = site.post("/new", &format!("do=start&name={name}&text=study:+mine"));
        assert!(said.status == 422 && said.body.contains("begins with a letter"), "{name}: {said:?}");
    }
    let long = "a".repeat((64 << 10) + 1);
    let said = site.post("/new", &format!("do=start&name=mine&text={long}"));
    assert!(said.status == 409 && said.body.contains("longer than 64 KiB"), "{}", said.status);
    assert!(!machine.calls().contains("--out"), "{}", machine.calls());
}
