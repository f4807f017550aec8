//! What a section returns when the caller's poll said stop.

use std::fmt;
use treadle_core::{Error, ErrorCode};

/// The poll of the token said stop; chunks that nobody had claimed were not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted before every chunk had run; the output is incomplete")
    }
}

impl std::error::Error for Interrupted {}

impl From<Interrupted> for Error {
    fn from(interrupted: Interrupted) -> Self {
        Error::new(ErrorCode::Interrupted, interrupted.to_string())
    }
}
