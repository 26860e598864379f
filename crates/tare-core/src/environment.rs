//! This machine's environment, to which services refer by `${{env.NAME}}`. Nothing else of this crate reads it.

use crate::config::{Place, Problems};
use crate::parameters::mentions;

/// What references to the environment begin with.
pub(crate) const PREFIX: &str = "env.";

/// The name of the variable that a reference is to, if it is one to a variable.
pub(crate) fn variable_of(reference: &str) -> Option<&str> {
    reference.strip_prefix(PREFIX)
}

/// Whether a text refers to a variable.
pub(crate) fn refers(text: &str) -> bool {
    variables(text).next().is_some()
}

/// Says so where a reference stands where none may, or to a variable that is not set.
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

/// What a variable is set to; none where it is not, or to what is no text.
pub(crate) fn value(name: &str) -> Option<String> {
    // The system asserts on such names.
    if name.is_empty() || name.contains(['=', '\0']) { None } else { std::env::var(name).ok() }
}
