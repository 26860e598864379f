//! A run from closer than its report: its timeline, and its trials.

use crate::browser::{Site, sample};

/// The number of the first trial of this arm that has seconds.
fn trial_of(arm: &str) -> u32 {
    let record = crate::sample::record();
    let own = record.trials.iter().filter(|data| data.record.trial.arm() == arm && !data.seconds.is_empty());
    own.map(|data| data.record.trial.index).min().unwrap()
}

#[test]
fn a_stretch_of_the_forms_that_were_chosen_is_drawn_and_each_point_leads_to_its_trial() {
    let site = Site::of(|folder| _ = sample(folder, "one", |_| {}));
    let page = |query: &str| site.get(&format!("/timeline?run=one{query}")).body.replace("&#x2f;", "/");
    let whole = page("");
    let points = |page: &str| page.matches("<circle").count();
    assert!(points(&whole) > 100 && whole.contains("EMULATED, own scale"), "{whole}");
    for wanted in ["aria-label=\"Choose what is drawn\"", "value=\"container\" checked", ">closer</a>"] {
        assert!(whole.contains(wanted), "{wanted} is missing: {whole}");
    }
    let one = page("&form=container");
    assert!(one.contains("value=\"container\" checked") && !one.contains("value=\"native\" checked"), "{one}");
    assert!(points(&one) < points(&whole));
    let part = page("&form=container&from=3&to=6");
    assert!(points(&part) < points(&one) && points(&part) > 0, "{part}");
    assert!(part.contains("3 to 6 s") && part.contains("&amp;from=1.5&amp;to=7.5\">wider</a>"), "{part}");
    // A way leads to another stretch of the same forms.
    let later = part.split("/timeline?").find(|link| link.contains(">later</a>")).unwrap();
    let later = page(&format!("&{}", later.split('"').next().unwrap().replace("&amp;", "&")));
    assert!(later.contains("4.5 to 7.5 s") && !later.contains("value=\"native\" checked"), "{later}");
    for odd in ["&from=6&to=3", "&from=soon", "&from=1e9"] {
        let odd = page(odd);
        assert!(odd.contains("There is nothing in that stretch") && points(&odd) == points(&whole), "{odd}");
    }
    let index = trial_of("container");
    let label = format!("<title>trial {index}, the second until ");
    assert!(one.contains(&label) && one.contains(&format!("/trial?run=one&amp;trial={index}\"")), "{label}: {one}");
    assert!(page("&form=nobody").contains("No trial of these forms"), "nobody is drawn");
    assert!(site.get("/run/one").body.contains(&format!("/{}/timeline?run=one\"", site.key)));
    assert_eq!(site.get("/timeline?run=nobody").status, 404);
}

#[test]
fn a_trial_has_a_page_of_its_own() {
    let site = Site::of(|folder| {
        _ = sample(folder, "one", |_| {});
        std::fs::create_dir(folder.join("suite")).unwrap();
        std::fs::write(folder.join("suite/suite.json"), "{}").unwrap();
    });
    let index = trial_of("container");
    let page = site.get(&format!("/trial?run=one&trial={index}")).body.replace("&#x2f;", "/");
    for wanted in ["Where the CPUs were busy", "<circle", "op/s", "measure", "<dd>0-1</dd>", "Timeline of container"] {
        assert!(page.contains(wanted), "{wanted} is missing: {page}");
    }
    let record = crate::sample::record();
    let failed = record.trials.iter().find(|data| data.record.outcome.word() == "failed").unwrap();
    let page = site.get(&format!("/trial?run=one&trial={}", failed.record.trial.index)).body;
    assert!(page.contains("<b>failed</b>") && page.contains("Address already in use"), "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
    for nowhere in ["one&trial=9999", "one&trial=..", "one", "nobody&trial=0", "one&trial=-1"] {
        assert_eq!(site.get(&format!("/trial?run={nowhere}")).status, 404, "{nowhere}");
    }
    // What cannot be read is left out with a word, or said to be.
    std::fs::write(site.folder.path().join(format!("one/trials/{index:04}/trial.json")), "{").unwrap();
    assert_eq!(site.get(&format!("/trial?run=one&trial={index}")).status, 422);
    assert!(site.get("/timeline?run=one").body.contains("1 trial could not be read"));
    assert!(site.get("/timeline?run=suite").body.contains("This record has several parts."));
}
