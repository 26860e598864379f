//! How a service is told at which port to listen. Where that can be found out, its forms stand side by side under a
//! load that is chopped, which sees much finer than blocks of one form after the other.

use std::collections::BTreeMap;
use std::path::Path;

/// What a workload calls the port that gets the load.
pub(super) const PORT: &str = "main";

/// How a service takes its port. It is tried before it is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Movable {
    /// This whole command has the port in one of its words.
    Command {
        /// Its words; the port is a placeholder.
        words: Vec<String>,
        /// What takes the port, such as `--port`.
        by: String,
    },
    /// This variable is the port.
    Variable(String),
}

/// Programs that take their port by an option, and the words before its number. An entry script of the same image
/// hands on what follows its program's name.
const PROGRAMS: [(&str, &[&str]); 8] = [
    ("redis-server", &["--port"]),
    ("valkey-server", &["--port"]),
    ("memcached", &["-p"]),
    ("postgres", &["-p"]),
    ("mysqld", &["--port="]),
    ("mariadbd", &["--port="]),
    ("mongod", &["--port"]),
    ("nats-server", &["--port"]),
];

/// What stands for the port in a workload.
fn placeholder() -> String {
    format!("${{{{port.{PORT}}}}}")
}

/// The likeliest way in which a service with this command and these variables takes its `port`; none where nothing
/// points to one.
pub(super) fn likeliest(command: &[String], variables: &BTreeMap<String, String>, port: u16) -> Option<Movable> {
    let number = port.to_string();
    if variables.get("PORT") == Some(&number) {
        return Some(Movable::Variable("PORT".to_owned()));
    }
    in_a_word(command, &number).or_else(|| by_its_program(command))
}

/// A word of the command that is the port, or ends with it after a colon or an equals sign, if there is one such word.
fn in_a_word(command: &[String], number: &str) -> Option<Movable> {
    let before = |word: &String| {
        let before = word.strip_suffix(number)?;
        (before.is_empty() || before.ends_with([':', '='])).then(|| before.to_owned())
    };
    let mut found = command.iter().enumerate().skip(1).filter_map(|(at, word)| Some((at, before(word)?)));
    let (Some((at, before)), None) = (found.next(), found.next()) else { return None };
    let mut words = command.to_vec();
    words[at] = before.clone() + &placeholder();
    let by = if before.starts_with('-') { before } else { command[at - 1].clone() };
    Some(Movable::Command { words, by })
}

/// An option of a known program.
fn by_its_program(command: &[String]) -> Option<Movable> {
    let name = |word: &String| Path::new(word).file_name()?.to_str().map(str::to_owned);
    let known = |word: &String| PROGRAMS.iter().find(|(program, _)| name(word).as_deref() == Some(*program));
    let (_, option) = command.iter().find_map(known)?;
    let mut words = command.to_vec();
    words.extend(option.iter().map(|word| (*word).to_owned()));
    match words.last_mut() {
        Some(last) if last.ends_with('=') => *last += &placeholder(),
        _ => words.push(placeholder()),
    }
    Some(Movable::Command { words, by: option.concat() })
}

impl Movable {
    /// What takes the port, in words.
    pub(super) fn by(&self) -> String {
        match self {
            Movable::Command { by, .. } => by.trim_end_matches([':', '=']).to_owned(),
            Movable::Variable(name) => format!("the variable {name}"),
        }
    }

    /// The words of the service's command, if it takes its port there.
    pub(super) fn command(&self) -> Option<&[String]> {
        match self {
            Movable::Command { words, .. } => Some(words),
            Movable::Variable(_) => None,
        }
    }

    /// The variable that is the port, with its value in a workload.
    pub(super) fn variable(&self) -> Option<(String, String)> {
        match self {
            Movable::Command { .. } => None,
            Movable::Variable(name) => Some((name.clone(), placeholder())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str, variables: &[(&str, &str)], port: u16) -> Option<(String, String)> {
        let command: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let found = likeliest(&command, &variables, port)?;
        let text = found.command().map(|words| words.join(" "));
        Some((text.or_else(|| Some(found.variable()?.1))?, found.by()))
    }

    #[test]
    fn a_port_is_found_in_the_variable_or_the_word_that_has_it() {
        let told = |text: &str, by: &str| Some((text.to_owned(), by.to_owned()));
        assert_eq!(of("/app", &[("PORT", "8080")], 8080), told("${{port.main}}", "the variable PORT"));
        assert_eq!(of("/app --port 8080", &[], 8080), told("/app --port ${{port.main}}", "--port"));
        assert_eq!(of("/app --port=8080", &[], 8080), told("/app --port=${{port.main}}", "--port"));
        assert_eq!(of("/app -l 0.0.0.0:8080", &[], 8080), told("/app -l 0.0.0.0:${{port.main}}", "-l"));
        assert_eq!(of("/app 18080", &[], 8080), None, "that is another number");
        assert_eq!(of("/app 8080 --admin 8080", &[], 8080), None, "one of them is the port, and nobody knows which");
        assert_eq!(of("/app", &[("PORT", "9090")], 8080), None);
    }

    #[test]
    fn known_programs_have_options_for_it() {
        let redis = of("docker-entrypoint.sh redis-server --save x", &[], 6379).unwrap();
        assert_eq!(redis, ("docker-entrypoint.sh redis-server --save x --port ${{port.main}}".into(), "--port".into()));
        let mysql = of("/usr/sbin/mysqld --x", &[], 3306).unwrap();
        assert_eq!(mysql, ("/usr/sbin/mysqld --x --port=${{port.main}}".into(), "--port".into()));
        assert_eq!(of("/usr/bin/unknown", &[], 1), None);
    }
}
