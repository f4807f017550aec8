//! What a plan says about itself.

use crate::Plan;
use crate::lower::level::Level;
use std::fmt;
use treadle_core::subscripts::{Bound, Label};

pub(crate) fn shape_text(shape: &[usize]) -> String {
    let inner: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!(
        "({}{})",
        inner.join(", "),
        if inner.len() == 1 { "," } else { "" }
    )
}

pub(crate) fn labels_text(names: &[String], labels: &[Label]) -> String {
    let short = labels
        .iter()
        .all(|&label| names[label as usize].chars().count() == 1);
    let words: Vec<&str> = labels
        .iter()
        .map(|&label| names[label as usize].as_str())
        .collect();
    words.join(if short { "" } else { " " })
}

fn subscripts_text(bound: &Bound) -> String {
    const SHOWN: usize = 40;
    let mut inputs: Vec<String> = bound
        .inputs
        .iter()
        .take(SHOWN)
        .map(|labels| labels_text(&bound.names, labels))
        .collect();
    if bound.inputs.len() > SHOWN {
        inputs.push(format!("... ({} more)", bound.inputs.len() - SHOWN));
    }
    format!(
        "{}->{}",
        inputs.join(","),
        labels_text(&bound.names, &bound.output)
    )
}

/// Numbers as "1, 2 and 3".
fn listed(numbers: impl IntoIterator<Item = usize>) -> String {
    let words: Vec<String> = numbers.into_iter().map(|number| number.to_string()).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

impl Plan {
    /// One line per kernel call, in the order of execution. Inside a loop over slices each call has one line for all
    /// slices of full length, and one for those of a shorter last part.
    pub fn steps(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(constants) = &self.constants {
            lines.extend(constants.steps.iter().map(|step| format!("once: {step}")));
        }
        self.level_lines(&self.level, "", &mut lines);
        lines
    }

    fn level_lines(&self, level: &Level, around: &str, lines: &mut Vec<String>) {
        lines.extend(level.steps.iter().map(|step| format!("{around}{step}")));
        if let Some(inner) = &level.inner {
            let name = &self.bound.names[inner.cut.label as usize];
            let around = around.trim_end_matches(": ");
            let around = if around.is_empty() {
                format!("each part of '{name}'")
            } else {
                format!("{around}, '{name}'")
            };
            self.level_lines(&inner.whole, &format!("{around}: "), lines);
            if let Some(tail) = &inner.tail {
                self.level_lines(tail, &format!("{around} (last): "), lines);
            }
        }
    }

    /// The labels that are sliced, outermost loop first, each with its parts.
    pub fn slices(&self) -> Vec<String> {
        let mut slices = Vec::new();
        let mut level = &self.level;
        while let Some(inner) = &level.inner {
            let name = &self.bound.names[inner.cut.label as usize];
            let sum = if inner.out.is_none() { ", summed" } else { "" };
            slices.push(format!("'{name}' into {}{sum}", inner.cut));
            level = &inner.whole;
        }
        slices
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}  {}", subscripts_text(&self.bound), self.dtype)?;
        writeln!(f, "route    {} ({})", self.route, self.why)?;
        writeln!(
            f,
            "result   {} strides {:?}",
            shape_text(&self.output_shape),
            self.output_strides
        )?;
        let cost = self.cost();
        writeln!(
            f,
            "flops    {:.3e} (one loop over all labels: {:.3e})",
            self.flops(),
            cost.naive_flops
        )?;
        writeln!(f, "bytes    {:.3e} read and written", self.bytes())?;
        writeln!(f, "largest  {} elements", cost.largest)?;
        writeln!(
            f,
            "scratch  {} bytes, panels {} bytes",
            self.scratch_bytes,
            self.panel_bytes()
        )?;
        writeln!(f, "isa      {}", self.isa)?;
        let slices = self.slices();
        if !slices.is_empty() {
            writeln!(f, "sliced   {}", slices.join("; "))?;
        }
        if let Some(constants) = &self.constants {
            write!(
                f,
                "constant operands {}, prepared in {} bytes",
                listed(constants.positions.iter().copied()),
                constants.kept_bytes()
            )?;
            let made = constants.entries.iter().map(|&(entry, _)| entry);
            let made = listed(made.filter(|&entry| entry >= self.operands));
            if made.is_empty() {
                writeln!(f)?;
            } else {
                writeln!(f, "; what is made of them stands as operands {made}")?;
            }
        }
        const SHOWN: usize = 60;
        let steps = self.steps();
        for (at, step) in steps.iter().take(SHOWN).enumerate() {
            writeln!(f, "step {at:<3} {step}")?;
        }
        if steps.len() > SHOWN {
            writeln!(f, "... and {} more steps", steps.len() - SHOWN)?;
        }
        Ok(())
    }
}
