//! A lab: machines that somebody else stands at, each reached in a way of its own kind.
//!
//! A lab file names them. How a machine is reached is a kind, whose name is the key: a row of the [`MachineKinds`] that
//! the program hands to the reader. What is done there once it is reached is the same for all of them.

use crate::config::{self, Fields, Node, Problem, Problems};
use crate::fault::Fault;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The JSON Schema (draft 2020-12) of lab files, without the kinds, each of which describes itself.
pub const FILE_SCHEMA: &str = include_str!("../assets/lab.schema.json");

/// The longest name of a machine, so that tables stay narrow.
const NAME_MAX: usize = 24;
/// The field with the address that load goes to.
const NETWORK: &str = "network";
/// The field with the folder in which Tare keeps things on the machine.
const HOME: &str = "home";

/// A way to another machine: a command of this machine that runs a program there and carries its standard input and
/// output.
pub trait WayThere: fmt::Debug + Send + Sync {
    /// The way in a few words, for lists: the kind and whom it asks.
    fn words(&self) -> String;

    /// The command that runs `words` there. They need no quotes in any shell: letters, digits and `-_./=+`. `sending`
    /// is whether a large file goes in by standard input, which a way may compress.
    fn command(&self, words: &[&str], sending: bool) -> Vec<String>;

    /// What is wrong with the way itself, where its command ended with this exit code (none: by a signal), having said
    /// this on standard error. None where that is how the program there ended.
    fn broken(&self, code: Option<i32>, said: &str) -> Option<Fault>;

    /// What it means that this machine does not have the way's own program.
    fn absent(&self) -> Fault;

    /// What to do where this way leads to a user there who is not root.
    fn to_become_root(&self) -> String;
}

/// A kind of machine, by how it is reached.
pub trait MachineKind: Sync {
    /// The key that names it in a lab file.
    fn name(&self) -> &'static str;

    /// The JSON Schema of the key's value, with its description.
    fn schema(&self) -> serde_json::Value;

    /// Reads the key's value. `None` when it is wrong; then at least one problem was added.
    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Arc<dyn WayThere>>;
}

/// The kinds that a lab file may name.
#[derive(Clone, Copy)]
pub struct MachineKinds {
    /// Those that there are.
    pub known: &'static [&'static dyn MachineKind],
    /// Names of kinds that are meant to come, so that whoever writes one learns that it is no slip of the pen.
    pub planned: &'static [&'static str],
}

impl MachineKinds {
    fn names(&self) -> Vec<&'static str> {
        self.known.iter().map(|kind| kind.name()).collect()
    }
}

/// A machine of a lab.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its name in the lab file.
    pub name: String,
    /// How it is reached.
    pub way: Arc<dyn WayThere>,
    /// The address at which load from other machines reaches it.
    pub network: Option<IpAddr>,
    /// The folder in which Tare keeps things there; none for the usual one.
    pub home: Option<String>,
}

/// A lab, read from a file and checked.
#[derive(Debug, Clone)]
pub struct Lab {
    /// The machines, in the order of the file.
    pub machines: Vec<Machine>,
}

impl Lab {
    /// Reads `text`, the content of `file`.
    ///
    /// # Errors
    /// All mistakes in it, in the order of their places.
    pub fn read(file: &str, text: &str, kinds: &MachineKinds) -> Result<Lab, Vec<Problem>> {
        config::read(file, text, |root, problems| {
            let mut fields = Fields::of(root, "the lab", problems)?;
            let machines = fields.require("machines", problems);
            let machines = machines.and_then(|node| read_machines(node, kinds, problems));
            fields.finish(problems);
            Some(Lab { machines: machines? })
        })
    }
}

fn read_machines(node: &Node, kinds: &MachineKinds, problems: &mut Problems) -> Option<Vec<Machine>> {
    let fields = Fields::of(node, "'machines'", problems)?;
    if fields.entries().is_empty() {
        problems.add(node.place, "the lab has no machine", "name one and say how it is reached");
    }
    let mut machines = Vec::new();
    for (name, place, node) in fields.entries() {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(fits) {
            let hint = format!("1 to {NAME_MAX} letters, digits, '-', '_' and '.'");
            problems.add(*place, format!("'{name}' cannot be the name of a machine"), hint);
        }
        machines.extend(read_machine(name, node, kinds, problems));
    }
    Some(machines)
}

fn read_machine(name: &str, node: &Node, kinds: &MachineKinds, problems: &mut Problems) -> Option<Machine> {
    let what = format!("machine '{name}'");
    let mut fields = Fields::of(node, what.clone(), problems)?;
    let known: Vec<&str> = kinds.names().into_iter().chain([NETWORK, HOME]).collect();
    let (mut ways, mut is_planned) = (Vec::new(), false);
    for (key, place, value) in fields.entries() {
        if let Some(kind) = kinds.known.iter().find(|kind| kind.name() == key.as_str()) {
            ways.push((*place, kind.read(value, problems)));
        } else if kinds.planned.contains(&key.as_str()) {
            is_planned = true;
            let hint = format!("a machine is reached by one of these now: {}", kinds.names().join(", "));
            problems.add(*place, format!("machines of the kind '{key}' do not exist yet"), hint);
        } else if !known.contains(&key.as_str()) {
            problems.add_unknown(*place, format!("{what} has no field '{key}'"), key, &known);
        }
    }
    if let Some((place, _)) = ways.get(1) {
        problems.add(*place, format!("{what} takes one kind, here is a second"), "keep one of them");
    }
    if ways.is_empty() && !is_planned {
        let hint = format!("say how it is reached, by one of these: {}", kinds.names().join(", "));
        problems.add(node.place, format!("{what} has no kind"), hint);
    }
    let network = fields.get(NETWORK).and_then(|node| read_address(node, problems));
    let home = fields.get(HOME).and_then(|node| read_home(node, problems));
    let (_, way) = ways.into_iter().next()?;
    Some(Machine { name: name.to_owned(), way: way?, network, home })
}

fn read_address(node: &Node, problems: &mut Problems) -> Option<IpAddr> {
    let text = node.text(problems)?;
    let address = text.parse::<IpAddr>().ok().filter(|address| !address.is_unspecified() && !address.is_multicast());
    if address.is_none() {
        let hint = "the numbers of an address that the machine has, such as 192.168.50.5";
        problems.add(node.place, format!("'{text}' is not the address of a machine"), hint);
    }
    address
}

/// A folder whose path comes through any shell as it is.
fn read_home(node: &Node, problems: &mut Problems) -> Option<String> {
    let text = node.text(problems)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let parts = || text.split('/').skip(1).all(|part| !["", ".", ".."].contains(&part));
    if !text.starts_with('/') || !text.chars().all(plain) || !parts() {
        let hint = "a whole path of letters, digits, '-', '_' and '.', such as /srv/tare";
        problems.add(node.place, format!("'{text}' cannot be Tare's folder there"), hint);
        return None;
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reached by a word.
    struct Wire;

    #[derive(Debug)]
    struct ByWire(String);

    impl WayThere for ByWire {
        fn words(&self) -> String {
            format!("wire {}", self.0)
        }
        fn command(&self, words: &[&str], _: bool) -> Vec<String> {
            words.iter().map(|word| (*word).to_owned()).collect()
        }
        fn broken(&self, _: Option<i32>, _: &str) -> Option<Fault> {
            None
        }
        fn absent(&self) -> Fault {
            Fault::new("no wire")
        }
        fn to_become_root(&self) -> String {
            String::new()
        }
    }

    impl MachineKind for Wire {
        fn name(&self) -> &'static str {
            "wire"
        }
        fn schema(&self) -> serde_json::Value {
            serde_json::Value::Bool(true)
        }
        fn read(&self, node: &Node, problems: &mut Problems) -> Option<Arc<dyn WayThere>> {
            Some(Arc::new(ByWire(node.text(problems)?)))
        }
    }

    const KINDS: MachineKinds = MachineKinds { known: &[&Wire], planned: &["pigeon"] };

    fn mistakes(text: &str) -> Vec<String> {
        let found = Lab::read("lab.yaml", text, &KINDS).err().unwrap_or_default();
        let told = |problem: &Problem| {
            let Problem { place, message, hint, .. } = problem;
            format!("{}:{} {message} ({hint})", place.line, place.column)
        };
        found.iter().map(told).collect()
    }

    #[test]
    fn a_lab_has_its_machines_in_the_order_of_the_file() {
        let text = "machines:\n  sut: {wire: red, network: 192.168.50.5, home: /srv/tare}\n  \
                    load-1: {wire: blue, network: \"2001:db8::1\"}\n  any: {wire: green}\n";
        let lab = Lab::read("lab.yaml", text, &KINDS).unwrap();
        let told = |machine: &Machine| {
            let network = machine.network.map(|address| address.to_string()).unwrap_or_default();
            let home = machine.home.clone().unwrap_or_default();
            format!("{} {} {network} {home}", machine.name, machine.way.words())
        };
        let told: Vec<String> = lab.machines.iter().map(told).collect();
        assert_eq!(told, ["sut wire red 192.168.50.5 /srv/tare", "load-1 wire blue 2001:db8::1 ", "any wire green  "]);
    }

    #[test]
    fn all_mistakes_of_a_lab_are_found_at_once_with_their_places() {
        let text = "machnes: {}\nmachines:\n  a: {wire: x, netwrk: 10.0.0.1}\n  b: {network: here}\n  \
                    c: {pigeon: {}, home: ../x}\n  d: {wire: x, wire2: y}\n  \"e f\": {wire: [1]}\n  g: 7\n";
        let found = mistakes(text);
        let wanted = [
            "1:1 the lab has no field 'machnes' (did you mean 'machines'?)",
            "3:16 machine 'a' has no field 'netwrk' (did you mean 'network'?)",
            "4:6 machine 'b' has no kind (say how it is reached, by one of these: wire)",
            "4:16 'here' is not the address of a machine",
            "5:7 machines of the kind 'pigeon' do not exist yet (a machine is reached by one of these now: wire)",
            "5:25 '../x' cannot be Tare's folder there",
            "6:16 machine 'd' has no field 'wire2' (did you mean 'wire'?)",
            "7:3 'e f' cannot be the name of a machine",
            "7:17 expected text, found a list",
            "8:6 machine 'g' must be a map, found '7'",
        ];
        assert_eq!(found.len(), wanted.len(), "{found:#?}");
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(found.starts_with(wanted), "{found}\n{wanted}");
        }
    }

    #[test]
    fn what_cannot_be_a_folder_or_an_address_is_refused() {
        let of = |field: &str| mistakes(&format!("machines: {{a: {{wire: x, {field}}}}}\n")).len();
        for wrong in ["home: srv", "home: /", "home: /a/../b", "home: \"/a b\"", "home: /a/", "home: \"/a;b\""] {
            assert_eq!(of(wrong), 1, "{wrong}");
        }
        for wrong in ["network: 0.0.0.0", "network: 224.0.0.1", "network: host", "network: 10.0.0.1/24"] {
            assert_eq!(of(wrong), 1, "{wrong}");
        }
        assert_eq!(of("home: /srv/tare-1, network: 10.0.0.1"), 0);
        assert_eq!(mistakes("machines: {a: {wire: x, wire: y}}\n").len(), 1, "one kind, once");
        assert_eq!(mistakes("machines: {}\n"), ["1:11 the lab has no machine (name one and say how it is reached)"]);
        assert!(mistakes("{}\n")[0].contains("the lab has no 'machines'"), "{:?}", mistakes("{}\n"));
    }
}
