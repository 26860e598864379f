//! The command line as a newcomer types it.

use assert_cmd::Command;
use std::path::{Path, PathBuf};
use tare_testkit::{files, needs};

pub(crate) fn tare() -> Command {
    let mut command = Command::cargo_bin("tare").unwrap();
    command.current_dir(root());
    command
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

pub(crate) fn said(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// What was said as one line, wherever it was wrapped.
pub(crate) fn one_line(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn flat(output: &std::process::Output) -> String {
    one_line(&said(output))
}

/// The exit code and output of `tare` in `folder`.
pub(crate) fn said_in(folder: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = tare().current_dir(folder).env_remove("SUDO_UID").args(args).output().unwrap();
    (output.status.code(), said(&output))
}

#[test]
fn every_shipped_study_and_workload_is_without_mistakes() {
    let names = |folder: &str| -> Vec<PathBuf> {
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    for path in names("studies").into_iter().chain(names("workloads")) {
        let output = tare().arg("check").arg(&path).output().unwrap();
        assert!(output.status.success(), "{}: {}", path.display(), said(&output));
    }
}

#[test]
fn a_dry_run_of_the_canonical_study_shows_the_plan_in_eighty_columns() {
    // Its own history: a run that ends meanwhile changes what is expected.
    let home = tempfile::tempdir().unwrap();
    let dry = || tare().env("TARE_HOME", home.path()).args(["run", "--dry-run", "--seed", "1"]).output().unwrap();
    let output = dry();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for wanted in
        ["block 6:", "native (A/A)", "load chopped into slices", "vm+container", "(baseline)", "Nothing was started"]
    {
        assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert_eq!(text, said(&dry()), "the same seed gives the same plan");
    let ladder = tare().args(["explain", "canonical", "--ruler", "1%", "--dry-run"]).output().unwrap();
    assert_eq!(ladder.status.code(), Some(2), "{}", said(&ladder));
    assert!(said(&ladder).contains("--ruler has no effect here"), "{}", said(&ladder));
    let blocks = tare().args(["run", "--dry-run", "--seed", "1", "--design", "blocks"]).output().unwrap();
    assert!(blocks.status.success() && said(&blocks).contains("design: blocks"), "{}", said(&blocks));
    let profiled = flat(&tare().args(["run", "canonical", "--profile", "--dry-run"]).output().unwrap());
    assert!(profiled.contains("5m at most, then 5 profiled trials, about "), "{profiled}");
}

/// Runs `args` with a fresh home, and checks that lines have at most 80 columns, except for single long words, such as
/// paths.
fn fits_into_eighty_columns(args: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let text = said(&tare().env("TARE_HOME", home.path()).args(args).output().unwrap());
    let wide = |line: &&str| line.chars().count() > 80 && line.trim().contains(' ');
    assert!(!text.is_empty(), "tare {args:?} says nothing");
    assert_eq!(text.lines().find(wide), None, "tare {args:?}:\n{text}");
}

#[test]
fn all_output_fits_into_eighty_columns() {
    let search: &[&str] = &["peak", "--dry-run", "--workload", "redis"];
    let load: &[&str] = &["load", "--protocol", "null", "--target", "127.0.0.1:1", "--for", "1s"];
    let refused: &[&str] = &["load", "--protocol", "redis", "--target", "127.0.0.1:1", "--for", "1s"];
    let said: &[&[&str]] = &[
        &["run", "--dry-run"],
        &["run", "network", "--dry-run"],
        &["run", "--dry-run", "--design", "blocks"],
        &["run", "--dry-run", "--design", "block"],
        &["run", "docker-on-vm", "--dry-run"],
        &["run", "docker-on-vm", "--preset", "quik"],
        &["run", "docker-on-vm", "--part", "linpak"],
        &["peak", "docker-on-vm"],
        &["run", "nothing-of-this-name"],
        &["run", "--dry-run", "--form", "nativ"],
        &["run", "peak", "--dry-run", "--measure", "10s"],
        &["peak", "peak", "--dry-run"],
        &["peak", "--dry-run", "canonical"],
        &["place", "--dry-run"],
        &["place", "--dry-run", "scheduler", "--form", "vm"],
        &["place", "scheduler", "--need", "mysqll=1", "--talk", "a:b=0.1", "--by", "p98", "--form", "a", "--part", "b"],
        &["place", "scheduler", "--talk", "mysql=0.1"],
        &["place", "scheduler", "--design", "chop"],
        &["explain", "canonical", "--ruler", "1%", "--dry-run"],
        &["place", "docker-on-vm"],
        &[search, &["--p99", "10ms"]].concat(),
        &[search, &["--p99", "10ms", "--of", "users", "--rules", "published"]].concat(),
        &[search, &["--p99", "10ms", "--start", "50", "--up-to", "20"]].concat(),
        &["check", "canonical", "network", "loopback", "peak", "redis-benchmark"],
        &["check", "nothing-of-this-name"],
        load,
        &[load, &["--rate", "2000"]].concat(),
        &["load", "--protocol", "nil", "--target", "127.0.0.1:1"],
        refused,
        &["bundle", "list"],
        &["bundle", "build", "--image"],
        &["gate", "--max-overhead", "5%"],
        &["gate", "--max-overhead", "5"],
        &["report", "/"],
        &["compare", "/"],
    ];
    said.iter().for_each(|args| fits_into_eighty_columns(args));
}

#[test]
fn help_fits_into_eighty_columns() {
    let verbs = "weigh init import run power peak place resume clean report compare \
                 gate history serve load scaling doctor lab check completions man";
    fits_into_eighty_columns(&["--help"]);
    verbs.split_whitespace().for_each(|verb| fits_into_eighty_columns(&[verb, "--help"]));
    ["build", "list", "show", "rm"].iter().for_each(|verb| fits_into_eighty_columns(&["bundle", verb, "--help"]));
    ["list", "check", "clean"].iter().for_each(|verb| fits_into_eighty_columns(&["lab", verb, "--help"]));
}

#[test]
fn mistakes_on_the_command_line_exit_with_two() {
    let wrong: &[&[&str]] = &[
        &["run", "--repeat", "0"],
        &["run", "--at-most", "soon"],
        &["run", "--wrong-flag"],
        &["run", "nothing-of-this-name"],
        &["run", "--dry-run", "--form", "nativ"],
        &["run", "--dry-run", "--measure", "1ms"],
        &["power", "nothing-of-this-name"],
        &["power", "--half-width", "0%"],
        &["power", "--half-width", "soon"],
        &["power", "--deployments", "1"],
        &["power", "--form", "nativ"],
        &["power", "--measure", "1ms"],
        &["power", "docker-on-vm"],
        &["power", "peak"],
        &["place", "--need", "redis=0"],
        &["place", "--talk", "redis=0.5"],
        &["place", "--talk", "a:b=2"],
        &["place", "--top", "0"],
        &["place", "--dry-run", "--need", "none=1"],
        &["place", "docker-on-vm"],
        &["place", "peak", "--dry-run", "--measure", "10s"],
        &["weigh"],
        &[],
        &["bundle", "build"],
        &["check"],
        &["check", "/"],
    ];
    for args in wrong {
        let output = tare().args(*args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", said(&output));
        assert!(!said(&output).contains("panicked"), "{args:?}: {}", said(&output));
    }
}

#[test]
fn what_cannot_be_weighed_is_refused_before_anything_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    files::write(&folder.path().join("stack/compose.yaml"), "services: {}\n");
    files::write(&folder.path().join("weigh-app/workload.yaml"), "workload: mine\n");
    files::write(&folder.path().join("fixed.js"), "export default function () { get('http://localhost') }\n");
    let wrong: &[(&[&str], &str)] = &[
        (&["weigh"], "to do: name an image"),
        (&["weigh", "--", "./server"], "./server cannot be started"),
        (&["weigh", "--", "wrk", "http://{address}/"], "looks like a load tool"),
        (&["weigh", "--command", "x", "--", "sh"], "there are two commands"),
        (&["weigh", "app", "--with", "x"], "--with adds files to a command"),
        (&["init", "app", "--redis", "--", "wrk"], "there are two loads"),
        (&["weigh", "./stack"], "stack/compose.yaml:1:1"),
        (&["weigh", "compose.yaml"], "there is no Compose file compose.yaml"),
        (&["weigh", "./stack", "--cpus", "2"], "write 'cpus:' at the service that is meant, in ./stack/compose.yaml"),
        (&["weigh", "my/app:1", "--service", "web"], "--service is for Compose files"),
        (&["weigh", "weigh-app/workload.yaml"], "is a study or a workload"),
        (&["weigh", "./missing.tar"], "cannot be weighed"),
        (&["init", "apt:redis-server"], "to do: --command"),
        (&["init", "my/app:1", "--name", "app"], "./weigh-app exists already"),
        (&["init", "app", "--http", "/", "--redis"], "cannot be used with"),
        (&["init", "app", "--number", "/rps"], "to do: add --tool COMMAND"),
        (&["init", "app", "--name", "A b"], "use a-z, 0-9 and -"),
        (&["weigh", "my app"], "not the name of an image"),
        (&["weigh", "app", "--memory", "1KiB", "--volume", "data"], "--memory 1KiB"),
        (&["weigh", "app", "--memory", "1KiB", "--volume", "data"], "--volume data"),
        (&["weigh", "app", "--user", "bob"], "--user 999:999"),
        (&["weigh", "app", "--k6", "none.js"], "none.js cannot be read"),
        (&["weigh", "app", "--k6", "fixed.js"], "__ENV.TARGET"),
        (&["weigh", "app", "--", "./bench", "{port}"], "add --number"),
    ];
    for (args, wanted) in wrong {
        let (code, text) = said_in(folder.path(), args);
        assert!(code == Some(2) && one_line(&text).contains(wanted), "{args:?}: {text}");
    }
}

#[test]
fn a_mistake_shared_by_two_files_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| files::write(&folder.path().join(name), text);
    let shipped = std::fs::read_to_string(root().join("workloads/memcached/workload.yaml")).unwrap();
    let workload = write("toy/workload.yaml", &(shipped + "colour: blue\n"));
    let study = |name: &str, more: &str| {
        write(name, &format!("study: s\nworkload: ./toy\nload: {{closed: {{}}}}\nforms: {{native: []}}\n{more}"))
    };
    let (first, second) = (study("first.yaml", ""), study("second.yaml", "smell: none\n"));
    let around = folder.path().join("toy/../toy");
    let output = tare().arg("check").args([&first, &second, &workload, &around]).output().unwrap();
    let text = flat(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!((text.matches("'colour'").count(), text.matches("'smell'").count()), (1, 1), "{text}");
    assert_eq!(text.matches("are listed above").count(), 2, "{text}");
}

#[test]
fn a_tool_inside_a_form_needs_one_and_cannot_be_guided() {
    let load = ["load", "--protocol", "exec", "--target", "127.0.0.1:9", "--option", "command=[wrk]"];
    let output = tare().args(load).args(["--option", "where=inside"]).output().unwrap();
    let text = flat(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("`tare load` deploys none") && text.contains("where: beside"), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| files::write(&folder.path().join(name), text);
    let shipped = std::fs::read_to_string(root().join("workloads/redis-benchmark/workload.yaml")).unwrap();
    let inside = shipped.replace("      within: 60s\n", "      within: 60s\n      where: inside\n");
    assert_ne!(inside, shipped);
    write("inner/workload.yaml", &inside.replace("workload: redis-benchmark", "workload: inner"));
    let study = |load: &str, more: &str| {
        let text = format!("study: s\nworkload: ./inner\nload: {load}\nforms: {{native: []}}\n{more}\n");
        let path = write("s.yaml", &text);
        let output = tare().args(["run", "--dry-run"]).arg(&path).output().unwrap();
        (output.status.code(), flat(&output))
    };
    let (code, text) = study("{closed: {}}", "");
    assert!(code == Some(0) && text.contains("from inside each form"), "{text}");
    let cases = [
        ("{closed: {}}", "from: outside", "runs inside the form"),
        ("{closed: {}}", "design: alternate", "added up over slices"),
        ("{steps: {of: {closed: {}}, levels: [1, 2]}}", "", "cannot follow levels"),
        ("{peak: {of: {closed: {}}}}", "qos: {\"*\": {p99: 10ms}}", "cannot follow levels"),
    ];
    for (load, more, wanted) in cases {
        let (code, text) = study(load, more);
        assert!(code == Some(2) && text.contains(wanted) && text.contains("s.yaml:"), "{load}: {text}");
    }
}

#[test]
fn a_study_for_a_bigger_machine_is_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("big.yaml");
    let text = std::fs::read_to_string(root().join("studies/canonical.yaml")).unwrap();
    let text = text.replace("design: chop", "design: blocks");
    for (resources, wanted) in [("{cpus: 4000}", "4000 CPUs"), ("{memory: 60TiB}", "60.0 TiB")] {
        std::fs::write(&study, format!("{text}\nresources: {resources}\n")).unwrap();
        let output = tare().args(["run", "--dry-run"]).arg(&study).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(flat(&output).contains(wanted), "{}", said(&output));
    }
    // All mistakes at once: a missing device, too many CPUs, guests without work, too much memory.
    let more = "resources: {memory: 60TiB, cpus: 4000}\nforms: {native: [], far: {layers: [], placement: {near: eth99}}, \
                guests: [vm: {guests: 3}]}";
    let (code, text) = dry("run", &format!("workload: redis\nload: {{closed: {{}}}}\n{more}"), &[]);
    assert_eq!(code, Some(2), "{text}");
    for wanted in [
        "'eth99', which is not a device here",
        "leave 'near' out",
        "'redis' asks for 4000 CPUs",
        "3 guests are asked for",
        "TiB of memory",
    ] {
        assert_eq!(text.matches(wanted).count(), 1, "{wanted}: {text}");
    }
}

/// The exit code of a dry run of `verb` on a study with these lines, and its output as one line.
fn dry(verb: &str, lines: &str, args: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let study = files::write(&folder.path().join("s.yaml"), &format!("study: s\n{lines}\n"));
    // With an empty history, so that earlier trials on this machine do not matter.
    let mut tare = tare();
    tare.env("TARE_HOME", folder.path().join("home")).args([verb, "--dry-run", "--seed", "1"]).arg(&study).args(args);
    let output = tare.output().unwrap();
    (output.status.code(), flat(&output))
}

const TWO: &str = "forms: {native: [], container: [container: {}]}";
const SHARED: &str = "forms: {native: [], bridged: [container: {}], shared: [container: {network: host}]}";

#[test]
fn conflicts_are_refused_with_their_place_or_flag() {
    let closed = "workload: redis\nload: {closed: {}}\nqos: {\"*\": {p99: 10ms}}";
    // This one always listens on the same port.
    let fixed = closed.replace("redis", "nginx");
    let steps = "workload: redis\nload: {steps: {of: {closed: {}}, levels: [1, 2]}}";
    let search = "workload: redis\nqos: {\"*\": {p99: 10ms}}\nload: {peak: {of: {open: {}}}}";
    let tool = "workload: redis-benchmark\nload: {closed: {}}";
    let steady = "time: {settle: {until: steady}}";
    let cases: &[(&str, String, &[&str], &[&str])] = &[
        ("peak", format!("{closed}\n{TWO}\ndesign: alternate"), &[], &["'design'", "searched in blocks"]),
        ("peak", format!("{closed}\n{TWO}\n{steady}"), &[], &["'time'", "warms up by itself"]),
        ("run", format!("{fixed}\n{SHARED}\ndesign: alternate"), &[], &["s.yaml:6:", "'shared'", "design: blocks"]),
        ("run", format!("{tool}\n{TWO}\ndesign: alternate"), &[], &["s.yaml:5:", "over slices"]),
        ("run", format!("{tool}\n{TWO}\n{steady}"), &[], &["s.yaml:5:", "single seconds"]),
        ("run", format!("{steps}\n{TWO}"), &["--measure", "10s"], &["--measure", "steps"]),
        ("run", format!("{search}\n{TWO}"), &["--settle", "1s"], &["--settle", "tare peak"]),
        ("run", format!("{closed}\n{TWO}\nuntil: {{half_width: 2%, blocks: 5}}"), &[], &["'blocks'", "'until'"]),
    ];
    for (verb, lines, args, wanted) in cases {
        let (code, text) = dry(verb, lines, args);
        assert_eq!(code, Some(2), "{lines} {args:?}: {text}");
        for wanted in *wanted {
            assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
        }
    }
    for (verb, lines, args) in [
        ("run", format!("{closed}\n{SHARED}"), &["--measure", "10s"][..]),
        ("run", format!("{steps}\n{TWO}"), &[]),
        ("run", format!("{closed}\n{TWO}\nuntil: {{half_width: 2%}}"), &["--repeat", "3"]),
        ("peak", format!("{closed}\n{TWO}"), &["--measure", "20s"]),
    ] {
        let (code, text) = dry(verb, &lines, args);
        assert_eq!(code, Some(0), "{lines} {args:?}: {text}");
    }
}

#[test]
fn a_dry_run_warns_of_a_time_too_short_for_intervals() {
    let study =
        format!("workload: redis\nload: {{closed: {{}}}}\ntime: {{settle: 1s, measure: 10s}}\ndesign: blocks\n{TWO}");
    // Three arms of 14 s each: a block takes 42 s.
    for (most, wanted) in [
        (
            "5s",
            Some(
                "1 of 5 blocks, which is run although it takes about 42 s; intervals need 3; about 2m 06s would suffice",
            ),
        ),
        // Three do not fit, not even with 2.5 s measured, a quarter of the requested time.
        ("50s", Some("1 of 5 blocks; intervals need 3")),
        // With 7 s measured they do.
        ("100s", None),
        ("130s", None),
        ("1h", None),
    ] {
        let (code, text) = dry("run", &study, &["--at-most", most]);
        assert_eq!(code, Some(0), "{text}");
        let text = text.replace('\n', " ");
        match wanted {
            Some(wanted) => assert!(text.contains("warning: ") && text.contains(wanted), "{text}"),
            None => assert!(!text.contains("warning"), "{text}"),
        }
        assert_eq!(text.contains("each trial measures 7 s instead of 10 s"), most == "100s", "{text}");
    }
    let (_, text) = dry("run", &study, &["--at-most", "100s", "--measure", "10s"]);
    assert!(text.contains("2 of 5 blocks; intervals need 3"), "what was typed is kept: {text}");
}

#[test]
fn the_options_of_a_search_derive_from_each_other() {
    let peak = |args: &[&str]| {
        let output = tare().args(["peak", "--dry-run", "--p99", "10ms"]).args(args).output().unwrap();
        (output.status.code(), flat(&output))
    };
    let alone = |more: &[&str]| peak(&[&["--workload", "redis"], more].concat());
    let (code, text) = alone(&["--up-to", "50", "--of", "open"]);
    assert!(code == Some(0) && text.contains("from 50 op/s up to 50"), "{text}");
    let (code, text) = alone(&["--start", "4", "--of", "closed"]);
    assert!(code == Some(0) && text.contains("container"), "{text}");
    let (code, text) = alone(&["--hint", "5", "--at-least", "10"]);
    assert!(code == Some(2) && text.contains("outside the search's range") && text.contains("--hint"), "{text}");
    let (code, text) = alone(&["--start", "50", "--up-to", "20"]);
    assert!(code == Some(2) && text.contains("50 first, 20 at most") && text.contains("--up-to"), "{text}");
    let (code, text) = peak(&["canonical", "--workload", "redis"]);
    assert!(code == Some(2) && text.contains("cannot be used with"), "{text}");
    let published = "workload: redis\nqos: {\"*\": {p99: 10ms}}\nload: {peak: {of: {open: {}}, rules: published}}";
    let (code, text) = dry("peak", &format!("{published}\n{TWO}"), &["--rules", "staircase"]);
    assert!(code == Some(0) && text.contains("48 windows of 15 s"), "{text}");
}

#[test]
fn a_dry_run_of_clean_lists_what_is_kept_and_removes_nothing() {
    let Some(()) = needs::root() else { return };
    let home = tempfile::tempdir().unwrap();
    let packed = files::write(&home.path().join("guest/0123.cpio"), "x");
    let output = tare().env("TARE_HOME", home.path()).args(["clean", "--dry-run", "--all"]).output().unwrap();
    assert!(flat(&output).contains("things that are not Tare's"), "it carries no mark: {}", said(&output));
    assert!(!flat(&output).contains("would remove initial"), "{}", said(&output));
    std::fs::write(home.path().join(".tare-home"), "").unwrap();
    let output = tare().env("TARE_HOME", home.path()).args(["clean", "--dry-run", "--all"]).output().unwrap();
    if said(&output).contains("is in progress") {
        println!("skipped: a run is in progress on this machine, and what is kept is its own");
        return;
    }
    let wanted = format!("would remove initial file system {}", packed.display());
    assert!(flat(&output).contains(&wanted), "{}", said(&output));
    let output = tare().env("TARE_HOME", home.path()).args(["clean", "--dry-run"]).output().unwrap();
    assert!(!flat(&output).contains(&wanted), "{}", said(&output));
    assert!(packed.exists());
}

#[test]
fn an_out_directory_that_cannot_be_written_is_found_before_anything_starts() {
    let output = tare().args(["run", "--out", "/proc/no/such"]).output().unwrap();
    // Without root the run is refused earlier, for that reason.
    let code = if rustix::process::geteuid().is_root() { 2 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{}", said(&output));
}

#[test]
fn a_path_that_is_no_record_is_refused() {
    let output = tare().args(["report", "/"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("no record.json"), "{}", said(&output));
}

#[test]
fn failing_to_print_is_an_error() {
    let output = std::process::Command::new("sh")
        .args(["-c", "\"$0\" check --schema study > /dev/full"])
        .arg(assert_cmd::cargo::cargo_bin("tare"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("could not print the result"), "{}", said(&output));
}

#[test]
fn place_reports_all_mistakes_at_once() {
    let args = ["place", "--need", "radis=1", "--talk", "redis:none=0.1", "--form", "nativ", "--by", "p98"];
    let output = tare().args(args).output().unwrap();
    let text = flat(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for wanted in ["'radis'", "'none'", "'nativ'", "'p98'", "there are: redis"] {
        assert!(text.contains(wanted), "{wanted} is missing in: {text}");
    }
}

/// For any machine: a study of two services, each of which may have a CPU of its own or not.
#[test]
fn a_dry_run_of_place_prints_ranking_and_settings_or_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let service = "{bundle: {packages: [dash]}, command: [/bin/sh], ready: {log: x}}";
    let load = "{service: a, protocol: {exec: {where: inside, parser: tare, command: [/bin/true]}}}";
    let workload = format!("workload: two\nservices: {{a: {service}, b: {service}}}\nload: {load}\n");
    files::write(&folder.path().join("two/workload.yaml"), &workload);
    let study = "study: s\nworkload: ./two\nload: {closed: {}}\nforms: {native: []}\n";
    let study = files::write(&folder.path().join("s.yaml"), study);
    let output = tare().args(["place", "--dry-run"]).arg(&study).output().unwrap();
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    if std::thread::available_parallelism().unwrap().get() == 1 {
        return assert!(text.contains("nothing to choose"), "{text}");
    }
    for wanted in
        ["lost", "* free", "* thread", "docker update --cpuset-cpus=0", "CPUAffinity=", "<vcpupin", "Kubernetes"]
    {
        assert!(text.contains(wanted), "{wanted} is missing in:\n{text}");
    }
    assert!(text.contains("Nothing was started"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let output = tare().args(["place", "--dry-run", "--json"]).arg(&study).output().unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["ranking"].as_array().unwrap().len() > 1, "{found:#}");
    assert_eq!((&found["contest"], &found["record"]), (&serde_json::Value::Null, &serde_json::Value::Null));
    assert!(found["settings"]["systemd"]["text"].as_str().unwrap().contains("[Service]"), "{found:#}");
}
