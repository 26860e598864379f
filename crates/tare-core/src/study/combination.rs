//! Settings that are valid alone but not together: designs, times, loads, forms. Checked when a study has been read,
//! and again when the command line's options have been applied to it.

use super::Study;
use crate::catalog::Catalog;
use crate::design::{Arrangement, Chop, Chosen, FIRST_LOOK};
use crate::form::Form;
use crate::instances::{has_movable_ports, why_fixed};
use crate::layer::{LayerUse, Listens};
use crate::load::{LoadOrigin, LoadProfile};
use crate::workload::Workload;

/// Two settings of a study that do not go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The field of the study where the mistake is best fixed.
    pub field: &'static str,
    /// What does not go together, and why.
    pub message: String,
    /// What to write instead.
    pub hint: &'static str,
}

impl Study {
    /// The settings of this study and its workload that do not go together.
    pub fn conflicts(&self, workload: &Workload, catalog: &dyn Catalog) -> Vec<Conflict> {
        let mut found = Vec::new();
        let mut add = |applies: bool, field, message: &str, hint| {
            if applies {
                found.push(Conflict { field, message: message.to_owned(), hint });
            }
        };
        let (beside, alternate) = match self.design.arrangement {
            Arrangement::Blocks => (false, false),
            Arrangement::Alternate(_) => (true, true),
            Arrangement::Duet => (true, false),
            Arrangement::Chop(_) => (true, true),
        };
        let steady = self.design.steady_within.is_some();
        let (steps, search) = (self.load.span().is_some(), self.peak.is_some());
        let protocol = catalog.protocol(&workload.protocol.protocol);
        let told_nothing = protocol.is_some_and(|protocol| !protocol.tells_seconds());

        let placed = self.placement.is_some() || self.forms.iter().any(|form| form.placement.is_some());
        let message = "the two forms of a duet get half of the CPUs each, and nothing else can be asked for";
        add(placed && self.design.arrangement == Arrangement::Duet, "placement", message, "use `design: blocks`");
        let hint = "use `design: blocks`, or omit 'design'";
        add(beside && search, "design", "a peak is searched in blocks, each form by itself", hint);
        let fixed = why_fixed(workload).filter(|_| self.from == LoadOrigin::Host);
        let message = format!(
            "on the loopback forms stand side by side by ports of their own, which this workload lacks: {}",
            fixed.unwrap_or_default()
        );
        add(beside && fixed.is_some(), "design", &message, "use `design: blocks`, or omit 'from: host'");
        let message = "only a form that has the machine to itself can settle until it is steady";
        add(beside && steady, "design", message, "give 'settle' a time");
        let message = "steps go up within one deployment's load, and slices would cut them";
        add(alternate && steps, "design", message, "use `design: blocks`");
        let message = "this protocol runs a tool whose own figures cannot be added up over slices";
        add(alternate && told_nothing, "design", message, "use `design: blocks` or `design: duet`");

        let led = steps || search || matches!(self.load, LoadProfile::Replay { .. });
        let message = "this protocol runs a tool, whose load cannot follow levels, a search or a file";
        add(led && told_nothing, "load", message, "write a closed load, an open one or one of users");

        let message = "steps settle at every level, each for a fixed time, not once until the load is steady";
        add(steady && steps, "time", message, "give 'settle' a time; 'settle' of the steps is what counts");
        let recording = matches!(self.load, LoadProfile::Replay { .. });
        let message = "a recording has the rate that was recorded, and cannot settle until the load is steady";
        add(steady && recording, "time", message, "give 'settle' a time");
        let message = "a search for the peak warms up by itself, and cannot settle until the load is steady";
        add(steady && search, "time", message, "give 'settle' a time; 'warm' of the search is what counts");
        let message =
            "this protocol runs a tool that does not report single seconds, so Tare cannot see when it is steady";
        add(steady && told_nothing && !beside, "time", message, "give 'settle' a time");

        let message = "a search for the peak has no one load under which a form could be profiled";
        add(self.profile.is_some() && search, "profile", message, "profile a study with another load");

        if self.design.half_width.is_some() && self.repeat < FIRST_LOOK {
            let message = format!(
                "the intervals are first checked after {FIRST_LOOK} blocks, and there are at most {}: the study would \
                 never end by itself",
                self.repeat
            );
            let hint = "raise 'blocks' of 'until' to 6 or more, or write 'repeat' instead of 'until'";
            found.push(Conflict { field: "until", message, hint });
        }
        if let Some(why) = self.no_ruler(told_nothing) {
            let (message, hint) = (format!("these forms cannot have a ruler: {why}"), "omit it");
            found.push(Conflict { field: "ruler", message, hint });
        }
        found.extend(self.not_chopped(workload, catalog));
        found.extend(self.several_loaded(workload, catalog));
        found.extend(self.ports_taken_twice(workload, catalog));
        found
    }

    /// Arranges a study whose file does not say how: a closed loop is chopped if everything else the study asks for
    /// allows it; otherwise its forms are measured one after the other, and the reason is kept. Called again if forms
    /// have changed.
    pub fn arrange(&mut self, workload: &Workload, catalog: &dyn Catalog) {
        if self.design.chosen == Chosen::Asked {
            return;
        }
        (self.design.arrangement, self.design.chosen) = (Arrangement::Blocks, Chosen::Usual);
        if self.peak.is_some() || !matches!(self.load, LoadProfile::Closed { .. }) {
            return;
        }
        // What stands in no other's network, nor at every address of this machine's, meets nothing at its ports.
        let meets = |form: &Form| form.layers.is_empty() || listens(form, catalog) == Listens::Everywhere;
        if let Some(why) = why_fixed(workload).filter(|_| self.forms.iter().any(meets)) {
            // A network of its own makes a plain process differ from what it is elsewhere, so it gets one only on
            // request.
            self.design.chosen = Chosen::Instead(why.to_owned());
            return;
        }
        let of_any = self.conflicts(workload, catalog);
        let mut chopped = self.clone();
        chopped.design.arrangement = Arrangement::Chop(Chop::default());
        let against = chopped.conflicts(workload, catalog);
        match against.into_iter().find(|found| of_any.iter().all(|known| known.message != found.message)) {
            Some(found) => self.design.chosen = Chosen::Instead(found.message),
            None => self.design.arrangement = chopped.design.arrangement,
        }
    }

    /// What is impossible when load is chopped.
    fn not_chopped(&self, workload: &Workload, catalog: &dyn Catalog) -> Vec<Conflict> {
        if !matches!(self.design.arrangement, Arrangement::Chop(_)) {
            return Vec::new();
        }
        let planned = !matches!(self.load, LoadProfile::Closed { .. } | LoadProfile::Steps { .. });
        let quota = |form: &Form| {
            let services = self.deployed(workload, form).services;
            form.layers.iter().any(|layer| has_quota(layer, catalog))
                || services.iter().any(|service| service.resources.cpu_quota.is_some())
        };
        let all = [
            (
                planned && self.peak.is_none(),
                "only a closed loop can be chopped: what is planned by the clock would queue up between slices",
                "use `design: alternate` or `design: blocks`",
            ),
            (
                self.forms.iter().any(quota),
                "a quota has a period of a tenth of a second: in shorter slices it might never be used up",
                "use `design: blocks`, or omit 'cpu_quota' and a layer's 'limits: quota'",
            ),
        ];
        let holding = all.into_iter().filter(|(applies, ..)| *applies);
        holding.map(|(_, message, hint)| Conflict { field: "design", message: message.to_owned(), hint }).collect()
    }

    /// What is impossible when several instances are loaded at once.
    fn several_loaded(&self, workload: &Workload, catalog: &dyn Catalog) -> Vec<Conflict> {
        let loaded = self.forms.iter().map(|form| {
            let services = self.deployed(workload, form).services;
            services.iter().filter(|service| service.role() == workload.protocol.service).count()
        });
        if loaded.max().unwrap_or(0) < 2 || workload.protocol.spread {
            return Vec::new();
        }
        let all = [
            (
                self.design.arrangement != Arrangement::Blocks,
                "design",
                "several instances are loaded, each by a process of its own, which only blocks can do",
                "use `design: blocks`, put a balancer before the instances, or let the workload's load say `spread: true`",
            ),
            (
                self.peak.is_some() || self.load.span().is_some(),
                "load",
                "several instances are loaded, each by a process of its own, and levels are reported for one load only",
                "let the workload's load say `spread: true` if they are one site, or put a balancer before them",
            ),
            (
                self.design.steady_within.is_some(),
                "time",
                "several instances are loaded, and only one load can be watched until it is steady",
                "give 'settle' a time",
            ),
            (
                workload.protocol.facts(catalog).runs_inside,
                "instances",
                "a tool inside runs beside one instance, and several would be loaded",
                "deploy the service that is loaded once",
            ),
        ];
        let holding = all.into_iter().filter(|(applies, ..)| *applies);
        holding.map(|(_, field, message, hint)| Conflict { field, message: message.to_owned(), hint }).collect()
    }

    /// Finds which forms cannot stand beside all others, if the design needs to know.
    pub fn set_apart(&mut self, workload: &Workload, catalog: &dyn Catalog) {
        let where_listens = |form: &Form| (form.name.clone(), listens(form, catalog));
        let all: Vec<(String, Listens)> = self.forms.iter().map(where_listens).collect();
        let Arrangement::Chop(chop) = &mut self.design.arrangement else { return };
        let everywhere = all.iter().filter(|(name, listens)| *listens == Listens::Everywhere && *name != self.baseline);
        let everywhere: Vec<String> = everywhere.map(|(name, _)| name.clone()).collect();
        let in_the_way = all.iter().filter(|(_, listens)| *listens != Listens::Apart).count();
        // Forms whose ports can move do not conflict.
        chop.apart = if in_the_way > 1 && !has_movable_ports(workload) { everywhere } else { Vec::new() };
    }

    /// Forms of one block that would listen at the same addresses of this machine.
    fn ports_taken_twice(&self, workload: &Workload, catalog: &dyn Catalog) -> Option<Conflict> {
        if self.design.arrangement == Arrangement::Blocks || has_movable_ports(workload) {
            return None;
        }
        let mut arranged = self.clone();
        arranged.set_apart(workload, catalog);
        let where_listens = |name: &str| {
            let form = self.forms.iter().find(|form| form.name == name);
            form.map_or(Listens::Apart, |form| listens(form, catalog))
        };
        // A round determines which forms meet: it contains every kind of block.
        let (arm, other) = arranged.round(0, &[], 0).into_iter().find_map(|mut arms| {
            let at = arms.iter().position(|arm| where_listens(arm.form) == Listens::Everywhere)?;
            let arm = arms.remove(at);
            let other = arms.into_iter().find(|other| where_listens(other.form) != Listens::Apart)?;
            Some((arm, other))
        })?;
        let message = format!(
            "'{}' listens at every address of this machine, so that '{}' cannot listen at the same ports beside it",
            arm.name(),
            other.name()
        );
        let hint = "use `design: blocks`, omit that form, or let the workload's commands take each port from \
                    ${{port.NAME}}";
        Some(Conflict { field: "design", message, hint })
    }
}

/// Where a form listens when it stands beside others: its outermost layer decides, since that runs on this machine.
fn listens(form: &Form, catalog: &dyn Catalog) -> Listens {
    // A plain process that cannot have ports of its own beside others gets a network of its own.
    let Some(outermost) = form.layers.first() else { return Listens::Apart };
    catalog.layer(&outermost.layer).map_or(Listens::Apart, |known| known.listens(&outermost.options))
}

/// Whether services in a layer have a CPU quota, whatever the workload says.
fn has_quota(layer: &LayerUse, catalog: &dyn Catalog) -> bool {
    catalog.layer(&layer.layer).is_some_and(|known| known.has_quota(&layer.options))
}

#[cfg(test)]
mod tests {
    use crate::design::{Arrangement, Chop, Chosen};
    use crate::study::tests::{TextOf, WORKLOAD, read, read_toy};

    /// The conflicts of a study with these lines replacing, or added to, the usual ones.
    fn said(load: &str, more: &str) -> String {
        let text = format!("study: s\nworkload: toy\nload: {load}\nforms: {{plain: [], boxed: [box]}}\n{more}\n");
        read(&text).map_or_else(|found| found.join("\n"), |_| "nothing".to_owned())
    }

    const PEAK: &str = "{peak: {of: {open: {}}}}\nqos: {\"*\": {p99: 10ms}}";
    const STEPS: &str = "{steps: {of: {closed: {}}, levels: [1, 2]}}";
    const REPLAY: &str = "{replay: {file: a.txt}}";
    const CLOSED: &str = "{closed: {}}";
    const STEADY: &str = "time: {settle: {until: steady}}";

    #[test]
    fn what_does_not_go_together_is_refused_with_its_place_and_a_way_out() {
        let cases: &[(&str, &str, &str, &str)] = &[
            (PEAK, "design: alternate", "a peak is searched in blocks", "s.yaml:6"),
            (PEAK, "design: duet", "a peak is searched in blocks", "s.yaml:6"),
            (PEAK, "design: chop", "a peak is searched in blocks", "s.yaml:6"),
            (STEPS, "design: chop", "slices would cut them", "s.yaml:5"),
            ("{open: {rate: 10}}", "design: chop", "only a closed loop can be chopped", "s.yaml:5"),
            (CLOSED, "design: chop\nresources: {cpu_quota: 0.5}", "a quota has a period", "s.yaml:5"),
            (CLOSED, "design: duet\nfrom: host", "on the loopback forms stand side by side by ports", "s.yaml:5"),
            (CLOSED, &format!("design: duet\n{STEADY}"), "has the machine to itself", "s.yaml:5"),
            (STEPS, "design: alternate", "slices would cut them", "s.yaml:5"),
            (STEPS, STEADY, "steps settle at every level", "s.yaml:5"),
            (PEAK, STEADY, "a search for the peak warms up", "s.yaml:6"),
            (REPLAY, STEADY, "a recording has the rate that was recorded", "s.yaml:5"),
            (
                CLOSED,
                "until: {half_width: 2%, blocks: 5}",
                "first checked after 6 blocks, and there are at most 5",
                "s.yaml:5",
            ),
        ];
        for (load, more, wanted, place) in cases {
            let found = said(load, more);
            assert!(found.contains(wanted) && found.contains(place), "{load}, {more}: {found}");
        }
        for (load, more) in [
            (PEAK, "design: blocks"),
            (STEPS, "design: duet"),
            (CLOSED, STEADY),
            (CLOSED, "until: {half_width: 2%, blocks: 6}"),
            (CLOSED, "design: alternate"),
            (CLOSED, "design: chop"),
        ] {
            assert_eq!(said(load, more), "nothing", "{load}, {more}");
        }
    }

    #[test]
    fn a_tool_that_tells_no_seconds_is_neither_sliced_nor_watched() {
        let text = |more: &str| format!("study: s\nworkload: tool\nload: {CLOSED}\nforms: {{plain: []}}\n{more}\n");
        for (more, wanted) in
            [("design: alternate", "added up over slices"), (STEADY, "does not report single seconds")]
        {
            let found = read(&text(more)).unwrap_err().join("\n");
            assert!(found.contains(wanted), "{found}");
        }
        assert!(read(&text("design: duet")).is_ok());
    }

    #[test]
    fn a_tool_is_not_led_through_levels() {
        let replay = "{replay: {file: starts.txt}}";
        for workload in ["tool", "inner-tool"] {
            for load in [PEAK, STEPS, replay] {
                let text = format!("study: s\nworkload: {workload}\nload: {load}\nforms: {{plain: []}}\n");
                let found = read(&text).unwrap_err().join("\n");
                assert!(found.contains("cannot follow levels") && found.contains("s.yaml:3"), "{load}: {found}");
            }
        }
    }

    #[test]
    fn forms_that_would_take_each_others_ports_do_not_stand_side_by_side() {
        let text = |baseline: &str, forms: &str, design: &str| TextOf { baseline, forms, design }.to_string();
        let both = "{plain: [], shared: [{cage: {lid: false}}], placed: [cage]}";
        let found = read(&text("plain", both, "alternate")).unwrap_err().join("\n");
        assert!(found.contains("'shared' listens at every address") && found.contains("'placed'"), "{found}");
        assert!(found.contains("design: blocks") && found.contains("s.yaml:6"), "{found}");
        // In a duet, forms are paired with the baseline, not with each other.
        assert!(read(&text("plain", both, "duet")).is_ok());
        assert!(read(&text("placed", both, "duet")).is_err());
        // When chopped, the conflicting form has blocks of its own, but the baseline is in these too.
        let (study, _) = read(&text("plain", both, "chop")).unwrap();
        let apart = vec!["shared".to_owned()];
        assert_eq!(study.design.arrangement, Arrangement::Chop(Chop { apart, ..Chop::default() }));
        let (study, _) = read(&text("plain", "{plain: [], shared: [{cage: {lid: false}}]}", "chop")).unwrap();
        assert_eq!(study.design.arrangement, Arrangement::Chop(Chop::default()));
        assert!(read(&text("placed", both, "chop")).is_err() && read(&text("shared", both, "chop")).is_err());
        // The control is the baseline a second time.
        let twice = "{shared: [{cage: {lid: false}}], plain: []}";
        let found = read(&text("shared", twice, "duet")).unwrap_err().join("\n");
        assert!(found.contains("'shared (A/A)'"), "{found}");
        assert!(read(&text("plain", twice, "alternate")).is_ok());
        assert!(read(&text("plain", both, "blocks")).is_ok());
        // A service whose command takes its port from here gets one of its own.
        let movable = WORKLOAD.replace("[/usr/bin/toy]", "[/usr/bin/toy, '${{port.main}}']");
        assert!(read_toy(&text("placed", both, "alternate"), &movable).is_ok());
        let (study, _) = read_toy(&text("shared", both, "chop"), &movable).unwrap();
        assert_eq!(study.design.arrangement, Arrangement::Chop(Chop::default()));
    }

    #[test]
    fn a_closed_loop_is_chopped_where_nothing_speaks_against_it() {
        let movable = WORKLOAD.replace("[/usr/bin/toy]", "[/usr/bin/toy, '${{port.main}}']");
        let arranged_of = |workload: &str, load: &str, more: &str| {
            let text = format!("study: s\nworkload: toy\nload: {load}\nforms: {{plain: [], boxed: [box]}}\n{more}\n");
            let (study, _) = read_toy(&text, workload).unwrap();
            (study.design.arrangement.name(), study.design.chosen)
        };
        let arranged = |load, more| arranged_of(&movable, load, more);
        assert_eq!(arranged(CLOSED, ""), ("chop", Chosen::Usual));
        let (name, chosen) = arranged_of(WORKLOAD, CLOSED, "");
        assert!(name == "blocks" && matches!(&chosen, Chosen::Instead(why) if why.contains("port")), "{chosen:?}");
        let boxed = format!("study: s\nworkload: toy\nload: {CLOSED}\nbaseline: a\nforms: {{a: [box], b: [cage]}}\n");
        let (study, _) = read_toy(&boxed, WORKLOAD).unwrap();
        assert_eq!((study.design.arrangement.name(), study.design.chosen), ("chop", Chosen::Usual), "ports stay");
        let on_loopback = read_toy(&format!("{boxed}from: host\n"), WORKLOAD).unwrap().0.design;
        assert!(matches!(on_loopback.chosen, Chosen::Instead(why) if why.contains("on the loopback")));
        assert_eq!(arranged(CLOSED, "design: blocks"), ("blocks", Chosen::Asked));
        // Nobody would expect these to be chopped.
        assert_eq!(arranged("{open: {rate: 10}}", ""), ("blocks", Chosen::Usual));
        for (more, why) in [
            ("time: {settle: {until: steady}}", "the machine to itself"),
            ("resources: {cpu_quota: 0.5}", "a quota has a period"),
        ] {
            let (name, chosen) = arranged(CLOSED, more);
            let Chosen::Instead(said) = chosen else { panic!("{more}: {chosen:?}") };
            assert!(name == "blocks" && said.contains(why), "{more}: {said}");
        }
        // A quota that a layer sets counts as well.
        let text =
            format!("study: s\nworkload: toy\nload: {CLOSED}\nforms: {{plain: [], boxed: [box: {{tap: true}}]}}\n");
        let (study, _) = read_toy(&text, &movable).unwrap();
        assert!(matches!(&study.design.chosen, Chosen::Instead(why) if why.contains("a quota has a period")));
    }
}
