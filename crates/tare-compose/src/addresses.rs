//! Puts references to addresses in the place of services' names where their ports stand beside them. Elsewhere names
//! stay, for they resolve once the services that they name have started. Says where neither is possible.

use crate::known;
use crate::model::{Ready, Service};
use crate::names::{self, Mention};
use crate::order::Order;
use crate::sources::{At, Sources, Weight};
use std::collections::BTreeSet;
use tare_core::image::ImageConfig;

/// How a workload marks a reference.
const REFERENCE: &str = "${{";

/// The services' names and ports, while references to them are put in.
pub(crate) struct Addresses<'a> {
    /// Names and aliases, each with its service's number; none for a service that is not deployed.
    names: Vec<(String, Option<usize>)>,
    /// The services' names in the workload.
    own: Vec<String>,
    /// The ports at which each is known to listen; none where its image may tell later.
    ports: Vec<Option<BTreeSet<u16>>>,
    /// Services that others may name: which should start first, and before which.
    supposed: Vec<(usize, usize)>,
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
    /// Whether the loopback may mean another service there.
    on_machine: bool,
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
            // As the file writes them, and as they are looked up.
            let written = service.aliases.iter().map(|alias| &alias.name);
            names.extend(service.names.iter().chain(written).map(|name| (name.clone(), Some(number))));
        }
        names.extend(left_out.iter().map(|name| (name.clone(), None)));
        let known = |service: &Service| {
            let ports = usual_ports(service);
            (service.says.is_some() || !ports.is_empty()).then_some(ports)
        };
        let ports = services.iter().map(known).collect();
        let own = services.iter().map(|service| service.own.clone()).collect();
        Addresses { names, own, ports, supposed: Vec::new(), order, sources }
    }

    /// Puts references into the environments and commands of all services, and adds the ports that they name.
    pub(crate) fn put_in(mut self, services: &mut [Service]) {
        let mut wanted: Vec<(usize, u16)> = Vec::new();
        for (of, service) in services.iter_mut().enumerate() {
            let (key, on_machine) = (|name: &str| format!("services.{}.{name}", service.name), service.on_machine);
            for variable in &mut service.environment {
                let key = key(&format!("environment.{}", variable.name));
                let text = Text { of, at: variable.at, key, variable: Some(&variable.name), last: None, on_machine };
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
                    let (key, last_word) = (key.clone(), last.as_deref());
                    let text = Text { of, at: words.at, key, variable: None, last: last_word, on_machine };
                    let filled = self.filled(word, &text, &mut wanted);
                    last = Some(std::mem::replace(word, filled));
                }
            }
            self.look_into_files(of, service, &mut wanted);
        }
        // What is known of the order comes first.
        for (first, second) in self.supposed {
            self.order.add(first, second);
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
        if place.on_machine {
            mentions.extend(self.at_loopback(text, place.of));
            mentions.sort_by_key(|mention| mention.range.start);
        }
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

    /// Where a service in the machine's network names the loopback and means another one, which alone has that port.
    fn at_loopback(&self, text: &str, by: usize) -> Vec<Mention> {
        let means = |mention: Mention| {
            let has = |ports: &Option<BTreeSet<u16>>| {
                ports.as_ref().zip(mention.port).is_some_and(|(ports, port)| ports.contains(&port))
            };
            let mut listening = (0..self.ports.len()).filter(|of| has(&self.ports[*of]));
            let (of, None) = (listening.next()?, listening.next()) else { return None };
            let (name, _) = self.names.iter().find(|(_, named)| *named == Some(of))?;
            (of != by).then(|| Mention { name: name.clone(), sure: true, ..mention })
        };
        let found = names::find(text, &|name| ["localhost", "127.0.0.1"].contains(&name));
        found.into_iter().filter_map(means).collect()
    }

    /// The service and port that a mention refers to; none, with a note, where no reference can stand.
    fn reference(&mut self, mention: &Mention, place: &Text) -> Option<(usize, u16)> {
        let name = &mention.name;
        let listens = |of: usize, port: u16| self.ports[of].as_ref().is_some_and(|ports| ports.contains(&port));
        let (weight, instead) = match (self.named(name)?, mention.port) {
            (Some(of), Some(port)) if !mention.sure && !listens(of, port) => {
                if of != place.of {
                    let instead = format!(
                        "'{name}:{port}' stays as it is, for '{name}' is not known to listen there: if it is an \
                         address, add {port} to the 'expose:' of '{name}'"
                    );
                    self.sources.note(place.at, place.key.clone(), Weight::Differs, instead);
                    self.supposed.push((of, place.of));
                }
                return None;
            }
            (Some(of), Some(port)) if of != place.of && self.order.add(of, place.of) => return Some((of, port)),
            // Its own name leads to its own address in every form.
            (Some(of), _) if of == place.of => return None,
            (Some(_), Some(_)) => (Weight::Stops, self.too_late(name, place.of)),
            (Some(of), None) => (Weight::Stops, self.why_not_found(name, of, place.of)?),
            (None, _) => (Weight::Stops, not_deployed(name)),
        };
        self.sources.note(place.at, place.key.clone(), weight, instead);
        None
    }

    /// Has a service start before the one that names it, so that it is found by its name; why it is not, else.
    fn why_not_found(&mut self, name: &str, of: usize, by: usize) -> Option<String> {
        if !self.order.add(of, by) {
            return Some(self.too_late(name, by));
        }
        let nowhere = self.ports[of].as_ref().is_some_and(BTreeSet::is_empty);
        nowhere.then(|| {
            format!(
                "'{name}' is not known to listen at a port, and only services that do are found by their names: add \
                 it to the 'expose:' of '{name}'"
            )
        })
    }

    fn too_late(&self, name: &str, by: usize) -> String {
        let by = &self.own[by];
        format!("'{name}' starts after '{by}', and has no address before: services can refer only to those before them")
    }

    /// Looks for a name that stands alone where a host is wanted.
    fn look_for_hosts(&mut self, text: &str, place: &Text) {
        let is_host = |name: &str| match place.variable {
            Some(variable) => text == name && names::names_host(variable),
            None => names::is_host_argument(place.last, text, name),
        };
        let found = self.names.iter().find(|(name, of)| *of != Some(place.of) && is_host(name)).cloned();
        let Some((name, of)) = found else { return self.suppose(text, place.of) };
        let why = match of {
            Some(of) => self.why_not_found(&name, of, place.of),
            None => Some(not_deployed(&name)),
        };
        if let Some(why) = why {
            self.sources.note(place.at, place.key.clone(), Weight::Stops, why);
        }
    }

    /// Any other word may be a name that is looked up, too.
    fn suppose(&mut self, text: &str, by: usize) {
        let words = names::words_in(text);
        let named = self.names.iter().filter(|(name, _)| words.contains(name.as_str())).filter_map(|(_, of)| *of);
        self.supposed.extend(named.filter(|of| *of != by).map(|of| (of, by)));
    }

    /// Looks for names in copied files, into which nothing is put.
    fn look_into_files(&mut self, of: usize, service: &Service, wanted: &mut Vec<(usize, u16)>) {
        for (path, copied) in &service.files {
            let mut seen: Vec<String> = Vec::new();
            let text = String::from_utf8_lossy(&copied.content);
            let mentions = names::find(&text, &|name| self.named(name).is_some());
            for Mention { name, port, sure, .. } in mentions {
                let other = self.named(&name).flatten();
                if other == Some(of) || seen.contains(&name) {
                    continue;
                }
                let why = match other {
                    Some(other) => {
                        let unknown = sure && self.ports[other].as_ref().is_none_or(BTreeSet::is_empty);
                        if let Some(port) = port.filter(|_| unknown) {
                            wanted.push((other, port));
                            self.ports[other].get_or_insert_default().insert(port);
                        }
                        self.why_not_found(&name, other, of)
                    }
                    None => Some(not_deployed(&name)),
                };
                if let Some(why) = why {
                    let instead = format!("{path} names '{name}': {why}");
                    self.sources.note(copied.at, service.key(copied.of), Weight::Stops, instead);
                }
                seen.push(name);
            }
            self.suppose(&text, of);
        }
    }
}

/// Programs that say nothing about what they run: the next word does.
const RUNNERS: [&str; 12] =
    ["bash", "bun", "bundle", "java", "node", "npm", "php", "python", "python3", "ruby", "sh", "yarn"];

fn not_deployed(name: &str) -> String {
    format!("'{name}' is not deployed: ask for its profile by --profile")
}

/// The ports at which a service is known to listen.
pub(crate) fn usual_ports(service: &Service) -> BTreeSet<u16> {
    let mut ports = service.ports.clone();
    match &service.says {
        // The ports of its image are those of another program.
        _ if service.ready == Ready::Ended => {}
        Some(says) => {
            let named = says.tcp_ports().into_values();
            let is_own = starts_own(service, says);
            ports.extend(named.filter(|port| is_own || starts_server(service, *port)));
        }
        None => ports.extend(known_port(service)),
    }
    ports
}

/// The words that the Compose file starts the service with; none if it leaves that to the image.
fn started(service: &Service) -> Vec<&str> {
    let words = [&service.entrypoint, &service.command].into_iter().flatten().flat_map(|words| &words.words);
    words.map(String::as_str).collect()
}

/// Whether what is started is the image's own program, perhaps with other arguments, and not another one of the image,
/// which listens elsewhere or nowhere.
fn starts_own(service: &Service, says: &ImageConfig) -> bool {
    let started = started(service);
    // The image's own entry point takes options.
    if started.first().is_none_or(|word| service.entrypoint.is_none() && word.starts_with('-')) {
        return true;
    }
    let name = |word: &str| word.rsplit('/').next().unwrap_or(word).to_owned();
    let is_started = |own: &[String]| {
        let own: Vec<String> = own.iter().filter(|word| !word.starts_with('-')).map(|word| name(word)).collect();
        let telling = if own.first().is_some_and(|word| RUNNERS.contains(&word.as_str())) { 2 } else { 1 };
        !own.is_empty() && own.iter().take(telling).all(|own| started.iter().any(|word| name(word) == *own))
    };
    match &service.entrypoint {
        Some(_) => is_started(&says.entrypoint) || is_started(&says.command),
        // Where there is nothing but an entry point, words are its arguments.
        None => says.command.is_empty() || is_started(&says.command),
    }
}

/// Whether the server is started that listens at this port in widely used images. A shell may start it, and then one
/// word is a whole line.
fn starts_server(service: &Service, port: u16) -> bool {
    started(service).iter().flat_map(|word| word.split_whitespace()).any(|word| known::is_server(word, port))
}

/// The port of a widely used image, if what is started is its server and not another program of the image.
fn known_port(service: &Service) -> Option<u16> {
    let port = known::image(&service.image)?.port;
    // The image's own entry point takes options.
    let own = started(service).first().is_none_or(|word| word.starts_with('-'));
    (own || starts_server(service, port)).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Words;

    /// Whether a service with this entry point and command starts what an image with those starts.
    fn own((entrypoint, command): (&str, &str), image: (&str, &str)) -> bool {
        let list = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let words = |text: &str| (!text.is_empty()).then(|| Words { at: At::default(), words: list(text) });
        let service = Service { entrypoint: words(entrypoint), command: words(command), ..Service::default() };
        let says = ImageConfig { entrypoint: list(image.0), command: list(image.1), ..ImageConfig::default() };
        starts_own(&service, &says)
    }

    #[test]
    fn an_image_tells_the_ports_of_its_own_program_alone() {
        let mariadb = ("docker-entrypoint.sh", "mariadbd");
        for started in [("", ""), ("", "--max-connections=200"), ("", "/usr/sbin/mariadbd --x")] {
            assert!(own(started, mariadb), "{started:?}");
        }
        assert!(!own(("", "mariadb-dump -h db"), mariadb));
        assert!(!own(("/backup.sh", ""), mariadb));
        let python = ("", "python manage.py runserver 0:8000");
        assert!(own(("", "python -u manage.py runserver"), python));
        assert!(!own(("", "python worker.py"), python));
        assert!(!own(("", "celery -A shop worker"), ("", "gunicorn shop.wsgi")));
        assert!(own(("/app", ""), ("/app", "")) && own(("", "serve"), ("/app", "")), "the entry point takes words");
    }
}
