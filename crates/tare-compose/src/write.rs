//! Writes `workload.yaml` and `study.yaml`.

use crate::known::{self, Speaks};
use crate::model::{Ready, Service, Variable};
use crate::stack::{Planned, Stack};
use std::fmt::Write as _;
use std::time::Duration;
use tare_core::units::{DURATION_MAX, typed_duration};
use tare_core::workload::Volume;

/// The memory of a service for which none is stated, unless its image is known to need more, in MiB.
const MEMORY_MIB: u64 = 512;
/// How long a service may take to become ready, unless more is known, in seconds.
const WITHIN_S: u64 = 60;
/// How long a service that ends by itself may take, in seconds.
const ENDED_WITHIN_S: u64 = 300;

/// A text as YAML: plain if it can be nothing else, else quoted.
pub(crate) fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        && !["null", "true", "false", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| scalar(word)).collect::<Vec<_>>().join(", "))
}

fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{}MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}KiB", bytes >> 10),
        _ => format!("{bytes}B"),
    }
}

/// The space of a volume, and with whom it is shared.
fn space(volume: &Volume) -> String {
    let Some(shared) = &volume.shared else { return size(volume.bytes) };
    let access = if shared.read_only { ", read_only: true" } else { "" };
    format!("{{shared: {}, space: {}{access}}}", scalar(&shared.name), size(volume.bytes))
}

/// The text of `workload.yaml`.
pub(crate) fn workload(plan: &Stack) -> String {
    format!(
        "# Made of {} by `tare import`, and yours to edit: `tare check` tells every mistake.\n\
         # Services start in this order, each once the one before is ready.\n\
         workload: {}\nabout: {}\nservices:\n{}{}",
        comment(&plan.file),
        scalar(&plan.name),
        scalar(&format!("the services of {}", plan.file)),
        services(plan),
        load(plan)
    )
}

impl Stack {
    /// The entries of `services:` in a `workload.yaml` whose load goes to this port. With `within`, the loaded service
    /// has only so long to become ready. A service that does not say how long it may take to end has `ends_within`.
    pub fn services(&self, port: u16, within: Option<Duration>, ends_within: Duration) -> String {
        services(&self.loaded_at(port, within, ends_within))
    }
}

/// The entries of `services:`.
fn services(plan: &Stack) -> String {
    let mut text = String::new();
    for (number, planned) in plan.services.iter().enumerate() {
        let loaded = plan.port.filter(|_| number == plan.loaded);
        // Writing to a text never fails.
        let _ = service(&mut text, planned, number == plan.loaded, loaded);
    }
    text
}

/// A text that may stand in a comment.
fn comment(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn service(text: &mut String, planned: &Planned, loaded: bool, port: Option<u16>) -> std::fmt::Result {
    let Planned { service, command, ports, stops } = planned;
    for stop in stops {
        writeln!(text, "  # To change before it runs: {}", comment(stop))?;
    }
    writeln!(text, "  {}:", service.own)?;
    writeln!(text, "    bundle: {{image: {}}}", scalar(&service.image))?;
    writeln!(text, "    as_image: true")?;
    if let Some(command) = command {
        writeln!(text, "    command: {}", list(command))?;
    }
    if !service.environment.is_empty() {
        writeln!(text, "    environment:")?;
        for Variable { name, text: value, .. } in &service.environment {
            writeln!(text, "      {}: {}", scalar(name), scalar(value))?;
        }
    }
    if let Some((user, group)) = service.user {
        writeln!(text, "    user: \"{user}:{group}\"")?;
    }
    if let Some(directory) = &service.directory {
        writeln!(text, "    directory: {}", scalar(directory))?;
    }
    // Without ports, those of the image would be taken, which are another program's.
    if !ports.is_empty() || service.ready == Ready::Ended {
        let ports: Vec<String> = ports.iter().map(|port| format!("\"{port}\": {port}")).collect();
        writeln!(text, "    ports: {{{}}}", ports.join(", "))?;
    } else if service.says.as_ref().is_some_and(|says| !says.tcp_ports().is_empty()) {
        writeln!(text, "    # Another program than the image's own is started: its ports do not count.")?;
        writeln!(text, "    ports: {{}}")?;
    }
    if !service.names.is_empty() {
        writeln!(text, "    names: {}", list(&service.names))?;
    }
    ready(text, planned, loaded, port)?;
    if !service.volumes.is_empty() {
        writeln!(text, "    # Volumes begin in each trial with what the image has there.")?;
        writeln!(text, "    volumes:")?;
        for (path, volume) in &service.volumes {
            writeln!(text, "      {}: {}", scalar(path), space(volume))?;
        }
    }
    if !service.files.is_empty() {
        writeln!(text, "    files:")?;
        for (path, copied) in &service.files {
            writeln!(text, "      {}: {}", scalar(path), scalar(&copied.name))?;
        }
    }
    writeln!(text, "    resources: {{{}}}", resources(service))?;
    if let Some(signal) = service.stop_signal {
        writeln!(text, "    stop_signal: {signal}")?;
    }
    if let Some(stop) = service.stop_within {
        writeln!(text, "    stop_within: {}", typed_duration(stop))?;
    }
    Ok(())
}

/// When a service is ready.
fn ready(text: &mut String, planned: &Planned, loaded: bool, port: Option<u16>) -> std::fmt::Result {
    let Planned { service, ports, .. } = planned;
    let known = known::image(&service.image);
    let within = known.map_or(WITHIN_S, |known| known.within_s);
    let within = typed_duration(service.within.unwrap_or(Duration::from_secs(within)).max(Duration::from_secs(10)));
    if service.ready == Ready::Ended {
        let within = typed_duration(Duration::from_secs(ENDED_WITHIN_S));
        writeln!(text, "    # It does its work and ends; it is gone when the next service starts.")?;
        return writeln!(text, "    ready: {{ended: true, within: {within}}}");
    }
    if let Some(health) = service.health.as_ref().filter(|_| service.ready == Ready::Health) {
        let check = &health.check;
        // What only the image says has the times of the image.
        let within = if service.within.is_some() { within } else { typed_duration(check.within()) };
        let [every, timeout] = [check.every(), check.timeout.min(DURATION_MAX)].map(typed_duration);
        writeln!(text, "    # Its health check, run until it succeeds and never after that.")?;
        return writeln!(
            text,
            "    ready: {{command: {}, every: {every}, timeout: {timeout}, within: {within}}}",
            list(&check.command)
        );
    }
    let port = port.or(service.published).filter(|port| ports.contains(port)).or(ports.first().copied());
    match port {
        Some(port) => writeln!(text, "    ready: {{port: \"{port}\", within: {within}}}"),
        None if !loaded => {
            writeln!(text, "    # It has no port, so it is ready once it runs. A line of its output says more.")?;
            writeln!(text, "    ready: {{log: \"\", within: {within}}}")
        }
        None => Ok(()),
    }
}

/// The resources of a service, those that are not stated with defaults.
pub(crate) fn resources(service: &Service) -> String {
    let cpus = service.cpuset.unwrap_or_else(|| service.cpus.map_or(1, |cpus| cpus.ceil() as u32).max(1)).min(4096);
    let quota = service.cpus.filter(|quota| *quota < f64::from(cpus)).map(|quota| format!(", cpu_quota: {quota}"));
    let usual = known::image(&service.image).map_or(MEMORY_MIB, |known| known.memory_mib) << 20;
    let memory = size(service.memory.unwrap_or(usual));
    format!("cpus: {cpus}{}, memory: {memory}", quota.unwrap_or_default())
}

/// The protocol of the loaded service, if that can be told.
pub(crate) fn speaks(plan: &Stack) -> Option<Speaks> {
    let image = &plan.services[plan.loaded].service.image;
    match plan.port {
        Some(port) => known::speaks(port, image),
        None => known::image(image).and_then(|known| known::speaks(known.port, image)),
    }
}

fn load(plan: &Stack) -> String {
    let service = &plan.services[plan.loaded].service;
    let mut text = format!("load:\n  service: {}\n", service.own);
    if let Some(port) = plan.port {
        text += &format!("  port: \"{port}\"\n");
    }
    let stated = |name: &str| {
        let found = service.environment.iter().find(|variable| variable.name == name).map(|variable| &variable.text);
        found.filter(|text| !text.contains("${{") && !text.is_empty()).cloned()
    };
    // Images of databases read what is secret from a file that a variable names.
    let in_file = |name: &str| {
        let copied = service.files.get(&stated(&format!("{name}_FILE"))?)?;
        Some(std::str::from_utf8(&copied.content).ok()?.trim_end().to_owned())
    };
    let variable = |name: &str| stated(name).or_else(|| in_file(name));
    text += &match speaks(plan) {
        Some(Speaks::Redis) => REDIS.to_owned(),
        Some(Speaks::Http) => HTTP.to_owned(),
        Some(Speaks::Postgres) => {
            let user = variable("POSTGRES_USER").unwrap_or_else(|| "postgres".to_owned());
            let database = variable("POSTGRES_DB").unwrap_or_else(|| user.clone());
            sql("postgres", &user, variable("POSTGRES_PASSWORD"), &database)
        }
        Some(Speaks::MySql) => {
            let of = |maker: &str, name: &str| variable(&format!("{maker}_{name}"));
            let either = |name: &str| of("MYSQL", name).or_else(|| of("MARIADB", name));
            let (user, password) = match either("USER") {
                Some(user) => (user, either("PASSWORD")),
                None => ("root".to_owned(), either("ROOT_PASSWORD")),
            };
            sql("mysql", &user, password, &either("DATABASE").unwrap_or_else(|| READABLE.to_owned()))
        }
        Some(Speaks::Memcached) => MEMCACHED.to_owned(),
        None => format!("  # The protocol is not known. Keep one of these.\n{HTTP}{OTHERS}"),
    };
    text
}

/// A database of MySQL that everybody may read.
const READABLE: &str = "information_schema";
const REDIS: &str = "  protocol:\n    redis: {mix: {get: 75, set: 25}, keys: 10000, value_bytes: 64}\n";
const HTTP: &str = "  # Name pages that your users ask for, and a text that each must contain.\n  protocol:\n\
                    \x20   http:\n      requests:\n        - path: /\n";
const MEMCACHED: &str = "  protocol:\n    tcp:\n      populate:\n        - {request: \"set tare 0 0 5\\r\\nhello\\r\\n\", \
     reply: {until: \"STORED\\r\\n\"}}\n      request: \"get tare\\r\\n\"\n      reply: {until: \"END\\r\\n\"}\n      \
     expect: hello\n";
const OTHERS: &str = "    # redis: {}\n\
                      \x20   # postgres: {operations: {one: {script: [{sql: SELECT 1, expect: {rows: 1}}]}}}\n\
                      \x20   # mysql: {operations: {one: {script: [{sql: SELECT 1, expect: {rows: 1}}]}}}\n\
                      \x20   # tcp: {request: \"ping\\r\\n\", reply: {until: \"\\r\\n\"}}\n";

fn sql(protocol: &str, user: &str, password: Option<String>, database: &str) -> String {
    let password = password.map(|password| format!("      password: {}\n", scalar(&password))).unwrap_or_default();
    format!(
        "  # The smallest statement there is; write those of your application.\n  protocol:\n    {protocol}:\n\
         \x20     user: {}\n{password}      database: {}\n      operations:\n        one: \
         {{script: [{{sql: SELECT 1, expect: {{rows: 1}}}}]}}\n",
        scalar(user),
        scalar(database)
    )
}

/// The text of `study.yaml`. Where two services have one port, forms in which they share a network are left out.
pub(crate) fn study(name: &str, shared_port: Option<u16>) -> String {
    let forms = match shared_port {
        None => FORMS.to_owned(),
        Some(port) => format!(
            "# Two services have port {port}, so each needs a network of its own; forms without one are left \
             out.\n{APART}"
        ),
    };
    format!(
        "# What each form costs these services. `tare check --schema study` lists all keys.\n\
         study: {}\nquestion: {}\n\
         # The folder of this file.\nworkload: .\n\
         # Each connection sends its next request when the last one is answered.\n\
         load:\n  closed: {{connections: 8}}\n\
         time: {{settle: 2s, measure: 10s}}\nrepeat: 5\ndesign: blocks\n{forms}",
        scalar(name),
        scalar(&format!("What does each form cost {name}?"))
    )
}

const FORMS: &str = "baseline: native\nforms:\n  native: []\n  container: [container: {network: published}]\n  \
                     container-hostnet: [container: {network: host}]\n  vm: [vm: {}]\n  \
                     vm+container: [vm: {}, container: {network: published}]\n";
const APART: &str = "baseline: container\nforms:\n  container: [container: {network: bridge}]\n  \
                     vm+container: [vm: {}, container: {network: bridge}]\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_where_they_could_be_something_else() {
        let cases = [
            ("redis", "redis"),
            ("/usr/bin/x", "/usr/bin/x"),
            ("no", "\"no\""),
            ("80", "\"80\""),
            ("a b", "\"a b\""),
            ("a: \"b\"\n", "\"a: \\\"b\\\"\\n\""),
            ("", "\"\""),
            ("redis:7", "\"redis:7\""),
        ];
        for (text, wanted) in cases {
            assert_eq!(scalar(text), wanted);
        }
        assert_eq!([size(512 << 20), size(3 << 10), size(5)], ["512MiB", "3KiB", "5B"]);
    }
}
