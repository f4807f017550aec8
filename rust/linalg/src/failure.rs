//! What can go wrong with one matrix, and the sentence that the user reads.

use treadle_core::{Error, ErrorCode};
use treadle_team::Interrupted;

/// Why one item failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    NonFinite {
        operand: usize,
    },
    /// R overflows although the matrix is finite.
    NonFiniteDiagonal,
    Singular,
    NotPositiveDefinite {
        minor: usize,
    },
    NotConverged,
    OutOfMemory {
        bytes: usize,
    },
    Interrupted,
}

impl Failure {
    /// The error for the item at `index` of `count`; `batched` says whether the caller gave leading axes.
    #[cold]
    pub(crate) fn into_error(self, operation: &str, index: usize, batched: bool) -> Error {
        let subject = if batched {
            format!("item {index} of the batch (flat, in C order)")
        } else {
            "the matrix".to_owned()
        };
        let error = match self {
            Failure::Interrupted => return Error::from(Interrupted).in_operation(operation),
            Failure::NonFinite { operand } => Error::new(
                ErrorCode::NonFinite,
                format!(
                    "operand {operand}: {subject} holds NaN or infinity; remove it from the input, or pass \
                     check_finite=False to get NaN results"
                ),
            )
            .with_operand(operand),
            Failure::NonFiniteDiagonal => Error::new(
                ErrorCode::NonFinite,
                format!(
                    "the diagonal of R of {subject} is not finite: its columns are longer than the largest number of the \
                     type; scale the matrix down"
                ),
            )
            .with_operand(0),
            Failure::Singular => Error::new(
                ErrorCode::SingularMatrix,
                format!(
                    "{subject} is singular: a pivot of its LU factorisation is exactly zero; remove the dependent \
                     rows, or use numpy.linalg.lstsq"
                ),
            )
            .with_operand(0),
            Failure::NotPositiveDefinite { minor } => Error::new(
                ErrorCode::NotPositiveDefinite,
                format!(
                    "{subject} is not positive definite: its leading minor of order {minor} is not positive; use \
                     eigh for indefinite matrices, or add a shift to the diagonal"
                ),
            )
            .with_operand(0)
            .with("minor", minor),
            Failure::NotConverged => Error::new(
                ErrorCode::NotConverged,
                format!(
                    "{subject} did not converge, or its factors failed the residual check, by every algorithm \
                     tried; please report the matrix"
                ),
            )
            .with_operand(0),
            Failure::OutOfMemory { bytes } => {
                return Error::new(
                    ErrorCode::OutOfMemory,
                    format!(
                        "{bytes} bytes of scratch memory were refused by the system; use smaller matrices or \
                         fewer threads"
                    ),
                )
                .with("bytes", bytes)
                .in_operation(operation);
            }
        };
        error.with("index", index).in_operation(operation)
    }
}
