//! What was typed, checked as far as no service has to be started for it: all mistakes at once, before the machine is
//! taken.

use super::args::About;
use super::what::What;
use crate::mistake::Mistake;
use anyhow::Result;
use std::thread::available_parallelism;
use tare_core::units::{parse_bytes, show_bytes};
use tare_layers::is_image_name;

/// Less memory starts nothing.
const MEMORY_MIN: u64 = 8 << 20;

/// Checks the image's name and what the service gets.
///
/// # Errors
/// Everything that is wrong, with what to write instead.
pub(super) fn check(about: &About, what: &What) -> Result<()> {
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
        add(format!("--memory {memory}: less than {least} of memory starts nothing"), "write for example 256MiB");
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
    fn what_is_right_is_not_told() {
        let typed =
            ["my/app:1", "--cpus", "1", "--memory", "64MiB", "--volume", "/data", "--user", "0", "--command", "x"];
        assert_eq!(told(&typed), Vec::<String>::new());
        assert!(told(&["apt:redis-server", "--command", "redis-server"])[0].contains("no absolute path"));
    }
}
