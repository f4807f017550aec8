//! Subscripts as a call brings them: text, or lists of numbered labels.

use pyo3::prelude::*;
use pyo3::types::PyString;
use treadle_core::subscripts::{Subscripts, Term};
use treadle_core::{Error, ErrorCode};
use treadle_engine::CacheKey;

use crate::errors::raise;

/// Labels of the operands and of the output by number, `None` for an ellipsis, and a name for each number.
pub(super) type Lists = (Vec<Vec<Option<u32>>>, Option<Vec<Option<u32>>>, Vec<String>);

/// Subscripts of a call.
pub(super) enum Source<'a> {
    /// numpy's grammar.
    Text(&'a str),
    /// The interleaved form, numbered by the package.
    Lists(Lists),
}

impl<'a> Source<'a> {
    /// Reads what the package made of the caller's subscripts.
    pub(super) fn read(object: &'a Bound<'_, PyAny>) -> PyResult<Source<'a>> {
        let Ok(text) = object.cast::<PyString>() else {
            return Ok(Source::Lists(object.extract()?));
        };
        match text.to_str() {
            Ok(text) => Ok(Source::Text(text)),
            Err(_) => {
                let error = Error::new(
                    ErrorCode::Subscripts,
                    format!(
                        "the subscripts {} hold a lone surrogate, which is no character",
                        text.repr()?
                    ),
                );
                Err(raise(object.py(), error.in_operation("einsum")))
            }
        }
    }

    #[inline(always)]
    pub(super) fn is_text(&self) -> bool {
        matches!(self, Source::Text(_))
    }

    /// The subscripts, if they are some.
    pub(super) fn subscripts(&self) -> treadle_core::Result<Subscripts> {
        let (inputs, output, names) = match self {
            Source::Text(text) => return Subscripts::parse(text),
            Source::Lists(lists) => lists,
        };
        let terms = |list: &Vec<Option<u32>>| -> Vec<Term> {
            list.iter()
                .map(|term| term.map_or(Term::Ellipsis, Term::Label))
                .collect()
        };
        let inputs: Vec<Vec<Term>> = inputs.iter().map(terms).collect();
        Subscripts::from_terms(&inputs, output.as_ref().map(terms).as_deref(), |label| {
            names
                .get(label as usize)
                .cloned()
                .unwrap_or_else(|| label.to_string())
        })
    }

    /// Adds the subscripts to a key. Names are for messages and stay out.
    #[inline(always)]
    pub(super) fn push(&self, key: &mut CacheKey) {
        match self {
            Source::Text(text) => key.push_bytes(text.as_bytes()),
            Source::Lists((inputs, output, _)) => {
                key.push(inputs.len() as u64);
                key.push(u64::from(output.is_some()));
                for list in inputs.iter().chain(output) {
                    key.push(list.len() as u64);
                    for term in list {
                        key.push(term.map_or(u64::MAX, u64::from));
                    }
                }
            }
        }
    }
}
