//! Mistakes, and texts that are no Compose files at all.

use crate::lab::{Memory, imported, notes, of_text, read};
use proptest::prelude::*;
use std::path::PathBuf;
use tare_core::workload::Readiness;

#[test]
fn every_mistake_is_told_at_once_with_its_place_and_what_is_spelled_like_it() {
    let text = "services:\n  web:\n    imgae: a\n    image: shop/web\n    ports: [eighty]\n    depends_on: [bd]\n    \
                healthcheck: {tset: a}\n    volumes: [data:/data]\n    environment: ['A=${NO:?set it}']\n  db: {image: \
                postgres}\nvolume: {}\n";
    let told = of_text(text).unwrap_err().join("\n");
    let wanted = [
        "compose.yaml:3:5",
        "did you mean 'image'?",
        "compose.yaml:5:13",
        "'eighty' is no port",
        "compose.yaml:6:18",
        "did you mean 'db'?",
        "did you mean 'test'?",
        "there is no volume 'data'",
        "the variable 'NO' is not set, or empty: set it",
        "compose.yaml:11:1",
        "did you mean 'volumes'?",
    ];
    for wanted in wanted {
        assert!(told.contains(wanted), "{wanted}:\n{told}");
    }
}

#[test]
fn what_cannot_be_deployed_is_a_mistake() {
    let cases = [
        ("services: {}\n", "there is no service to deploy"),
        ("services: {a: {}}\n", "neither 'image' nor 'build'"),
        ("services: [a]\n", "must be a map"),
        ("services: {a: {image: x, depends_on: [b]}, b: {image: x, depends_on: [a]}}\n", "wait for each other"),
        ("services: {a: {extends: a}}\n", "extends others too deeply"),
        ("services: {a: {extends: {file: no.yaml, service: a}}}\n", "cannot read c/no.yaml"),
        ("include: [compose.yaml]\nservices: {a: {image: x}}\n", "include each other"),
        ("services: {a: {image: x, command: 'sh -c \"a'}}\n", "quote is not closed"),
        ("services: {a: {image: x, entrypoint: []}}\n", "nothing is left to start"),
        ("services: {a: {image: x, mem_limit: lots}}\n", "is not a size"),
        ("services: {a: {image: x, env_file: no.env}}\n", "cannot read c/no.env"),
        ("services: {a: {image: x, working_dir: here}}\n", "absolute path"),
    ];
    for (text, wanted) in cases {
        let told = of_text(text).unwrap_err().join("\n");
        assert!(told.contains(wanted) && told.contains("c/compose.yaml:"), "{text}: {told}");
    }
}

#[test]
fn files_that_include_each_other_are_refused_at_once() {
    let file = |name: &str, text: &str| (PathBuf::from(name), text.as_bytes().to_vec());
    let cycle = [
        file("c/compose.yaml", "include: [a.yaml]\nservices: {x: {image: x}}\n"),
        file("c/a.yaml", "include: [b.yaml]\n"),
        file("c/b.yaml", "include: [a.yaml]\n"),
    ];
    let told = imported(&Memory(cycle.into()), "c/compose.yaml", &[]).unwrap_err().join("\n");
    assert!(told.contains("files include each other: c/a.yaml, c/b.yaml, c/a.yaml"), "{told}");
    // Each file includes the next one four times, but is read once: else the last one is read 4^12 times.
    let chain = (0..12).map(|at| {
        let next = format!("f{}.yaml", at + 1);
        file(&format!("c/f{at}.yaml"), &format!("include: [{next}, {next}, {next}, {next}]\n"))
    });
    let mut files: Vec<_> = chain.collect();
    files.push(file("c/f12.yaml", "services: {x: {image: x, ports: ['80']}}\n"));
    let made = imported(&Memory(files.into_iter().collect()), "c/f0.yaml", &[]).unwrap();
    assert_eq!(read(&made).services.len(), 1);
    let of = |at: usize| format!("services: {{x{at}: {{image: x, ports: ['80']}}}}\n");
    let many = (0..250).map(|at| file(&format!("c/m{at}.yaml"), &of(at)));
    let names: Vec<String> = (0..250).map(|at| format!("m{at}.yaml")).collect();
    let first = file("c/compose.yaml", &format!("include: [{}]\n", names.join(", ")));
    let told = imported(&Memory(many.chain([first]).collect()), "c/compose.yaml", &[]).unwrap_err();
    assert_eq!(told.iter().filter(|told| told.contains("more than 200 files are included")).count(), 1, "{told:?}");
}

#[test]
fn no_file_is_put_outside_of_the_container() {
    for (section, target) in [("configs", "/../../../../victim"), ("secrets", "../../../victim"), ("configs", "/")] {
        let text = format!(
            "services: {{a: {{image: x, ports: ['80'], {section}: [{{source: s, target: {target}}}]}}}}\n\
             {section}: {{s: {{file: compose.yaml}}}}\n"
        );
        let told = of_text(&text).unwrap_err().join("\n");
        assert!(told.contains("is no path of a file inside the container"), "{text}: {told}");
    }
    let text = "services: {a: {image: x, ports: ['80'], configs: [{source: s, target: /a..b}]}}\n\
                configs: {s: {content: hi}}\n";
    assert_eq!(of_text(text).unwrap().files["files/a/a..b"], "hi");
}

#[test]
fn a_variable_without_a_value_is_that_of_whoever_runs() {
    let made = of_text("services: {a: {image: x, ports: ['80'], environment: [PATH, NO_SUCH_THING]}}\n").unwrap();
    let workload = read(&made);
    let environment: Vec<_> = workload.services[0].environment.iter().collect();
    assert_eq!(environment, [(&"PATH".to_owned(), &"${{env.PATH}}".to_owned())]);
    assert_eq!(notes(&made), ["1 services.a.environment.NO_SUCH_THING"]);
    assert!(made.notes[0].instead.contains("export it and import again"), "{:?}", made.notes);
}

#[test]
fn a_profile_of_a_file_without_profiles_is_told_to_be_left_out() {
    let text = b"services: {a: {image: x, ports: ['80']}}\n".to_vec();
    let disk = Memory([(PathBuf::from("c/compose.yaml"), text)].into());
    let told = imported(&disk, "c/compose.yaml", &["ghost"]).unwrap_err().join("\n");
    assert!(told.contains("no service has the profile 'ghost'") && told.contains("leave --profile out"), "{told}");
}

#[test]
fn variables_come_from_no_file_outside_of_the_folder() {
    let file = |name: &str, text: &str| (PathBuf::from(name), text.as_bytes().to_vec());
    let text = "services:\n  a:\n    image: x\n    ports: ['80']\n    env_file: [/etc/shadow, ../b.env, c.env]\n";
    let outside = [file("/etc/shadow", "S=1\n"), file("b.env", "B=1\n"), file("c/c.env", "C=1\n")];
    let files = outside.iter().cloned().chain([file("c/compose.yaml", text)]);
    let made = imported(&Memory(files.collect()), "c/compose.yaml", &[]).unwrap();
    assert_eq!(notes(&made), ["!5 services.a.env_file", "!5 services.a.env_file"]);
    assert_eq!(read(&made).services[0].environment.keys().collect::<Vec<_>>(), ["C"]);
    let text = "include: [{path: d.yaml, env_file: ../b.env}]\nservices: {a: {image: x, ports: ['80']}}\n";
    let more = [file("c/compose.yaml", text), file("c/d.yaml", "services: {b: {image: $B}}\n")];
    let told = imported(&Memory(outside.into_iter().chain(more).collect()), "c/compose.yaml", &[]).unwrap_err();
    assert!(told.join("\n").contains("../b.env is outside of the folder"), "{told:?}");
}

#[test]
fn a_required_variable_is_one_mistake_wherever_it_stands() {
    let text = "services:\n  a:\n    image: ${A:?need it}\n    ports: ['${A:?need it}']\n    mem_limit: ${A:?need it}\n\
                \x20   stop_signal: ${A:?need it}\n    depends_on: ['${A:?need it}']\n\
                \x20   volumes: ['${A:?need it}:/a']\n";
    let told = of_text(text).unwrap_err();
    assert_eq!(told.len(), 6, "{told:?}");
    for told in told {
        assert!(told.contains("the variable 'A' is not set, or empty: need it"), "{told}");
        assert!(told.contains("export A=..., and import again") && !told.contains("$$"), "{told}");
    }
}

#[test]
fn what_a_variable_leaves_is_a_text() {
    let text = "services:\n  a:\n    image: x\n    ports: ['80']\n    user: ${NO}\n    mem_limit: ${NO}\n    command: \
                [a, $NO]\n    environment:\n      PATH: ${NO}\n      N: ${NO:-null}\n      T: ${NO:-~}\n      D: \
                ${NO-}\n";
    let made = of_text(text).unwrap();
    let workload = read(&made);
    let environment = &workload.services[0].environment;
    for (name, wanted) in [("PATH", ""), ("N", "null"), ("T", "~"), ("D", "")] {
        assert_eq!(environment[name], wanted, "{name}");
    }
    assert_eq!(workload.services[0].command, ["a", ""]);
    let told = notes(&made);
    assert!(told.iter().all(|note| !note.contains("user")) && told.iter().any(|note| note == "9 ${NO}"), "{told:?}");
}

#[test]
fn what_keeps_a_service_from_running_stands_at_it() {
    let text = "services:\n  a: {image: x, ports: ['80'], gpus: all}\n  a.b:\n    image: y\n    devices: [/dev/fuse]\n\
                \x20   ulimits: {nproc: 5}\n";
    let made = of_text(text).unwrap();
    read(&made);
    let text = &made.files["workload.yaml"];
    let lines: Vec<&str> = text.lines().collect();
    for (own, key) in [("a", "services.a.gpus (c/compose.yaml:2)"), ("a-b", "services.a.b.devices (c/compose.yaml:5)")]
    {
        let at = lines.iter().position(|line| *line == format!("  {own}:")).unwrap();
        assert!(lines[at - 1].starts_with(&format!("  # To change before it runs: {key}: ")), "{text}");
    }
    assert_eq!(text.matches("To change").count(), 2, "{text}");
}

#[test]
fn a_service_that_is_left_out_and_not_required_keeps_nothing_from_running() {
    let of = |required: bool| {
        let text = format!(
            "services:\n  a:\n    image: x\n    ports: ['80']\n    depends_on: {{b: {{condition: \
             service_completed_successfully, required: {required}}}}}\n  b: {{image: y, profiles: [p]}}\n"
        );
        of_text(&text)
    };
    assert!(!of(false).unwrap().is_stopped());
    assert!(of(true).unwrap_err().join("\n").contains("'b' is not deployed"));
}

#[test]
fn a_port_that_many_services_have_is_told_once_for_each() {
    let services: String = (0..400).map(|number| format!("  s{number}: {{image: x, ports: ['80', '81']}}\n")).collect();
    let made = of_text(&format!("services:\n{services}")).unwrap();
    assert_eq!(made.notes.len(), 399);
    let last = &made.notes[398];
    assert_eq!(last.key, "services.s399.ports");
    assert!(last.instead.starts_with("'s0' has port 80, 's0' has port 81, too"), "{}", last.instead);
}

#[test]
fn the_load_goes_to_a_port_at_which_it_is_known_what_is_spoken() {
    let made = of_text("services: {git: {image: gitlab/gitlab-ce, ports: ['22:22', '443:443', '80:80']}}\n").unwrap();
    assert_eq!(read(&made).protocol.port.as_deref(), Some("80"));
    let made = of_text("services: {a: {image: x, ports: ['22', '443']}}\n").unwrap();
    assert_eq!(read(&made).protocol.port.as_deref(), Some("22"));
}

#[test]
fn another_program_of_a_known_image_has_no_port() {
    let check = "    image: redis:7\n    healthcheck: {test: 'true'}\n    entrypoint:";
    let text = format!(
        "services:\n  web: {{image: x, ports: ['80']}}\n  cli:\n{check} [redis-cli, monitor]\n  server:\n{check} [sh, \
         -c, 'exec redis-server']\n"
    );
    let made = of_text(&text).unwrap();
    let workload = read(&made);
    let ports = |name: &str| {
        let service = workload.services.iter().find(|service| service.name == name).unwrap();
        service.ports.values().copied().collect::<Vec<_>>()
    };
    assert_eq!((ports("cli"), ports("server")), (Vec::new(), vec![6379]));
    let cli = workload.services.iter().find(|service| service.name == "cli").unwrap();
    let check = cli.ready.command().map(|words| words.join(" "));
    assert_eq!(check.as_deref(), Some("/bin/sh -c true"), "nothing else tells of it");
    assert_eq!(notes(&made), ["9 services.server.healthcheck.test"]);
    assert!(made.notes[0].instead.contains("when its port accepts connections"), "{}", made.notes[0].instead);
}

#[test]
fn a_health_check_is_run_where_another_service_waits_for_it() {
    let ready = |image: &str, check: &str| {
        let text = format!(
            "services:\n  web:\n    image: x\n    ports: ['80']\n    depends_on: {{db: {{condition: \
             service_healthy}}}}\n  db:\n    image: {image}\n    expose: ['3306']\n    healthcheck: {check}\n"
        );
        of_text(&text).map(|made| read(&made).services.remove(0).ready)
    };
    let command = |check: &str| ready("y", check).unwrap().command().map(|words| words.join(" "));
    assert_eq!(command("{test: [CMD, ask, -h]}").as_deref(), Some("ask -h"));
    assert_eq!(command("{test: [CMD-SHELL, 'ask || exit 1']}").as_deref(), Some("/bin/sh -c ask || exit 1"));
    assert_eq!(command("{test: 'ask $$A'}").as_deref(), Some("/bin/sh -c ask $A"));
    for none in ["{test: [NONE]}", "{test: NONE}", "{disable: true}", "{test: ask, disable: true}", "{interval: 5s}"] {
        assert_eq!(command(none), None, "{none}");
    }
    let times = ready("y", "{test: a, interval: 200ms, timeout: 3s, start_period: 1m, retries: 4}").unwrap();
    let Readiness::Command { every, timeout, within, .. } = times else { panic!("{times:?}") };
    assert_eq!([every, timeout, within].map(|time| time.as_millis()), [200, 3000, 61_000]);
    let told = ready("y", "{test: [ask, -h]}").unwrap_err().join("\n");
    assert!(told.contains("compose.yaml:9:") && told.contains("does not begin with 'ask'"), "{told}");
}

#[test]
fn what_is_a_job_or_is_waited_for_ends_and_gets_no_load() {
    let text = "services:\n  web:\n    image: x\n    expose: ['80']\n    depends_on: {seed: {condition: \
                service_completed_successfully}}\n  seed: {image: known/mariadb, ports: ['3306']}\n  job: {image: y, \
                deploy: {mode: replicated-job}}\n";
    let made = of_text(text).unwrap();
    let workload = read(&made);
    let ends = |name: &str| workload.services.iter().find(|service| service.name == name).unwrap().ready.ends();
    assert!(ends("seed") && ends("job") && !ends("web"));
    assert_eq!((workload.protocol.service.as_str(), workload.protocol.port.as_deref()), ("web", Some("80")));
    assert!(!made.is_stopped(), "{:?}", made.notes);
    let only = "services: {job: {image: y, ports: ['80'], deploy: {mode: global-job}}}\n";
    assert!(of_text(only).unwrap_err().join("\n").contains("every service ends by itself"));
}

#[test]
fn a_config_that_names_a_service_is_told_by_its_own_key() {
    let text = "services:\n  a: {image: x, ports: ['80'], depends_on: [b]}\n  b:\n    image: y\n    configs: \
                [c]\nconfigs:\n  c: {content: 'http://a:80'}\n";
    assert_eq!(notes(&of_text(text).unwrap()), ["!5 services.b.configs"]);
}

#[test]
fn no_file_lies_below_another_file() {
    let configs = |one: &str, other: &str| {
        of_text(&format!(
            "services: {{a: {{image: x, ports: ['80'], configs: [{{source: c, target: {one}}}, {{source: c, target: \
             {other}}}]}}}}\nconfigs: {{c: {{content: x}}}}\n"
        ))
    };
    for (one, other) in [("/etc/app", "/etc/app/x.conf"), ("/etc/app/x.conf", "/etc/app")] {
        let told = configs(one, other).unwrap_err().join("\n");
        assert!(told.contains("'/etc/app' is a file, and '/etc/app/x.conf' cannot lie below it"), "{told}");
    }
    assert_eq!(configs("/etc/app", "/etc/app.conf").unwrap().files.len(), 4);
}

#[test]
fn what_no_form_has_is_told_wherever_it_stands() {
    let text = "\
services:
  a:
    image: x
    ports: ['80']
    volumes:
    - v:/v:ro,nocopy
    - type: volume
      target: /w
      volume: {subpath: s, nocopy: true}
    tmpfs: ['/t:mode=700,size=1m']
    deploy:
      mode: global
      placement: {constraints: []}
volumes:
  v:
    driver_opts: {type: nfs}
networks:
  n:
    internal: true
    ipam: {}
";
    let wanted = [
        "6 services.a.volumes",
        "6 services.a.volumes",
        "9 services.a.volumes.volume.subpath",
        "9 services.a.volumes.volume.nocopy",
        "10 services.a.tmpfs",
        "12 services.a.deploy.mode",
        "13 services.a.deploy.placement",
        "16 volumes.v.driver_opts",
        "19 networks.n.internal",
        "20 networks.n.ipam",
    ];
    assert_eq!(notes(&of_text(text).unwrap()), wanted);
}

#[test]
fn a_named_volume_of_several_services_is_shared() {
    let text = "\
services:
  web:
    image: x
    ports: ['80']
    volumes: [Site_a:/srv:ro, own:/own]
    depends_on: [app]
  app:
    image: y
    volumes: [Site_a:/var/www, /scratch, /var/www/cache]
  cron:
    image: z
    volumes_from: [app:ro]
  off:
    image: z
    profiles: [off]
    volumes: [own:/own]
volumes: {Site_a: , own: }
";
    let made = of_text(text).unwrap();
    assert_eq!(notes(&made), ["9 services.app.volumes", "10 services.cron.volumes"], "{:?}", made.notes);
    assert!(made.notes[0].instead.contains("/var/www/cache is a part of the volume at /var/www"), "{:?}", made.notes);
    let (text, workload) = (&made.files["workload.yaml"], read(&made));
    let volumes = workload.services.iter().flat_map(|service| service.volumes.values());
    assert_eq!(volumes.filter(|volume| volume.shared.is_some()).count(), 5);
    for line in [
        "      /srv: {shared: site-a, space: 512MiB, read_only: true}\n",
        "      /own: 512MiB\n",
        "      /var/www: {shared: site-a, space: 512MiB}\n",
        "      /scratch: {shared: app-0, space: 512MiB}\n",
        "      /scratch: {shared: app-0, space: 512MiB, read_only: true}\n",
        "      /var/www: {shared: site-a, space: 512MiB, read_only: true}\n",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
}

#[test]
fn what_cannot_be_shared_is_told() {
    let of = |volumes: &str, more: &str| {
        of_text(&format!(
            "services:\n  a: {{image: x, ports: ['80'], volumes: {volumes}}}\n  b: {{image: y, volumes: [v:/v, \
             w:/w]{more}}}\nvolumes: {{v: , w: }}\n"
        ))
    };
    let made = of("[v:/v, w:/v/w]", "").unwrap();
    assert_eq!(notes(&made), ["!2 services.a.volumes"]);
    assert!(made.notes[0].instead.starts_with("/v/w and /v are shared"), "{:?}", made.notes);
    let hidden = of("[v:/v, ./compose.yaml:/v/c:ro]", "").unwrap();
    assert!(hidden.notes.iter().any(|note| note.instead.starts_with("/v/c is a part of the image")), "{hidden:?}");
    let outside = of("[]", ", volumes_from: ['container:old']").unwrap();
    assert_eq!(notes(&outside), ["!3 services.b.volumes_from"]);
    let told = of("[]", ", volumes_from: [a:rx]").unwrap_err().join("\n");
    assert!(told.contains("'a:rx' has no mode that is known"), "{told}");
}

#[test]
fn keys_that_are_unknown_inside_of_others_are_mistakes() {
    let service = |key: &str| format!("services: {{a: {{image: x, ports: ['80'], {key}}}}}\n");
    let cases = [
        (service("logging: {drivr: x}"), "did you mean 'driver'?"),
        (service("develop: {watch: [{pth: x}]}"), "did you mean 'path'?"),
        (service("deploy: {restart_policy: {conditon: any}}"), "did you mean 'condition'?"),
        (service("deploy: {mode: globl}"), "did you mean 'global'?"),
        (service("volumes: [{type: bind, source: ., target: /a, bind: {propagtion: x}}]"), "'propagation'?"),
        (service("env_file: [{path: compose.yaml, format: rw}]"), "there is no format 'rw'"),
        ("services: {a: {image: x}}\nvolumes: {v: {externl: true}}\n".to_owned(), "did you mean 'external'?"),
        ("services: {a: {image: x}}\nnetworks: {n: {intrnal: true}}\n".to_owned(), "did you mean 'internal'?"),
    ];
    for (text, wanted) in cases {
        let told = of_text(&text).unwrap_err().join("\n");
        assert!(told.contains(wanted), "{text}: {told}");
    }
}

/// Pieces of Compose files.
const PIECES: &[&str] = &[
    "services:\n",
    "  a:\n",
    "  b:\n",
    "    image: x\n",
    "    build: .\n",
    "    command: ",
    "    entrypoint: ",
    "    environment:\n",
    "      A: ",
    "      - A=",
    "    env_file: .env\n",
    "    ports: ",
    "    expose: ",
    "['80']\n",
    "[8080:80/udp]\n",
    "[{target: 80}]\n",
    "    volumes: ",
    "[v:/v]\n",
    "[./compose.yaml:/c:ro]\n",
    "[/x]\n",
    "    depends_on: ",
    "[a]\n",
    "[b]\n",
    "{a: {condition: service_healthy}}\n",
    "    healthcheck: ",
    "{test: x, retries: 1}\n",
    "    deploy: ",
    "{replicas: 2, resources: {limits: {cpus: '0.5', memory: 1g}}}\n",
    "    extends: ",
    "a\n",
    "b\n",
    "{file: compose.yaml, service: b}\n",
    "include: [compose.yaml]\n",
    "volumes:\n  v:\n",
    "x-y: &y\n",
    "  k: v\n",
    "    <<: *y\n",
    "http://a:80/b\n",
    "redis://b\n",
    "${A:-b}\n",
    "$$\n",
    "${{x}}\n",
    "'sh -c \"a\"'\n",
    "    user: root\n",
    "    cpus: 1.5\n",
    "    secrets: [s]\n",
    "secrets: {s: {file: compose.yaml}}\n",
    "    profiles: [p]\n",
];

proptest! {
    #[test]
    fn any_pieces_of_compose_files_are_imported_or_refused(
        pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..30)
    ) {
        let text = format!("services:\n  a:\n    image: x\n    ports: ['81']\n{}", pieces.concat());
        for text in [pieces.concat(), text] {
            match of_text(&text) {
                // What is written can be read.
                Ok(made) => drop(read(&made)),
                Err(told) => prop_assert!(!told.is_empty()),
            }
        }
    }

    #[test]
    fn any_bytes_are_imported_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let disk = Memory([(PathBuf::from("c/compose.yaml"), bytes)].into());
        if let Err(told) = imported(&disk, "c/compose.yaml", &["p"]) {
            prop_assert!(!told.is_empty());
        }
    }

    #[test]
    fn any_text_of_a_value_can_be_written_and_read(text in "\\PC{1,30}") {
        let text = text.replace('$', "S");
        let quoted = quoted(&text);
        let made = of_text(&format!("services: {{a: {{image: x, ports: ['80'], environment: {{A: {quoted}}}}}}}\n"));
        let workload = read(&made.unwrap());
        prop_assert_eq!(&workload.services[0].environment["A"], &text);
    }
}

/// A text in double quotes, as YAML and JSON have them.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
