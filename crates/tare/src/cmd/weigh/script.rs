//! Scripts of k6, JMeter and Locust as loads: which program runs one, and how it learns where the service is, how long
//! to load it, and with how many users.

use super::yaml::{list, quoted};
use crate::mistake::Mistake;
use anyhow::Result;
use std::io::Read as _;
use std::path::Path;

/// The longest script, which is that of any file beside a workload: 4 MiB.
const SCRIPT_MAX: u64 = 4 << 20;

/// How long a script may take that says by itself how long it takes.
const LONGEST: &str = "10m";

/// A kind of script.
pub(super) struct ScriptRow {
    /// Its option of `tare weigh`.
    pub(super) option: &'static str,
    /// The program that runs it.
    program: &'static str,
    /// What the copy is called.
    file: &'static str,
    /// The arguments. `{target}` stands for the address as a URL.
    arguments: &'static [&'static str],
    /// Arguments for a service that speaks TLS.
    secured: &'static [&'static str],
    /// Arguments that say how long and with how many users, unless the script says it itself.
    lasting: &'static [&'static str],
    /// A script with one of these leaves that to the arguments. Empty if all do.
    entry: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Whether a script may take longer than it is told.
    lingers: bool,
    /// A script has one of these where it takes the address. Empty if the program itself tells it.
    address: &'static [&'static str],
    /// How a script takes the address.
    takes: &'static str,
    /// Where to get the program.
    from: &'static str,
}

/// k6 1 and 2; the variables are its own way to pass values.
pub(super) const K6: ScriptRow = ScriptRow {
    option: "--k6 SCRIPT",
    program: "k6",
    file: "script.js",
    arguments: &[
        "run",
        "--quiet",
        "--no-usage-report",
        "--no-thresholds",
        "--summary-trend-stats=avg,med,max,p(90),p(99),p(99.9)",
        "--summary-export=${output}",
        "-e",
        "TARGET={target}",
        "-e",
        "BASE_URL={target}",
        "-e",
        "HOST=${host}",
        "-e",
        "PORT=${port}",
        "${files}/{file}",
    ],
    secured: &["--insecure-skip-tls-verify"],
    lasting: &["--vus", "${connections}", "--duration", "${seconds}s"],
    entry: &["export default", "as default", "module.exports"],
    // The other summary, the usual one of k6 2, has no percentile above 95.
    environment: &[("K6_NEW_MACHINE_READABLE_SUMMARY", "false")],
    lingers: false,
    address: &["__ENV"],
    takes: "take it from __ENV.TARGET, such as http://127.0.0.1:8080, or from __ENV.HOST and __ENV.PORT",
    from: "https://grafana.com/docs/k6/latest/set-up/install-k6/",
};

/// Apache JMeter 5; the properties are those of `__P()`.
pub(super) const JMETER: ScriptRow = ScriptRow {
    option: "--jmeter PLAN",
    program: "jmeter",
    file: "plan.jmx",
    arguments: &[
        "-n",
        "-t",
        "${files}/{file}",
        "-l",
        "${output}",
        "-j",
        "${output}.log",
        "-Jhost=${host}",
        "-Jport=${port}",
        "-Jthreads=${connections}",
        "-Jduration=${seconds}",
        "-Jsampleresult.timestamp.start=true",
        "-Jjmeter.save.saveservice.output_format=csv",
        "-Jjmeter.save.saveservice.print_field_names=true",
        "-Jjmeter.save.saveservice.timestamp_format=ms",
        "-Jjmeter.save.saveservice.default_delimiter=,",
        // The requests of a transaction with a parent sample are such; the parts of a request are known by their names.
        "-Jjmeter.save.saveservice.subresults=true",
        "-Jsubresults.disable_renaming=false",
    ],
    secured: &[],
    lasting: &[],
    entry: &[],
    environment: &[],
    lingers: true,
    address: &["__P(host", "__property(host"],
    takes: "write ${__P(host)} and ${__P(port)} where it names the server, and ${__P(threads)} and ${__P(duration)} in \
            its thread group",
    from: "https://jmeter.apache.org/download_jmeter.cgi",
};

/// Locust 2.15 and later.
pub(super) const LOCUST: ScriptRow = ScriptRow {
    option: "--locust FILE",
    program: "locust",
    file: "locustfile.py",
    arguments: &[
        "-f",
        "${files}/{file}",
        "--headless",
        "--json",
        "--only-summary",
        "--loglevel",
        "WARNING",
        "--exit-code-on-error",
        "0",
        "--users",
        "${connections}",
        "--spawn-rate",
        "${connections}",
        "--run-time",
        "${seconds}s",
        "--host",
        "{target}",
    ],
    secured: &[],
    lasting: &[],
    entry: &[],
    environment: &[],
    lingers: false,
    address: &[],
    takes: "name paths alone, as in self.client.get('/'), which go to the host that Tare names",
    from: "https://docs.locust.io/en/stable/installation.html",
};

/// What a script becomes in a workload.
#[derive(Debug)]
pub(super) struct Scripted {
    /// Options of the protocol `exec`: lines of YAML, the outermost without indentation.
    pub(super) options: Vec<String>,
    /// What is sent, in words.
    pub(super) said: String,
    /// The copy of the script beside the workload: its name there, and what is in it.
    pub(super) files: Vec<(String, String)>,
}

/// Reads a script, which is copied to beside the workload. `secured` says that the service speaks TLS.
///
/// # Errors
/// When there is no such file, or it takes no address.
pub(super) fn read(row: &ScriptRow, path: &Path, secured: bool) -> Result<Scripted> {
    let text = content(row, path)?;
    let takes_it = row.address.is_empty() || row.address.iter().any(|words| text.contains(words));
    // What it imports may take it.
    if !takes_it && !text.contains("from \"./") && !text.contains("from './") {
        let told = format!("{}: {} does not take the service's address from Tare", row.option, path.display());
        return Err(Mistake::new(format!("{told}\n  to do: {}", row.takes)).into());
    }
    // k6 tells languages apart by this.
    let is_typed = row.file.ends_with(".js") && path.extension().is_some_and(|ends| ends == "ts");
    let file = if is_typed { "script.ts" } else { row.file };
    let target = if secured { "https://${host}:${port}" } else { "http://${host}:${port}" };
    let owns_time = !row.entry.is_empty() && !row.entry.iter().any(|words| text.contains(words));
    let (first, rest) = row.arguments.split_at(usize::from(!row.lasting.is_empty()));
    let lasting = if owns_time { &[][..] } else { row.lasting };
    let more = if secured { row.secured } else { &[] };
    let words = [first, lasting, more, rest].concat();
    let filled = words.iter().map(|word| word.replace("{target}", target).replace("{file}", file));
    let command: Vec<String> = std::iter::once(row.program.to_owned()).chain(filled).collect();
    let mut options = vec![format!("files: [{}]", quoted(file)), format!("command: {}", list(&command))];
    if !row.environment.is_empty() {
        let pairs = row.environment.iter().map(|(name, value)| format!("{name}: {}", quoted(value)));
        options.push(format!("environment: {{{}}}", pairs.collect::<Vec<_>>().join(", ")));
    }
    // It takes as long to start as most loads take to settle.
    options.push("settle: false".to_owned());
    if owns_time || row.lingers {
        options.push(format!("within: {LONGEST}"));
    }
    let by_itself = if owns_time { ", for as long and with as many users as its own scenarios say" } else { "" };
    let said = format!("what {} sends, run by {}{by_itself}", path.display(), row.program);
    Ok(Scripted { options, said, files: vec![(file.to_owned(), text)] })
}

fn content(row: &ScriptRow, path: &Path) -> Result<String> {
    let wrong = |why: &str| {
        let told = format!("{}: {} cannot be read: {why}", row.option, path.display());
        Mistake::new(format!("{told}\n  to do: name one file of {}, of 4MiB at most", row.program))
    };
    let file = std::fs::File::open(path).map_err(|error| wrong(&error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(SCRIPT_MAX + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error.to_string()))?;
    if bytes.len() as u64 > SCRIPT_MAX {
        return Err(wrong("it is longer").into());
    }
    String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8 text").into())
}

/// Where to get the program of a script, for the message that it is not here.
pub(super) fn where_from(option: &str) -> Option<&'static str> {
    [&K6, &JMETER, &LOCUST].into_iter().find(|row| row.option == option).map(|row| row.from)
}

/// How a script takes the service's address. None if the load of this option is no script.
pub(super) fn takes(option: &str) -> Option<&'static str> {
    [&K6, &JMETER, &LOCUST].into_iter().find(|row| row.option == option).map(|row| row.takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(row: &ScriptRow, name: &str, text: &str, secured: bool) -> Result<Scripted> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        read(row, &path, secured)
    }

    #[test]
    fn each_program_is_told_where_the_service_is() {
        let script = "export default function () { http.get(__ENV.TARGET) }";
        let load = loaded(&K6, "my load.js", script, false).unwrap();
        assert_eq!(load.files, [("script.js".to_owned(), script.to_owned())]);
        assert_eq!(load.options[0], r#"files: ["script.js"]"#);
        let command = &load.options[1];
        assert!(command.starts_with(r#"command: ["k6", "run", "--vus", "${connections}", "#), "{command}");
        assert!(command.contains(r#""TARGET=http://${host}:${port}""#), "{command}");
        assert!(command.ends_with(r#""${files}/script.js"]"#), "{command}");
        let secured = loaded(&K6, "a.ts", script, true).unwrap();
        assert!(secured.options[1].contains("TARGET=https://") && secured.options[1].contains("--insecure-skip"));
        assert_eq!(secured.files[0].0, "script.ts");
        let plan = loaded(&JMETER, "p.jmx", "<stringProp>${__P(host)}</stringProp>", false).unwrap();
        assert!(plan.options[1].contains(r#""-Jhost=${host}", "-Jport=${port}""#), "{:?}", plan.options);
        let locust = loaded(&LOCUST, "l.py", "class Users(HttpUser): pass", false).unwrap();
        assert!(locust.options[1].contains(r#""--host", "http://${host}:${port}""#), "{:?}", locust.options);
    }

    #[test]
    fn a_script_may_say_how_long_by_itself() {
        let script = "export const options = { scenarios: {} }\nexport function a() { http.get(__ENV.TARGET) }";
        let load = loaded(&K6, "a.js", script, false).unwrap();
        assert!(!load.options[1].contains("--vus") && load.said.contains("its own scenarios"), "{load:?}");
        let within = |load: Scripted| load.options.last().is_some_and(|line| line == "within: 10m");
        assert!(within(load), "it may take longer than a form is measured");
        assert!(within(loaded(&JMETER, "p.jmx", "${__P(host)}", false).unwrap()));
        assert!(!within(loaded(&LOCUST, "l.py", "", false).unwrap()));
    }

    #[test]
    fn a_script_that_takes_no_address_loads_nothing() {
        let told = |row, text| loaded(row, "s", text, false).unwrap_err().to_string();
        let k6 = told(&K6, "export default function () { http.get('http://localhost') }");
        assert!(k6.contains("--k6 SCRIPT: ") && k6.contains("__ENV.TARGET"), "{k6}");
        assert!(told(&JMETER, "<stringProp>localhost</stringProp>").contains("${__P(host)}"));
        let missing = read(&K6, Path::new("/no/such.js"), false).unwrap_err().to_string();
        assert!(missing.contains("/no/such.js cannot be read"), "{missing}");
    }
}
