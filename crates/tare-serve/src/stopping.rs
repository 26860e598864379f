//! The buttons of the page "Now": asking a run to end.

use crate::pages::sentence;
use crate::shelf::Shelved;
use crate::surroundings::Surroundings;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use tare_core::fault::Fault;
use tare_core::record::EndRequest;

/// What is said once a run was asked to end at once.
const AT_ONCE: &str = "The run takes the current trial down and ends.";

/// The runs that were asked to end at once. A second signal would end them with everything standing.
#[derive(Debug, Default)]
pub(crate) struct Stopping(Mutex<BTreeSet<String>>);

impl Stopping {
    /// Asks the run with this id to end, whose record this is; `when` is the address's word. Returns what comes of it,
    /// in words.
    ///
    /// # Errors
    /// Why it was not asked.
    pub(crate) fn ask(
        &self,
        surroundings: &dyn Surroundings,
        shelved: &Shelved,
        run: &str,
        when: Option<&str>,
    ) -> Result<&'static str, Fault> {
        let (request, said) = match when {
            Some("after-block") => (EndRequest::AfterBlock, "The run ends after this block."),
            Some("at-once") => (EndRequest::AtOnce, AT_ONCE),
            _ => return Err(Fault::new("the address does not say when the run is to end").remedy("reload the page")),
        };
        may_ask(surroundings, shelved, run)?;
        let mut at_once = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if at_once.contains(run) {
            return Ok(AT_ONCE);
        }
        surroundings.ask(run, request)?;
        if request == EndRequest::AtOnce {
            at_once.insert(run.to_owned());
        }
        Ok(said)
    }
}

/// Whether the run with this id, whose record this is, may be asked to end.
///
/// # Errors
/// Why not.
pub(crate) fn may_ask(surroundings: &dyn Surroundings, shelved: &Shelved, run: &str) -> Result<(), Fault> {
    if shelved.has_ended() || !surroundings.live_runs().iter().any(|live| live == run) {
        return Err(Fault::new("this run is not in progress on this machine"));
    }
    surroundings.may_ask(run)
}

/// A fault in sentences, one behind the other.
pub(crate) fn in_sentences(fault: &Fault) -> String {
    [&fault.message, &fault.remedy].map(|text| sentence(text)).join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shelf::Shelf;
    use tare_core::record::Header;

    /// A machine on which the run `abcdef` goes on, which notes what is asked of it.
    #[derive(Default)]
    struct Machine(Mutex<Vec<EndRequest>>);

    impl Surroundings for Machine {
        fn occasions(&self, _: &Header, _: &Header) -> Result<tare_stats::Occasions, Fault> {
            Ok(tare_stats::Occasions::new())
        }

        fn live_runs(&self) -> Vec<String> {
            vec!["abcdef".to_owned()]
        }

        fn may_ask(&self, _: &str) -> Result<(), Fault> {
            Ok(())
        }

        fn ask(&self, run: &str, request: EndRequest) -> Result<(), Fault> {
            assert_eq!(run, "abcdef");
            self.0.lock().unwrap().push(request);
            Ok(())
        }
    }

    #[test]
    fn a_run_is_asked_to_end_at_once_only_one_time() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("one");
        std::fs::create_dir(&record).unwrap();
        std::fs::write(record.join("record.json"), "{}").unwrap();
        let shelved = Shelf::open(folder.path()).unwrap().record("one").unwrap();
        let (machine, stopping) = (Machine::default(), Stopping::default());
        let ask = |run: &str, when: Option<&str>| stopping.ask(&machine, &shelved, run, when);
        assert_eq!(ask("abcdef", Some("after-block")).unwrap(), "The run ends after this block.");
        for when in ["at-once", "at-once", "after-block"] {
            assert_eq!(ask("abcdef", Some(when)).unwrap(), AT_ONCE);
        }
        assert_eq!(*machine.0.lock().unwrap(), [EndRequest::AfterBlock, EndRequest::AtOnce]);
        assert!(ask("abcdef", Some("soon")).is_err() && ask("abcdef", None).is_err());
        let over = ask("zzzzzz", Some("at-once")).unwrap_err();
        assert_eq!(in_sentences(&over), "This run is not in progress on this machine.");
        std::fs::write(record.join("end.json"), "{}").unwrap();
        ask("abcdef", Some("after-block")).unwrap_err();
    }
}
