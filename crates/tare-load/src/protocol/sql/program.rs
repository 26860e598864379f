//! Scripts as flat tables, which [`super::machine`] runs.

use super::dialect::Dialect;
use super::source::{self, Source};
use super::spec::{Capture, Comparison, ConditionSpec, OperationSpec, Options, SourceSpec, StatementSpec, StepSpec};
use super::text;
use crate::draw::Draw;
use crate::operation::OperationRow;
use crate::script::{Expression, FeedId, Feeds, Names, Slot, Values};
use std::collections::BTreeMap;
use std::ops::Range;
use tare_core::fault::Fault;

/// An index into [`Program::instructions`].
pub(super) type At = u32;

/// One instruction.
#[derive(Debug, Clone)]
pub(super) enum Instruction {
    /// Gives a variable the value of a source.
    Set(Slot, u32),
    /// If what follows fails and may be retried, it is retried from here.
    Mark,
    /// Sends these calls and waits for their answers.
    Exchange(Range<u32>, Role),
    /// Jumps.
    Jump(At),
    /// Jumps unless a condition holds.
    JumpUnless(u32, At),
    /// The operation is over.
    End,
}

/// The role of an exchange in the transaction around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A part of it, or a transaction of its own.
    Statement,
    /// A statement before its beginning.
    Prelude,
    /// Its beginning.
    Begin,
    /// Its end.
    Commit,
    /// Its end by rollback.
    Rollback,
}

/// A statement with its parameters and the expected result.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// An index into [`Program::statements`].
    pub statement: u32,
    /// A range of the program's parameters.
    pub parameters: Range<u32>,
    captures: Range<u32>,
    rows: (u64, u64),
    affected: (u64, u64),
    rows_into: Option<Slot>,
    affected_into: Option<Slot>,
}

/// A statement in the form in which it is prepared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    /// Its text.
    pub sql: String,
    /// How many parameters it has.
    pub parameters: usize,
    /// Whether it begins or ends a transaction, which not every server can prepare.
    pub control: bool,
}

#[derive(Debug)]
enum Condition {
    /// A number drawn below [`CHANCES`] is below this.
    Chance(u64),
    Number(Box<[FeedId]>, Expression<Slot>, Comparison, Expression<Slot>),
    Text(Slot, Vec<u8>),
    Empty(Slot),
}

/// An operation.
#[derive(Debug)]
pub(super) struct Operation {
    pub start: At,
    pub tries: u16,
    // Feeds named in statements themselves: drawn once per operation.
    pub feeds: Box<[FeedId]>,
}

/// All scripts of a protocol, compiled.
#[derive(Debug)]
pub(crate) struct Program {
    /// Where values come from.
    pub feeds: Feeds,
    /// The names of all variables.
    pub names: Names,
    /// Every statement, each once.
    pub statements: Vec<Statement>,
    pub(super) instructions: Vec<Instruction>,
    pub(super) operations: Vec<Operation>,
    pub(super) passing: &'static [&'static str],
    sources: Vec<Source>,
    conditions: Vec<Condition>,
    calls: Vec<Call>,
    parameters: Vec<Slot>,
    captures: Vec<(u16, Slot)>,
}

/// The call that rolls a transaction back.
pub(super) const ROLLBACK: Range<u32> = 0..1;
/// The exclusive upper bound of the numbers drawn for chances: 2^32.
const CHANCES: f64 = 4_294_967_296.0;
const ANY: (u64, u64) = (0, u64::MAX);

/// Compiles scripts that were checked when they were read.
///
/// # Errors
/// When they were not checked.
pub(crate) fn compile(options: &Options, dialect: &Dialect) -> Result<Program, Fault> {
    Program::compile(options, dialect).map_err(|message| {
        Fault::new(format!("the plan's scripts do not compile: {message}"))
            .remedy("read the workload again with this version of tare")
    })
}

/// The operations with their weights.
pub(crate) fn operation_rows(options: &Options) -> Vec<OperationRow> {
    let row = |operation: &OperationSpec| OperationRow {
        name: operation.name.clone(),
        weight: operation.weight,
        lingers: false,
    };
    options.operations.iter().map(row).collect()
}

impl Program {
    /// Compiles scripts that were checked when they were read.
    ///
    /// # Errors
    /// What is wrong with them, in words.
    pub(crate) fn compile(options: &Options, dialect: &Dialect) -> Result<Program, String> {
        let names = names(options)?;
        let program = Program {
            feeds: Feeds::new(&options.feeds),
            names,
            statements: Vec::new(),
            instructions: Vec::new(),
            operations: Vec::new(),
            passing: dialect.passing,
            sources: Vec::new(),
            conditions: Vec::new(),
            calls: Vec::new(),
            parameters: Vec::new(),
            captures: Vec::new(),
        };
        let mut compiler = Compiler { program, dialect, known: BTreeMap::new(), drawn: Vec::new(), hidden: 0 };
        let rollback = compiler.control("ROLLBACK");
        assert_eq!(rollback, ROLLBACK, "the first call");
        for operation in &options.operations {
            let start = compiler.program.instructions.len() as At;
            compiler.steps(&operation.script)?;
            compiler.program.instructions.push(Instruction::End);
            let mut feeds = std::mem::take(&mut compiler.drawn);
            feeds.sort_unstable();
            feeds.dedup();
            let tries = operation.tries;
            compiler.program.operations.push(Operation { start, tries, feeds: feeds.into() });
        }
        Ok(compiler.program)
    }

    /// A call.
    #[inline]
    pub(crate) fn call(&self, number: u32) -> &Call {
        &self.calls[number as usize]
    }

    /// The parameters of a call.
    #[inline]
    pub(crate) fn parameters(&self, call: &Call) -> &[Slot] {
        &self.parameters[call.parameters.start as usize..call.parameters.end as usize]
    }

    /// The columns to capture, from 0, and their variables, in the order of the columns.
    #[inline]
    pub(crate) fn captures(&self, call: &Call) -> &[(u16, Slot)] {
        &self.captures[call.captures.start as usize..call.captures.end as usize]
    }

    /// Stores the counts of a call and returns whether they are as expected.
    #[inline]
    pub(super) fn counted(&self, call: &Call, rows: u64, affected: u64, values: &mut Values) -> bool {
        if rows == 0 {
            // What an earlier answer left must not be taken for this one's.
            self.captures(call).iter().for_each(|(_, slot)| values.unset(*slot));
        }
        if let Some(slot) = call.rows_into {
            values.set_number(slot, rows as i64);
        }
        if let Some(slot) = call.affected_into {
            values.set_number(slot, affected as i64);
        }
        let within = |count: u64, (least, most): (u64, u64)| (least..=most).contains(&count);
        within(rows, call.rows) && within(affected, call.affected)
    }

    #[inline]
    pub(super) fn set(&self, slot: Slot, source: u32, draw: &mut Draw, values: &mut Values) {
        self.sources[source as usize].set(slot, &self.feeds, draw, values);
    }

    #[inline]
    pub(super) fn holds(&self, condition: u32, draw: &mut Draw, values: &mut Values) -> bool {
        match &self.conditions[condition as usize] {
            Condition::Chance(below) => draw.below(CHANCES as u64) < *below,
            Condition::Number(feeds, left, comparison, right) => {
                self.feeds.draw(feeds, draw, values);
                let number = |slot| source::number(values.get(slot, self.feeds.texts()));
                match (left.evaluate(number), right.evaluate(number)) {
                    (Some(left), Some(right)) => comparison.holds(left, right),
                    _ => false,
                }
            }
            Condition::Text(slot, text) => matches!(
                values.get(*slot, self.feeds.texts()),
                crate::script::ValueRef::Text(found) if found == text.as_slice()
            ),
            Condition::Empty(slot) => !values.is_set(*slot),
        }
    }
}

/// The names of all variables that a script may use.
fn names(options: &Options) -> Result<Names, String> {
    let mut names = Names::new(&options.feeds);
    options.operations.iter().try_for_each(|operation| declare(&operation.script, &mut names))?;
    Ok(names)
}

/// The same as texts; empty if the scripts do not compile.
pub(super) fn variable_names(options: &Options) -> Vec<String> {
    names(options).map(|names| names.known().into_iter().map(str::to_owned).collect()).unwrap_or_default()
}

/// Creates slots for all variables that are set somewhere, in the order of the scripts.
fn declare(steps: &[StepSpec], names: &mut Names) -> Result<(), String> {
    let statement = |statement: &StatementSpec, names: &mut Names| {
        statement.capture.iter().try_for_each(|(name, _)| names.declare(name).map(drop))
    };
    for step in steps {
        match step {
            StepSpec::Set(sets) => sets.iter().try_for_each(|(name, _)| names.declare(name).map(drop))?,
            StepSpec::Statement(one) => statement(one, names)?,
            StepSpec::Together(all) => all.iter().try_for_each(|one| statement(one, names))?,
            StepSpec::If { then, otherwise, .. } => {
                declare(then, names)?;
                declare(otherwise, names)?;
            }
            StepSpec::Repeat { counter, steps, .. } => {
                counter.iter().try_for_each(|name| names.declare(name).map(drop))?;
                declare(steps, names)?;
            }
            StepSpec::Begin { .. } | StepSpec::Commit { .. } | StepSpec::Rollback | StepSpec::Stop => {}
        }
    }
    Ok(())
}

struct Compiler<'d> {
    program: Program,
    dialect: &'d Dialect,
    // Statements by their text.
    known: BTreeMap<String, u32>,
    drawn: Vec<FeedId>,
    // Counts the variables that no script can name.
    hidden: usize,
}

impl Compiler<'_> {
    fn here(&self) -> At {
        self.program.instructions.len() as At
    }

    fn push(&mut self, instruction: Instruction) {
        self.program.instructions.push(instruction);
    }

    /// A jump whose target is not known yet.
    fn jump_unless(&mut self, condition: Condition) -> usize {
        self.program.conditions.push(condition);
        self.push(Instruction::JumpUnless(self.program.conditions.len() as u32 - 1, 0));
        self.program.instructions.len() - 1
    }

    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.program.instructions[jump] {
            Instruction::Jump(to) | Instruction::JumpUnless(_, to) => *to = here,
            _ => unreachable!("only jumps land"),
        }
    }

    fn steps(&mut self, steps: &[StepSpec]) -> Result<(), String> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &StepSpec) -> Result<(), String> {
        match step {
            StepSpec::Set(sets) => {
                for (name, source) in sets {
                    let slot = self.slot(name)?;
                    self.set(slot, source)?;
                }
            }
            StepSpec::Begin { isolation } => {
                self.push(Instruction::Mark);
                let statements = (self.dialect.begin)(*isolation);
                for (number, sql) in statements.iter().enumerate() {
                    let call = self.control(sql);
                    let last = number + 1 == statements.len();
                    self.push(Instruction::Exchange(call, if last { Role::Begin } else { Role::Prelude }));
                }
            }
            StepSpec::Commit { rollback } => self.commit(*rollback),
            StepSpec::Rollback => self.push(Instruction::Exchange(ROLLBACK, Role::Rollback)),
            StepSpec::Statement(statement) => {
                let call = self.call(statement)?;
                self.push(Instruction::Exchange(call..call + 1, Role::Statement));
            }
            StepSpec::Together(statements) => {
                let first = self.program.calls.len() as u32;
                statements.iter().try_for_each(|statement| self.call(statement).map(drop))?;
                self.push(Instruction::Exchange(first..self.program.calls.len() as u32, Role::Statement));
            }
            StepSpec::If { condition, then, otherwise } => {
                let condition = self.condition(condition)?;
                let skip = self.jump_unless(condition);
                self.steps(then)?;
                if otherwise.is_empty() {
                    self.land(skip);
                } else {
                    self.push(Instruction::Jump(0));
                    let end = self.program.instructions.len() - 1;
                    self.land(skip);
                    self.steps(otherwise)?;
                    self.land(end);
                }
            }
            StepSpec::Repeat { times, counter, steps } => self.repeat(times, counter.as_deref(), steps)?,
            StepSpec::Stop => self.push(Instruction::End),
        }
        Ok(())
    }

    fn commit(&mut self, rollback: f64) {
        let commit = self.control("COMMIT");
        let taken_back = (rollback * CHANCES).round() as u64;
        if taken_back == 0 {
            return self.push(Instruction::Exchange(commit, Role::Commit));
        }
        let to_commit = self.jump_unless(Condition::Chance(taken_back));
        self.push(Instruction::Exchange(ROLLBACK, Role::Rollback));
        self.push(Instruction::Jump(0));
        let end = self.program.instructions.len() - 1;
        self.land(to_commit);
        self.push(Instruction::Exchange(commit, Role::Commit));
        self.land(end);
    }

    /// `done = 0; left = times; while done < left { done = done + 1; counter = done; steps }`
    fn repeat(&mut self, times: &str, counter: Option<&str>, steps: &[StepSpec]) -> Result<(), String> {
        let (done, left) = (self.hide()?, self.hide()?);
        let constant = |text: &str| SourceSpec::Expression(text.to_owned());
        self.set(done, &constant("0"))?;
        self.set(left, &constant(times))?;
        let again = self.here();
        let name = |slot| Expression::parse("a", |_| Ok(slot));
        let end = self.jump_unless(Condition::Number([].into(), name(done)?, Comparison::Less, name(left)?));
        let next = Expression::parse("a + 1", |_| Ok(done))?;
        self.program.sources.push(Source::number(next));
        self.push(Instruction::Set(done, self.program.sources.len() as u32 - 1));
        if let Some(counter) = counter {
            let slot = self.slot(counter)?;
            self.program.sources.push(Source::number(name(done)?));
            self.push(Instruction::Set(slot, self.program.sources.len() as u32 - 1));
        }
        self.steps(steps)?;
        self.push(Instruction::Jump(again));
        self.land(end);
        Ok(())
    }

    fn hide(&mut self) -> Result<Slot, String> {
        self.hidden += 1;
        self.program.names.declare(&format!("_-{}", self.hidden))
    }

    fn slot(&self, name: &str) -> Result<Slot, String> {
        self.program.names.slot(name).ok_or_else(|| format!("there is no variable or feed '{name}'"))
    }

    fn set(&mut self, slot: Slot, source: &SourceSpec) -> Result<(), String> {
        self.program.sources.push(Source::compile(source, &self.program.names)?);
        self.push(Instruction::Set(slot, self.program.sources.len() as u32 - 1));
        Ok(())
    }

    fn condition(&self, condition: &ConditionSpec) -> Result<Condition, String> {
        Ok(match condition {
            ConditionSpec::Chance(share) => Condition::Chance((share * CHANCES).round() as u64),
            ConditionSpec::Number { left, comparison, right } => {
                let (left, drawn) = source::expression(left, &self.program.names)?;
                let (right, more) = source::expression(right, &self.program.names)?;
                let mut feeds = [drawn, more].concat();
                feeds.sort_unstable();
                feeds.dedup();
                Condition::Number(feeds.into(), left, *comparison, right)
            }
            ConditionSpec::Text { variable, text } => Condition::Text(self.slot(variable)?, text.clone().into_bytes()),
            ConditionSpec::Empty(variable) => Condition::Empty(self.slot(variable)?),
        })
    }

    fn control(&mut self, sql: &str) -> Range<u32> {
        let statement = self.statement(sql, 0, true);
        let empty = 0..0;
        self.program.calls.push(Call {
            statement,
            parameters: empty.clone(),
            captures: empty,
            rows: ANY,
            affected: ANY,
            rows_into: None,
            affected_into: None,
        });
        let number = self.program.calls.len() as u32;
        number - 1..number
    }

    fn statement(&mut self, sql: &str, parameters: usize, control: bool) -> u32 {
        if let Some(number) = self.known.get(sql) {
            return *number;
        }
        let number = self.program.statements.len() as u32;
        self.program.statements.push(Statement { sql: sql.to_owned(), parameters, control });
        self.known.insert(sql.to_owned(), number);
        number
    }

    fn call(&mut self, spec: &StatementSpec) -> Result<u32, String> {
        let text = text::parse(&spec.sql, self.dialect.places)?;
        let statement = self.statement(&text.sql, text.names.len(), false);
        let first = self.program.parameters.len() as u32;
        for name in &text.names {
            let slot = self.slot(name)?;
            self.drawn.extend(self.program.names.feed(name));
            self.program.parameters.push(slot);
        }
        let parameters = first..self.program.parameters.len() as u32;
        let mut columns = Vec::new();
        let (mut rows_into, mut affected_into) = (None, None);
        for (name, capture) in &spec.capture {
            let slot = self.slot(name)?;
            match capture {
                Capture::Column(column) => columns.push((column - 1, slot)),
                Capture::Rows => rows_into = Some(slot),
                Capture::Affected => affected_into = Some(slot),
            }
        }
        columns.sort_unstable();
        let first = self.program.captures.len() as u32;
        self.program.captures.extend(columns);
        let captures = first..self.program.captures.len() as u32;
        let (rows, affected) = (spec.rows.unwrap_or(ANY), spec.affected.unwrap_or(ANY));
        self.program.calls.push(Call { statement, parameters, captures, rows, affected, rows_into, affected_into });
        Ok(self.program.calls.len() as u32 - 1)
    }
}
