//! Reads scripts: steps, statements, conditions, values.

use super::dialect::Dialect;
use super::spec::{Capture, Comparison, ConditionSpec, Isolation, SourceSpec, StatementSpec, StepSpec};
use super::text;
use crate::script::{Expression, FeedSpecs, Names, Template};
use tare_core::config::{Fields, Node, NodeKind, Place, Problems};

/// The most steps in one script, including nested ones.
const STEPS_MAX: usize = 10_000;
/// The most columns that can be captured.
const COLUMNS_MAX: u64 = 1600;
pub(super) const IDENTIFIER_HINT: &str = "use letters, digits and '_', with a '.' between schema and table";

/// Reads scripts and collects the names in them: a name may be used in one place and set in another.
pub(super) struct Scripts<'d> {
    dialect: &'d Dialect,
    names: Names,
    uses: Vec<(String, Place)>,
    // Templates, which can be checked once all names are known.
    texts: Vec<(String, Node)>,
    // For the script being read.
    steps: usize,
    began: bool,
    ended: bool,
    statements: usize,
}

/// Whether a text can be the name of a table or a column without quotes.
pub(super) fn is_identifier(text: &str) -> bool {
    let part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    text.split('.').all(part)
}

impl<'d> Scripts<'d> {
    pub(super) fn new(dialect: &'d Dialect, feeds: &FeedSpecs) -> Self {
        let names = Names::new(feeds);
        Scripts {
            dialect,
            names,
            uses: Vec::new(),
            texts: Vec::new(),
            steps: 0,
            began: false,
            ended: false,
            statements: 0,
        }
    }

    /// Reports names that are used and never set.
    pub(super) fn finish(self, problems: &mut Problems) {
        let known = self.names.known();
        for (name, place) in &self.uses {
            if self.names.slot(name).is_none() {
                Node::unknown(name, *place, "variable or feed", &known, problems);
            }
        }
        for (text, node) in &self.texts {
            Template::check(text, node, &self.names, problems);
        }
    }

    /// Reads the script of an operation.
    pub(super) fn script(&mut self, node: &Node, problems: &mut Problems) -> Vec<StepSpec> {
        (self.steps, self.began, self.ended, self.statements) = (0, false, false, 0);
        let before = problems.len();
        let steps = self.steps(node, problems);
        if problems.len() == before {
            if self.statements == 0 {
                problems.add(node.place, "this script asks the server for nothing", "add '- sql: ...'");
            } else if self.began && !self.ended {
                problems.add(node.place, "a transaction is begun here and never ended", "add '- commit'");
            }
        }
        steps
    }

    fn steps(&mut self, node: &Node, problems: &mut Problems) -> Vec<StepSpec> {
        let items = match node.items(problems) {
            Some(items) => items,
            None => return Vec::new(),
        };
        self.steps += items.len();
        if self.steps > STEPS_MAX {
            problems.add(node.place, format!("this script has more than {STEPS_MAX} steps"), "use 'repeat'");
            return Vec::new();
        }
        items.iter().filter_map(|item| self.step(item, problems)).collect()
    }

    fn step(&mut self, node: &Node, problems: &mut Problems) -> Option<StepSpec> {
        const KINDS: [&str; 9] = ["sql", "set", "begin", "commit", "rollback", "if", "repeat", "together", "stop"];
        let NodeKind::Map(entries) = &node.kind else {
            let word = node.choice(&["begin", "commit", "rollback", "stop"], problems)?;
            return self.word(word, node, None, problems);
        };
        let Some(kind) = KINDS.into_iter().find(|kind| entries.iter().any(|(key, ..)| key == kind)) else {
            match entries.first() {
                Some((key, place, _)) => Node::unknown(key, *place, "step of a script", &KINDS, problems),
                None => problems.add(node.place, "this step is empty", format!("known here: {}", KINDS.join(", "))),
            }
            return None;
        };
        let mut fields = Fields::of(node, format!("the step '{kind}'"), problems)?;
        let step = match kind {
            "sql" => self.statement(&mut fields, problems).map(StepSpec::Statement),
            "if" => self.branch(&mut fields, problems),
            "set" => fields.require(kind, problems).and_then(|value| self.set(value, problems)),
            "repeat" => fields.require(kind, problems).and_then(|value| self.repeat(value, problems)),
            "together" => fields.require(kind, problems).and_then(|value| self.together(value, problems)),
            word => {
                let value = fields.get(word);
                self.word(word, node, value, problems)
            }
        };
        fields.finish(problems);
        step
    }

    /// A step that is a word, possibly with options.
    fn word(&mut self, word: &str, node: &Node, value: Option<&Node>, problems: &mut Problems) -> Option<StepSpec> {
        match word {
            "begin" => self.begin(value, problems),
            "commit" => self.commit(node, value, problems),
            "rollback" => self.end(node, StepSpec::Rollback, problems),
            _ => Some(StepSpec::Stop),
        }
    }

    fn set(&mut self, node: &Node, problems: &mut Problems) -> Option<StepSpec> {
        let fields = Fields::of(node, "'set'", problems)?;
        let mut sets = Vec::new();
        for (name, place, value) in fields.entries() {
            self.declare(name, *place, problems);
            sets.extend(self.source(value, problems).map(|source| (name.clone(), source)));
        }
        Some(StepSpec::Set(sets))
    }

    fn begin(&mut self, value: Option<&Node>, problems: &mut Problems) -> Option<StepSpec> {
        (self.began, self.ended) = (true, false);
        let mut isolation = None;
        if let Some(value) = value {
            let mut fields = Fields::of(value, "'begin'", problems)?;
            let names = Isolation::NAMES.map(|(name, _)| name);
            let name = fields.require("isolation", problems).and_then(|node| node.choice(&names, problems));
            isolation = Isolation::NAMES.iter().find(|(known, _)| Some(*known) == name).map(|(_, level)| *level);
            fields.finish(problems);
        }
        Some(StepSpec::Begin { isolation })
    }

    fn commit(&mut self, node: &Node, value: Option<&Node>, problems: &mut Problems) -> Option<StepSpec> {
        let mut rollback = 0.0;
        if let Some(value) = value {
            let mut fields = Fields::of(value, "'commit'", problems)?;
            rollback = fields.require("rollback", problems).and_then(|node| share(node, problems)).unwrap_or(0.0);
            fields.finish(problems);
        }
        self.end(node, StepSpec::Commit { rollback }, problems)
    }

    fn end(&mut self, node: &Node, step: StepSpec, problems: &mut Problems) -> Option<StepSpec> {
        if !self.began {
            problems.add(node.place, "there is no 'begin' before this", "begin a transaction, or leave this out");
        }
        self.ended = true;
        Some(step)
    }

    fn together(&mut self, node: &Node, problems: &mut Problems) -> Option<StepSpec> {
        if !self.dialect.together {
            let message =
                format!("protocol '{}' answers each statement before it takes the next", self.dialect.protocol);
            problems.add(node.place, message, "write the statements one after the other");
            return None;
        }
        let items = node.items(problems)?;
        let mut statements = Vec::new();
        for item in items {
            let Some(mut fields) = Fields::of(item, "a statement", problems) else { continue };
            statements.extend(self.statement(&mut fields, problems));
            fields.finish(problems);
        }
        if items.is_empty() || items.len() > 1000 {
            problems.add(node.place, "expected 1 to 1000 statements", "add '- sql: ...'");
        }
        Some(StepSpec::Together(statements))
    }

    fn branch(&mut self, fields: &mut Fields<'_>, problems: &mut Problems) -> Option<StepSpec> {
        let condition = fields.require("if", problems).and_then(|node| self.condition(node, problems));
        let then = fields.require("then", problems).map(|node| self.steps(node, problems));
        let otherwise = fields.get("else").map(|node| self.steps(node, problems)).unwrap_or_default();
        Some(StepSpec::If { condition: condition?, then: then?, otherwise })
    }

    fn condition(&mut self, node: &Node, problems: &mut Problems) -> Option<ConditionSpec> {
        let mut fields = Fields::of(node, "a condition", problems)?;
        if let Some(node) = fields.get("chance") {
            fields.finish(problems);
            return share(node, problems).map(ConditionSpec::Chance);
        }
        let left = fields.require("var", problems).and_then(|node| self.expression(node, problems));
        let mut found = Vec::new();
        if let Some(node) = fields.get("text") {
            let variable = left.clone().unwrap_or_default();
            found.extend(node.text(problems).map(|text| ConditionSpec::Text { variable, text }));
        }
        if let Some(node) = fields.get("empty") {
            let variable = left.clone().unwrap_or_default();
            if node.boolean(problems) == Some(false) {
                problems.add(node.place, "only 'empty: true' is a condition", "use 'else' for the other case");
            }
            found.push(ConditionSpec::Empty(variable));
        }
        for (name, comparison) in Comparison::NAMES {
            let Some(node) = fields.get(name) else { continue };
            let (left, right) = (left.clone().unwrap_or_default(), self.expression(node, problems));
            found.extend(right.map(|right| ConditionSpec::Number { left, comparison, right }));
        }
        let place = fields.place();
        fields.finish(problems);
        left?;
        match found.len() {
            1 => found.pop(),
            many => {
                let what = if many == 0 { "says nothing about the variable" } else { "compares more than once" };
                problems.add(place, format!("this condition {what}"), "write it like {var: x, less: 3}");
                None
            }
        }
    }

    fn repeat(&mut self, node: &Node, problems: &mut Problems) -> Option<StepSpec> {
        let mut fields = Fields::of(node, "'repeat'", problems)?;
        let times = fields.require("times", problems).and_then(|node| self.expression(node, problems));
        let counter = fields.get("as").and_then(|node| {
            let name = node.text(problems)?;
            self.declare(&name, node.place, problems);
            Some(name)
        });
        let before = self.statements;
        let steps = fields.require("steps", problems).map(|node| self.steps(node, problems));
        if self.statements == before && steps.is_some() {
            problems.add(node.place, "this repeats nothing that the server is asked", "add '- sql: ...' to its steps");
        }
        fields.finish(problems);
        Some(StepSpec::Repeat { times: times?, counter, steps: steps? })
    }

    fn statement(&mut self, fields: &mut Fields<'_>, problems: &mut Problems) -> Option<StatementSpec> {
        self.statements += 1;
        let sql = fields.require("sql", problems).and_then(|node| {
            let text = node.text(problems)?;
            match text::parse(&text, self.dialect.places) {
                Ok(statement) => self.uses.extend(statement.names.into_iter().map(|name| (name, node.place))),
                Err(message) => problems.add(node.place, message, ""),
            }
            Some(text)
        });
        let (mut rows, mut affected) = (None, None);
        if let Some(node) = fields.get("expect") {
            let mut fields = Fields::of(node, "'expect'", problems)?;
            rows = fields.get("rows").and_then(|node| range(node, problems));
            affected = fields.get("affected").and_then(|node| range(node, problems));
            fields.finish(problems);
        }
        let capture = fields.get("capture").map(|node| self.captures(node, problems)).unwrap_or_default();
        Some(StatementSpec { sql: sql?, rows, affected, capture })
    }

    fn captures(&mut self, node: &Node, problems: &mut Problems) -> Vec<(String, Capture)> {
        let Some(fields) = Fields::of(node, "'capture'", problems) else { return Vec::new() };
        let mut captures = Vec::new();
        for (name, place, value) in fields.entries() {
            self.declare(name, *place, problems);
            let capture = match value.text(problems).as_deref() {
                Some("rows") => Some(Capture::Rows),
                Some("affected") => Some(Capture::Affected),
                Some(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                    value.integer(1..=COLUMNS_MAX, problems).map(|column| Capture::Column(column as u16))
                }
                Some(_) => {
                    let hint = "write a column of the first row by its number from 1, or 'rows', or 'affected'";
                    problems.add(value.place, format!("{} cannot be captured", value.describe()), hint);
                    None
                }
                None => None,
            };
            captures.extend(capture.map(|capture| (name.clone(), capture)));
        }
        captures
    }

    /// Columns and their values.
    pub(super) fn columns(&mut self, node: &Node, problems: &mut Problems) -> Vec<(String, SourceSpec)> {
        let Some(fields) = Fields::of(node, "columns", problems) else { return Vec::new() };
        if fields.entries().is_empty() {
            problems.add(node.place, "a row has at least one column", "add 'name: value'");
        }
        // A row's number is available in it.
        if let Err(message) = self.names.declare("row") {
            problems.add(node.place, message, "'row' is the number of the row that is made; rename the feed");
        }
        let mut columns = Vec::new();
        for (name, place, value) in fields.entries() {
            if !is_identifier(name) || name.contains('.') {
                problems.add(*place, format!("'{name}' cannot name a column"), IDENTIFIER_HINT);
            }
            columns.extend(self.source(value, problems).map(|source| (name.clone(), source)));
        }
        columns
    }

    /// Reads the name of a table.
    pub(super) fn identifier(&mut self, node: &Node, problems: &mut Problems) -> Option<String> {
        let text = node.text(problems)?;
        if is_identifier(&text) {
            return Some(text);
        }
        problems.add(node.place, format!("'{text}' cannot name a table"), IDENTIFIER_HINT);
        None
    }

    fn declare(&mut self, name: &str, place: Place, problems: &mut Problems) {
        let declared = if name.contains('-') {
            Err(format!("'{name}' cannot name a variable in an expression"))
        } else {
            self.names.declare(name).map(drop)
        };
        if let Err(message) = declared {
            problems.add(place, message, "use letters, digits and '_'");
        }
    }

    fn source(&mut self, node: &Node, problems: &mut Problems) -> Option<SourceSpec> {
        if !matches!(node.kind, NodeKind::Map(_)) {
            return self.expression(node, problems).map(SourceSpec::Expression);
        }
        let (kind, place, value) = node.kind("a value", problems)?;
        if kind != "text" {
            Node::unknown(kind, place, "kind of value", &["text"], problems);
            return None;
        }
        let text = value.text(problems)?;
        self.texts.push((text.clone(), value.clone()));
        Some(SourceSpec::Text(text))
    }

    fn expression(&mut self, node: &Node, problems: &mut Problems) -> Option<String> {
        let text = node.text(problems)?;
        let uses = &mut self.uses;
        let parsed = Expression::parse(&text, |name| {
            uses.push((name.to_owned(), node.place));
            Ok(())
        });
        if let Err(message) = parsed {
            problems.add(node.place, message, "write numbers, names, + - * / % and parentheses; a text is {text: ...}");
        }
        Some(text)
    }
}

/// Reads a share of cases, such as `1%`.
fn share(node: &Node, problems: &mut Problems) -> Option<f64> {
    let share = node.percent(problems)?;
    if (0.0..=1.0).contains(&share) {
        return Some(share);
    }
    problems.add(node.place, "a share lies between 0% and 100%", "");
    None
}

/// Reads a number, or `{at_least: 1, at_most: 5}`.
fn range(node: &Node, problems: &mut Problems) -> Option<(u64, u64)> {
    if !matches!(node.kind, NodeKind::Map(_)) {
        return node.integer(0..=u64::MAX, problems).map(|number| (number, number));
    }
    let mut fields = Fields::of(node, "a range", problems)?;
    let least = fields.integer("at_least", 0..=u64::MAX, problems).unwrap_or(0);
    let most = fields.integer("at_most", least..=u64::MAX, problems).unwrap_or(u64::MAX);
    fields.finish(problems);
    Some((least, most))
}
