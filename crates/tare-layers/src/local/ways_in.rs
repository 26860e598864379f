//! How a person gets into a process of this machine that has its own root.

use super::inside::{open_inside, open_tree};
use super::running::Running;
use std::path::{Path, PathBuf};
use tare_core::host::WayIn;

/// What is started in a service's root to look around, if its bundle has it.
const SHELL: &str = "/bin/sh";

/// Ways into a service of this machine: those into its process while that runs, and the file of its output.
pub(crate) fn into_service(running: Option<&mut Running>, log: Option<&PathBuf>) -> Vec<WayIn> {
    let output = log.map(|path| WayIn::new(WayIn::OUTPUT, path.display().to_string()));
    let pid = running.and_then(Running::runs_as);
    pid.map(|pid| into_process(pid, None)).into_iter().flatten().chain(output).collect()
}

/// Ways into the running process with this id: its files, and a shell beside it. `enter` is the command that starts a
/// shell there; without it, `nsenter` does.
pub(crate) fn into_process(pid: u32, enter: Option<String>) -> Vec<WayIn> {
    let root = format!("/proc/{pid}/root");
    let enter = enter.unwrap_or_else(|| format!("nsenter --target {pid} --all sh"));
    let has_shell = open_tree(Path::new(&root)).is_ok_and(|tree| open_inside(&tree, SHELL).is_ok());
    let shell = if has_shell { enter } else { format!("none: there is no {SHELL} in the service's root") };
    vec![WayIn::new(WayIn::SHELL, shell), WayIn::new(WayIn::FILES, root)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_entered_by_the_shell_in_its_root() {
        let own = std::process::id();
        let ways = into_process(own, None);
        let to: Vec<&str> = ways.iter().map(|way| way.to.as_str()).collect();
        assert_eq!(to, ["shell", "files"]);
        // Everybody who runs tests on Linux has a shell.
        assert_eq!(ways[0].how, format!("nsenter --target {own} --all sh"));
        assert_eq!(ways[1].how, format!("/proc/{own}/root"));
        assert_eq!(into_process(own, Some("engine exec".to_owned()))[0].how, "engine exec");
        // There is no such process.
        assert!(into_process(u32::MAX, None)[0].how.starts_with("none: there is no /bin/sh"));
    }
}
