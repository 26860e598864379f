//! `environment:` and `env_file:`.

use super::Reader;
use crate::dotenv;
use crate::keys::Keys;
use crate::model::{Service, Variable};
use crate::sources::{At, Weight, is_below};
use crate::yaml::{Kind, Value};
use tare_core::config::Place;

impl Reader<'_> {
    /// Reads `env_file:`, in the order of the files, of which a later one goes over an earlier one.
    pub(super) fn env_files(&mut self, value: &Value, service: &mut Service) {
        for item in value.items(self.sources).to_vec() {
            let (mut path, mut required, mut raw) = (Some(item.clone()), true, false);
            if let Kind::Map(_) = item.kind {
                let Some(mut keys) = Keys::of(&item, "an env_file", self.sources) else { continue };
                path = keys.get("path").map(|entry| entry.value.clone());
                required = keys.flag("required", true, self.sources);
                if let Some(entry) = keys.get("format") {
                    let format = entry.value.scalar().unwrap_or_default();
                    raw = format == "raw";
                    if !raw && !format.is_empty() {
                        let message = format!("there is no format '{format}'");
                        self.sources.unknown(entry.value.at, message, format, &["raw"]);
                    }
                }
                keys.finish(self.sources);
                if path.is_none() {
                    self.sources.wrong(item.at, "an env_file has no 'path'", "add 'path:' here");
                }
            }
            let Some((at, path)) = path.and_then(|value| Some((value.at, value.text(self.sources)?))) else { continue };
            let file = self.sources.resolve(at, &path);
            if !is_below(self.root, &file) {
                let instead = format!("{path} is outside of the folder of the Compose file: copy it there");
                self.sources.note(at, service.key("env_file"), Weight::Stops, instead);
                continue;
            }
            if !required && self.disk.at(&file).is_none() {
                continue;
            }
            let text = self
                .disk
                .read(&file)
                .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()));
            match text {
                Ok(text) => self.lines(&file.display().to_string(), &text, raw, service),
                Err(why) => self.sources.wrong(at, format!("cannot read {}: {why}", file.display()), ""),
            }
        }
    }

    fn lines(&mut self, name: &str, text: &str, raw: bool, service: &mut Service) {
        let file = self.sources.open(name, text, std::path::Path::new(""));
        let environment = &self.project.environment;
        let at = |line| At { file, place: Place { line, column: 1, width: 1 } };
        match dotenv::read(text, raw, &|name| environment.get(name).cloned()) {
            Ok(lines) => {
                for line in lines {
                    self.set(service, line.name, at(line.line), line.value);
                }
            }
            Err((line, why)) => self.sources.wrong(at(line), why, "write NAME=value"),
        }
    }

    /// Reads `environment:`.
    pub(super) fn environment(&mut self, value: &Value, service: &mut Service) {
        for (name, at, text) in value.pairs(self.sources) {
            if name.is_empty() {
                self.sources.wrong(at, "a variable has no name", "write NAME=value");
            } else {
                self.set(service, name, at, text);
            }
        }
    }

    /// Sets a variable. One without a value is that of whoever starts the run, and written nowhere, if it is exported
    /// now; else that of `.env` is written.
    fn set(&mut self, service: &mut Service, name: String, at: At, text: Option<String>) {
        let text = match text {
            Some(text) if text.contains("${{") => {
                let key = service.key(&format!("environment.{name}"));
                let instead = "a workload reads '${{' as a reference of its own: give the variable another value";
                self.sources.note(at, key, Weight::Stops, instead);
                return;
            }
            Some(text) => text,
            None if self.process.contains_key(&name) => format!("${{{{env.{name}}}}}"),
            None => match self.project.environment.get(&name) {
                Some(text) => text.clone(),
                None => {
                    // As with Compose, it is then not set at all.
                    let key = service.key(&format!("environment.{name}"));
                    let instead = "it is not set, so the service does not get it: export it and import again";
                    self.sources.note(at, key, Weight::Differs, instead);
                    return;
                }
            },
        };
        service.environment.retain(|known| known.name != name);
        service.environment.push(Variable { name, at, text });
    }
}
