//! Which forms this machine can weigh, by what `tare doctor` finds.

use crate::programs::{Errors, said_by};
use crate::weighing::OfferedForm;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tare_core::fault::{Doing, Fault};
use tare_core::host::Availability;

/// How long the doctor may take. It boots a guest.
const WITHIN: Duration = Duration::from_secs(90);

/// Of what the doctor prints.
#[derive(Deserialize)]
struct Doctor {
    forms: Vec<OfLayer>,
}

/// What the doctor found of a layer.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct OfLayer {
    layer: String,
    /// What was found, in a few words.
    #[serde(default)]
    words: String,
    availability: Availability,
}

/// Whether a form can be weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Weighable {
    Yes,
    Emulated,
    No,
    /// It was not looked.
    Unknown,
}

/// What is said of a form beside its check box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) name: &'static str,
    pub(crate) weighable: Weighable,
    /// What was found, or why the form cannot be weighed.
    pub(crate) words: String,
    /// What to do about that.
    pub(crate) remedy: String,
}

/// Has the doctor look, without its test of noise.
///
/// # Errors
/// When it cannot be asked, or does not answer.
pub(crate) fn look(program: &Path) -> Result<Vec<OfLayer>, Fault> {
    let mut command = Command::new(program);
    command.args(["doctor", "--json", "--no-noise"]);
    let said = said_by(command, Errors::Dropped, WITHIN)?;
    if !said.is_well {
        return Err(Fault::new("`tare doctor` has failed").remedy("run it in a terminal, where it says why"));
    }
    let doctor: Doctor = serde_json::from_str(&said.text).doing("read what `tare doctor` has found")?;
    Ok(doctor.forms)
}

/// What is known of a form; nothing where it was not looked.
pub(crate) fn of_form(form: &OfferedForm, found: Option<&[OfLayer]>) -> Finding {
    let mut finding =
        Finding { name: form.name, weighable: Weighable::Yes, words: String::new(), remedy: String::new() };
    for name in form.layers {
        let layer = found.and_then(|found| found.iter().find(|one| one.layer == *name));
        let (weighable, words, remedy) = match layer.map(|layer| (&layer.availability, &layer.words)) {
            None => (Weighable::Unknown, "", ""),
            Some((Availability::Ready(_), words)) => (Weighable::Yes, words.as_str(), ""),
            Some((Availability::Emulated(_, why), _)) => {
                (Weighable::Emulated, why.message.as_str(), why.remedy.as_str())
            }
            Some((Availability::Unavailable(why), _)) => (Weighable::No, why.message.as_str(), why.remedy.as_str()),
        };
        // The layer of which least can be had decides.
        let (worse, same) = (rank(weighable) > rank(finding.weighable), weighable == finding.weighable);
        if worse || same && finding.words.is_empty() {
            finding = Finding { weighable, words: words.to_owned(), remedy: remedy.to_owned(), ..finding };
        }
    }
    finding
}

fn rank(weighable: Weighable) -> u8 {
    match weighable {
        Weighable::Yes => 0,
        Weighable::Unknown => 1,
        Weighable::Emulated => 2,
        Weighable::No => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tare_core::host::Facts;

    #[test]
    fn the_layer_of_which_least_can_be_had_decides() {
        let of = |layer: &str, availability| OfLayer {
            layer: layer.to_owned(),
            words: format!("{layer} 1.2"),
            availability,
        };
        let why = |text: &str| Fault::new(text).remedy("do it");
        let found = [
            of("box", Availability::Ready(Facts::new())),
            of("guest", Availability::Emulated(Facts::new(), why("it is slow"))),
            of("pod", Availability::Unavailable(why("it is not here"))),
        ];
        let form = |layers: &'static [&'static str]| OfferedForm { name: "form", stack: "[]", layers };
        let said = |layers: &'static [&'static str], found: Option<&[OfLayer]>| {
            let Finding { weighable, words, .. } = of_form(&form(layers), found);
            (weighable, words)
        };
        assert_eq!(said(&[], None), (Weighable::Yes, String::new()));
        assert_eq!(said(&["box"], None), (Weighable::Unknown, String::new()));
        assert_eq!(said(&["box"], Some(&found)), (Weighable::Yes, "box 1.2".to_owned()));
        let slow = (Weighable::Emulated, "it is slow".to_owned());
        assert_eq!(said(&["guest", "box"], Some(&found)), slow);
        assert_eq!(said(&["box", "guest"], Some(&found)), slow);
        assert_eq!(said(&["guest", "pod"], Some(&found)), (Weighable::No, "it is not here".to_owned()));
        assert_eq!(of_form(&form(&["pod"]), Some(&found)).remedy, "do it");
    }

    #[test]
    fn what_the_doctor_prints_is_read() {
        let text = r#"{"forms": [{"layer": "box", "about": "", "words": "Boxes 1.2", "ways": [],
            "availability": {"unavailable": {"message": "it is not here"}}}], "checks": [], "noise": null}"#;
        let doctor: Doctor = serde_json::from_str(text).unwrap();
        let form = OfferedForm { name: "form", stack: "[]", layers: &["box"] };
        assert_eq!(of_form(&form, Some(&doctor.forms)).weighable, Weighable::No);
    }
}
