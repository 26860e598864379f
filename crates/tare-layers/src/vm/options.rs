//! What a study may say about a guest.

use serde::{Deserialize, Serialize};
use tare_core::config::{Fields, Node, Problems};
use tare_core::fault::{Doing, Fault};

/// The options of the layer `vm`, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmOptions {
    /// Virtual CPUs; none is what the services ask for.
    pub cpus: Option<u32>,
    /// The guest's memory in bytes; none is what the services, the guest's own system and the inner layers need.
    pub memory: Option<u64>,
    /// QEMU's machine type: `q35`, `microvm` or `pc`.
    pub machine: String,
    /// `auto` (KVM where a guest really boots under it), `kvm` or `tcg`.
    pub accelerator: String,
    /// Whether the kernel moves the network packets: `auto`, `on` or `off`.
    pub vhost: String,
    /// Whether the guest's memory is huge pages, reserved beforehand.
    pub hugepages: bool,
    /// Whether each virtual CPU is bound to one CPU.
    pub pin: bool,
    /// How disks use the host's page cache: `none`, `writeback` or `unsafe`.
    pub cache: String,
    /// Whether disks have a thread of their own.
    pub iothread: bool,
}

impl Default for VmOptions {
    fn default() -> Self {
        VmOptions {
            cpus: None,
            memory: None,
            machine: "q35".to_owned(),
            accelerator: "auto".to_owned(),
            vhost: "auto".to_owned(),
            hugepages: false,
            pin: true,
            cache: "none".to_owned(),
            iothread: false,
        }
    }
}

impl VmOptions {
    /// Reads the canonical form back.
    ///
    /// # Errors
    /// When the value was not written by [`read`]: a record of another version.
    pub fn from_value(value: &serde_json::Value) -> Result<Self, Fault> {
        serde_json::from_value(value.clone()).doing("understand the options of the layer 'vm'")
    }
}

/// Checks a user's options and writes them down with every default filled in.
pub(super) fn read(node: &Node, problems: &mut Problems) -> Option<serde_json::Value> {
    let before = problems.len();
    let default = VmOptions::default();
    let mut fields = Fields::of(node, "layer 'vm'", problems)?;
    let cpus = fields.integer("cpus", 1..=1024, problems).and_then(|cpus| u32::try_from(cpus).ok());
    let memory_place = fields.get("memory").map(|node| node.place);
    let memory = fields.bytes("memory", problems);
    if let (Some(bytes), Some(place)) = (memory, memory_place)
        && bytes < super::size::RESERVE
    {
        let hint = format!("at least {} MiB, and what the services need", super::size::RESERVE >> 20);
        problems.add(place, "a guest cannot boot with so little memory", hint);
    }
    let mut word = |name, choices: &[&'static str], default: String| {
        fields.choice(name, choices, problems).map_or(default, str::to_owned)
    };
    let machine = word("machine", &["q35", "microvm", "pc"], default.machine);
    let accelerator = word("accelerator", &["auto", "kvm", "tcg"], default.accelerator);
    let vhost = word("vhost", &["auto", "on", "off"], default.vhost);
    let cache = word("cache", &["none", "writeback", "unsafe"], default.cache);
    let hugepages = fields.boolean("hugepages", problems).unwrap_or(default.hugepages);
    let pin = fields.boolean("pin", problems).unwrap_or(default.pin);
    let iothread = fields.boolean("iothread", problems).unwrap_or(default.iothread);
    fields.finish(problems);
    if problems.len() > before {
        return None;
    }
    let options = VmOptions { cpus, memory, machine, accelerator, vhost, hugepages, pin, cache, iothread };
    Some(serde_json::to_value(options).expect("plain data can be written down"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::config::parse;

    fn options(text: &str) -> Result<VmOptions, Vec<String>> {
        let mut problems = Problems::new("study.yaml", text);
        let value = parse(text, &mut problems).and_then(|node| read(&node, &mut problems));
        value
            .map(|value| VmOptions::from_value(&value).unwrap())
            .ok_or_else(|| problems.into_vec().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_left_out_is_filled_in() {
        assert_eq!(options("{}"), Ok(VmOptions::default()));
        let given = options("{cpus: 2, memory: 1GiB, hugepages: true, vhost: off, machine: microvm}").unwrap();
        let wanted = VmOptions {
            cpus: Some(2),
            memory: Some(1 << 30),
            hugepages: true,
            vhost: "off".to_owned(),
            machine: "microvm".to_owned(),
            ..VmOptions::default()
        };
        assert_eq!(given, wanted);
    }

    #[test]
    fn every_mistake_is_found() {
        let found = options("{cpus: 0, memory: 16MiB, accelerator: turbo, cach: none}").unwrap_err();
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(found.iter().any(|text| text.contains("did you mean 'cache'?")), "{found:#?}");
    }
}
