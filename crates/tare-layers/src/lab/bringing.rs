//! Brings this program to another machine, once, and sees that it has arrived whole.
//!
//! It is done with commands that every Linux has, of words that need no quotes, so that it does not matter whether a
//! shell is on the way.

use super::line::{self, Ran};
use crate::agent::{PROGRAM, digest_of};
use crate::environment;
use std::fs::File;
use std::path::Path;
use std::time::Instant;
use tare_clock::realtime_ns;
use tare_core::fault::{Doing, Fault};
use tare_core::lab::Machine;

/// What is behind the name of Tare's folder on a machine in that of its programs. They are no part of what Tare keeps:
/// a folder that holds anything before it is marked would be somebody else's.
const BESIDE: &str = "-lab";

/// This program, as it goes to other machines.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its SHA-256, 64 hexadecimal digits.
    pub digest: String,
}

impl Program {
    /// The program that runs now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn own() -> Result<Program, Fault> {
        Ok(Program { digest: digest_of(Path::new(PROGRAM))? })
    }
}

/// What became known of a machine, however far one came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Seen {
    /// Whether anything ran there.
    pub(super) is_reached: bool,
    /// Whether it ran as root.
    pub(super) root: Option<bool>,
    /// Its architecture, as uname(1) has it.
    pub(super) architecture: Option<String>,
}

/// The folder of all of Tare's programs on a machine.
pub fn program_folder(machine: &Machine) -> String {
    format!("{}{BESIDE}", machine.home.as_deref().unwrap_or(environment::USUAL_HOME))
}

/// Where a program is on a machine, if it is there.
pub fn program_path(machine: &Machine, program: &Program) -> String {
    format!("{}/{}/tare", program_folder(machine), program.digest)
}

/// Puts the program onto a machine, under its digest: whole or not at all.
///
/// # Errors
/// When it cannot run there, or cannot be put there.
pub(super) fn bring(machine: &Machine, program: &Program, seen: &mut Seen, deadline: Instant) -> Result<(), Fault> {
    let there = There { machine, deadline };
    let system = there.tool(&["uname", "-sm"], None)?;
    seen.is_reached = true;
    seen.architecture = system.split_whitespace().nth(1).map(str::to_owned);
    check_system(&machine.name, &system)?;
    let user = there.tool(&["id", "-u"], None)?;
    seen.root = Some(user.trim() == "0");
    if seen.root == Some(false) {
        return Err(not_root(machine));
    }
    let path = program_path(machine, program);
    let folder = path.strip_suffix("/tare").unwrap_or(&path);
    there.tool(&["mkdir", "-p", folder], None)?;
    let part = format!("{folder}/part-{}-{}", std::process::id(), realtime_ns());
    let copied = there.copy(program, &part).and_then(|()| there.tool(&["mv", "-f", &part, &path], None));
    copied.map(drop).inspect_err(|_| {
        // What the copy failed by is said; this can only fail by the same.
        let _ = there.tool(&["rm", "-f", &part], None);
    })
}

/// That a machine lets Tare in as somebody else.
pub(super) fn not_root(machine: &Machine) -> Fault {
    Fault::new(format!("Tare is not root on {}, and so can start and limit no service there", machine.name))
        .remedy(machine.way.to_become_root())
}

/// Whether this program can run on a machine of which `uname -sm` says this.
fn check_system(name: &str, said: &str) -> Result<(), Fault> {
    let own = std::env::consts::ARCH;
    let words: Vec<&str> = said.split_whitespace().collect();
    match words[..] {
        ["Linux", architecture] if architecture == own => Ok(()),
        ["Linux", architecture] => Err(Fault::new(format!(
            "{name} has the architecture {architecture}, and this program is built for {own}: it cannot run there"
        ))
        .remedy("start Tare on a machine of the same architecture")),
        [system, _] => Err(Fault::new(format!("{name} runs {system}, and Tare needs Linux there"))),
        _ => Err(Fault::new(format!("{name} does not say what it is: `uname -sm` printed something else there"))
            .remedy("let nothing be printed by the login itself: see the shell's startup files there")
            .with_log(said.trim_end())),
    }
}

/// A machine on which commands are run, until a time.
struct There<'a> {
    machine: &'a Machine,
    deadline: Instant,
}

impl There<'_> {
    /// What a command prints there.
    fn tool(&self, words: &[&str], input: Option<File>) -> Result<String, Fault> {
        let ran = line::run(self.machine.way.as_ref(), words, input, self.deadline)
            .map_err(|fault| fault.context(&self.machine.name))?;
        if ran.code == 0 { Ok(ran.printed) } else { Err(failure(self.machine, words, &ran)) }
    }

    /// Copies the program into a file there, and has its digest made there.
    fn copy(&self, program: &Program, part: &str) -> Result<(), Fault> {
        let file = File::open(PROGRAM).doing("read this program")?;
        let of = format!("of={part}");
        self.tool(&["dd", &of, "bs=65536"], Some(file))?;
        let printed = self.tool(&["sha256sum", part], None)?;
        if printed.split_whitespace().next() != Some(program.digest.as_str()) {
            let message = format!("the program did not arrive on {} as it was sent", self.machine.name);
            return Err(Fault::new(message)
                .remedy("try again; if it happens again, the way there changes what it carries")
                .with_log(printed.trim_end()));
        }
        self.tool(&["chmod", "755", part], None).map(drop)
    }
}

/// Why a command failed there.
fn failure(machine: &Machine, words: &[&str], ran: &Ran) -> Fault {
    let (name, folder) = (&machine.name, program_folder(machine));
    let elsewhere = "name another folder there by `home:` in the lab file";
    let says = |parts: &[&str]| parts.iter().any(|part| ran.said.contains(part));
    let tool = words.first().copied().unwrap_or_default();
    let fault = if says(&["No space left on device", "Disk quota exceeded"]) {
        Fault::new(format!("the disk of {name} is full: the program did not fit into {folder}"))
            .remedy(format!("make room there, or {elsewhere}"))
            .as_disk_full()
    } else if says(&["Read-only file system"]) {
        Fault::new(format!("nothing can be written into {folder} on {name}")).remedy(elsewhere)
    } else if ran.code == 127 {
        Fault::new(format!("there is no `{tool}` on {name}, which is needed to bring the program there"))
            .remedy("install it there")
    } else {
        Fault::new(format!("`{}` failed on {name} with exit code {}", words.join(" "), ran.code))
    };
    fault.with_log(ran.said.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;
    use tare_core::lab::WayThere;

    /// This machine, under another name.
    #[derive(Debug)]
    struct Here;

    impl WayThere for Here {
        fn words(&self) -> String {
            "here".to_owned()
        }
        fn command(&self, words: &[&str], _: bool) -> Vec<String> {
            std::iter::once("env").chain(words.iter().copied()).map(str::to_owned).collect()
        }
        fn broken(&self, code: Option<i32>, said: &str) -> Option<Fault> {
            (code == Some(255)).then(|| Fault::new("the way is closed").with_log(said))
        }
        fn absent(&self) -> Fault {
            Fault::new("no env")
        }
        fn to_become_root(&self) -> String {
            "be root".to_owned()
        }
    }

    fn machine(home: &str) -> Machine {
        Machine { name: "sut".to_owned(), way: Arc::new(Here), network: None, home: Some(home.to_owned()) }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn the_program_arrives_whole_and_under_its_digest() {
        let Some(()) = tare_testkit::needs::root() else { return };
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(folder.path().join("tare").to_str().unwrap());
        let program = Program::own().unwrap();
        let mut seen = Seen::default();
        bring(&machine, &program, &mut seen, soon()).unwrap();
        assert_eq!(
            seen,
            Seen { is_reached: true, root: Some(true), architecture: Some(std::env::consts::ARCH.into()) }
        );
        let path = program_path(&machine, &program);
        assert_eq!(digest_of(Path::new(&path)).unwrap(), program.digest);
        let names = std::fs::read_dir(Path::new(&path).parent().unwrap()).unwrap();
        assert_eq!(names.count(), 1, "nothing is left of the copy");

        // One that is not what it is said to be is not put there.
        let other = Program { digest: "0".repeat(64) };
        let fault = bring(&machine, &other, &mut seen, soon()).unwrap_err();
        assert!(fault.message.contains("did not arrive on sut"), "{fault}");
        let left = std::fs::read_dir(Path::new(&program_path(&machine, &other)).parent().unwrap()).unwrap();
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn a_machine_that_cannot_run_the_program_differs_from_one_that_says_nothing() {
        let says = |said: &str| check_system("sut", said).err().map(|fault| fault.message).unwrap_or_default();
        assert_eq!(says(&format!("Linux {}\n", std::env::consts::ARCH)), "");
        assert!(says("Linux pdp11\n").contains("architecture pdp11"), "{}", says("Linux pdp11\n"));
        assert!(says("Darwin arm64\n").contains("runs Darwin"), "{}", says("Darwin arm64\n"));
        assert!(says("Welcome to sut!\nLinux x86_64\n").contains("does not say what it is"));
    }

    #[test]
    fn why_a_command_failed_there_follows_from_what_it_said() {
        let failed = |code, said: &str| {
            let ran = Ran { code, printed: String::new(), said: said.to_owned() };
            failure(&machine("/srv/tare"), &["dd", "of=x"], &ran)
        };
        let full = failed(1, "dd: error writing 'x': No space left on device\n");
        assert!(full.disk_full && full.message.contains("the disk of sut is full"), "{full}");
        assert!(full.message.contains("/srv/tare-lab") && full.remedy.contains("`home:`"), "{full}");
        assert!(failed(1, "dd: failed to open 'x': Read-only file system").message.contains("nothing can be written"));
        assert!(failed(127, "sh: 1: dd: not found").message.contains("no `dd` on sut"));
        assert!(failed(2, "").message.contains("exit code 2"));
        assert_eq!(not_root(&machine("/srv/tare")).remedy, "be root");
    }

    #[test]
    fn a_way_that_fails_is_not_taken_for_the_command() {
        let fault = There { machine: &machine("/srv/tare"), deadline: soon() }.tool(&["sh", "-c", "exit 255"], None);
        assert_eq!(fault.unwrap_err().message, "sut: the way is closed");
        let there = There { machine: &machine("/srv/tare"), deadline: Instant::now() };
        let late = there.tool(&["sleep", "100"], None).unwrap_err();
        assert!(late.message.contains("did not run `sleep 100` there in the time"), "{late}");
    }
}
