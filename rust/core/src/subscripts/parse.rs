//! The reader of subscript strings.

use super::{Label, Subscripts, Term, fault};
use crate::{Error, Result};
use std::collections::BTreeSet;

/// Letters, and any other visible character outside ASCII: other packages number their labels through Unicode.
fn is_label(c: char) -> bool {
    c.is_ascii_alphabetic() || (!c.is_ascii() && !c.is_whitespace() && !c.is_control())
}

/// The state of reading one string.
pub(super) struct Parser<'t> {
    text: &'t str,
    chars: Vec<char>,
    inputs: Vec<Vec<char>>,
    /// Open groups, outermost first, as node numbers; operands are `(true, operand)`, groups `(false, step)`.
    groups: Vec<Vec<(bool, usize)>>,
    steps: Vec<Vec<(bool, usize)>>,
}

/// Stands for `...` until labels are numbered; no label can be this character.
const ELLIPSIS: char = '.';

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Parser {
            text,
            chars: text.chars().collect(),
            inputs: Vec::new(),
            groups: vec![Vec::new()],
            steps: Vec::new(),
        }
    }

    fn bad(&self, at: usize, why: &str) -> Error {
        let shown = if self.text.len() <= 200 {
            format!(" of '{}'", self.text)
        } else {
            String::new()
        };
        fault(format!("{why} at position {at}{shown}")).with("position", at)
    }

    fn place(&self, operand: Option<usize>) -> String {
        operand.map_or_else(|| "the output".to_owned(), |operand| format!("operand {operand}"))
    }

    /// One label or ellipsis; `at` moves past it.
    fn term(&self, at: &mut usize, operand: Option<usize>) -> Result<char> {
        let c = self.chars[*at];
        if c == '.' {
            let dots = self.chars[*at..]
                .iter()
                .enumerate()
                .filter(|(_, c)| !c.is_whitespace())
                .take(3)
                .take_while(|(_, c)| **c == '.')
                .map(|(index, _)| index)
                .collect::<Vec<_>>();
            if dots.len() < 3 {
                let error = self.bad(
                    *at,
                    &format!("a '.' that is not part of '...' in {}", self.place(operand)),
                );
                return Err(with_place(error, operand));
            }
            *at += dots[2] + 1;
            return Ok(ELLIPSIS);
        }
        if !is_label(c) {
            let why = format!(
                "the character '{c}' is no label (labels are letters) in {}",
                self.place(operand)
            );
            return Err(with_place(self.bad(*at, &why), operand).with("label", c.to_string()));
        }
        *at += 1;
        Ok(c)
    }

    pub(super) fn run(mut self) -> Result<Subscripts> {
        let mut at = 0;
        let mut current: Vec<char> = Vec::new();
        // Just after a ')': only ',', ')' or '->' may follow.
        let mut closed = false;
        let mut output = None;
        while at < self.chars.len() {
            match self.chars[at] {
                c if c.is_whitespace() => at += 1,
                '(' => {
                    if closed || !current.is_empty() {
                        return Err(self.bad(at, "a '(' inside an operand"));
                    }
                    self.groups.push(Vec::new());
                    at += 1;
                }
                ',' => {
                    self.finish_operand(&mut current, &mut closed);
                    at += 1;
                }
                ')' => {
                    self.finish_operand(&mut current, &mut closed);
                    if self.groups.len() == 1 {
                        return Err(self.bad(at, "a ')' without its '('"));
                    }
                    self.close_group();
                    closed = true;
                    at += 1;
                }
                '-' => {
                    let next = self.chars[at + 1..].iter().position(|c| !c.is_whitespace());
                    let Some(next) = next.filter(|&next| self.chars[at + 1 + next] == '>') else {
                        return Err(self.bad(at, "a '-' that is not part of '->'"));
                    };
                    output = Some(self.output(at + next + 2)?);
                    break;
                }
                _ if closed => return Err(self.bad(at, "a label right after ')'; a ',' is missing")),
                _ => {
                    let term = self.term(&mut at, Some(self.inputs.len()))?;
                    current.push(term);
                }
            }
        }
        self.finish_operand(&mut current, &mut closed);
        if self.groups.len() > 1 {
            return Err(self.bad(self.chars.len(), "a '(' is never closed; a ')' is missing"));
        }
        self.number(output)
    }

    fn finish_operand(&mut self, current: &mut Vec<char>, closed: &mut bool) {
        if !std::mem::replace(closed, false) {
            let operand = self.inputs.len();
            self.inputs.push(std::mem::take(current));
            if let Some(group) = self.groups.last_mut() {
                group.push((true, operand));
            }
        }
    }

    fn close_group(&mut self) {
        let mut members = self.groups.pop().unwrap_or_default();
        let node = if members.len() == 1 {
            members.swap_remove(0)
        } else {
            self.steps.push(members);
            (false, self.steps.len() - 1)
        };
        if let Some(group) = self.groups.last_mut() {
            group.push(node);
        }
    }

    fn output(&self, mut at: usize) -> Result<Vec<char>> {
        let mut terms = Vec::new();
        while at < self.chars.len() {
            match self.chars[at] {
                c if c.is_whitespace() => at += 1,
                '-' | '>' => return Err(self.bad(at, "a second '->'")),
                ',' | '(' | ')' => {
                    return Err(self.bad(at, &format!("the character '{}' in the output", self.chars[at])));
                }
                _ => terms.push(self.term(&mut at, None)?),
            }
        }
        Ok(terms)
    }

    fn number(mut self, output: Option<Vec<char>>) -> Result<Subscripts> {
        let used: BTreeSet<char> = self
            .inputs
            .iter()
            .flatten()
            .chain(output.iter().flatten())
            .copied()
            .filter(|&c| c != ELLIPSIS)
            .collect();
        let used: Vec<char> = used.into_iter().collect();
        let terms = |chars: &Vec<char>| -> Vec<Term> {
            chars
                .iter()
                .map(|c| {
                    if *c == ELLIPSIS {
                        Term::Ellipsis
                    } else {
                        Term::Label(used.binary_search(c).unwrap_or(0) as Label)
                    }
                })
                .collect()
        };
        let nesting = if self.steps.is_empty() {
            None
        } else {
            let rest = std::mem::take(&mut self.groups[0]);
            if rest.len() > 1 {
                self.steps.push(rest);
            }
            let operands = self.inputs.len();
            Some(
                self.steps
                    .iter()
                    .map(|step| {
                        step.iter()
                            .map(|&(leaf, at)| if leaf { at } else { operands + at })
                            .collect()
                    })
                    .collect(),
            )
        };
        let subscripts = Subscripts {
            inputs: self.inputs.iter().map(terms).collect(),
            output: output.as_ref().map(terms),
            names: used.iter().map(ToString::to_string).collect(),
            nesting,
        };
        subscripts.check()?;
        Ok(subscripts)
    }
}

fn with_place(error: Error, operand: Option<usize>) -> Error {
    match operand {
        Some(operand) => error.with_operand(operand),
        None => error,
    }
}
