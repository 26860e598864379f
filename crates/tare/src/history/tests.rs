//! The history in made-up files.

use super::*;
use std::path::PathBuf;
use tare_stats::{Bound, BoundCause, Condition, Verdict, Withheld};

/// Where a history may come to lie, in a folder of its own.
fn empty() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.db");
    (folder, path)
}

#[test]
fn a_history_of_the_first_version_is_migrated() {
    let (_folder, path) = empty();
    let old = Connection::open(&path).unwrap();
    old.execute_batch(
        "CREATE TABLE runs (run TEXT PRIMARY KEY, started TEXT NOT NULL, study TEXT NOT NULL, workload TEXT NOT NULL,
            kernel TEXT NOT NULL, trials INTEGER NOT NULL, ended TEXT NOT NULL, path TEXT NOT NULL) STRICT;
         CREATE TABLE ratios (run TEXT NOT NULL REFERENCES runs ON DELETE CASCADE, form TEXT NOT NULL,
            position INTEGER NOT NULL, ratio REAL, low REAL, high REAL, PRIMARY KEY (run, form)) STRICT;
         INSERT INTO runs VALUES ('abc123', '2026-01-01T00:00:00Z', 's', 'w', '6.1', 9, 'complete', 'gone');
         INSERT INTO ratios VALUES ('abc123', 'box', 1, 0.9, 0.89, 0.91);
         PRAGMA user_version = 1;",
    )
    .unwrap();
    drop(old);
    let db = open_at(&path).unwrap();
    let kept: (String, f64) =
        db.query_row("SELECT metric, ratio FROM ratios", [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    assert_eq!(kept, ("throughput".to_owned(), 0.9));
    // Its record is gone, so its baseline is unknown: it is listed, but in no series.
    assert!(series_of(&db, "throughput").unwrap().is_empty());
    drop(db);
    open_at(&path).unwrap();
}

#[test]
fn a_history_of_the_second_version_gets_a_table_of_times() {
    let (_folder, path) = empty();
    open_at(&path)
        .unwrap()
        .execute_batch("DROP TABLE times; ALTER TABLE ratios DROP COLUMN bound; PRAGMA user_version = 2;")
        .unwrap();
    let db = open_at(&path).unwrap();
    db.execute("INSERT INTO runs VALUES ('r', '2026', 's', 'w', '6.1', 9, 'fitted', 'x', '{}')", []).unwrap();
    db.execute("INSERT INTO times VALUES ('r', 'box', '{}', 0, 2.5)", []).unwrap();
}

#[test]
fn a_bound_or_withheld_ratio_is_kept_without_an_interval() {
    let interval = Interval { low: 0.85, high: 0.89 };
    let mut ratio = Ratio {
        arm: "box".into(),
        blocks: vec![0, 1, 2],
        ratio: 0.87,
        bound: None,
        interval: Some(interval),
        standard_error: None,
        degrees: None,
        hodges_lehmann: 0.87,
        parts: None,
        follows: None,
        sensitive: false,
        trimmed: None,
        trimming_differs: false,
        smallest_detectable: None,
        equivalent: None,
        blocks_needed: None,
        equals_beyond_margin: false,
        cold: None,
        still: None,
        verdict: Verdict::Worse,
        withheld: None,
    };
    assert_eq!(StoredRatio::of(Some(&ratio)), StoredRatio { ratio: Some(0.87), interval: Some(interval), side: None });
    ratio.bound = Some(Bound { side: Side::AtMost, cause: BoundCause::Generator });
    assert_eq!(
        StoredRatio::of(Some(&ratio)),
        StoredRatio { ratio: Some(0.87), interval: None, side: Some(Side::AtMost) }
    );
    ratio.bound = None;
    let unfollowed = StoredRatio { ratio: Some(0.87), interval: None, side: None };
    for why in [Withheld::VoidTooOften, Withheld::OtherVoidTooOften, Withheld::ControlDiffers] {
        ratio.withheld = Some(why);
        assert_eq!(StoredRatio::of(Some(&ratio)), unfollowed, "{why:?}");
    }
}

#[test]
fn versions_without_bounds_get_a_column_for_the_side() {
    let (_folder, path) = empty();
    let old = open_at(&path).unwrap();
    old.execute("INSERT INTO runs VALUES ('r', '2026', 's', 'w', '6.1', 9, 'fitted', 'gone', '{}')", []).unwrap();
    old.execute("INSERT INTO ratios VALUES ('r', 'box', 'throughput', 0, 0.9, 0.8, 1.0, NULL)", []).unwrap();
    old.execute_batch("ALTER TABLE ratios DROP COLUMN bound; PRAGMA user_version = 5;").unwrap();
    drop(old);
    let db = open_at(&path).unwrap();
    let side: Option<String> = db.query_row("SELECT bound FROM ratios", [], |row| row.get(0)).unwrap();
    assert_eq!(side, None);
}

#[test]
fn records_of_an_older_version_are_read_again_until_done() {
    let (folder, path) = empty();
    let db = open_at(&path).unwrap();
    let no_record = "INSERT INTO runs VALUES ('r', '2026', 's', 'w', '6.1', 9, 'fitted', ?1, '{}')";
    db.execute(no_record, [folder.path().to_str().unwrap()]).unwrap();
    // As if killed after the tables were made and before anything was read.
    db.execute("INSERT INTO unread VALUES (?1)", [folder.path().to_str().unwrap()]).unwrap();
    drop(db);
    let unread =
        |db: &Connection| -> i64 { db.query_row("SELECT count(*) FROM unread", [], |row| row.get(0)).unwrap() };
    assert_eq!(unread(&open_at(&path).unwrap()), 0);
    Connection::open(&path).unwrap().execute_batch("DROP TABLE unread; PRAGMA user_version = 4;").unwrap();
    let mut db = Connection::open(&path).unwrap();
    db.execute_batch(&format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;")).unwrap();
    assert_eq!(unread(&db), 1, "what version 4 knew is to be read");
    read_again(&mut db).unwrap();
    assert_eq!(unread(&db), 0);
}

#[test]
fn occasions_are_learned_from_the_equals_of_runs_arranged_alike() {
    let db = open_at(Path::new(":memory:")).unwrap();
    let conditions = |workload: &str, load: &str| -> Conditions {
        let all = [(Condition::Workload, workload), (Condition::Baseline, "plain"), (Condition::Load, load)];
        all.map(|(what, value)| (what, serde_json::json!(value).to_string())).into()
    };
    let put = |run: u32, workload: &str, load: &str, log: f64| {
        let name = format!("{workload}{load}{run}");
        let kept = serde_json::to_string(&conditions(workload, load)).unwrap();
        let insert = "INSERT INTO runs VALUES (?1, ?2, 's', ?3, '6.1', 9, 'complete', 'x', ?4)";
        db.execute(insert, params![name, format!("2026-01-{run:02}"), workload, kept]).unwrap();
        let insert = "INSERT INTO equals VALUES (?1, 'throughput', ?2, 0.004, 4.0)";
        db.execute(insert, params![name, log]).unwrap();
    };
    (0..6).for_each(|run| put(run, "w", "closed 1", 0.005));
    (0..6).for_each(|run| put(run, "w", "closed 50", 0.5));
    (0..2).for_each(|run| put(run, "v", "closed 1", 0.005));
    let learned = occasions_of(&db, "w", &conditions("w", "closed 1")).unwrap();
    assert_eq!(learned["throughput"].runs, 6, "another load is another matter");
    assert!((learned["throughput"].deviation - 0.003).abs() < 1e-9, "{learned:?}");
    assert!(occasions_of(&db, "v", &conditions("v", "closed 1")).unwrap().is_empty(), "two are too few");
}

#[test]
fn series_are_separate_by_study_workload_baseline_and_form() {
    let db = open_at(Path::new(":memory:")).unwrap();
    for (n, (run, study, baseline)) in
        [("r1", "s", "plain"), ("r2", "s", "plain"), ("r3", "s", "bare"), ("r4", "t", "plain")].iter().enumerate()
    {
        let baseline = serde_json::json!(baseline).to_string();
        let conditions = serde_json::to_string(&Conditions::from([(Condition::Baseline, baseline)])).unwrap();
        db.execute(
            "INSERT INTO runs VALUES (?1, ?2, ?3, 'w', '6.1', 9, 'complete', 'x', ?4)",
            params![run, format!("2026-01-0{}T00:00:00Z", n + 1), study, conditions],
        )
        .unwrap();
        for form in ["box", "net"] {
            let low = if *run == "r2" && form == "net" { None } else { Some(0.89) };
            let insert = "INSERT INTO ratios VALUES (?1, ?2, 'throughput', 0, 0.9, ?3, 0.91, NULL)";
            db.execute(insert, params![run, form, low]).unwrap();
        }
    }
    let found = series_of(&db, "throughput").unwrap();
    let named: Vec<(&str, &str, &str, usize)> = found
        .iter()
        .map(|series| (series.study.as_str(), series.baseline.as_str(), series.form.as_str(), series.points.len()))
        .collect();
    let wanted = [
        ("s", "plain", "box", 2),
        ("s", "plain", "net", 1),
        ("s", "bare", "box", 1),
        ("s", "bare", "net", 1),
        ("t", "plain", "box", 1),
        ("t", "plain", "net", 1),
    ];
    assert_eq!(named, wanted);
    assert!(series_of(&db, "p50_us").unwrap().is_empty());
}

#[test]
fn a_history_without_spreads_gets_a_table_for_them() {
    let (_folder, path) = empty();
    open_at(&path).unwrap().execute_batch("DROP TABLE spreads; PRAGMA user_version = 6;").unwrap();
    let db = open_at(&path).unwrap();
    let spreads: i64 = db.query_row("SELECT count(*) FROM spreads", [], |row| row.get(0)).unwrap();
    assert_eq!(spreads, 0);
}

/// The runner's sample as a record in this folder.
fn sample(folder: &Path) -> PathBuf {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tare-runner/samples/record.txt");
    let text = "\n".to_owned() + &std::fs::read_to_string(files).unwrap();
    for file in text.split("\n== ").skip(1) {
        let (name, content) = file.split_once('\n').unwrap();
        tare_testkit::files::write(&folder.join(name), content);
    }
    folder.to_owned()
}

#[test]
fn a_history_of_the_seventh_version_gets_its_conditions_from_records() {
    let (folder, path) = empty();
    let of_record = sample(&folder.path().join("record"));
    let record = tare_runner::read_record(&of_record).unwrap();
    let mut old = open_at(&path).unwrap();
    insert(&mut old, &record, &of_record).unwrap();
    // As it kept them: by words, and what a run claimed of its equals.
    old.execute_batch(
        "INSERT INTO runs VALUES ('lost', '2026', 'canonical', 'redis', '6.1', 9, 'precise enough', 'gone', '{}');
         INSERT INTO equals VALUES ('lost', 'throughput', 0.005, 0.02, 4.0);
         UPDATE runs SET conditions = '{\"the baseline\":\"native\",\"the time to settle\":\"1 s\"}';
         PRAGMA user_version = 7;",
    )
    .unwrap();
    drop(old);
    let db = open_at(&path).unwrap();
    let conditions = |run: &str| -> Conditions {
        let kept: String = db.query_row("SELECT conditions FROM runs WHERE run = ?1", [run], |row| row.get(0)).unwrap();
        serde_json::from_str(&kept).unwrap()
    };
    assert_eq!(conditions(&record.header.run), tare_stats::conditions(&record.header));
    assert!(conditions("lost").is_empty(), "nobody knows any more");
    let number = |query: &str| -> i64 { db.query_row(query, [], |row| row.get(0)).unwrap() };
    assert_eq!(number("PRAGMA user_version"), VERSION);
    assert_eq!(number("SELECT count(*) FROM equals WHERE run = 'lost'"), 0, "nothing is learned from it");
    assert_eq!(number("SELECT count(*) FROM unread"), 1, "its disk may come back");
}

#[test]
fn deployments_are_told_apart_by_data_not_by_names() {
    let folder = tempfile::tempdir().unwrap();
    let header = tare_runner::read_record(&sample(folder.path())).unwrap().header;
    let (study, workload) = (&header.study, &header.workload);
    let form = |name: &str| study.forms.iter().find(|form| form.name == name).unwrap().clone();
    let key = |form: &Form| stands(study, workload, form);
    let told: serde_json::Value = serde_json::from_str(&key(&form("container"))).unwrap();
    assert_eq!(told["layers"], serde_json::json!([{"layer": "container", "options": {}}]), "it is as usual");
    assert_eq!(told["services"], 1);
    let mut whole = form("container");
    whole.layers[0].options = machine::usual_options("container");
    assert!(
        whole != form("container") && key(&whole) == key(&form("container")),
        "the sample is older than some options"
    );
    let renamed = Form { name: "box".into(), ..form("container") };
    assert_eq!(key(&renamed), key(&form("container")), "the same takes as long under another name");
    let mut other = form("container");
    other.layers[0].options["network"] = "host".into();
    let told: serde_json::Value = serde_json::from_str(&key(&other)).unwrap();
    assert_eq!(told["layers"][0]["options"], serde_json::json!({"network": "host"}));
    let sized = |bytes: u64| {
        let mut form = form("container");
        form.resources.memory_bytes = Some(bytes);
        key(&form)
    };
    // Both are 1.0 GiB in words.
    let sizes = [(1 << 30) + 1, (1 << 30) + 2].map(sized);
    let all = [key(&form("container")), key(&form("native")), key(&other), sizes[0].clone(), sizes[1].clone()];
    assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), all.len(), "{all:#?}");
}

#[test]
fn a_history_of_the_eighth_version_gets_its_times_from_records() {
    let (folder, path) = empty();
    let of_record = sample(&folder.path().join("record"));
    let record = tare_runner::read_record(&of_record).unwrap();
    let (study, workload) = (&record.header.study, &record.header.workload);
    let mut old = open_at(&path).unwrap();
    insert(&mut old, &record, &of_record).unwrap();
    let kept = times_of(&old, study, workload).unwrap();
    assert!(kept["native"].len() == 1 && kept["container"].len() == 1, "{kept:?}");
    // As it kept them: by words.
    old.execute_batch(
        "INSERT INTO runs VALUES ('lost', '2026', 'canonical', 'redis', '6.1', 9, 'complete', 'gone', '{\"a\":1}');
         INSERT INTO equals VALUES ('lost', 'throughput', 0.005, 0.02, 4.0);
         INSERT INTO times VALUES ('lost', 'native', 'plain process; instances: 1', 0, 2.5);
         UPDATE times SET stands = 'plain process; instances: 1' WHERE form = 'native';
         UPDATE times SET stands = 'container(network=published); instances: 1' WHERE form = 'container';
         PRAGMA user_version = 8;",
    )
    .unwrap();
    assert!(times_of(&old, study, workload).unwrap()["native"].is_empty(), "words are no key");
    drop(old);
    let db = open_at(&path).unwrap();
    assert_eq!(times_of(&db, study, workload).unwrap(), kept);
    let number = |query: &str| -> i64 { db.query_row(query, [], |row| row.get(0)).unwrap() };
    assert_eq!(number("PRAGMA user_version"), VERSION);
    assert_eq!(number("SELECT count(*) FROM times WHERE stands LIKE '%instances: %'"), 0);
    // What it knew otherwise of a record that is gone stays.
    assert_eq!(number("SELECT count(*) FROM equals WHERE run = 'lost'"), 1);
    assert_eq!(number("SELECT count(*) FROM runs WHERE run = 'lost' AND conditions <> '{}'"), 1);
}
