//! The names of conditions: what a record was made under. Histories keep conditions by these names and look for them
//! again, so each stands here once; one that is changed is unknown to the records that were taken in before.

/// The workload.
pub(crate) const WORKLOAD: &str = "the workload";
/// The baseline's form: to what the ratios of a record are.
pub const BASELINE: &str = "the baseline";
/// The load.
pub(crate) const LOAD: &str = "the load";
/// Where it comes from.
pub(crate) const ORIGIN: &str = "the load's origin";
/// The protocol, with its options.
pub(crate) const PROTOCOL: &str = "the protocol";
/// How trials are arranged in blocks.
pub(crate) const DESIGN: &str = "the design";
/// How long trials settle.
pub(crate) const SETTLE: &str = "the time to settle";
/// How long they count.
pub(crate) const MEASURE: &str = "the time measured";
/// By which rules a peak is searched.
pub(crate) const SEARCH_RULES: &str = "the search's rules";
/// In windows of which length.
pub(crate) const SEARCH_WINDOW: &str = "the search's window";
/// What the machine is.
pub(crate) const CPU_MODEL: &str = "environment cpu.model";
/// Its CPUs.
pub(crate) const CPUS: &str = "environment cpu.logical";
/// Its memory.
pub(crate) const MEMORY: &str = "environment memory.total";

/// What a service gets.
pub(crate) const RESOURCES: &str = "resources";
/// Which options it has.
pub(crate) const OPTIONS: &str = "options";
/// How many of it there are.
pub(crate) const INSTANCES: &str = "instances";

/// Something of a service.
pub(crate) fn of_service(service: &str, what: &str) -> String {
    format!("service {service}, {what}")
}

/// Whether that is what is named, of any service.
pub(crate) fn is_of_a_service(name: &str, what: &str) -> bool {
    name.starts_with("service ") && name.strip_suffix(what).is_some_and(|rest| rest.ends_with(", "))
}

/// An option of the study.
pub(crate) fn option(option: &str) -> String {
    format!("option {option}")
}

/// Whether an option is what is named.
pub(crate) fn is_option(name: &str) -> bool {
    name.starts_with("option ")
}

/// A form's layers.
pub(crate) fn form(form: &str) -> String {
    format!("form {form}")
}

/// Something else of a form.
pub(crate) fn of_form(form: &str, what: &str) -> String {
    format!("form {form}, {what}")
}

/// Which form is named by any of the two.
pub(crate) fn form_of(name: &str) -> Option<&str> {
    name.strip_prefix("form ").and_then(|rest| rest.split(", ").next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again() {
        assert!(is_of_a_service(&of_service("db", RESOURCES), RESOURCES));
        assert!(!is_of_a_service(&of_service("db", "command"), RESOURCES) && !is_of_a_service("service db", RESOURCES));
        assert!(is_option(&option("sync")) && !is_option(&form("option")));
        assert_eq!((form_of(&form("box")), form_of(&of_form("box", OPTIONS))), (Some("box"), Some("box")));
        assert_eq!(form_of(BASELINE), None);
    }
}
