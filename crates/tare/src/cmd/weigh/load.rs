//! Which load a service gets: what was typed, or else what its protocol suggests.

use super::args::About;
use super::script::{self, JMETER, K6, LOCUST, Scripted};
use super::yaml::{list, quoted};
use crate::catalog;
use crate::mistake::Mistake;
use crate::paths;
use anyhow::Result;
use std::collections::BTreeMap;
use std::path::Path;
use tare_core::config::{Problem, Problems, parse};
use tare_core::fault::Fault;
use tare_load::greeting::Spoken;
use tare_load::known_tools;
use tare_load::page::Answer;

/// What may stand in braces in the command of a tool, besides the address.
const PLACES: [&str; 4] = ["host", "port", "connections", "seconds"];

/// A protocol with its options, as a workload names them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Load {
    pub(super) protocol: &'static str,
    /// Its options: lines of YAML, the outermost without indentation.
    pub(super) options: Vec<String>,
    /// What is sent, and why, in words.
    pub(super) said: String,
    /// The option that chooses another load.
    pub(super) option: &'static str,
    /// Files that it needs beside the workload: their names there, and what is in them.
    pub(super) files: Vec<(String, String)>,
}

/// Checks the load that was typed, before anything is started.
///
/// # Errors
/// What is wrong with it, or which program it lacks.
pub(super) fn check(about: &About) -> Result<()> {
    if about.two_loads() {
        let text = "there are two loads: the words after --, and the one that an option names";
        return Err(Mistake::new(format!("{text}\n  to do: leave out one of them")).into());
    }
    if about.number.is_some() && about.tool()?.is_none() {
        let text = "--number says where a tool prints its result, and there is no tool";
        return Err(Mistake::new(format!("{text}\n  to do: add --tool COMMAND")).into());
    }
    let Some(load) = typed(about, &Spoken::Postgres, &BTreeMap::new())? else { return Ok(()) };
    if let Some(count) = about.connections.filter(|_| !load.takes_connections()) {
        let text = format!("--connections {count}: the load takes no number of connections");
        let to_do = "put {connections} where a tool takes it, or leave the option out";
        return Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
    }
    load.check()
}

/// The load for a service that speaks this protocol at `port`. The variables of the service say who logs in.
///
/// # Errors
/// When the protocol suggests no load and none was typed.
pub(super) fn choose(about: &About, port: u16, spoken: &Spoken, variables: &BTreeMap<String, String>) -> Result<Load> {
    if let Some(load) = typed(about, spoken, variables)? {
        load.check()?;
        return Ok(load);
    }
    let load = match spoken {
        Spoken::Redis => redis(format!("GET and SET: port {port} speaks Redis")),
        Spoken::Memcached => memcached(format!("get of one value: port {port} speaks memcached")),
        Spoken::Http => http("/", false, format!("GET /: port {port} speaks HTTP")),
        Spoken::Tls => {
            http("/", true, format!("GET / over TLS, trusting any certificate: port {port} speaks TLS, probably HTTPS"))
        }
        Spoken::Postgres | Spoken::MySql => {
            let text = format!("port {port} speaks {spoken}, and no statement suits every database");
            let to_do = "say which one: --sql 'SELECT 1', with --login USER:PASSWORD and --database NAME";
            return Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
        }
        Spoken::Silent | Spoken::Unknown(_) => {
            let text = format!("port {port} speaks no protocol that Tare knows: {spoken}");
            let to_do = "choose the load: --http PATH, --redis, --sql TEXT or --tool COMMAND; or another port: --port";
            return Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
        }
    };
    Ok(load)
}

/// The load that was typed.
fn typed(about: &About, spoken: &Spoken, variables: &BTreeMap<String, String>) -> Result<Option<Load>> {
    let load = if let Some(path) = &about.http {
        let secured = *spoken == Spoken::Tls;
        http(path, secured, format!("GET {path}{}, as typed", if secured { " over TLS" } else { "" }))
    } else if about.redis {
        redis("GET and SET of Redis, as typed".to_owned())
    } else if about.memcached {
        memcached("get of memcached, as typed".to_owned())
    } else if let Some(statement) = &about.sql {
        sql(about, statement, spoken, variables)?
    } else if let Some(words) = about.tool()? {
        tool(&words, about.number.as_deref())?
    } else if let Some((row, path)) = script_of(about) {
        let Scripted { options, said, files } = script::read(row, path, *spoken == Spoken::Tls)?;
        Load { protocol: "exec", options, said, option: row.option, files }
    } else {
        return Ok(None);
    };
    Ok(Some(load))
}

/// The script that was typed, and its kind.
fn script_of(about: &About) -> Option<(&'static script::ScriptRow, &Path)> {
    let typed = [(&K6, &about.k6), (&JMETER, &about.jmeter), (&LOCUST, &about.locust)];
    typed.into_iter().find_map(|(row, path)| Some((row, path.as_deref()?)))
}

/// The file of the script that was typed.
pub(super) fn script_path(about: &About) -> Option<&Path> {
    script_of(about).map(|(_, path)| path)
}

/// The page of a load of HTTP that the service is asked for once before: the one that was typed, or else the first.
/// None if the load is another one.
pub(super) fn page(about: &About) -> Result<Option<&str>> {
    let other = about.redis || about.memcached || about.sql.is_some() || about.tool()?.is_some();
    let other = other || script_of(about).is_some();
    Ok(about.http.as_deref().or(Some("/")).filter(|_| !other))
}

/// Checks what the service answers to a request for the page at `path`: a load counts no answer but 200 as right.
///
/// # Errors
/// The answer, and what to write instead. An error of the service's own, 500 and above, is no mistake.
pub(super) fn check_answer(path: &str, answer: Option<&Answer>) -> Result<(), Fault> {
    let Some(answer) = answer.filter(|answer| answer.status != 200) else { return Ok(()) };
    let told = format!("GET {path} is answered with {answer}");
    let page = "name a page that is answered with 200: --http PATH";
    let (told, to_do) = match (answer.status, &answer.location) {
        (300..=399, Some(to)) if to.starts_with('/') => {
            (format!("{told}, which leads to {to}"), format!("if that is the page: --http {to}"))
        }
        (300..=399, Some(to)) => (format!("{told}, which leads to {to}"), page.to_owned()),
        (401, _) => (format!("{told}: it asks for a login"), format!("{page}, or a tool that logs in: --tool COMMAND")),
        (403, _) => (format!("{told}: reading it needs permission"), page.to_owned()),
        (500.., _) => (told, format!("see its last lines; if only this page fails, {page}")),
        _ => (told, page.to_owned()),
    };
    let fault = Fault::new(told).remedy(to_do);
    Err(if answer.status >= 500 { fault } else { fault.as_mistake() })
}

impl Load {
    /// None: the service is only looked at.
    pub(super) fn none() -> Load {
        Load {
            protocol: "null",
            options: vec!["{}".to_owned()],
            said: String::new(),
            option: "--tool COMMAND",
            files: Vec::new(),
        }
    }

    /// Whether it makes as many connections as it is told.
    pub(super) fn takes_connections(&self) -> bool {
        self.protocol != "exec" || self.options.iter().any(|line| line.contains("${connections}"))
    }

    /// Reads the options as a workload's, and looks for the programs that they name.
    fn check(&self) -> Result<()> {
        let text = self.options.join("\n");
        let files = self.files.clone();
        let beside = move |name: &str| {
            let found = files.iter().find(|(known, _)| known == name);
            found.map(|(_, text)| text.clone().into_bytes()).ok_or_else(|| format!("there is no file {name}"))
        };
        let mut problems = Problems::new("the load", &text).with_files(beside);
        let protocol = catalog::protocol(self.protocol).expect("a load names a protocol of this program");
        let node = parse(&text, &mut problems);
        let read = node.and_then(|node| protocol.read(&node, &mut problems));
        let found = problems.into_vec();
        let told = |Problem { message, hint, .. }: &Problem| match hint.as_str() {
            "" => format!("{}: {message}", self.option),
            hint => format!("{}: {message}\n  to do: {hint}", self.option),
        };
        match read {
            Some(options) if found.is_empty() => {
                let lacks = |fault: Fault| match script::where_from(self.option) {
                    Some(from) if fault.message.ends_with("is not in PATH") => {
                        fault.remedy(format!("install it for all users: {from}"))
                    }
                    _ => fault,
                };
                Ok(catalog::check_needs(self.protocol, &options).map_err(|fault| lacks(fault).as_mistake())?)
            }
            _ => Err(Mistake::new(found.iter().map(told).collect::<Vec<_>>().join("\nerror: ")).into()),
        }
    }
}

fn http(path: &str, secured: bool, said: String) -> Load {
    let mut options = vec![format!("requests: [{{path: {}}}]", quoted(path))];
    if secured {
        options.insert(0, "tls: {verify: false}".to_owned());
    }
    Load { protocol: "http", options, said, option: "--http PATH", files: Vec::new() }
}

fn redis(said: String) -> Load {
    let options = ["mix: {get: 75, set: 25}", "keys: 10000", "value_bytes: 64"].map(str::to_owned).to_vec();
    Load { protocol: "redis", options, said, option: "--http PATH, --tool COMMAND", files: Vec::new() }
}

fn memcached(said: String) -> Load {
    let options = [
        "populate:",
        r#"  - {request: "set tare 0 0 5\r\nhello\r\n", reply: {until: "STORED\r\n"}}"#,
        r#"request: "get tare\r\n""#,
        r#"reply: {until: "END\r\n"}"#,
        "expect: hello",
    ];
    let options = options.map(str::to_owned).to_vec();
    Load { protocol: "tcp", options, said, option: "--http PATH, --tool COMMAND", files: Vec::new() }
}

/// The dialect is the one that the service speaks. Images of databases name who may log in by these variables.
fn sql(about: &About, statement: &str, spoken: &Spoken, variables: &BTreeMap<String, String>) -> Result<Load> {
    let (protocol, user, password, database) = match spoken {
        Spoken::Postgres => ("postgres", "POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"),
        Spoken::MySql => ("mysql", "MYSQL_USER", "MYSQL_PASSWORD", "MYSQL_DATABASE"),
        other => {
            let text = format!("--sql needs PostgreSQL or MySQL, but the port speaks {other}");
            return Err(Mistake::new(format!("{text}\n  to do: name its port: --port, or another load")).into());
        }
    };
    let variable = |name: &str| {
        let found = variables.get(name).or_else(|| variables.get(&name.replace("MYSQL_", "MARIADB_")));
        // A secret of the shell stands in the service's environment alone.
        found.filter(|value| !value.contains("${{")).cloned()
    };
    let root = variable("MYSQL_ROOT_PASSWORD").filter(|_| protocol == "mysql" && variable(user).is_none());
    let (user, password) = match &about.login {
        Some(login) => match login.split_once(':') {
            Some((user, password)) => (Some(user.to_owned()), Some(password.to_owned())),
            None => (Some(login.clone()), variable(password)),
        },
        None if root.is_some() => (Some("root".to_owned()), root),
        None => (variable(user), variable(password)),
    };
    // PostgreSQL makes a database for its user; this one of MySQL everybody may read.
    let usual = || if protocol == "postgres" { user.clone() } else { Some("information_schema".to_owned()) };
    let database = about.database.clone().or_else(|| variable(database)).or_else(usual);
    let named = [("user", &user), ("password", &password), ("database", &database)];
    let mut options: Vec<String> =
        named.iter().filter_map(|(key, value)| Some(format!("{key}: {}", quoted(value.as_deref()?)))).collect();
    options.push("operations:".to_owned());
    options.push(format!("  statement: {{script: [{{sql: {}}}]}}", quoted(statement)));
    let who = user.map_or_else(|| "the usual user".to_owned(), |user| format!("user {user}"));
    let said = format!("{statement}, as {who} of {spoken}");
    let option = "--sql TEXT, --login USER:PASSWORD, --database NAME";
    Ok(Load { protocol, options, said, option, files: Vec::new() })
}

/// How the option of a tool is called where something is wrong with it.
const TOOL: &str = "--tool COMMAND, --number PATTERN";

fn tool(words: &[String], number: Option<&str>) -> Result<Load> {
    let known = known_tools();
    let name = Path::new(&words[0]).file_name().unwrap_or_default().to_string_lossy();
    if number.is_none() && !known.contains(&&*name) {
        let tools = known.join(", ");
        let text = format!("{TOOL}: nothing says where {name} prints its operations per second; known are {tools}");
        let to_do = "add --number with a JSON pointer (/summary/rps), a regular expression with one group \
                     ('rate: ([0-9.]+)'), or the name of the known tool whose output it prints";
        return Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
    }
    let mut command: Vec<String> = words.iter().map(|word| with_places(word)).collect();
    if !command.iter().any(|word| word.contains("${host}") || word.contains("${port}")) {
        let text = format!("{TOOL}: {name} does not get the service's address, which differs between forms");
        return Err(Mistake::new(format!("{text}\n  to do: put {{address}} where the tool takes it")).into());
    }
    if command[0].contains('/') {
        // As a shell finds it, wherever the folder is that will name it.
        command[0] = paths::plain(Path::new(&command[0])).display().to_string();
    }
    let mut options = vec![format!("command: {}", list(&command))];
    options.extend(number.map(|pattern| {
        if known.contains(&pattern) {
            format!("parser: {}", quoted(pattern))
        } else if pattern.starts_with('/') {
            format!("parser: {{json: {{throughput: {}}}}}", quoted(pattern))
        } else {
            format!("parser: {{regex: [{}]}}", quoted(&with_named_group(pattern)))
        }
    }));
    let said = format!("what {} sends", words[0]);
    Ok(Load { protocol: "exec", options, said, option: TOOL, files: Vec::new() })
}

/// A word of a tool's command as a workload writes it: `{seconds}` is `${seconds}` there.
fn with_places(word: &str) -> String {
    let replace = |word: String, name: &str, by: &str| {
        // Whoever knows workloads may have written it as there.
        let plain = word.replace(&format!("${{{name}}}"), &format!("{{{name}}}"));
        plain.replace(&format!("{{{name}}}"), by)
    };
    let word = replace(word.to_owned(), "address", "{host}:{port}");
    PLACES.into_iter().fold(word, |word, name| replace(word, name, &format!("${{{name}}}")))
}

/// A pattern whose first group is called what a workload calls the number.
fn with_named_group(pattern: &str) -> String {
    const NAMED: &str = "(?<throughput>";
    if pattern.contains(NAMED) {
        return pattern.to_owned();
    }
    let bytes = pattern.as_bytes();
    let opens = |at: &usize| {
        let escaped = bytes[..*at].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1;
        bytes[*at] == b'(' && bytes.get(at + 1) != Some(&b'?') && !escaped
    };
    match (0..bytes.len()).find(opens) {
        Some(at) => format!("{}{NAMED}{}", &pattern[..at], &pattern[at + 1..]),
        None => format!("{NAMED}{pattern})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::weigh::args::typed::about;

    fn chosen(typed: &[&str], spoken: &Spoken) -> Result<Load> {
        let about = about(&[&["x"][..], typed].concat());
        let variables = [("POSTGRES_PASSWORD", "s3cret"), ("POSTGRES_USER", "me"), ("MYSQL_ROOT_PASSWORD", "r00t")];
        let variables: BTreeMap<String, String> =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        choose(&about, 80, spoken, &variables)
    }

    #[test]
    fn each_protocol_suggests_a_load_that_a_workload_can_have() {
        for (spoken, protocol) in
            [(Spoken::Redis, "redis"), (Spoken::Http, "http"), (Spoken::Tls, "http"), (Spoken::Memcached, "tcp")]
        {
            let load = chosen(&[], &spoken).unwrap();
            assert_eq!(load.protocol, protocol);
            load.check().unwrap_or_else(|wrong| panic!("{spoken}: {wrong}"));
        }
        let told = chosen(&[], &Spoken::Postgres).unwrap_err().to_string();
        assert!(told.contains("--sql") && told.contains("--login"), "{told}");
        let told = chosen(&[], &Spoken::Unknown(b"hello".to_vec())).unwrap_err().to_string();
        assert!(told.contains("hello") && told.contains("--tool COMMAND"), "{told}");
    }

    #[test]
    fn what_was_typed_goes_over_what_is_spoken() {
        let told = chosen(&["--tool", "nosuchtool -x"], &Spoken::Redis).unwrap_err().to_string();
        assert!(told.starts_with("--tool COMMAND, --number PATTERN: "), "{told}");
        assert_eq!(chosen(&["--http", "/x"], &Spoken::Tls).unwrap().options[0], "tls: {verify: false}");
        let load = chosen(&["--sql", "SELECT 1"], &Spoken::Postgres).unwrap();
        assert_eq!(load.options[..2], [r#"user: "me""#, r#"password: "s3cret""#]);
        let load = chosen(&["--sql", "SELECT 1", "--login", "a:b:c"], &Spoken::MySql).unwrap();
        assert_eq!((load.protocol, load.options[1].as_str()), ("mysql", r#"password: "b:c""#));
        let load = chosen(&["--sql", "SELECT 1"], &Spoken::MySql).unwrap();
        assert_eq!(load.options[..2], [r#"user: "root""#, r#"password: "r00t""#]);
        assert!(chosen(&["--sql", "SELECT 1"], &Spoken::Redis).is_err());
    }

    #[test]
    fn places_of_a_tool_are_those_of_a_workload() {
        assert_eq!(with_places("http://{address}/{id}"), "http://${host}:${port}/{id}");
        assert_eq!(with_places("-d{seconds}s"), "-d${seconds}s");
        assert_eq!(with_places("-c${connections}"), "-c${connections}");
        let load = tool(&["x".to_owned(), "{port}".to_owned()], Some("/a/rps")).unwrap();
        assert_eq!(load.options, [r#"command: ["x", "${port}"]"#, r#"parser: {json: {throughput: "/a/rps"}}"#]);
    }

    #[test]
    fn what_says_nothing_of_its_number_is_asked_for_the_option() {
        let told = tool(&["./bench".to_owned()], None).unwrap_err().to_string();
        assert!(told.contains("where bench prints") && told.contains("--number") && !told.contains("json:"), "{told}");
        let load = tool(&["sh".to_owned(), "-c".to_owned(), "x {address}".to_owned()], Some("vegeta")).unwrap();
        assert_eq!(load.options[1], r#"parser: "vegeta""#);
    }

    #[test]
    fn a_tool_must_take_the_address_and_the_number_of_connections_that_was_typed() {
        let told = tool(&["wrk".to_owned(), "http://localhost/".to_owned()], None).unwrap_err().to_string();
        assert!(told.contains("the service's address") && told.ends_with("put {address} where the tool takes it"));
        assert!(tool(&["wrk".to_owned(), "http://${host}/".to_owned()], None).is_ok());
        let typed = ["x", "--connections", "8", "--tool", "wrk http://{address}/"];
        let told = check(&about(&typed)).unwrap_err().to_string();
        assert!(told.contains("--connections 8: ") && told.contains("put {connections}"), "{told}");
        let load = tool(&["wrk".to_owned(), "-c{connections}".to_owned(), "{address}".to_owned()], None).unwrap();
        assert!(load.takes_connections() && Load::none().takes_connections());
    }

    #[test]
    fn a_page_that_is_not_there_is_told_at_once() {
        let told = |status: u16, reason: &str, location: Option<&str>| {
            let location = location.map(str::to_owned);
            let answer = Answer { status, reason: reason.to_owned(), location };
            check_answer("/", Some(&answer)).err().map(|fault| (fault.message, fault.remedy, fault.mistake))
        };
        assert_eq!(told(200, "OK", None), None);
        let (message, remedy, mistake) = told(404, "Not Found", None).unwrap();
        assert_eq!((message.as_str(), mistake), ("GET / is answered with 404 Not Found", true));
        assert!(remedy.contains("--http PATH"), "{remedy}");
        let (message, remedy, _) = told(302, "Found", Some("/login")).unwrap();
        assert!(message.ends_with("which leads to /login") && remedy.ends_with("--http /login"), "{message}; {remedy}");
        assert!(told(401, "", None).unwrap().0.contains("asks for a login"));
        assert!(!told(502, "Bad Gateway", None).unwrap().2, "the service is to blame");
        assert!(check_answer("/", None).is_ok());
    }

    #[test]
    fn only_loads_of_http_ask_for_a_page() {
        assert_eq!(page(&about(&["x"])).unwrap(), Some("/"));
        assert_eq!(page(&about(&["x", "--http", "/a"])).unwrap(), Some("/a"));
        assert_eq!(page(&about(&["x", "--redis"])).unwrap(), None);
        assert_eq!(page(&about(&["x", "--k6", "s.js"])).unwrap(), None);
    }

    #[test]
    fn the_first_group_of_a_pattern_is_the_number() {
        assert_eq!(with_named_group(r"(?:a|b) \((\d+)"), r"(?:a|b) \((?<throughput>\d+)");
        assert_eq!(with_named_group(r"(?<throughput>\d+)"), r"(?<throughput>\d+)");
        assert_eq!(with_named_group(r"\d+"), r"(?<throughput>\d+)");
    }
}
