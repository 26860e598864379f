//! What `--keep-failed` keeps standing: told to a person, and kept until that person, or a signal, lets it go.

use crate::terminal::note;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{QueueSelector, tcflush, tcgetpgrp};
use std::io::{IsTerminal, Stdin, stdin, stdout};
use std::time::Duration;
use tare_core::host::{InstanceState, WayIn};
use tare_report::{paragraph, whole};
use tare_runner::{StandingDeployment, StandingService, Stop};

/// How often is looked whether it may go.
const LOOK: Duration = Duration::from_millis(100);
/// How many lines of a service's output are shown where nothing else leads to it.
const LINES: usize = 15;

/// Waits until a person at the terminal presses Enter (or Ctrl-D), or `stop` is raised. Without a terminal, only for
/// the latter.
pub(crate) fn wait(stop: &Stop) {
    let input = stdin();
    if is_asked(&input) {
        // What was typed while trials ran is no answer.
        let _ = tcflush(&input, QueueSelector::IFlush);
        if !stdout().is_terminal() {
            // Whoever is asked does not see what was said before.
            note(&how_to_end());
        }
    }
    while !stop.raised() {
        // A shell may have put it into the background meanwhile, where reading would suspend it.
        if !is_asked(&input) {
            std::thread::sleep(LOOK);
        } else if is_answered(&input) {
            let _ = input.read_line(&mut String::new());
            return;
        }
    }
}

/// Whether somebody is at the terminal whom this process may ask.
fn is_asked(input: &Stdin) -> bool {
    input.is_terminal() && tcgetpgrp(input).is_ok_and(|foreground| foreground == rustix::process::getpgrp())
}

/// Waits for a moment for a line.
fn is_answered(input: &Stdin) -> bool {
    let moment = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    poll(&mut [PollFd::new(input, PollFlags::IN)], Some(&moment)).is_ok_and(|ready| ready > 0)
}

/// How what is kept standing is let go, in words.
pub(crate) fn how_to_end() -> String {
    if is_asked(&stdin()) {
        return "press Enter to remove it and go on, Ctrl-C to remove it and end the run".to_owned();
    }
    let kill = whole(&format!("kill {}", std::process::id()));
    format!("it stands until this process gets SIGTERM or SIGINT, which then removes it and ends the run: {kill}")
}

/// What stands, in lines of at most `width` columns; commands and paths stay whole. `trial` names a trial in few words.
pub(crate) fn describe(
    deployments: &[StandingDeployment],
    trial: &dyn Fn(&StandingDeployment) -> String,
    width: usize,
) -> String {
    let mut text = String::new();
    for deployment in deployments {
        let StandingDeployment { trial: planned, stage, why, services } = deployment;
        let failed = format!("{} failed in {stage}: {why}", trial(deployment));
        text += &paragraph("KEPT STANDING  ", 4, &failed, width);
        if services.is_empty() {
            text += "  no service was started\n";
        }
        services.iter().for_each(|service| text += &of_service(service, width));
        let folder = if planned.profiled { "profiles" } else { "trials" };
        let kept = format!("once it is removed, the record has it in {folder}/{:04}", planned.index);
        text += &paragraph("  ", 4, &kept, width);
    }
    text
}

fn of_service(service: &StandingService, width: usize) -> String {
    let StandingService { name, state, endpoints, ways_in, volumes, log } = service;
    let state = match state {
        Some(InstanceState::Running) => "runs".to_owned(),
        Some(InstanceState::Ended(how)) => format!("has ended: {how}"),
        None => "cannot be asked".to_owned(),
    };
    let mut text = paragraph(&format!("  {name}  "), 4, &state, width);
    let mut line = |to: &str, how: &str| text += &paragraph(&format!("    {to:<9}"), 13, how, width);
    for (port, address) in endpoints {
        line("port", &format!("{port} at {address}"));
    }
    for way in ways_in {
        line(&way.to, &whole(&way.how));
    }
    for (inside, folder) in volumes {
        line("volume", &format!("{inside} is {}", whole(&folder.display().to_string())));
    }
    if !ways_in.iter().any(|way| way.to == WayIn::OUTPUT) && !log.trim().is_empty() {
        let lines: Vec<&str> = log.lines().collect();
        line(WayIn::OUTPUT, "its last lines:");
        for said in &lines[lines.len().saturating_sub(LINES)..] {
            text += &paragraph("      ", 8, said, width);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tare_core::fault::Fault;
    use tare_core::plan::PlannedTrial;
    use tare_core::trial::Stage;

    fn service(state: InstanceState, ways_in: Vec<WayIn>) -> StandingService {
        StandingService {
            name: "redis".to_owned(),
            state: Some(state),
            endpoints: BTreeMap::from([("main".to_owned(), "10.99.0.1:6379".parse().unwrap())]),
            ways_in,
            volumes: BTreeMap::from([("/data".to_owned(), "/scratch/.volumes/redis/0".into())]),
            log: "first line\nlast line\n".to_owned(),
        }
    }

    fn told(services: Vec<StandingService>) -> String {
        let (form, control, again) = ("container".to_owned(), false, None);
        let trial = PlannedTrial { index: 3, block: 0, form, control, again, profiled: false };
        let why = Fault::new("service redis was not ready within 2 s: 10.99.0.1:6379 accepts no connection");
        let deployment = StandingDeployment { trial, stage: Stage::Deploy, why, services };
        describe(&[deployment], &|deployment| format!("block 1/1 {}", deployment.trial.arm()), 80)
    }

    #[test]
    fn what_stands_is_told_with_every_way_into_it() {
        let shell = "docker --host unix:///run/user/0/engine.sock exec -it tare-ab12cd-t3-redis sh";
        let ways = vec![WayIn::new(WayIn::SHELL, shell), WayIn::new(WayIn::OUTPUT, "docker logs tare-ab12cd-t3-redis")];
        let text = told(vec![service(InstanceState::Running, ways)]);
        assert!(text.starts_with("KEPT STANDING  block 1/1 container failed in deploy: service redis was"), "{text}");
        for line in [
            "  redis  runs",
            "    port     main at 10.99.0.1:6379",
            "    output   docker logs tare-ab12cd-t3-redis",
            "    volume   /data is /scratch/.volumes/redis/0",
            "  once it is removed, the record has it in trials/0003",
        ] {
            assert!(text.lines().any(|told| told == line), "{line:?} is missing in:\n{text}");
        }
        assert!(text.lines().any(|line| line.trim_start().ends_with(shell)), "a command is copied:\n{text}");
        assert!(!text.contains("last line"), "its output is found elsewhere:\n{text}");
    }

    #[test]
    fn output_that_nothing_leads_to_is_shown() {
        let ended = InstanceState::Ended("exit code 1".to_owned());
        let text = told(vec![service(ended, vec![WayIn::new("console", "/scratch/console")])]);
        assert!(text.contains("  redis  has ended: exit code 1\n"), "{text}");
        assert!(text.contains("    output   its last lines:\n      first line\n      last line\n"), "{text}");
        assert!(told(Vec::new()).contains("  no service was started\n"));
    }

    #[test]
    fn without_a_terminal_a_signal_lets_it_go() {
        let stop = Stop::default();
        stop.raise();
        // It would wait for Enter, or for ever.
        wait(&stop);
        if !stdin().is_terminal() {
            assert!(how_to_end().contains("SIGTERM"), "{}", how_to_end());
        }
    }
}
