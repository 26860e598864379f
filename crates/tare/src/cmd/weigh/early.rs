//! What was typed, checked as far as no service has to be started for it: all mistakes at once, before the machine is
//! taken.

use super::args::About;
use super::load;
use super::what::What;
use crate::mistake::Mistake;
use anyhow::Result;
use std::thread::available_parallelism;
use tare_core::units::{parse_bytes, show_bytes};
use tare_layers::is_image_name;

/// Less memory starts nothing.
const MEMORY_MIN: u64 = 8 << 20;

/// Reads what was typed, as far as no service has to be started for it.
///
/// # Errors
/// What is wrong with it, with what to type instead.
pub(super) fn read(about: &About) -> Result<What> {
    let mistake = |text: &str, to_do: &str| Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
    if about.what.is_none() && about.local_command().is_none() {
        let to_do = "name an image, a folder, a package or a command: tare weigh my/app:1, or tare weigh -- ./server";
        return mistake("nothing to weigh was named", to_do);
    }
    let shown = about.shown();
    let of_compose = [("--service", about.service.is_some()), ("--profile", !about.profile.is_empty())];
    if let Some((option, _)) = of_compose.iter().find(|(_, typed)| *typed) {
        return mistake(&format!("{option} is for Compose files, and {shown} is not one"), "leave it out");
    }
    let what = match about.local_command() {
        Some(words) => read_command(about, words)?,
        None => read_other(about, &shown)?,
    };
    check(about, &what)?;
    load::check(about)?;
    Ok(what)
}

/// A command of this machine.
fn read_command(about: &About, words: &[String]) -> Result<What> {
    // Whoever forgets WHAT means the load.
    let of_loads = ["{address}", "{connections}", "{seconds}"];
    if words.iter().any(|word| of_loads.iter().any(|place| word.contains(place))) {
        let text = "nothing to weigh was named before --, and what follows looks like a load tool";
        let to_do = "name an image, a folder or a package: tare weigh my/app:1 -- TOOL";
        return Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
    }
    if about.command.is_some() {
        let text = "there are two commands: --command and the words after --";
        return Err(Mistake::new(format!("{text}\n  to do: leave out --command")).into());
    }
    Ok(What::Command(words.to_vec()))
}

/// An image, a folder or packages.
fn read_other(about: &About, typed: &str) -> Result<What> {
    if !about.with.is_empty() {
        let text = format!("--with adds files to a command of this machine, and {typed} is not one");
        return Err(Mistake::new(format!("{text}\n  to do: leave it out")).into());
    }
    let what = What::read(typed)?;
    if matches!(what, What::Packages(_)) && about.command()?.is_none() {
        let text = format!("{typed} has files, but does not say which program to start");
        let to_do = "--command '/usr/bin/PROGRAM ARGUMENTS', in the foreground; {port} stands for the port";
        return Err(Mistake::new(format!("{text}\n  to do: {to_do}")).into());
    }
    Ok(what)
}

/// Checks the image's name and what the service gets.
///
/// # Errors
/// Everything that is wrong, with what to write instead.
fn check(about: &About, what: &What) -> Result<()> {
    let mut wrong = Vec::new();
    let mut add = |text: String, to_do: &str| wrong.push(format!("{text}\n  to do: {to_do}"));
    if let What::Named(name) | What::Registry(name) = what
        && !is_image_name(name)
    {
        add(format!("'{}' is not the name of an image", name.escape_debug()), "write it as docker does: my/app:1");
    }
    let here = available_parallelism().map_or(u32::MAX, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    if let Some(cpus) = about.cpus.filter(|cpus| *cpus > here) {
        add(format!("--cpus {cpus}: this machine has {here}"), "leave at least one to the load");
    }
    if let Some(memory) = about.memory.as_ref().filter(|text| parse_bytes(text).is_ok_and(|bytes| bytes < MEMORY_MIN)) {
        let least = show_bytes(MEMORY_MIN);
        add(format!("--memory {memory}: no service starts with less than {least}"), "write for example 256MiB");
    }
    for path in &about.volume {
        let is_plain = path.starts_with('/') && path.split('/').all(|part| part != "..");
        if !is_plain || path.trim_matches('/').is_empty() {
            add(format!("--volume {path}: it is no absolute path below /"), "write for example --volume /data");
        }
    }
    if let Some(user) = about.user.as_ref().filter(|user| !is_user(user)) {
        add(format!("--user {user}: it is not a numeric user"), "write for example --user 999:999");
    }
    if let (What::Packages(_), Some(command)) = (what, about.command()?)
        && !command[0].starts_with('/')
    {
        let text = format!("--command {}: the program has no absolute path", command[0]);
        add(text, "packages have no PATH; write for example /usr/bin/redis-server");
    }
    if wrong.is_empty() { Ok(()) } else { Err(Mistake::new(wrong.join("\nerror: ")).into()) }
}

/// A number, or two.
fn is_user(text: &str) -> bool {
    let (uid, gid) = text.split_once(':').unwrap_or((text, text));
    [uid, gid].iter().all(|id| id.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::weigh::args::typed::about;

    fn told(typed: &[&str]) -> Vec<String> {
        let about = about(typed);
        let told = check(&about, &What::read(typed[0]).unwrap());
        told.err().map(|wrong| wrong.to_string().split("\nerror: ").map(str::to_owned).collect()).unwrap_or_default()
    }

    #[test]
    fn every_mistake_is_told_at_once() {
        let typed = ["My App", "--cpus", "1024", "--memory", "1KiB", "--volume", "data", "--user", "bob"];
        let told = told(&typed);
        let wanted = ["not the name of an image", "--cpus 1024", "--memory 1KiB", "--volume data", "--user bob"];
        assert_eq!(told.len(), wanted.len(), "{told:?}");
        for (told, wanted) in told.iter().zip(wanted) {
            assert!(told.contains(wanted) && told.contains("to do: "), "{told}");
        }
    }

    #[test]
    fn a_command_is_checked_as_an_image_is() {
        let told = |typed: &[&str]| read(&about(typed)).map(drop).unwrap_err().to_string();
        assert!(told(&["--memory", "1KiB", "--", "./server"]).contains("--memory 1KiB"));
        assert!(told(&["--service", "web", "--", "./server"]).contains("--service is for Compose files, and ./server"));
        assert!(told(&["--service", "web"]).contains("nothing to weigh was named"));
        assert_eq!(read(&about(&["--", "./server"])).unwrap(), What::Command(vec!["./server".to_owned()]));
    }

    #[test]
    fn what_is_right_is_not_told() {
        let typed =
            ["my/app:1", "--cpus", "1", "--memory", "64MiB", "--volume", "/data", "--user", "0", "--command", "x"];
        assert_eq!(told(&typed), Vec::<String>::new());
        assert!(told(&["apt:redis-server", "--command", "redis-server"])[0].contains("no absolute path"));
    }
}
