//! This machine's environment, which services refer to by `${{env.NAME}}`. Nothing else in this crate reads it.

use crate::config::{Place, Problems};
use crate::parameters::mentions;

/// The prefix of references to the environment.
pub(crate) const PREFIX: &str = "env.";

/// The name of the variable that a reference names, if it names one.
pub(crate) fn variable_of(reference: &str) -> Option<&str> {
    reference.strip_prefix(PREFIX)
}

/// Whether a text refers to a variable.
pub(crate) fn refers(text: &str) -> bool {
    variables(text).next().is_some()
}

/// Reports a reference where none is allowed, or to a variable that is not set.
pub(crate) fn check(name: &str, field: &str, place: Place, problems: &mut Problems) {
    if field != "environment" {
        let message = format!("'env.{name}' stands in '{field}', which everybody on this machine can see");
        problems.add(place, message, "refer to it in 'environment:' alone");
    } else if value(name).is_none() {
        let message = format!("the environment has no variable '{name}' that is text");
        problems.add(
            place,
            message,
            format!("set it for Tare: `export {name}=...`, with sudo `sudo --preserve-env={name}`"),
        );
    }
}

/// The variables that a text refers to.
pub(crate) fn variables(text: &str) -> impl Iterator<Item = String> {
    mentions(text).filter_map(|name| variable_of(&name).map(str::to_owned))
}

/// The value of a variable; none if it is not set, or not to text.
pub(crate) fn value(name: &str) -> Option<String> {
    // The system functions panic on such names.
    if name.is_empty() || name.contains(['=', '\0']) { None } else { std::env::var(name).ok() }
}
