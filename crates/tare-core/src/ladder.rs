//! The ladder: from the baseline to a form in rungs that differ in one feature each, so that a difference between the
//! two can be told apart into what each feature costs. All rungs are forms of one study, and run interleaved.

use crate::form::{Form, LayerUse};
use crate::study::{Catalog, Study};
use serde::{Deserialize, Serialize};

/// A layer with a part of its features.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerRung {
    /// By which the form is called after the one that is climbed to: short, a-z and -.
    pub name: &'static str,
    /// What it has that the rung before had not, for the reader.
    pub adds: &'static str,
    /// The layer's options, every default filled in.
    pub options: serde_json::Value,
}

/// The rungs to a form of a study, whose forms they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ladder {
    /// The form that is climbed to; its own rung is the last.
    pub to: String,
    /// The rungs in their order, from the first after the baseline.
    pub rungs: Vec<Rung>,
    /// Forms that have a rung's feature in another place than the ladder. Records of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turned: Vec<Turned>,
}

/// A form with a rung's feature in another place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turned {
    /// The form.
    pub form: String,
    /// The form of the rung whose feature it is.
    pub rung: String,
    /// Where it has it.
    pub place: Place,
}

/// Where a feature stands among the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// By itself: the form is the baseline with this feature alone.
    Alone,
    /// Last: the form has all features but this one.
    Last,
}

/// A rung of a [`Ladder`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rung {
    /// The form.
    pub form: String,
    /// What it has that the rung before had not, for the reader.
    pub adds: String,
}

impl Study {
    /// Makes this a study of the ladder from the baseline to the form `to`: its forms are the baseline and the rungs.
    ///
    /// # Errors
    /// Why there is no ladder, and what to do instead.
    pub fn climb(&mut self, to: &str, catalog: &dyn Catalog) -> Result<(), (String, String)> {
        let known: Vec<&str> = self.forms.iter().map(|form| form.name.as_str()).collect();
        let Some(form) = self.forms.iter().find(|form| form.name == to).cloned() else {
            return Err((
                format!("the study has no form '{to}' to climb to"),
                format!("its forms: {}", known.join(", ")),
            ));
        };
        let baseline = self.forms.iter().find(|form| form.name == self.baseline).cloned();
        let Some(baseline) = baseline.filter(|baseline| form.layers.starts_with(&baseline.layers)) else {
            let message = format!("there is no ladder from '{}' to '{to}', which does not stand on it", self.baseline);
            return Err((message, "climb from a form without layers: let that be the 'baseline'".to_owned()));
        };
        if form.layers.len() == baseline.layers.len() {
            let message = format!("'{to}' has no layer that '{}' has not", self.baseline);
            return Err((message, "name a form with a layer more than the baseline".to_owned()));
        }
        let own = |form: &Form| (form.placement.clone(), form.instances.clone(), form.options.clone(), form.resources);
        if own(&form) != own(&baseline) {
            let message = format!(
                "'{to}' and '{}' differ in placement, instances, options or resources besides their layers",
                baseline.name
            );
            return Err((message, "give both the same, or its cost would count for the first rung".to_owned()));
        }
        let (mut below, mut forms, mut rungs) = (baseline.layers.clone(), vec![baseline.clone()], Vec::new());
        let above = &form.layers[baseline.layers.len()..];
        let several = above.len() > 1;
        for layer in above {
            for rung in catalog.layer_rungs(layer, &below, self.from) {
                let partial = LayerUse { layer: layer.layer.clone(), options: rung.options };
                let layers: Vec<LayerUse> = below.iter().cloned().chain([partial]).collect();
                let name = match (layers == form.layers, several) {
                    (true, _) => to.to_owned(),
                    (false, true) => format!("{to}.{}-{}", layer.layer, rung.name),
                    (false, false) => format!("{to}.{}", rung.name),
                };
                rungs.push(Rung { form: name.clone(), adds: rung.adds.to_owned() });
                forms.push(Form { name, layers, ..form.clone() });
            }
            below.push(layer.clone());
        }
        assert!(rungs.last().is_some_and(|rung| rung.form == to), "the last rung of a layer is the whole layer");
        self.forms = forms;
        self.ladder = Some(Ladder { to: to.to_owned(), rungs, turned: Vec::new() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::study::tests::{TextOf, read};

    fn forms(forms: &str, to: &str) -> Result<Vec<String>, String> {
        let text = TextOf { baseline: "plain", forms, design: "blocks" };
        let (mut study, _) = read(&text.to_string()).unwrap();
        study.climb(to, &crate::study::tests::Two).map_err(|(message, hint)| format!("{message}; {hint}"))?;
        let ladder = study.ladder.as_ref().unwrap();
        assert_eq!(ladder.to, to);
        assert_eq!(ladder.rungs.len() + 1, study.forms.len());
        Ok(study.forms.iter().map(|form| format!("{}={}", form.name, form.layers.len())).collect())
    }

    #[test]
    fn each_layer_adds_its_rungs_to_what_stands_below() {
        assert_eq!(forms("{plain: [], boxed: [box: {}]}", "boxed").unwrap(), ["plain=0", "boxed.open=1", "boxed=1"]);
        let nested = forms("{plain: [], other: [cage: {}], both: [box: {}, cage: {}]}", "both").unwrap();
        assert_eq!(nested, ["plain=0", "both.box-open=1", "both.box-lid=1", "both.cage-open=2", "both=2"]);
        let open = forms("{plain: [], boxed: [box: {lid: false}]}", "boxed").unwrap();
        assert_eq!(open, ["plain=0", "boxed=1"], "what the form has not is no rung");
    }

    #[test]
    fn a_ladder_that_explains_nothing_is_refused() {
        let told = |text: &str, to: &str| forms(text, to).unwrap_err();
        assert!(told("{plain: []}", "nothing").contains("its forms: plain"));
        assert!(told("{plain: []}", "plain").contains("no layer that 'plain' has not"));
        assert!(told("{plain: [cage: {}], boxed: [box: {}]}", "boxed").contains("does not stand on it"));
        let two = "{plain: [], boxed: {layers: [box: {}], placement: free}}";
        assert!(told(two, "boxed").contains("differ in placement"));
        for own in ["options: {care: high}", "resources: {memory: 96MiB}"] {
            let two = format!("{{plain: [], boxed: {{layers: [box: {{}}], {own}}}}}");
            assert!(told(&two, "boxed").contains("options or resources"), "{own}");
            let both = format!("{{plain: {{{own}}}, boxed: {{layers: [box: {{}}], {own}}}}}");
            assert_eq!(forms(&both, "boxed").unwrap(), ["plain=0", "boxed.open=1", "boxed=1"], "{own}");
        }
    }
}
