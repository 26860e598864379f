//! The user's own load tool, tried before any form is measured.

use super::folder::Draft;
use super::{read_draft, script, without_places};
use crate::cmd::look::{self, Ground, Tried};
use anyhow::Result;
use tare_core::fault::Fault;
use tare_core::units::grouped;

/// Runs the tool once and tells what it reported, so that an output without a number is found before the forms are
/// measured.
pub(super) fn try_tool(draft: &Draft, ground: &Ground, say: &mut dyn FnMut(&str)) -> Result<()> {
    say("trying the load once");
    let (_kept, study, mut workload) = read_draft(draft)?;
    let tried = look::try_tool(ground, &study, &mut workload, say);
    if ground.stop.raised() {
        return Ok(());
    }
    let Tried { operations_per_s, p50, failed, busy } =
        tried.map_err(|error| match script::takes(draft.load.option) {
            Some(takes) => with_address(without_places(error), takes),
            None => with_number(without_places(error), draft.about.number.is_some()),
        })?;
    let p50 = p50.map_or_else(String::new, |p50| format!(", p50 {} us", p50.as_micros()));
    let failed = if failed > 0.0 { format!(", {:.1} % failed", failed * 100.0) } else { String::new() };
    say(&format!("the load made {} op/s{p50}{failed}", grouped(operations_per_s.round())));
    if let Some(busy) = busy {
        say(&format!("{busy}; trials in which it is do not count: fewer --connections, or a load with pauses"));
    }
    Ok(())
}

/// Adds how a script takes the address: it may have sent nothing to the service.
fn with_address(error: anyhow::Error, takes: &str) -> anyhow::Error {
    let to_do = format!("if its requests do not reach the service: {takes}");
    match error.downcast::<Fault>() {
        Ok(fault) if fault.remedy.is_empty() || fault.mistake => fault.also(to_do).into(),
        Ok(fault) => fault.into(),
        Err(error) => error,
    }
}

/// Adds what to do about a tool that does nothing, or whose output has no number.
fn with_number(error: anyhow::Error, given: bool) -> anyhow::Error {
    let to_do = if given {
        "see below what it printed, and let --number match its operations per second"
    } else {
        "say where it prints its operations per second: --number PATTERN"
    };
    match error.downcast::<Fault>() {
        Ok(fault) if !fault.mistake && fault.remedy.is_empty() => {
            fault.remedy("see whether it takes the address: {address}, {host} and {port} stand for it").into()
        }
        Ok(fault) if !fault.mistake => fault.into(),
        Ok(fault) if fault.remedy.is_empty() => fault.remedy(to_do).into(),
        Ok(fault) => fault.also(format_args!("or {to_do}")).into(),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_without_a_number_is_told_with_the_option_for_it() {
        let fault = || Fault::new("no throughput").remedy("with --json").with_log("hello");
        let of = |fault: Fault, given| with_number(fault.into(), given).downcast::<Fault>().unwrap();
        let known = of(fault().as_mistake(), false);
        assert!(known.remedy.starts_with("with --json; or say where") && known.log == "hello", "{}", known.remedy);
        assert!(of(fault().as_mistake(), true).remedy.contains("let --number match"));
        assert_eq!(of(fault(), false).remedy, "with --json", "the tool failed, whatever it printed");
        assert!(of(Fault::new("not one succeeded"), false).remedy.contains("{address}"));
    }

    #[test]
    fn a_script_is_told_with_how_it_takes_the_address() {
        let of = |fault: Fault| with_address(fault.into(), "take it from X").downcast::<Fault>().unwrap().remedy;
        assert_eq!(of(Fault::new("failed")), "if its requests do not reach the service: take it from X");
        let told = of(Fault::new("no requests").remedy("clear the box").as_mistake());
        assert!(told.starts_with("clear the box; if its requests") && !told.contains("--number"), "{told}");
        assert_eq!(of(Fault::new("too slow").remedy("raise it")), "raise it");
    }
}
