//! `ladder:` of a study: the rungs from its baseline to a form, and the form's features in other places on the ladder.

use super::Study;
use crate::catalog::Catalog;
use crate::config;
use crate::form::Form;
use crate::ladder::{Ladder, Place, Rung, Turned};
use crate::layer::{LayerRung, LayerUse};
use crate::load::LoadOrigin;
use serde_json::Value;

impl Study {
    /// Turns this into a study of the ladder from the baseline to the form `to`: its forms are the baseline and the
    /// rungs.
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
            let message = format!("'{to}' has no layer that '{}' lacks", self.baseline);
            return Err((message, "name a form with a layer more than the baseline".to_owned()));
        }
        let own = |form: &Form| (form.placement.clone(), form.instances.clone(), form.options.clone(), form.resources);
        if own(&form) != own(&baseline) {
            let message = format!(
                "'{to}' and '{}' differ in placement, instances, options or resources, not only in layers",
                baseline.name
            );
            return Err((message, "give both the same, or its cost would count for the first rung".to_owned()));
        }
        let steps = steps(&form, &baseline, catalog, self.from);
        let (mut forms, mut rungs) = (vec![baseline], Vec::new());
        for step in &steps {
            for (name, rung) in step.names.iter().zip(&step.rungs) {
                rungs.push(Rung { form: name.clone(), adds: rung.adds.to_owned() });
                forms.push(Form { name: name.clone(), layers: step.layers(&rung.options), ..form.clone() });
            }
        }
        assert!(rungs.last().is_some_and(|rung| rung.form == to), "the last rung of a layer is the whole layer");
        self.forms = forms;
        self.ladder = Some(Ladder { to: to.to_owned(), rungs, turned: Vec::new() });
        Ok(())
    }

    /// Adds forms to a study of a ladder that have a rung's feature in another place: first, on as few other features
    /// as possible, and last, if the whole form can be had without it. The layers say which of these are possible.
    ///
    /// # Errors
    /// Why there is no such form, and what to do instead.
    pub fn turn(&mut self, catalog: &dyn Catalog) -> Result<(), (String, String)> {
        let known = |name: &str| self.forms.iter().find(|form| form.name == name).cloned();
        let ladder = self.ladder.clone();
        let Some((mut ladder, baseline)) = ladder.zip(known(&self.baseline)) else {
            let hint = "climb to a form first: 'ladder: FORM'".to_owned();
            return Err(("the study has no ladder to reorder".to_owned(), hint));
        };
        let form = known(&ladder.to).expect("the form that is climbed to is its own rung");
        let steps = steps(&form, &baseline, catalog, self.from);
        for (at, step) in steps.iter().enumerate() {
            let above = &form.layers[baseline.layers.len() + at + 1..];
            let had = |options: &Value| can_be_had(catalog, &step.layer, options);
            for Elsewhere { rung, place, against, options } in step.elsewhere(above.is_empty(), &had) {
                let (own, layers, short) = (&step.names[rung], step.layers(&options), step.rungs[rung].name);
                let short = if steps.len() > 1 { format!("{}-{short}", step.layer) } else { short.to_owned() };
                let (name, layers) = match place {
                    Place::First => (format!("{}.{short}-first", ladder.to), layers),
                    Place::Last => (format!("{}.no-{short}", ladder.to), [layers, above.to_vec()].concat()),
                };
                // With two features, putting one first is the same as the whole without the other.
                let same = self.forms.iter().find(|form| form.layers == layers).map(|form| form.name.clone());
                let turned = same.clone().unwrap_or_else(|| name.clone());
                if same.is_none() {
                    self.forms.push(Form { name, layers, ..form.clone() });
                }
                let against = against.map(|against| step.names[against].clone());
                ladder.turned.push(Turned { form: turned, rung: own.clone(), place, against });
            }
        }
        if ladder.turned.is_empty() {
            let message = format!("no feature of '{}' can be in any other place than on the ladder", ladder.to);
            return Err((message, "climb without other orders".to_owned()));
        }
        self.ladder = Some(ladder);
        Ok(())
    }
}

/// A layer of the form being climbed to, as rungs.
struct Step {
    /// The layer's name, and what it stands on.
    layer: String,
    below: Vec<LayerUse>,
    rungs: Vec<LayerRung>,
    /// The form of each rung.
    names: Vec<String>,
}

/// A feature in another place.
struct Elsewhere {
    rung: usize,
    place: Place,
    /// The rung it stands on, if it comes first.
    against: Option<usize>,
    options: Value,
}

/// The rungs of each layer of `form` above those of `baseline`.
fn steps(form: &Form, baseline: &Form, catalog: &dyn Catalog, from: LoadOrigin) -> Vec<Step> {
    let mut below = baseline.layers.clone();
    let above = &form.layers[baseline.layers.len()..];
    let several = above.len() > 1;
    let mut steps = Vec::new();
    for layer in above {
        let known = catalog.layer(&layer.layer);
        let rungs = known.map_or_else(Vec::new, |known| known.rungs(&layer.options, &below, from));
        let mut step = Step { layer: layer.layer.clone(), below: below.clone(), rungs, names: Vec::new() };
        let name = |rung: &LayerRung| match (step.layers(&rung.options) == form.layers, several) {
            (true, _) => form.name.clone(),
            (false, true) => format!("{}.{}-{}", form.name, layer.layer, rung.name),
            (false, false) => format!("{}.{}", form.name, rung.name),
        };
        step.names = step.rungs.iter().map(name).collect();
        steps.push(step);
        below.push(layer.clone());
    }
    steps
}

impl Step {
    /// The layers of a form whose last layer is this one, with these options.
    fn layers(&self, options: &Value) -> Vec<LayerUse> {
        let partial = LayerUse { layer: self.layer.clone(), options: options.clone() };
        self.below.iter().cloned().chain([partial]).collect()
    }

    /// Each feature but the layer itself, in the other places where it is possible. `is_top` says that nothing stands
    /// on this layer, so that its last rung is already last; `is_had` says which options are possible.
    fn elsewhere(&self, is_top: bool, is_had: &dyn Fn(&Value) -> bool) -> Vec<Elsewhere> {
        let (rungs, mut found) = (&self.rungs, Vec::new());
        let options = |at: usize| &rungs[at].options;
        let keys = |at: usize| changed(options(at - 1), options(at));
        for rung in 1..rungs.len() {
            let own = keys(rung);
            // An option that another rung also changes is a different feature there.
            let is_own = |mut others: std::ops::Range<usize>| {
                others.all(|other| keys(other).iter().all(|key| !own.contains(key)))
            };
            let first = (0..rung - 1).filter(|below| is_own(below + 1..rung)).find_map(|below| {
                let options = with(options(below), options(rung), &own);
                is_had(&options).then_some(Elsewhere { rung, place: Place::First, against: Some(below), options })
            });
            let without = with(options(rungs.len() - 1), options(rung - 1), &own);
            let is_last = is_top && rung + 1 == rungs.len();
            let last = !is_last && is_own(rung + 1..rungs.len()) && is_had(&without);
            let last = last.then_some(Elsewhere { rung, place: Place::Last, against: None, options: without });
            found.extend(first.into_iter().chain(last));
        }
        found
    }
}

/// Whether a layer can have these options: it can if it reads them and returns the same ones.
fn can_be_had(catalog: &dyn Catalog, layer: &str, options: &Value) -> bool {
    let Some(known) = catalog.layer(layer) else { return false };
    let text = options.to_string();
    let read = config::read("options", &text, |node, problems| known.read(node, problems));
    read.as_ref() == Ok(options)
}

/// The options that differ.
fn changed(before: &Value, after: &Value) -> Vec<String> {
    let keys = after.as_object().into_iter().flat_map(serde_json::Map::keys);
    keys.filter(|key| before.get(key.as_str()) != after.get(key.as_str())).cloned().collect()
}

/// `options` with the values of `others` for these keys.
fn with(options: &Value, others: &Value, keys: &[String]) -> Value {
    let mut options = options.clone();
    for key in keys {
        options[key.as_str()] = others[key.as_str()].clone();
    }
    options
}

#[cfg(test)]
mod tests {
    use crate::study::tests::{TextOf, read};
    use serde_json::json;

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

    /// The forms of a ladder after [`Study::turn`](crate::study::Study::turn): each one with a feature elsewhere, and
    /// what it is compared with.
    fn turned(text: &str, to: &str) -> Result<Vec<String>, String> {
        let text = TextOf { baseline: "plain", forms: text, design: "blocks" };
        let (mut study, _) = read(&text.to_string()).unwrap();
        let refused = |(message, hint): (String, String)| format!("{message}; {hint}");
        assert!(study.turn(&crate::study::tests::Two).unwrap_err().0.contains("no ladder"));
        study.climb(to, &crate::study::tests::Two).map_err(refused)?;
        let rungs = study.forms.len();
        study.turn(&crate::study::tests::Two).map_err(refused)?;
        let ladder = study.ladder.as_ref().unwrap();
        let is_there = |name: &str| study.forms.iter().any(|form| form.name == name);
        assert!(ladder.turned.iter().all(|turned| is_there(&turned.form) && is_there(&turned.rung)));
        assert_eq!(ladder.rungs.len() + 1, rungs, "the rungs are what they were");
        let told = |turned: &super::Turned| {
            let against = turned.against.as_deref().unwrap_or("the whole");
            format!("{} of {}: {:?} by {against}", turned.form, turned.rung, turned.place)
        };
        Ok(ladder.turned.iter().map(told).collect())
    }

    #[test]
    fn a_feature_is_left_out_of_the_whole_and_comes_first_where_it_can_be_had() {
        let lower = turned("{plain: [], both: [box: {}, cage: {}]}", "both").unwrap();
        assert_eq!(
            lower,
            ["both.no-box-lid of both.box-lid: Last by the whole"],
            "the cage stands on a box without a lid"
        );
        // A layer's only feature is already both first and last where it stands.
        let none = turned("{plain: [], boxed: [box: {}]}", "boxed").unwrap_err();
        assert!(none.contains("no feature of 'boxed' can be in any other place"), "{none}");
    }

    #[test]
    fn features_that_hang_on_each_other_stay_where_they_are() {
        let rung = |name, options| super::LayerRung { name, adds: name, options };
        let rungs = vec![
            rung("base", json!({"a": 0, "b": 0, "net": "host"})),
            rung("a", json!({"a": 1, "b": 0, "net": "host"})),
            rung("b", json!({"a": 1, "b": 1, "net": "host"})),
            rung("bridge", json!({"a": 1, "b": 1, "net": "bridge"})),
            rung("published", json!({"a": 1, "b": 1, "net": "published"})),
        ];
        let names = rungs.iter().map(|rung| rung.name.to_owned()).collect();
        let step = super::Step { layer: "box".into(), below: Vec::new(), rungs, names };
        let found = |is_top| -> Vec<(usize, super::Place, Option<usize>, serde_json::Value)> {
            let all = step.elsewhere(is_top, &|_| true).into_iter();
            all.map(|found| (found.rung, found.place, found.against, found.options)).collect()
        };
        use super::Place::{First, Last};
        let mut wanted = vec![
            (1, Last, None, json!({"a": 0, "b": 1, "net": "published"})),
            (2, First, Some(0), json!({"a": 0, "b": 1, "net": "host"})),
            (2, Last, None, json!({"a": 1, "b": 0, "net": "published"})),
            (3, First, Some(0), json!({"a": 0, "b": 0, "net": "bridge"})),
        ];
        assert_eq!(found(true), wanted, "a bridge cannot be left out of what is published on it");
        wanted.push((4, Last, None, json!({"a": 1, "b": 1, "net": "bridge"})));
        assert_eq!(found(false), wanted);
    }

    #[test]
    fn a_ladder_that_explains_nothing_is_refused() {
        let told = |text: &str, to: &str| forms(text, to).unwrap_err();
        assert!(told("{plain: []}", "nothing").contains("its forms: plain"));
        assert!(told("{plain: []}", "plain").contains("no layer that 'plain' lacks"));
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
