//! `advise:` of a study: the variants of a form that may win back what it costs.

use super::Study;
use crate::advice::{Advice, Variant};
use crate::catalog::Catalog;
use crate::form::Form;
use crate::layer::{LayerUse, LayerVariant};
use crate::units::show_bytes;
use crate::workload::{OwnResources, Quota, Workload};
use std::collections::BTreeSet;

impl Study {
    /// Turns this into a study of what could win back the cost of the form `of`: its forms are the baseline, that form
    /// and its variants; if `only` has names, only those variants.
    ///
    /// # Errors
    /// Why there is nothing to try, and what to do instead.
    pub fn advise(
        &mut self,
        of: &str,
        only: &[String],
        workload: &Workload,
        catalog: &dyn Catalog,
    ) -> Result<(), (String, String)> {
        let known: Vec<&str> = self.forms.iter().map(|form| form.name.as_str()).collect();
        let hint = format!("its forms: {}", known.join(", "));
        if let Some(ladder) = &self.ladder {
            let message = format!("the study climbs to '{}' already, and its forms are rungs", ladder.to);
            return Err((message, "ask one question at a time: omit 'ladder'".to_owned()));
        }
        let Some(form) = self.forms.iter().find(|form| form.name == of).cloned() else {
            return Err((format!("the study has no form '{of}' to vary"), hint));
        };
        let mut found = self.layer_variants(&form, catalog);
        found.extend(self.resource_variants(&form, workload));
        if found.is_empty() {
            let message = format!("nothing is known that could win back what '{of}' costs: it is as good as it gets");
            return Err((message, hint));
        }
        let names: Vec<String> = found.iter().map(|(_, variant)| variant.name.clone()).collect();
        if let Some(name) = only.iter().find(|name| !names.contains(name)) {
            return Err((format!("'{of}' has no variant '{name}'"), format!("its variants: {}", names.join(", "))));
        }
        found.retain(|(_, variant)| only.is_empty() || only.contains(&variant.name));
        let baseline = self.forms.iter().find(|form| form.name == self.baseline && form.name != of).cloned();
        let (forms, variants): (Vec<Form>, Vec<Variant>) = found.into_iter().unzip();
        self.forms = baseline.into_iter().chain([form]).chain(forms).collect();
        self.advice = Some(Advice { of: of.to_owned(), variants });
        Ok(())
    }

    /// One for each variant of each layer. If two layers have a variant of the same name, the layers' names are put
    /// before it.
    fn layer_variants(&self, form: &Form, catalog: &dyn Catalog) -> Vec<(Form, Variant)> {
        let of = |layer: &LayerUse| {
            let known = catalog.layer(&layer.layer);
            known.map_or_else(Vec::new, |known| known.variants(&layer.options, self.from))
        };
        let layers = form.layers.iter().enumerate();
        let all: Vec<(usize, LayerVariant)> =
            layers.flat_map(|(at, layer)| of(layer).into_iter().map(move |variant| (at, variant))).collect();
        let mut names = BTreeSet::new();
        let twice: BTreeSet<&str> =
            all.iter().filter(|(_, variant)| !names.insert(variant.name)).map(|(_, variant)| variant.name).collect();
        let made = |(at, variant): &(usize, LayerVariant)| {
            let mut layers = form.layers.clone();
            let layer = layers[*at].layer.clone();
            let several = twice.contains(variant.name);
            let name = if several { format!("{layer}-{}", variant.name) } else { variant.name.to_owned() };
            layers[*at] = LayerUse { layer, options: variant.options.clone() };
            named(&Form { layers, ..form.clone() }, &name, variant.changes.to_owned(), variant.trades)
        };
        all.iter().map(made).collect()
    }

    /// Variants that give the form's services more resources.
    fn resource_variants(&self, form: &Form, workload: &Workload) -> Vec<(Form, Variant)> {
        let mut found = Vec::new();
        let given = self.deployed(workload, form).services;
        if let Some(quota) = given.iter().find_map(|service| service.resources.cpu_quota) {
            let resources = OwnResources { cpu_quota: Some(Quota::None), ..form.resources };
            let changes = format!("whole CPUs instead of a quota of {quota}");
            let trades = "the CPU time that the quota leaves to others";
            found.push(named(&Form { resources, ..form.clone() }, "no-quota", changes, trades));
        }
        let usual = workload.services.iter().map(|service| service.resources.memory_bytes).max().unwrap_or(0);
        if let Some(own) = form.resources.memory_bytes.filter(|own| *own < usual) {
            let resources = OwnResources { memory_bytes: None, ..form.resources };
            let changes = format!("{} of memory, as elsewhere, instead of {}", show_bytes(usual), show_bytes(own));
            found.push(named(&Form { resources, ..form.clone() }, "usual-memory", changes, "memory"));
        }
        found
    }
}

/// The form under its variant's name.
fn named(form: &Form, name: &str, changes: String, trades: &str) -> (Form, Variant) {
    let full = format!("{}.{name}", form.name);
    let variant = Variant { form: full.clone(), name: name.to_owned(), changes, trades: trades.to_owned() };
    (Form { name: full, ..form.clone() }, variant)
}

#[cfg(test)]
mod tests {
    use crate::study::tests::{TextOf, Two, read};

    fn advised(forms: &str, of: &str, more: &str) -> Result<Vec<String>, String> {
        let text = format!("{}{more}\n", TextOf { baseline: "plain", forms, design: "blocks" });
        let (mut study, workload) = read(&text).map_err(|found| found.join("\n"))?;
        study.advise(of, &[], &workload, &Two).map_err(|(message, hint)| format!("{message}; {hint}"))?;
        let advice = study.advice.as_ref().unwrap();
        assert_eq!(advice.of, of);
        for variant in &advice.variants {
            let form = study.forms.iter().find(|form| form.name == variant.form).unwrap();
            let of = study.forms.iter().find(|form| form.name == of).unwrap();
            let layers = form.layers.iter().zip(&of.layers).filter(|(one, other)| one != other).count();
            assert_eq!(layers + usize::from(form.resources != of.resources), 1, "one thing at a time");
        }
        Ok(study.forms.iter().map(|form| form.name.clone()).collect())
    }

    #[test]
    fn each_variant_does_one_thing_otherwise() {
        assert_eq!(advised("{plain: [], boxed: [box]}", "boxed", "").unwrap(), ["plain", "boxed", "boxed.no-lid"]);
        let both = advised("{plain: [], other: [box], both: [box, cage]}", "both", "").unwrap();
        assert_eq!(both, ["plain", "both", "both.box-no-lid", "both.cage-no-lid"]);
        let forms = "{plain: [], small: {layers: [{box: {lid: false}}], resources: {memory: 96MiB, cpu_quota: 0.5}}}";
        let small = advised(forms, "small", "").unwrap();
        assert_eq!(small, ["plain", "small", "small.no-quota", "small.usual-memory"]);
        let quota = advised("{plain: [], boxed: [box]}", "plain", "resources: {cpu_quota: 0.5}").unwrap();
        assert_eq!(quota, ["plain", "plain.no-quota"], "the baseline may be varied, and stands there once");
    }

    #[test]
    fn some_of_them_may_be_asked_for() {
        let forms = "{plain: [], small: {layers: [box], resources: {cpu_quota: 0.5}}}";
        let (mut study, workload) = read(&TextOf { baseline: "plain", forms, design: "blocks" }.to_string()).unwrap();
        let told = study.clone().advise("small", &["no-lit".to_owned()], &workload, &Two).unwrap_err();
        assert_eq!(told.1, "its variants: no-lid, no-quota");
        study.advise("small", &["no-quota".to_owned()], &workload, &Two).unwrap();
        assert_eq!(study.forms.last().unwrap().name, "small.no-quota");
        assert_eq!((study.forms.len(), study.advice.unwrap().variants.len()), (3, 1));
    }

    #[test]
    fn where_there_is_nothing_to_try_that_is_said() {
        let told = |of: &str, more: &str| advised("{plain: [], boxed: [box]}", of, more).unwrap_err();
        assert!(told("nothing", "").contains("its forms: plain, boxed"));
        assert!(told("plain", "").contains("nothing is known that could win back"));
        assert!(told("boxed", "ladder: boxed").contains("climbs to 'boxed' already"));
    }

    #[test]
    fn a_study_may_ask_for_it_itself() {
        let text = TextOf { baseline: "plain", forms: "{plain: [], boxed: [box]}", design: "blocks" };
        let (study, _) = read(&format!("{text}advise: boxed\n")).unwrap();
        assert_eq!((study.forms.len(), study.advice.unwrap().variants[0].name.as_str()), (3, "no-lid"));
        let told = read(&format!("{text}advise: boxd\n")).unwrap_err().join("\n");
        assert!(told.contains("no form 'boxd'") && told.contains("s.yaml:7"), "{told}");
    }
}
