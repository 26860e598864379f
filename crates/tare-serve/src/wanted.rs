//! What is wanted of the list of records, as conditions of its index.

/// What is wanted of the list. Nothing means all.
#[derive(Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// Words that all occur.
    pub(crate) words: Vec<String>,
    /// For each word, the records of which the user's notes say it.
    pub(crate) noted: Vec<Vec<String>>,
    /// The records that have the tag that is wanted, if one is.
    pub(crate) tagged: Option<Vec<String>>,
    pub(crate) study: Option<&'a str>,
    pub(crate) form: Option<&'a str>,
    pub(crate) machine: Option<&'a str>,
    /// How it ended, or [`RUNNING`], [`TO_COME`] or [`UNFINISHED`].
    pub(crate) state: Option<&'a str>,
    /// The first and the last day, `2026-01-31`.
    pub(crate) from: Option<&'a str>,
    pub(crate) to: Option<&'a str>,
    /// From 0.
    pub(crate) page: usize,
}

/// The state of a run that goes on.
pub(crate) const RUNNING: &str = "running";
/// The state of a part that did not end while another one of its folder goes on.
pub(crate) const TO_COME: &str = "to come";
/// The state of one that did not end and does not go on.
pub(crate) const UNFINISHED: &str = "unfinished";

/// That a run did not end and does not go on; `$` are the runs that do.
const STOPPED: &str = "ended = '' AND run NOT IN (SELECT value FROM json_each($))";
/// The folder of a part, with its slash; empty for what is no part.
const FOLDER: &str = "substr(name, 1, instr(name, '/'))";
/// The folders of several parts of which one goes on.
const LIVE_FOLDERS: &str = "SELECT substr(name, 1, instr(name, '/')) FROM records
    WHERE instr(name, '/') > 0 AND ended = '' AND run IN (SELECT value FROM json_each($))";

/// The condition and its values.
pub(crate) fn conditions(wanted: &Wanted, live: &[String]) -> (String, Vec<String>) {
    let (mut all, mut values) = (vec!["1".to_owned()], Vec::new());
    let json = |names: &[String]| serde_json::to_string(names).expect("names are plain data");
    for (at, word) in wanted.words.iter().enumerate() {
        values.push(word.to_lowercase());
        values.push(json(wanted.noted.get(at).map(Vec::as_slice).unwrap_or_default()));
        let (word, names) = (values.len() - 1, values.len());
        all.push(format!("(instr(words, ?{word}) > 0 OR name IN (SELECT value FROM json_each(?{names})))"));
    }
    let mut add = |text: &str, value: String| {
        values.push(value);
        all.push(text.replace("$", &format!("?{}", values.len())));
    };
    let equals = [("study = $", wanted.study), ("machine = $", wanted.machine), ("started >= $", wanted.from)];
    for (text, value) in equals {
        if let Some(value) = value {
            add(text, value.to_owned());
        }
    }
    if let Some(form) = wanted.form {
        add("instr(forms, $) > 0", format!("\n{form}\n"));
    }
    if let Some(to) = wanted.to {
        // Until the end of that day: what follows a date sorts before a tilde.
        add("started <= $", format!("{to}~"));
    }
    if let Some(names) = &wanted.tagged {
        add("name IN (SELECT value FROM json_each($))", json(names));
    }
    let live = json(live);
    match wanted.state {
        Some(RUNNING) => add("ended = '' AND run IN (SELECT value FROM json_each($))", live),
        Some(TO_COME) => add(&format!("{STOPPED} AND {FOLDER} IN ({LIVE_FOLDERS})"), live),
        Some(UNFINISHED) => add(&format!("{STOPPED} AND {FOLDER} NOT IN ({LIVE_FOLDERS})"), live),
        Some(state) => add("ended = $", state.to_owned()),
        None => {}
    }
    (all.join(" AND "), values)
}
