//! Machines over any command with pipes: one that runs the words behind its own on the machine.

use serde_json::{Value, json};
use std::sync::Arc;
use tare_core::config::{Node, NodeKind, Problems};
use tare_core::fault::Fault;
use tare_core::lab::{MachineKind, WayThere};

/// Stands for Tare's program there.
const TARE: &str = "{tare}";
/// The only verb that is started there.
const AGENT: &str = "agent";

/// The kind.
pub(super) struct ByCommand;

impl MachineKind for ByCommand {
    fn name(&self) -> &'static str {
        "command"
    }

    fn schema(&self) -> Value {
        json!({
            "type": "array",
            "items": { "type": "string" },
            "description": "Reached by a command that runs, on the machine and as root, the words behind its own, and \
                            passes standard input and output on: its words, then \"{tare}\" and agent",
        })
    }

    fn read(&self, node: &Node, problems: &mut Problems) -> Option<Arc<dyn WayThere>> {
        let hint = "such as [teleport, exec, sut, --, \"{tare}\", agent]";
        let NodeKind::List(items) = &node.kind else {
            let message = format!("a list of words is wanted here, this is {}", node.describe());
            problems.add(node.place, message, hint);
            return None;
        };
        let before = problems.len();
        let words: Vec<String> = items.iter().filter_map(|item| item.text(problems)).collect();
        if problems.len() > before {
            return None;
        }
        match &words[..] {
            [own @ .., tare, agent] if tare == TARE && agent == AGENT && !own.is_empty() => {
                if let Some(at) = own.iter().position(|word| word.contains(TARE)) {
                    let message = "the command names {tare} a second time; it stands once, for the program";
                    problems.add(items[at].place, message, hint);
                    return None;
                }
                Some(Arc::new(Words(own.to_vec())))
            }
            _ => {
                let message = "the command must have a program of its own first, and end with {tare} and agent";
                problems.add(node.place, message, hint);
                None
            }
        }
    }
}

/// The words before those that are run there.
#[derive(Debug)]
struct Words(Vec<String>);

impl WayThere for Words {
    fn words(&self) -> String {
        format!("command {}", self.0.join(" "))
    }

    fn command(&self, words: &[&str], _: bool) -> Vec<String> {
        self.0.iter().cloned().chain(words.iter().map(|word| (*word).to_owned())).collect()
    }

    fn broken(&self, code: Option<i32>, said: &str) -> Option<Fault> {
        // Whose exit code it is, its own or that of what it ran, such a command does not tell.
        code.is_none().then(|| {
            let fault = Fault::new(format!("the connection was lost: `{}` was killed", self.0.join(" ")));
            fault.with_log(said.trim_end())
        })
    }

    fn absent(&self) -> Fault {
        let program = self.0.first().map_or("", String::as_str);
        Fault::new(format!("the machine is reached by `{program}`, and there is none on this machine"))
            .remedy("install it, or correct the lab file")
    }

    fn to_become_root(&self) -> String {
        "let the command become root there without a question, such as by `sudo -n` before \"{tare}\"".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Arc<dyn WayThere>, Vec<String>> {
        let read = tare_core::config::read("lab.yaml", text, |node, problems| ByCommand.read(node, problems));
        read.map_err(|found| found.into_iter().map(|problem| problem.message).collect())
    }

    #[test]
    fn any_words_are_run_in_the_place_of_the_agent() {
        let way = read("[teleport, exec, sut, --, \"{tare}\", agent]").unwrap();
        assert_eq!(way.command(&["uname", "-sm"], true), ["teleport", "exec", "sut", "--", "uname", "-sm"]);
        assert_eq!(way.words(), "command teleport exec sut --");
        assert_eq!(way.broken(Some(255), "x"), None, "it may be that of what was run there");
        assert!(way.broken(None, "x").unwrap().message.contains("was killed"));
        assert!(way.absent().message.contains("`teleport`"), "{}", way.absent());
    }

    #[test]
    fn a_command_names_the_program_once_at_its_end() {
        for wrong in [
            "[\"{tare}\", agent]",
            "[sh, -c, \"{tare} agent\"]",
            "[x, \"{tare}\"]",
            "[x, \"{tare}\", agent, --more]",
            "[x, \"{tare}\", clean]",
            "[\"a{tare}\", \"{tare}\", agent]",
            "[x, [y], \"{tare}\", agent]",
            "x",
            "[]",
        ] {
            let found = read(wrong).map(|way| way.words()).unwrap_err();
            assert_eq!(found.len(), 1, "{wrong}: {found:?}");
        }
    }
}
