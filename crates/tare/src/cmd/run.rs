//! `tare run`: carries out a study.

use crate::catalog::Tables;
use crate::cli::RunArgs;
use crate::cmd::{Mistake, claim_records, columns, note, peak, power, print, suite, tell};
use crate::machine;
use crate::outlook::{self, Outlook, Total};
use crate::places::{self, Places};
use crate::session::{self, GENERATOR, HYPERVISOR, INTERRUPTS, SERVICES, Session};
use crate::version::VERSION;
use crate::{EXIT_OK, files, images, null_cost, paths, written};
use anyhow::Result;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tare_core::design::{Chosen, FIRST_LOOK};
use tare_core::fault::Fault;
use tare_core::host::{Carrier, Facts};
use tare_core::plan::{blocks, plan, plan_profiles};
use tare_core::profile::Profiled;
use tare_core::record::{FormState, Header, NULL_COST, SCHEMA};
use tare_core::study::{LoadOrigin, Study};
use tare_core::units::{exact_duration, typed_duration};
use tare_core::workload::Workload;
use tare_report::{paragraph, whole};
use tare_runner::{Clock, Ending, Pace, RecordDir, SystemClock};

pub(crate) fn run(args: &RunArgs) -> Result<u8> {
    let suite = files::read_to_run(args)?;
    if suite.is_divided() {
        return suite::run(args, suite);
    }
    if let Some(part) = args.parts.first() {
        let text = format!("study '{}' has no part '{part}': it has no parts at all", suite.name);
        return Err(Mistake::new(text).into());
    }
    let (study, workload) = suite::only_part(suite, "run")?;
    check_times(args, &study)?;
    start(args, study, workload, None)
}

/// Puts what was typed over a study, and sees whether it can be run on this machine.
pub(crate) fn prepare(args: &RunArgs, study: &mut Study, workload: &Workload) -> Result<()> {
    check_times(args, study)?;
    put_together(args, study, workload)?;
    study.lay_ruler();
    places::places(study, workload).map(drop)
}

/// A study whose load brings times of its own would not heed those that are typed.
pub(crate) fn check_times(args: &RunArgs, study: &Study) -> Result<()> {
    let typed = [("--measure", args.measure), ("--settle", args.settle)];
    let Some((flag, _)) = typed.into_iter().find(|(_, time)| time.is_some()) else { return Ok(()) };
    let (what, instead) = if study.peak.is_some() {
        ("a search for the peak", format!("tare peak {} {flag} TIME, or change 'load' in the study", args.study))
    } else if study.load.span().is_some() {
        ("a load in steps", "change 'measure', 'settle' or 'ramp' of 'steps' in the study".to_owned())
    } else {
        return Ok(());
    };
    let text = format!(
        "{flag} would change nothing: the load of study '{}' is {what}, which has times of its own",
        study.name
    );
    Err(Mistake::new(format!("{text}\n  to do: {instead}")).into())
}

/// Carries out what was read. `command` is what repeats it, where that is not `tare run`; the rest is added to it.
pub(crate) fn start(args: &RunArgs, study: Study, workload: Workload, repeat: Option<String>) -> Result<u8> {
    start_and(args, study, workload, repeat, |path, ending| session::show_end(path, ending, args.json, args.verbose))
}

/// The same, with another end than the report: `finish` is handed the record and how the run ended.
pub(crate) fn start_and(
    args: &RunArgs,
    mut study: Study,
    mut workload: Workload,
    repeat: Option<String>,
    finish: impl FnOnce(&Path, Ending) -> Result<u8>,
) -> Result<u8> {
    put_together(args, &mut study, &workload)?;
    study.lay_ruler();
    let places = places::places(&study, &workload)?;
    let seed = study.seed.unwrap_or_else(new_seed);
    if args.dry_run {
        let pace = outlook::pace(&study, &workload, None);
        let fitted = outlook::fit(&mut study, &pace, args.measure.is_some());
        let lines = dry_run(&study, &workload, &places, seed, columns(std::io::stdout()));
        let width = columns(std::io::stdout());
        let foreseen = power::foreseen_text(&study, &workload, &pace, width);
        print(&(lines + &outcome_of(&study, &pace, seed, fitted, foreseen, width)));
        return Ok(EXIT_OK);
    }
    session::require_root("run")?;
    if args.out.is_none() {
        claim_records()?;
    }
    let _machine = session::take_machine(&format!("tare run {}", study.name), args.wait)?;
    session::require_clean_host()?;
    tare_load::check_needs(&workload.protocol.protocol, &workload.protocol.options)?;
    let out = args.out.clone().unwrap_or_else(|| default_out(&study));
    require_writable(&out)?;
    let stop = session::stop_on_signals()?;
    let mut say = |text: &str| if args.json { note(text) } else { tell(text) };
    let carrier = machine::carrier()?;
    let bundles = machine::build_bundles(&mut workload, carrier.bundles.as_ref(), &mut say)?;
    images::lines(&workload).iter().for_each(|line| say(line));
    let forms = look_at_forms(&study, &carrier, &mut say);
    let pace = outlook::pace(&study, &workload, Some(&forms));
    let fitted = outlook::fit(&mut study, &pace, args.measure.is_some());
    let command = repeat.map_or_else(
        || command(args, &study, seed),
        |repeat| format!("{repeat}{} --seed {seed}", repeat_option(&study)),
    );
    let header = Header { command, ..ready(study, workload, forms, bundles, None)?.header(seed) };
    let outlook = Outlook::of(&header.study, &header.plan, &pace);
    fitted.iter().for_each(|fitted| say(fitted));
    say(&format!("study {}: {}", header.study.name, outlook.describe()));
    outlook.too_short().iter().for_each(|warning| say(warning));
    let record = RecordDir::create(&out, &header)?;
    say(&format!("record: {}\n", out.display()));
    let ending =
        session::conduct(Session { header: &header, record, done: Vec::new(), carrier, json: args.json, stop })?;
    finish(&out, ending)
}

/// Puts what was typed over what the file says, and decides what neither says.
fn put_together(args: &RunArgs, study: &mut Study, workload: &Workload) -> Result<()> {
    apply(args, study)?;
    study.arrange(workload, &Tables);
    machine::stand_apart_if_memory_is_short(study, workload, machine::memory_bytes());
    check_whole(study, workload)
}

/// What was typed goes over what the file says.
fn apply(args: &RunArgs, study: &mut Study) -> Result<()> {
    for name in &args.forms {
        if !study.forms.iter().any(|form| form.name == *name) {
            let known: Vec<&str> = study.forms.iter().map(|form| form.name.as_str()).collect();
            let text = format!("study '{}' has no form '{name}'; it has: {}", study.name, known.join(", "));
            return Err(Mistake::new(text).into());
        }
    }
    if !args.forms.is_empty() {
        let baseline = study.baseline.clone();
        study.forms.retain(|form| form.name == baseline || args.forms.contains(&form.name));
    }
    // The same one again keeps what the study says of it, such as its slices.
    if let Some(design) = args.design.clone() {
        study.design.chosen = Chosen::Asked;
        if design.name() != study.design.arrangement.name() {
            study.design.arrangement = design;
        }
    }
    // So many blocks, neither more nor fewer.
    if let Some(repeat) = args.repeat {
        (study.repeat, study.design.half_width) = (repeat, None);
    }
    study.at_most = args.at_most.or(study.at_most);
    if study.peak.is_none() {
        study.settle = args.settle.unwrap_or(study.settle);
        study.measure = args.measure.unwrap_or(study.measure);
    }
    study.seed = args.seed.or(study.seed);
    if args.ruler.is_some() && !study.takes_ruler() {
        let text = "--ruler would change nothing: what is compared here are rungs, variants or placements of one form";
        return Err(Mistake::new(format!("{text}\n  to do: leave it away, or weigh one with `tare run`")).into());
    }
    study.ruler = args.ruler.or(study.ruler);
    if args.profile {
        study.profile.get_or_insert(Profiled::All);
    }
    if study.measure.as_secs_f64() < 1.0 {
        return Err(Mistake::new("less than a second of measuring says nothing; raise --measure").into());
    }
    Ok(())
}

/// What was typed may have brought together what does not go together.
fn check_whole(study: &Study, workload: &Workload) -> Result<()> {
    let conflicts = study.conflicts(workload, &Tables);
    if conflicts.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = conflicts
        .iter()
        .map(|found| format!("'{}' of study '{}': {}\n  to do: {}", found.field, study.name, found.message, found.hint))
        .collect();
    Err(Mistake::new(texts.join("\nerror: ")).into())
}

fn default_out(study: &Study) -> PathBuf {
    paths::records().join(format!("{}-{}", session::folder_stamp(), study.name))
}

/// A run of ten minutes must not end with "permission denied".
pub(crate) fn require_writable(out: &Path) -> Result<()> {
    if out.join("record.json").exists() || tare_runner::is_suite(out) {
        let text = format!("{} holds a record already, and records are never overwritten", out.display());
        return Err(Mistake::new(text + "\n  to do: name another directory, or continue that one: tare resume").into());
    }
    let probe = out.join(format!(".writable-{}", std::process::id()));
    // Made new: what is removed is what was made.
    let tried = written::make_own_folder(out).and_then(|()| std::fs::File::create_new(&probe));
    let tried = tried.and_then(|mut file| std::io::Write::write_all(&mut file, b"x").and(std::fs::remove_file(&probe)));
    tried.map_err(|error| {
        let text = format!("the record cannot be written to {}: {error}", out.display());
        Mistake::new(text + "\n  to do: name a directory that can be written with --out").into()
    })
}

/// A seed that no study names.
pub(crate) fn new_seed() -> u64 {
    u64::from_le_bytes(*uuid::Uuid::now_v7().as_bytes().last_chunk().expect("16 bytes")) >> 16
}

/// Looks at what each form is on this machine, and says which cannot be had or are emulated.
pub(crate) fn look_at_forms(
    study: &Study,
    carrier: &Carrier,
    say: &mut dyn FnMut(&str),
) -> BTreeMap<String, FormState> {
    say("looking at what each form is on this machine");
    let forms = machine::form_states(study, carrier);
    for (name, state) in &forms {
        if let Some(why) = &state.unavailable {
            say(&format!("{name} is skipped: {why}"));
        } else if let Some(why) = &state.emulated {
            say(&format!("{name} is EMULATED: {why}"));
        }
    }
    forms
}

/// A study with all that a run of it needs to know beforehand.
pub(crate) struct Ready {
    pub(crate) study: Study,
    pub(crate) workload: Workload,
    pub(crate) forms: BTreeMap<String, FormState>,
    /// Facts of the machine, and what the apparatus costs on it.
    pub(crate) environment: Facts,
    bundles: BTreeMap<String, String>,
    places: Places,
}

/// Brings together what a run needs. `environment` is looked at unless it is known already.
pub(crate) fn ready(
    study: Study,
    workload: Workload,
    forms: BTreeMap<String, FormState>,
    bundles: BTreeMap<String, String>,
    environment: Option<Facts>,
) -> Result<Ready> {
    let mut study = study;
    study.set_apart(&workload, &Tables);
    let places = places::places(&study, &workload)?;
    let environment = environment.unwrap_or_else(|| {
        let mut environment = tare_telemetry::environment();
        let null_cost = null_cost::measure(&places.generator);
        environment.extend(null_cost.map(|us| (NULL_COST.to_owned(), format!("{us:.4}"))));
        environment
    });
    Ok(Ready { study, workload, forms, environment, bundles, places })
}

impl Ready {
    /// The header of a new run, without the command that repeats it.
    pub(crate) fn header(self, seed: u64) -> Header {
        let Ready { study, workload, mut forms, environment, bundles, places } = self;
        for (name, state) in &mut forms {
            state.placement = places.forms.get(name).cloned();
        }
        let kept = [(GENERATOR, places.generator), (SERVICES, places.service)].into_iter();
        let aside = [(HYPERVISOR, places.hypervisor), (INTERRUPTS, places.interrupts)];
        let aside = aside.into_iter().filter(|(_, cpus)| !cpus.is_empty());
        let placement = kept.chain(aside).map(|(name, cpus)| (name.to_owned(), cpus.to_string())).collect();
        Header {
            schema: SCHEMA,
            tare: VERSION.clone(),
            run: machine::new_run_id(),
            started: SystemClock::new().timestamp(),
            command: String::new(),
            seed,
            plan: plan(&study, &emulated(&forms), seed),
            forms,
            environment,
            topology: Some(tare_telemetry::topology()),
            bundles,
            placement,
            study,
            workload,
        }
    }
}

/// Sees that the bundles are what they were when the run began, building them if they are gone.
pub(crate) fn same_bundles(header: &Header, carrier: &Carrier, say: &mut dyn FnMut(&str)) -> Result<()> {
    let bundles = machine::build_bundles(&mut header.workload.clone(), carrier.bundles.as_ref(), say)?;
    for (service, digest) in &header.bundles {
        let now = bundles.get(service);
        if now != Some(digest) {
            let now = now.map_or("none", String::as_str);
            let text = format!("the bundle of service {service} is {now} now, the run began with {digest}");
            return Err(Fault::new(text).remedy("start a new run: other bits are another study").into());
        }
    }
    Ok(())
}

/// What a run of a part would do, in lines of at most `width` columns; what it comes to is added to `all`.
pub(crate) fn describe_part(study: &Study, workload: &Workload, width: usize, all: &mut Total) -> String {
    let pace = outlook::pace(study, workload, None);
    let trials = plan(study, &pace.emulated(), 0);
    let outlook = Outlook::of(study, &trials, &pace);
    all.add(&outlook);
    let part = study.part.as_ref().map_or(&study.name, |part| &part.name);
    let chosen = study.parameters.iter().map(|(name, value)| format!("{name} {value}"));
    let chosen = chosen.fold(String::new(), |text, value| format!("{text}, {value}"));
    let load = match study.from {
        LoadOrigin::Inside => "a tool inside the form".to_owned(),
        LoadOrigin::Outside | LoadOrigin::Host => study.load.describe(),
    };
    let text = format!("workload {}{chosen}; {load}; {}", workload.name, outlook.amount());
    paragraph(&format!("  {part:<18} "), 21, &text, width)
}

fn emulated(forms: &BTreeMap<String, FormState>) -> Vec<String> {
    forms.iter().filter(|(_, state)| state.emulated.is_some()).map(|(name, _)| name.clone()).collect()
}

/// The option for the number of blocks; nothing of a study that ends once its intervals are narrow.
fn repeat_option(study: &Study) -> String {
    if study.design.half_width.is_some() { String::new() } else { format!(" --repeat {}", study.repeat) }
}

/// The command that repeats this run, with everything that was decided.
fn command(args: &RunArgs, study: &Study, seed: u64) -> String {
    let mut text = format!("tare run {}{} --seed {seed}", args.study, repeat_option(study));
    for name in &args.forms {
        let _ = write!(text, " --form {name}");
    }
    if let Some(preset) = &args.preset {
        let _ = write!(text, " --preset {preset}");
    }
    if let Some(share) = args.ruler {
        let _ = write!(text, " --ruler {}%", share * 100.0);
    }
    if let Some(design) = &args.design {
        let _ = write!(text, " --design {}", design.name());
    }
    let _ = write!(text, " --settle {} --measure {}", typed_duration(study.settle), typed_duration(study.measure));
    if let Some(most) = study.at_most {
        let _ = write!(text, " --at-most {}", typed_duration(most));
    }
    if args.profile {
        text.push_str(" --profile");
    }
    if let Some(folder) = &args.workloads {
        let _ = write!(text, " --workloads {}", folder.display());
    }
    text
}

/// A study or a workload by its name, and what it says of itself if anything.
pub(crate) fn named(what: &str, name: &str, about: &str) -> String {
    if about.is_empty() { format!("{what} {name}") } else { format!("{what} {name}: {about}") }
}

/// What a run would do, in lines of at most `width` columns.
fn dry_run(study: &Study, workload: &Workload, places: &Places, seed: u64, width: usize) -> String {
    let mut text = String::new();
    let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
    let origin = match study.from {
        LoadOrigin::Outside => "a network namespace of its own",
        LoadOrigin::Host => "the host's loopback",
        LoadOrigin::Inside => "inside each form, by a tool on the service's CPUs",
    };
    say("", 2, &named("study", &study.name, &study.question));
    say("", 2, &named("workload", &workload.name, &workload.about));
    images::lines(workload).iter().for_each(|line| say("  ", 4, line));
    let generator = match study.from {
        LoadOrigin::Inside => String::new(),
        LoadOrigin::Outside | LoadOrigin::Host => format!(", CPUs {}", places.generator),
    };
    say("", 2, &format!("{}, from {origin}{generator}", study.load.describe()));
    say("", 2, &format!("services on CPUs {}; seed {seed}", places.service));
    let (settle, measure) = (exact_duration(study.settle), exact_duration(study.measure));
    match &study.peak {
        Some(plan) => peak::describe(plan, study.qos.as_ref()).iter().for_each(|line| say("", 2, line)),
        None => say("", 2, &format!("each trial: a fresh deployment, {settle} to settle, {measure} measured")),
    }
    say("", 2, &format!("design: {}", study.design.describe()));
    say("", 0, "");
    for form in &study.forms {
        let role = if form.name == study.baseline { "  (baseline)" } else { "" };
        let placed = places.forms.get(&form.name).filter(|_| study.placement.is_some() || form.placement.is_some());
        let placed = placed.map_or_else(String::new, |placed| format!("; {}", places::describe(placed)));
        say(&format!("  {:<20} ", form.name), 23, &format!("{}{placed}{}", machine::describe(form), whole(role)));
    }
    text
}

/// What a run would come to: its blocks, how long they take, and what was made shorter so that they fit.
fn outcome_of(study: &Study, pace: &Pace, seed: u64, fitted: Option<String>, foreseen: String, width: usize) -> String {
    let mut text = String::from("\n");
    let mut say = |label: &str, hanging: usize, line: &str| text.push_str(&paragraph(label, hanging, line, width));
    let trials = plan(study, &pace.emulated(), seed);
    let all = blocks(&trials);
    // Of a study that goes on until it is content nobody wants to read all that there may be.
    let shown = if study.design.ends_by_itself() { all.min(FIRST_LOOK) } else { all };
    for block in 0..shown {
        let arms: Vec<String> = trials.iter().filter(|trial| trial.block == block).map(|t| whole(&t.arm())).collect();
        say(&format!("block {}: ", block + 1), 9, &arms.join(", "));
    }
    if shown < all {
        say("", 9, &format!("and so on, up to block {all}"));
    }
    let profiled: Vec<String> = plan_profiles(study).iter().map(|trial| whole(&trial.form)).collect();
    if !profiled.is_empty() {
        say("profiled: ", 9, &profiled.join(", "));
    }
    let outlook = Outlook::of(study, &trials, pace);
    say("", 0, "");
    fitted.iter().for_each(|fitted| say("", 2, fitted));
    say("", 2, &outlook.describe());
    outlook::of_orders(study, pace, seed).iter().for_each(|text| say("", 2, text));
    outlook.too_short().iter().for_each(|warning| say("", 2, warning));
    if study.forms.iter().any(|form| form.layers.iter().any(|layer| layer.layer == "vm")) {
        let emulated: Vec<String> = pace.emulated().iter().map(|form| whole(form)).collect();
        let known = if emulated.is_empty() {
            "whether a virtual machine is emulated here shows when the run starts".to_owned()
        } else {
            format!("emulated the last time: {}", emulated.join(", "))
        };
        let blocks = match study.emulated_blocks {
            1 => "block".to_owned(),
            several => format!("{several} blocks"),
        };
        say("", 2, &format!("{known}; an emulated form takes part in the first {blocks} only"));
    }
    text += &foreseen;
    text + &paragraph("", 2, "Nothing was started.", width)
}
