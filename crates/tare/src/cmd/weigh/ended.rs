//! What to do about a service that ends, or whose load fails.

use super::load::Load;
use tare_core::fault::Fault;

/// A service that has ended by itself, with its last lines. Those often name the variable that it lacks.
pub(super) fn exited(status: &str, lines: &str) -> Fault {
    let is_variable = |word: &&str| {
        let letters = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        word.contains('_') && word.starts_with(|c: char| c.is_ascii_uppercase()) && word.chars().all(letters)
    };
    let mut words = lines.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let to_do = match words.find(is_variable) {
        Some(name) => format!("if it needs the variable {name}: --env {name}=VALUE"),
        None => "see its last lines; give it what it lacks: --env NAME=VALUE, --volume PATH, --command".to_owned(),
    };
    let text = format!("the service ends by itself instead of serving: {status}");
    Fault::new(text).remedy(to_do).with_log(lines)
}

/// In its forms a command has the files alone that it used while it was watched.
pub(super) fn with_more_files(fault: Fault) -> Fault {
    fault.also("if it lacks a file of this machine: --with PATH")
}

/// A load that fails may be the wrong one.
pub(super) fn with_other_loads(error: anyhow::Error, load: &Load) -> anyhow::Error {
    let other = format!("if this load does not suit the service ({}), choose another: {}", load.said, load.option);
    match error.downcast::<Fault>() {
        Ok(fault) => fault.also(other).into(),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_ends_is_told_with_the_variable_that_it_names() {
        let fault = exited("exit code 1", "Error: not initialized\nYou must specify POSTGRES_PASSWORD to a value");
        assert!(fault.remedy.contains("--env POSTGRES_PASSWORD=VALUE"), "{}", fault.remedy);
        assert!(fault.log.contains("must specify"), "{}", fault.log);
        assert!(exited("exit code 1", "no such file").remedy.contains("--volume"));
    }
}
