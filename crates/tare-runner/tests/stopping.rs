//! What a stop leaves that comes while a trial is verified.

use crate::stage;

use stage::{Trouble, fresh, header, run};
use std::time::Duration;
use tare_core::design::Arrangement;
use tare_core::plan::plan;
use tare_core::trial::Outcome;
use tare_runner::{Ending, read_record};

#[test]
fn a_stop_while_files_are_compared_leaves_no_row_and_nothing_that_stands() {
    for arrangement in Arrangement::all() {
        let (_folder, path) = fresh();
        let mut header = header(&["plain", "box"], 1);
        header.study.measure = Duration::from_secs(60);
        header.study.design.arrangement = arrangement.clone();
        header.plan = plan(&header.study, &[], 7);
        let first = run(&path, &header, &[("box", Trouble::StoppedWhileCompared)], None);
        assert_eq!(first.ending, Ending::Interrupted, "{arrangement:?}");
        // What was measured before it is kept; the trial that it cut short did not fail, and its files do not differ.
        for trial in read_record(&path).unwrap().trials {
            assert_eq!((trial.record.trial.form.as_str(), trial.record.outcome), ("plain", Outcome::Measured));
        }
        let count = |what: &str| first.log.iter().filter(|line| line.starts_with(what)).count();
        assert!(count("open ") > 0 && count("open ") == count("close"), "{arrangement:?}: {:?}", first.log);
        assert_eq!(count("start "), count("stop "), "{arrangement:?}: {:?}", first.log);
        // A run that goes on repeats it, and compares its files.
        assert_eq!(run(&path, &header, &[], None).ending, Ending::Complete, "{arrangement:?}");
        let record = read_record(&path).unwrap();
        assert_eq!(record.trials.len(), header.plan.len(), "{arrangement:?}");
        assert!(record.trials.iter().all(|trial| trial.record.outcome == Outcome::Measured), "{arrangement:?}");
        let mut boxed = record.trials.iter().filter(|trial| trial.record.trial.form == "box");
        assert!(boxed.any(|trial| trial.record.files.contains_key("toy")), "{arrangement:?}");
    }
}
