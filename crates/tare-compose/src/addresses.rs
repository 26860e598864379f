//! Puts references to addresses in the place of services' names, and says where that is impossible.

use crate::known;
use crate::model::{Service, Words};
use crate::names::{self, Mention};
use crate::order::Order;
use crate::sources::{At, Sources, Weight};
use std::collections::BTreeSet;

/// How a workload marks a reference.
const REFERENCE: &str = "${{";
/// What to do about a name that stands alone.
const ALONE: &str = "names of services do not resolve; write the name with its port (NAME:PORT), for which the address \
                     is put in, or have the program's start divide such an address";

/// The services' names and ports, while references to them are put in.
pub(crate) struct Addresses<'a> {
    /// Names and aliases, each with its service's number; none for a service that is not deployed.
    names: Vec<(String, Option<usize>)>,
    /// The services' names in the workload.
    own: Vec<String>,
    /// The ports at which each is known to listen.
    ports: Vec<BTreeSet<u16>>,
    order: &'a mut Order,
    sources: &'a mut Sources,
}

/// A text that may name services.
struct Text<'t> {
    /// The number of the service that has it.
    of: usize,
    at: At,
    /// The key that holds it, for notes.
    key: String,
    /// The variable whose value it is.
    variable: Option<&'t str>,
    /// The argument before it.
    last: Option<&'t str>,
}

impl<'a> Addresses<'a> {
    /// The names of these services, and of those that are `left_out`.
    pub(crate) fn new(
        services: &[Service],
        left_out: &[String],
        order: &'a mut Order,
        sources: &'a mut Sources,
    ) -> Addresses<'a> {
        let mut names: Vec<(String, Option<usize>)> = Vec::new();
        for (number, service) in services.iter().enumerate() {
            names.push((service.name.clone(), Some(number)));
        }
        for (number, service) in services.iter().enumerate() {
            names.extend(service.aliases.iter().map(|alias| (alias.clone(), Some(number))));
        }
        names.extend(left_out.iter().map(|name| (name.clone(), None)));
        let ports = services.iter().map(usual_ports).collect();
        let own = services.iter().map(|service| service.own.clone()).collect();
        Addresses { names, own, ports, order, sources }
    }

    /// Puts references into the environments and commands of all services, and adds the ports that they name.
    pub(crate) fn put_in(mut self, services: &mut [Service]) {
        let mut wanted: Vec<(usize, u16)> = Vec::new();
        for (of, service) in services.iter_mut().enumerate() {
            let key = |name: &str| format!("services.{}.{name}", service.name);
            for variable in &mut service.environment {
                let key = key(&format!("environment.{}", variable.name));
                let text = Text { of, at: variable.at, key, variable: Some(&variable.name), last: None };
                variable.text = self.filled(&variable.text, &text, &mut wanted);
            }
            let (entrypoint, command) = (key("entrypoint"), key("command"));
            for (key, words) in [(entrypoint, &mut service.entrypoint), (command, &mut service.command)] {
                let Some(words) = words else { continue };
                let mut last: Option<String> = None;
                for word in &mut words.words {
                    if word.contains(REFERENCE) {
                        let message = "a workload reads '${{' as a reference of its own";
                        self.sources.wrong(words.at, message, "write this argument another way");
                    }
                    let text = Text { of, at: words.at, key: key.clone(), variable: None, last: last.as_deref() };
                    let filled = self.filled(word, &text, &mut wanted);
                    last = Some(std::mem::replace(word, filled));
                }
            }
            self.look_into_files(of, service);
        }
        for (of, port) in wanted {
            services[of].ports.insert(port);
        }
    }

    fn named(&self, name: &str) -> Option<Option<usize>> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, of)| *of)
    }

    /// The text with references in the place of names; `wanted` gets the ports that they name.
    fn filled(&mut self, text: &str, place: &Text, wanted: &mut Vec<(usize, u16)>) -> String {
        let mut mentions = names::find(text, &|name| self.named(name).is_some());
        if mentions.is_empty() {
            match place.variable.and_then(known::port_of_variable).filter(|_| self.named(text).is_some()) {
                Some(port) => {
                    let name = text.to_owned();
                    mentions.push(Mention { range: 0..text.len(), name, port: Some(port), sure: true });
                }
                None => self.look_for_hosts(text, place),
            }
        }
        let mut filled = text.to_owned();
        // From behind, so that ranges stay where they are.
        for mention in mentions.into_iter().rev() {
            if let Some((of, port)) = self.reference(&mention, place) {
                filled.replace_range(mention.range, &format!("${{{{addresses.{}.{port}}}}}", self.own[of]));
                wanted.push((of, port));
            }
        }
        filled
    }

    /// The service and port that a mention refers to; none, with a note, where no reference can stand.
    fn reference(&mut self, mention: &Mention, place: &Text) -> Option<(usize, u16)> {
        let name = &mention.name;
        let instead = match (self.named(name)?, mention.port) {
            (Some(of), Some(port)) if !mention.sure && !self.ports[of].contains(&port) => {
                if of != place.of {
                    let instead = format!(
                        "'{name}:{port}' stays as it is, for '{name}' is not known to listen there: if it is an \
                         address, add {port} to the 'expose:' of '{name}'"
                    );
                    self.sources.note(place.at, place.key.clone(), Weight::Differs, instead);
                }
                return None;
            }
            (Some(of), Some(port)) if of != place.of && self.order.add(of, place.of) => return Some((of, port)),
            (Some(of), _) if of == place.of => format!(
                "it names '{name}' itself, and a service cannot be told its own address: leave the name out, or write \
                 the port by ${{{{port.NUMBER}}}}"
            ),
            (Some(_), Some(_)) => format!(
                "'{name}' starts after '{}', and has no address before: services can refer only to those before them",
                self.own[place.of]
            ),
            (Some(_), None) => format!("the port of '{name}' cannot be told from this: write {name}:PORT"),
            (None, _) => format!("'{name}' is not deployed: ask for its profile by --profile"),
        };
        self.sources.note(place.at, place.key.clone(), Weight::Stops, instead);
        None
    }

    /// Notes a name that stands alone where a host is wanted.
    fn look_for_hosts(&mut self, text: &str, place: &Text) {
        let is_host = |name: &str| match place.variable {
            Some(variable) => text == name && names::names_host(variable),
            None => names::is_host_argument(place.last, text, name),
        };
        let found = self.names.iter().find(|(name, of)| *of != Some(place.of) && is_host(name));
        if let Some((name, _)) = found {
            let instead = format!("it names '{name}': {ALONE}");
            self.sources.note(place.at, place.key.clone(), Weight::Stops, instead);
        }
    }

    /// Notes names in copied files, into which nothing is put.
    fn look_into_files(&mut self, of: usize, service: &Service) {
        for (path, copied) in &service.files {
            let mut told: Vec<String> = Vec::new();
            let mentions = names::find(&copied.content, &|name| self.named(name).is_some());
            for mention in mentions {
                let other = self.named(&mention.name).flatten();
                if other == Some(of) || told.contains(&mention.name) {
                    continue;
                }
                let name = &mention.name;
                let instead = match other {
                    Some(other) => format!(
                        "{path} names '{name}', which does not resolve, and nothing is put into files: have the \
                         service's start write the file from a variable with ${{{{addresses.{}.PORT}}}}",
                        self.own[other]
                    ),
                    None => format!("{path} names '{name}', which is not deployed: ask for its profile by --profile"),
                };
                self.sources.note(copied.at, service.key(copied.of), Weight::Stops, instead);
                told.push(mention.name);
            }
        }
    }
}

/// The ports at which a service is known to listen.
pub(crate) fn usual_ports(service: &Service) -> BTreeSet<u16> {
    let mut ports = service.ports.clone();
    match &service.says {
        Some(says) => ports.extend(says.tcp_ports().into_values()),
        None => ports.extend(known_port(service)),
    }
    ports
}

/// The port of a widely used image, if what is started is its server and not another program of the image.
fn known_port(service: &Service) -> Option<u16> {
    let port = known::image(&service.image)?.port;
    let words = |words: &Option<Words>| words.as_ref().map(|words| words.words.clone()).unwrap_or_default();
    let command = [words(&service.entrypoint), words(&service.command)].concat();
    // The image's own entry point takes options.
    let own = command.first().is_none_or(|word| word.starts_with('-'));
    // A shell may start it, and then one word is a whole line.
    let starts = command.iter().flat_map(|word| word.split_whitespace()).any(|word| known::is_server(word, port));
    (own || starts).then_some(port)
}
