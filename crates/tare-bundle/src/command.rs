//! Runs programs of the distribution, such as mmdebstrap and mke2fs.

use std::process::{Command, Stdio};
use tare_core::fault::{Doing, Fault};

/// How many lines of a failed program's output a fault keeps.
const LOG_LINES: usize = 20;

/// Runs `program` to its end and returns what it printed.
///
/// `package` is what to install when the program is missing.
pub(crate) fn run(program: &str, package: &str, arguments: &[String]) -> Result<String, Fault> {
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", search_path())
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(absent(program, package));
        }
        Err(error) => return Err(error).doing(format!("run {program}")),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let mut log = String::from_utf8_lossy(&output.stdout).into_owned();
    log.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(Fault::new(format!("{program} ended with {}", output.status)).with_log(last_lines(&log)))
}

/// A program is missing; says which package to install.
pub(crate) fn absent(program: &str, package: &str) -> Fault {
    Fault::new(format!("{program} is not installed on this machine")).remedy(format!("apt-get install {package}"))
}

/// A program that inherits none of this process's environment.
pub(crate) fn alone(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env_clear().env("PATH", search_path()).env("LC_ALL", "C");
    command
}

/// The `PATH` for programs of the distribution.
fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    // An empty entry would be the current directory.
    let folders = path.split(':').filter(|folder| !folder.is_empty());
    folders.chain(["/usr/sbin", "/sbin", "/usr/bin", "/bin"]).collect::<Vec<_>>().join(":")
}

/// The last lines of a program's output.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let fault = run("no-such-program-here", "some-package", &[]).unwrap_err();
        assert_eq!(fault.remedy, "apt-get install some-package");
    }

    #[test]
    fn a_failed_program_shows_the_end_of_its_output() {
        let script = "seq 1 50; echo boom >&2; exit 3";
        let fault = run("sh", "dash", &["-c".to_owned(), script.to_owned()]).unwrap_err();
        assert!(fault.log.ends_with("boom"), "{}", fault.log);
        assert!(!fault.log.contains("\n12\n"), "{}", fault.log);
        assert!(fault.message.contains('3'), "{}", fault.message);
    }
}
