//! Einsum subscripts: from a string or label lists, and bound to shapes.

use crate::{Error, ErrorCode, Result};
use std::collections::BTreeSet;

/// A label's number. Labels are numbered in the order in which an implicit output names them.
pub type Label = u32;

/// One entry of a label list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Term {
    /// A named axis.
    Label(Label),
    /// `...`: every axis that has no name, broadcast from the right.
    Ellipsis,
}

/// Subscripts without shapes: what a string or label lists say.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Subscripts {
    inputs: Vec<Vec<Term>>,
    output: Option<Vec<Term>>,
    names: Vec<String>,
    nesting: Option<Vec<Vec<usize>>>,
}

/// Subscripts with every axis named and every label's extent known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// One label per axis of each operand.
    pub inputs: Vec<Vec<Label>>,
    /// One label per axis of the result; distinct.
    pub output: Vec<Label>,
    /// Extent by label, after broadcasting.
    pub extents: Vec<usize>,
    /// Display name by label.
    pub names: Vec<String>,
}

impl Bound {
    /// The result's shape.
    pub fn output_shape(&self) -> Vec<usize> {
        self.output
            .iter()
            .map(|&label| self.extents[label as usize])
            .collect()
    }
}

fn fault(message: String) -> Error {
    Error::new(ErrorCode::Subscripts, message)
}

impl Subscripts {
    /// Reads numpy's grammar: `"ij,jk->ik"`, implicit output, `...`, spaces anywhere, and parentheses that fix
    /// the order, `"(ij,jk),kl->il"`.
    pub fn parse(text: &str) -> Result<Subscripts> {
        parse::Parser::new(text).run()
    }

    /// From label lists, the interleaved form. `name` gives a label's display name; an implicit output lists the
    /// labels in the order of their numbers.
    pub fn from_terms(
        inputs: &[Vec<Term>],
        output: Option<&[Term]>,
        name: impl Fn(Label) -> String,
    ) -> Result<Subscripts> {
        let used: BTreeSet<Label> = inputs
            .iter()
            .flatten()
            .chain(output.into_iter().flatten())
            .filter_map(|term| {
                if let Term::Label(label) = term {
                    Some(*label)
                } else {
                    None
                }
            })
            .collect();
        let used: Vec<Label> = used.into_iter().collect();
        let dense = |terms: &[Term]| -> Vec<Term> {
            terms
                .iter()
                .map(|term| match term {
                    Term::Label(label) => Term::Label(used.binary_search(label).unwrap_or(0) as Label),
                    Term::Ellipsis => Term::Ellipsis,
                })
                .collect()
        };
        let subscripts = Subscripts {
            inputs: inputs.iter().map(|terms| dense(terms)).collect(),
            output: output.map(dense),
            names: used.iter().map(|&label| name(label)).collect(),
            nesting: None,
        };
        subscripts.check()?;
        Ok(subscripts)
    }

    /// Number of operands.
    pub fn operands(&self) -> usize {
        self.inputs.len()
    }

    /// The terms of each operand.
    pub fn inputs(&self) -> &[Vec<Term>] {
        &self.inputs
    }

    /// The output's terms, if it was written.
    pub fn output(&self) -> Option<&[Term]> {
        self.output.as_deref()
    }

    /// Display name by label.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The order that parentheses fixed: operand numbers of each step, results numbered on from the last operand.
    /// `None` when there were none.
    pub fn nesting(&self) -> Option<&[Vec<usize>]> {
        self.nesting.as_deref()
    }

    fn name(&self, label: Label) -> &str {
        &self.names[label as usize]
    }

    fn check(&self) -> Result<()> {
        if self.inputs.is_empty() {
            return Err(fault(
                "the subscripts name no operand; at least one is needed".to_owned(),
            ));
        }
        let mut known = vec![false; self.names.len()];
        for (operand, terms) in self.inputs.iter().enumerate() {
            if terms.iter().filter(|&&term| term == Term::Ellipsis).count() > 1 {
                return Err(fault(format!(
                    "operand {operand} has more than one '...'; one is allowed"
                ))
                .with_operand(operand));
            }
            for term in terms {
                if let Term::Label(label) = term {
                    known[*label as usize] = true;
                }
            }
        }
        let mut seen = vec![false; self.names.len()];
        let mut ellipses = 0;
        for term in self.output.iter().flatten() {
            match *term {
                Term::Ellipsis => ellipses += 1,
                Term::Label(label) => {
                    let name = self.name(label);
                    if !known[label as usize] {
                        return Err(fault(format!(
                            "output label '{name}' is in no operand; every output label must be in one"
                        ))
                        .with("label", name));
                    }
                    if std::mem::replace(&mut seen[label as usize], true) {
                        return Err(fault(format!(
                            "output label '{name}' is repeated; an output label may stand only once"
                        ))
                        .with("label", name));
                    }
                }
            }
        }
        if ellipses > 1 {
            return Err(fault(
                "the output has more than one '...'; one is allowed".to_owned(),
            ));
        }
        Ok(())
    }

    /// Names every axis of operands of these shapes and finds every extent.
    pub fn bind(&self, shapes: &[&[usize]]) -> Result<Bound> {
        if shapes.len() != self.inputs.len() {
            return Err(fault(format!(
                "the subscripts name {} operand{}, but {} {} given",
                self.inputs.len(),
                if self.inputs.len() == 1 { "" } else { "s" },
                shapes.len(),
                if shapes.len() == 1 { "was" } else { "were" },
            ))
            .with("expected", self.inputs.len())
            .with("actual", shapes.len()));
        }
        let named = self.names.len();
        let mut widest = 0;
        for (operand, (terms, shape)) in self.inputs.iter().zip(shapes).enumerate() {
            widest = widest.max(self.unnamed(operand, terms, shape.len())?);
        }
        let first_unnamed = named as Label;
        let unnamed_labels = |rank: usize| (widest - rank..widest).map(|at| first_unnamed + at as Label);

        let mut bound = Bound {
            inputs: Vec::with_capacity(shapes.len()),
            output: Vec::new(),
            extents: vec![1; named + widest],
            names: self.names.clone(),
        };
        bound
            .names
            .extend((0..widest).map(|at| format!("...[{}]", at as isize - widest as isize)));

        let mut occurrences = vec![0usize; named + widest];
        let mut owner = vec![usize::MAX; named + widest];
        for (operand, (terms, shape)) in self.inputs.iter().zip(shapes).enumerate() {
            let mut labels = Vec::with_capacity(shape.len());
            for term in terms {
                match *term {
                    Term::Label(label) => labels.push(label),
                    Term::Ellipsis => {
                        // As many axes as the other terms leave over.
                        labels.extend(unnamed_labels(shape.len() + 1 - terms.len()));
                    }
                }
            }
            for (axis, (&label, &extent)) in labels.iter().zip(shape.iter()).enumerate() {
                let at = label as usize;
                occurrences[at] += 1;
                if let Some(twin) = labels[..axis].iter().position(|&other| other == label)
                    && shape[twin] != extent
                {
                    return Err(self.mismatch(&bound.names[at], (operand, shape[twin]), (operand, extent)));
                }
                let known = bound.extents[at];
                if owner[at] == usize::MAX || (known == 1 && extent != 1) {
                    bound.extents[at] = extent;
                    owner[at] = operand;
                } else if extent != known && extent != 1 {
                    return Err(self.mismatch(&bound.names[at], (owner[at], known), (operand, extent)));
                }
            }
            bound.inputs.push(labels);
        }

        match &self.output {
            Some(terms) => {
                for term in terms {
                    match *term {
                        Term::Label(label) => bound.output.push(label),
                        Term::Ellipsis => bound.output.extend(unnamed_labels(widest)),
                    }
                }
            }
            None => {
                bound.output.extend(unnamed_labels(widest));
                bound
                    .output
                    .extend((0..first_unnamed).filter(|&label| occurrences[label as usize] == 1));
            }
        }
        Ok(bound)
    }

    /// How many axes the ellipsis of an operand of that rank stands for.
    fn unnamed(&self, operand: usize, terms: &[Term], rank: usize) -> Result<usize> {
        let has_ellipsis = terms.contains(&Term::Ellipsis);
        let named = terms.len() - usize::from(has_ellipsis);
        if named > rank || (named < rank && !has_ellipsis) {
            let remedy = if named < rank {
                "; '...' stands for axes without a label"
            } else {
                ""
            };
            return Err(fault(format!(
                "operand {operand} has {rank} {}, but its subscripts have {named} {}{remedy}",
                if rank == 1 { "axis" } else { "axes" },
                if named == 1 { "label" } else { "labels" },
            ))
            .with_operand(operand)
            .with("axes", rank)
            .with("labels", named));
        }
        Ok(rank - named)
    }

    #[cold]
    fn mismatch(&self, name: &str, first: (usize, usize), second: (usize, usize)) -> Error {
        let message = if first.0 == second.0 {
            format!(
                "label '{name}' is {} on one axis and {} on another of operand {}; axes of one diagonal must be equal",
                first.1, second.1, first.0
            )
        } else {
            format!(
                "label '{name}' is {} in operand {} and {} in operand {}; sizes must be equal, or 1",
                first.1, first.0, second.1, second.0
            )
        };
        Error::new(ErrorCode::Broadcast, message)
            .with_operand(second.0)
            .with("label", name)
            .with("first_operand", first.0)
            .with("first_size", first.1)
            .with("second_operand", second.0)
            .with("second_size", second.1)
    }
}

mod parse;
#[cfg(test)]
mod tests;
