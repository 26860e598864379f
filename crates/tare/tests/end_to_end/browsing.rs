//! What a person does in a browser, in a real one.

use crate::end_to_end::lab::{Lab, said, text};
use crate::end_to_end::serving::link;
use crate::end_to_end::webdriver::Chromium;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Stdio};

/// A study of so many blocks.
fn study(blocks: u32) -> String {
    format!(
        "study: watched\nquestion: Does it show?\nworkload: redis\nrepeat: {blocks}\ndesign: blocks\nload: {{closed: {{connections: \
         4}}}}\ntime: {{settle: 0s, measure: 1s}}\nforms: {{native: []}}\n"
    )
}

fn begin(lab: &Lab, blocks: u32, record: &Path) -> Child {
    let study = lab.write("watched.yaml", study(blocks));
    lab.command(&["run", text(&study), "--out", text(record)]).stdout(Stdio::piped()).spawn().unwrap()
}

/// Whether the page follows this run.
fn follows(run: &str) -> String {
    format!("return document.getElementById('now')?.dataset.run === '{run}'")
}

/// Whether the page has an interval of more than so many blocks.
fn has_interval_after(blocks: u32) -> String {
    format!(
        "const row = document.querySelector('.so-far tbody tr'); return row !== null && \
         Number(row.querySelector('td').textContent) > {blocks} && row.querySelector('b').textContent.includes('[')"
    )
}

#[test]
fn a_person_watches_a_run_stops_the_next_and_compares_both() {
    let Some(lab) = Lab::open(&["mmdebstrap", "chromedriver"]) else { return };
    let records = lab.path("records");
    std::fs::create_dir(&records).unwrap();
    lab.expect(0, &["bundle", "build", "--workload", "redis"]);
    let mut server = lab.command(&["serve", "--records", text(&records)]).stdout(Stdio::piped()).spawn().unwrap();
    let link = link(&mut server);
    let chromium = Chromium::start(&lab.path("profile"));

    chromium.open(&format!("{link}now"));
    chromium.wait_until("return document.body.innerText.includes('No run goes on')");
    let run = begin(&lab, 4, &records.join("first"));
    chromium.wait_until(&follows("first"));
    chromium.wait_until(&has_interval_after(2));
    let interval = "return document.querySelector('.so-far tbody b').textContent";
    let early = chromium.script(interval);
    chromium.wait_until(&has_interval_after(3));
    assert_ne!(chromium.script(interval), early, "the interval is the same after each block");
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    chromium.wait_until("return document.getElementById('headline').textContent.includes('ended')");

    let run = begin(&lab, 50, &records.join("second"));
    chromium.open(&format!("{link}now?run=second"));
    chromium.wait_until("if (document.getElementById('now')) return true; location.reload(); return false");
    chromium.wait_until(&has_interval_after(2));
    // By script: the page moves as the run goes on, and a click is aimed at where the button was.
    chromium.script("document.getElementById('after-block').click()");
    chromium.wait_until("return document.getElementById('why').textContent.includes('ends after this block')");
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let blocks = lab.record(&records.join("second")).trials.len() / 2;
    assert!((3..50).contains(&blocks), "it ended after {blocks} blocks");

    chromium.open(&link);
    chromium.wait_until("return document.querySelectorAll('input[name=run]').length === 2");
    // By script again: the list is made anew when the folder has been looked through.
    chromium.script("for (const box of document.querySelectorAll('input[name=run]')) box.click()");
    chromium.wait_until("return document.querySelectorAll('input[name=run]:checked').length === 2");
    chromium.script("document.querySelector('button.compare').click()");
    let compared = "return document.body.innerText.includes('What changed')";
    chromium.wait_until(compared);
    let address = chromium.address();
    assert!(address.contains("run=first") && address.contains("run=second"), "{address}");
    chromium.reload();
    chromium.wait_until(compared);
    assert_eq!(chromium.address(), address);
    chromium.click(".sides a");
    chromium.wait_until("return document.body.innerText.includes('Does it show?')");

    drop(chromium);
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    assert!(server.wait().unwrap().success());
    lab.expect_clean();
}
