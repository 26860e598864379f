//! Comparisons of more than two records, as the program prints them.

use crate::cli::said_in;
use crate::records::write_record;
use crate::sample;

#[test]
fn two_to_eight_records_are_compared_with_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let names: Vec<String> = (1..=9).map(|number| format!("r{number}")).collect();
    for name in &names[..3] {
        let mut record = sample::record();
        name.clone_into(&mut record.header.run);
        write_record(&folder.path().join(name), &record);
    }
    let says = |code: i32, names: &[String], more: &[&str]| {
        let mut args = vec!["compare"];
        args.extend(names.iter().map(String::as_str));
        args.extend(more);
        let (found, text) = said_in(folder.path(), &args);
        assert_eq!(found, Some(code), "{args:?}: {text}");
        text
    };
    let text = says(0, &names[..3], &[]);
    assert!(text.contains("run 3   run r3") && text.contains("over run 1, changed?"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(says(0, &names[..2], &[]).contains("after / before, changed?"));
    let read: serde_json::Value = serde_json::from_str(&says(0, &names[..3], &["--json"])).unwrap();
    assert_eq!(read["runs"].as_array().unwrap().len(), 3);
    says(2, &names[..1], &[]);
    says(2, &names[..], &[]);
}
