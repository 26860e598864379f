//! Reaches a machine: its agent runs and answers, and is this very program.

use super::bringing::{Program, Seen, bring, not_root, program_folder, program_path};
use super::line::{Line, left};
use crate::agent::{AgentHost, MachineFacts, Peer};
use std::time::{Duration, Instant};
use tare_core::fault::Fault;
use tare_core::lab::Machine;

/// A machine whose agent answers. The agent ends when this is dropped.
pub struct Reached {
    /// The near end of its pipes.
    pub agent: AgentHost,
    /// What it says of the machine.
    pub facts: MachineFacts,
    line: Line,
}

impl Reached {
    /// Has the agent end, and waits for it a moment.
    pub fn leave(mut self) {
        if self.agent.leave().is_ok() {
            self.line.await_end();
        }
    }
}

/// Why a machine's agent does not answer.
#[derive(Debug)]
pub struct Unreached {
    /// What is in the way, and what to do.
    pub fault: Fault,
    /// Whether anything ran there.
    pub is_reached: bool,
    /// Whether it ran as root.
    pub root: Option<bool>,
    /// The machine's architecture.
    pub architecture: Option<String>,
}

/// The other end of the pipes, by the command whose they are.
struct Watched(Line);

impl Peer for Watched {
    fn check(&mut self) -> Result<(), Fault> {
        self.0.check()
    }

    fn last_words(&self) -> String {
        self.0.said().trim_end().to_owned()
    }
}

/// Starts the agent of a machine, which is brought there if it is not there yet, within this time.
///
/// # Errors
/// What is in the way, and what became known of the machine before.
pub fn reach(machine: &Machine, program: &Program, within: Duration) -> Result<Reached, Unreached> {
    let mut seen = Seen::default();
    start_or_bring(machine, program, within, &mut seen).map_err(|fault| {
        let Seen { is_reached, root, architecture } = seen;
        Unreached { fault, is_reached, root, architecture }
    })
}

fn start_or_bring(machine: &Machine, program: &Program, within: Duration, seen: &mut Seen) -> Result<Reached, Fault> {
    let deadline = Instant::now() + within;
    let reached = match start(machine, program, left(deadline, within)?) {
        Ok(reached) => reached,
        Err(Refused { fault, is_missing: false }) => return Err(fault),
        Err(Refused { is_missing: true, .. }) => {
            bring(machine, program, seen, deadline)?;
            start(machine, program, left(deadline, within)?).map_err(|refused| {
                let folder = program_folder(machine);
                let remedy =
                    format!("see whether programs may be run from {folder} there; else name another by `home:`");
                let is_bare = refused.is_missing && refused.fault.remedy.is_empty();
                if is_bare { refused.fault.remedy(remedy) } else { refused.fault }
            })?
        }
    };
    let facts = &reached.facts;
    (seen.is_reached, seen.root) = (true, Some(facts.root));
    seen.architecture = Some(facts.architecture.clone());
    if !facts.root {
        return Err(not_root(machine));
    }
    check_build(machine, program, facts)?;
    Ok(reached)
}

/// Whether the agent is this very program: what one sends, another build may not understand, or do otherwise.
fn check_build(machine: &Machine, program: &Program, facts: &MachineFacts) -> Result<(), Fault> {
    if facts.digest == program.digest {
        return Ok(());
    }
    let short = |digest: &str| digest.chars().take(12).collect::<String>();
    Err(Fault::new(format!(
        "the agent on {} is another build of Tare ({}, {}) than this one ({}, {})",
        machine.name,
        facts.version,
        short(&facts.digest),
        env!("CARGO_PKG_VERSION"),
        short(&program.digest)
    ))
    .remedy(format!("remove {} there, and it is brought anew", program_path(machine, program))))
}

/// Why an agent did not start.
struct Refused {
    fault: Fault,
    /// Whether that is because the program is not there, or is no program there.
    is_missing: bool,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Refused { fault, is_missing: false }
    }
}

fn start(machine: &Machine, program: &Program, within: Duration) -> Result<Reached, Refused> {
    let path = program_path(machine, program);
    let home = machine.home.as_ref().map(|home| format!("TARE_HOME={home}"));
    let words = match &home {
        Some(home) => vec!["env", home.as_str(), path.as_str(), "agent"],
        None => vec![path.as_str(), "agent"],
    };
    let in_the_way = |fault: Fault| fault.context(&machine.name);
    let (line, stream) = Line::open(&machine.way, &words).map_err(in_the_way)?;
    let mut agent = AgentHost::new(stream, Box::new(Watched(line.clone())))?;
    match agent.greet(within) {
        Ok(facts) => Ok(Reached { agent, facts, line }),
        Err(fault) => {
            let code = line.code_there();
            let is_missing = code.is_some_and(|code| is_missing(code, &line.said()));
            // It still runs, so it is something else that answers.
            let startup = "let nothing be printed by the login itself: see the shell's startup files there";
            let is_garbled = fault.message.contains("no answer") && fault.remedy.is_empty();
            let fault = if is_garbled { fault.remedy(startup) } else { fault };
            Err(Refused { fault: in_the_way(fault), is_missing })
        }
    }
}

/// Whether a program that ended so was none: shells and those who start programs have codes for that, and others say
/// it.
fn is_missing(code: i32, said: &str) -> bool {
    let says = ["not found", "No such file or directory", "Exec format error"];
    matches!(code, 126 | 127) || code != 0 && says.iter().any(|part| said.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tare_core::lab::WayThere;

    /// A way whose agent is this script.
    #[derive(Debug)]
    struct Script(&'static str);

    impl WayThere for Script {
        fn words(&self) -> String {
            "script".to_owned()
        }
        fn command(&self, _: &[&str], _: bool) -> Vec<String> {
            ["/bin/sh", "-c", self.0].map(str::to_owned).to_vec()
        }
        fn broken(&self, code: Option<i32>, _: &str) -> Option<Fault> {
            (code == Some(255)).then(|| Fault::new("the way is closed"))
        }
        fn absent(&self) -> Fault {
            Fault::new("no shell")
        }
        fn to_become_root(&self) -> String {
            "be root".to_owned()
        }
    }

    fn refused(script: &'static str) -> Unreached {
        let machine = Machine { name: "sut".to_owned(), way: Arc::new(Script(script)), network: None, home: None };
        let program = Program { digest: "ab".repeat(32) };
        reach(&machine, &program, Duration::from_secs(60)).err().expect("no agent is there")
    }

    #[test]
    fn each_obstacle_has_a_message_of_its_own() {
        let closed = refused("exit 255");
        assert_eq!((closed.fault.message.as_str(), closed.is_reached), ("sut: the way is closed", false));
        let printed = refused("echo Welcome; exec cat >/dev/null");
        assert!(printed.fault.message.contains("no answer") && printed.fault.remedy.contains("startup files"));
        let died = refused("echo it broke >&2; exit 3");
        assert!(died.fault.message.contains("ended with exit code 3"), "{}", died.fault);
        assert_eq!(died.fault.log, "it broke");
        // Not there, and what would bring it is no command either.
        let missing = refused("exit 127");
        assert!(missing.fault.message.contains("there is no `uname` on sut"), "{}", missing.fault);
    }

    #[test]
    fn another_build_or_user_is_not_spoken_to() {
        let answer = |root: bool| {
            format!(
                "read -r line; printf '%s\\n' '{{\"id\":1,\"outcome\":{{\"ok\":{{\"version\":\"9.9\",\"digest\":\"cd\",\
                 \"root\":{root},\"kernel\":\"k\",\"architecture\":\"a\",\"cpus\":2}}}}}}'; exec cat >/dev/null"
            )
        };
        let other = refused(answer(true).leak());
        assert!(other.fault.message.contains("another build of Tare (9.9, cd)"), "{}", other.fault);
        assert!(other.fault.remedy.contains("/tare-lab/"), "{}", other.fault);
        let user = refused(answer(false).leak());
        assert!(user.fault.message.contains("not root on sut"), "{}", user.fault);
        assert_eq!((user.is_reached, user.root, user.architecture.as_deref()), (true, Some(false), Some("a")));
    }

    #[test]
    fn a_program_that_is_not_there_differs_from_one_that_failed() {
        assert!(is_missing(127, "") && is_missing(126, "") && is_missing(1, "x: Command not found.\n"));
        assert!(!is_missing(1, "it broke") && !is_missing(0, "not found"));
    }
}
