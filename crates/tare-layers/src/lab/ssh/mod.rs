//! Machines over the user's own ssh(1), with the user's configuration, keys, key agent and jump hosts.
//!
//! Tare asks for no password in the middle of something, and never accepts a host's key by itself.

use serde_json::{Value, json};
use std::sync::Arc;
use tare_core::config::{Node, Problems};
use tare_core::fault::Fault;
use tare_core::lab::{MachineKind, WayThere};

/// What goes over the user's configuration: nothing is asked, nothing is forwarded, no connection is left behind, and a
/// machine that falls silent is noticed within 15 s. Keys of hosts are checked as the user has it.
const OPTIONS: [&str; 11] = [
    "-T",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oControlMaster=no",
    "-oClearAllForwardings=yes",
    "-oForwardAgent=no",
    "-oForwardX11=no",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
];
/// The exit code by which ssh says that it failed itself.
const OWN_FAILURE: i32 = 255;

/// The kind.
pub(super) struct Ssh;

impl MachineKind for Ssh {
    fn name(&self) -> &'static str {
        "ssh"
    }

    fn schema(&self) -> Value {
        json!({ "type": "string", "description": "Reached over ssh: the destination as ssh takes it, with your own \
                 configuration, keys and jump hosts, such as root@10.0.0.5. Tare must be root there" })
    }

    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Arc<dyn WayThere>> {
        let destination = node.text(problems)?;
        let plain = |c: char| !c.is_whitespace() && !c.is_control();
        if destination.is_empty() || destination.starts_with('-') || !destination.chars().all(plain) {
            let hint = "as you type it for ssh: root@10.0.0.5, or a Host of your ~/.ssh/config";
            problems.add(node.place, format!("'{destination}' is no destination of ssh"), hint);
            return None;
        }
        Some(Arc::new(Destination(destination)))
    }
}

/// The way to one machine.
#[derive(Debug)]
struct Destination(String);

impl WayThere for Destination {
    fn words(&self) -> String {
        format!("ssh {}", self.0)
    }

    fn command(&self, words: &[&str], sending: bool) -> Vec<String> {
        let mut command = vec!["ssh"];
        command.extend(OPTIONS);
        if sending {
            command.push("-C");
        }
        command.extend(["--", self.0.as_str()]);
        command.extend(words);
        command.into_iter().map(str::to_owned).collect()
    }

    fn broken(&self, code: Option<i32>, said: &str) -> Option<Fault> {
        let to = &self.0;
        let fault = match code {
            None => Fault::new(format!("the connection to {to} was lost: ssh was killed")),
            Some(OWN_FAILURE) => self.failure(said),
            Some(_) => return None,
        };
        Some(fault.with_log(said.trim_end()))
    }

    fn absent(&self) -> Fault {
        Fault::new(format!("{} is reached over ssh, and there is no ssh on this machine", self.0))
            .remedy("install OpenSSH's client, such as by apt-get install openssh-client")
    }

    fn to_become_root(&self) -> String {
        let host = self.0.rsplit_once('@').map_or(self.0.as_str(), |(_, host)| host);
        format!("log in as root: root@{host}, or `User root` in your ssh configuration")
    }
}

/// What ssh says where it fails, each with what it means and what to do; `TO` stands for the destination. The first
/// that fits counts.
const FAILURES: &[(&[&str], &str, &str)] = &[
    (
        &["HOST IDENTIFICATION HAS CHANGED"],
        "the key of TO is another than the one that ssh knows: the machine was set up anew, or something else answers in its \
         place",
        "find out which; if it was set up anew, remove the old key (ssh-keygen -R), and connect once by hand: ssh TO true",
    ),
    (
        &["Host key verification failed", "host key is known"],
        "ssh does not know the key of TO, and Tare accepts none by itself",
        "connect once by hand, and compare the key's fingerprint with the machine's: ssh TO true",
    ),
    (
        &["Permission denied", "Too many authentication failures"],
        "TO lets nobody in by the keys that ssh offers without a question, and Tare asks for no password",
        "give it a key, or load yours into a key agent, until this works: ssh -oBatchMode=yes TO true",
    ),
    (
        &["Could not resolve hostname"],
        "ssh does not find out where TO is: no such name is known",
        "correct the name, or state the address by HostName in your ssh configuration",
    ),
    (
        &["Connection refused", "No route to host", "Network is unreachable", "timed out"],
        "nothing answers at TO",
        "see that the machine is switched on and its ssh server runs, and what lies between; by hand: ssh TO true",
    ),
    (
        &["Timeout, server", "Connection reset", "Broken pipe", "closed by remote host", "Connection to", "disconnect"],
        "the connection to TO was lost",
        "see whether the machine still runs, and try again; what was started there ends by itself",
    ),
];

impl Destination {
    fn failure(&self, said: &str) -> Fault {
        let fits = |(parts, ..): &&(&[&str], &str, &str)| parts.iter().any(|part| said.contains(part));
        let Some((_, message, remedy)) = FAILURES.iter().find(fits) else {
            let remedy = format!("what it says is below; by hand: ssh -oBatchMode=yes {} true", self.0);
            return Fault::new(format!("ssh failed on its way to {}", self.0)).remedy(remedy);
        };
        Fault::new(message.replace("TO", &self.0)).remedy(remedy.replace("TO", &self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Destination {
        Destination("root@10.0.0.5".to_owned())
    }

    #[test]
    fn words_go_behind_the_destination_and_nothing_is_asked_or_switched_off() {
        let command = way().command(&["uname", "-sm"], false);
        assert_eq!(command[0], "ssh");
        assert_eq!(command[command.len() - 4..], ["--", "root@10.0.0.5", "uname", "-sm"]);
        assert!(command.contains(&"-oBatchMode=yes".to_owned()), "{command:?}");
        assert!(
            !command.iter().any(|word| word.contains("StrictHostKey") || word.contains("KnownHosts")),
            "{command:?}"
        );
        assert!(!command.contains(&"-C".to_owned()));
        assert!(way().command(&["dd"], true).contains(&"-C".to_owned()), "what is large is compressed");
    }

    #[test]
    fn what_ssh_says_becomes_what_it_means_and_what_to_do() {
        let cases = [
            (
                "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.\n",
                "another than the one",
            ),
            ("No ED25519 host key is known for x and you have requested strict checking.\n", "does not know the key"),
            ("Host key verification failed.\r\n", "does not know the key of root@10.0.0.5"),
            ("root@10.0.0.5: Permission denied (publickey,password).\n", "lets nobody in"),
            ("ssh: Could not resolve hostname sut: Name or service not known\n", "no such name"),
            ("ssh: connect to host 10.0.0.5 port 22: Connection refused\n", "nothing answers"),
            ("ssh: connect to host 10.0.0.5 port 22: Connection timed out\n", "nothing answers"),
            ("Timeout, server 10.0.0.5 not responding.\n", "the connection to root@10.0.0.5 was lost"),
            ("client_loop: send disconnect: Broken pipe\n", "was lost"),
            ("command-line: line 0: Bad configuration option: x\n", "ssh failed on its way"),
        ];
        for (said, wanted) in cases {
            let fault = way().broken(Some(OWN_FAILURE), said).unwrap();
            assert!(fault.message.contains(wanted), "{said}: {fault}");
            assert!(!fault.remedy.is_empty() && !fault.to_string().contains("TO"), "{fault}");
            assert_eq!(fault.log, said.trim_end());
        }
        assert_eq!(way().broken(Some(127), "sh: 1: x: not found\n"), None, "that is how the program there ended");
        assert!(way().broken(None, "").unwrap().message.contains("ssh was killed"));
        assert!(Destination("me@sut".to_owned()).to_become_root().contains("root@sut,"));
    }

    #[test]
    fn a_destination_is_no_option() {
        for (text, fits) in
            [("root@10.0.0.5", true), ("sut", true), ("\"-oProxyCommand=x\"", false), ("\"a b\"", false)]
        {
            let read = tare_core::config::read("lab.yaml", text, |node, problems| Ssh.read(node, problems));
            assert_eq!(read.is_ok(), fits, "{text}: {read:?}");
        }
    }
}
