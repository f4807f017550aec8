//! The error that every room returns, and the one table of codes.

use std::fmt;

macro_rules! error_codes {
    ($($variant:ident = $code:literal, $class:literal;)*) => {
        /// What went wrong. One code is one Python class; the table in this file is the only one.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $class, "`")] $variant,)*
        }

        impl ErrorCode {
            /// Every code, in the order of the table.
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$variant),*];

            /// The stable text that stands in `error.code`.
            pub const fn code(self) -> &'static str {
                match self { $(ErrorCode::$variant => $code,)* }
            }

            /// The Python class in `treadle.exceptions`.
            pub const fn class(self) -> &'static str {
                match self { $(ErrorCode::$variant => $class,)* }
            }
        }
    };
}

error_codes! {
    Shape = "shape", "ShapeError";
    Subscripts = "subscripts", "SubscriptsError";
    Broadcast = "broadcast", "BroadcastError";
    Path = "path", "PathError";
    SizeOverflow = "size_overflow", "SizeOverflowError";
    Axis = "axis", "AxisError";
    MatrixShape = "matrix_shape", "MatrixShapeError";
    DType = "dtype", "DTypeError";
    Argument = "argument", "ArgumentError";
    Aliasing = "aliasing", "AliasingError";
    Unsupported = "unsupported", "UnsupportedError";
    LinAlg = "linalg", "LinAlgError";
    SingularMatrix = "singular_matrix", "SingularMatrixError";
    NotPositiveDefinite = "not_positive_definite", "NotPositiveDefiniteError";
    NotConverged = "not_converged", "NotConvergedError";
    NonFinite = "non_finite", "NonFiniteError";
    Engine = "engine", "EngineError";
    EngineClosed = "engine_closed", "EngineClosedError";
    EngineBusy = "engine_busy", "EngineBusyError";
    EngineBroken = "engine_broken", "EngineBrokenError";
    ReentrantCall = "reentrant_call", "ReentrantCallError";
    ForkedEngine = "forked_engine", "ForkedEngineError";
    Provider = "provider", "ProviderError";
    ProviderNotFound = "provider_not_found", "ProviderNotFoundError";
    ProviderVersion = "provider_version", "ProviderVersionError";
    Device = "device", "DeviceError";
    DeviceOutOfMemory = "device_out_of_memory", "DeviceOutOfMemoryError";
    Lane = "lane", "LaneError";
    NoEngine = "no_engine", "NoEngineError";
    LaneThread = "lane_thread", "LaneThreadError";
    LaneTask = "lane_task", "LaneTaskError";
    LaneCancelled = "lane_cancelled", "LaneCancelledError";
    Pmap = "pmap", "PmapError";
    OutOfMemory = "out_of_memory", "OutOfMemoryError";
    Internal = "internal", "InternalError";
    Interrupted = "interrupted", "KeyboardInterrupt";
}

/// One named fact of an error: an index, a size, a dtype, a label.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Detail {
    /// A count, an index or a size.
    Int(i64),
    /// A name.
    Text(String),
}

impl From<usize> for Detail {
    fn from(value: usize) -> Self {
        Detail::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<i64> for Detail {
    fn from(value: i64) -> Self {
        Detail::Int(value)
    }
}

impl From<&str> for Detail {
    fn from(value: &str) -> Self {
        Detail::Text(value.to_owned())
    }
}

impl From<String> for Detail {
    fn from(value: String) -> Self {
        Detail::Text(value)
    }
}

/// An error with its code, its sentence and its facts.
///
/// The sentence names the operand, the label, both numbers and the remedy, in that order. One pointer wide, so
/// that `Result` stays cheap on the hot path.
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: ErrorCode,
    message: String,
    operation: Option<String>,
    operand: Option<usize>,
    details: Vec<(&'static str, Detail)>,
}

/// `std::result::Result` with our error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of that code with a whole sentence.
    #[cold]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            code,
            message: message.into(),
            operation: None,
            operand: None,
            details: Vec::new(),
        }))
    }

    /// Names the operation, unless an inner room already did.
    #[must_use]
    pub fn in_operation(mut self, operation: &str) -> Self {
        if self.0.operation.is_none() {
            self.0.operation = Some(operation.to_owned());
        }
        self
    }

    /// Names the operand by its position, counted from 0.
    #[must_use]
    pub fn with_operand(mut self, operand: usize) -> Self {
        self.0.operand = Some(operand);
        self
    }

    /// Adds one named fact.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Detail>) -> Self {
        self.0.details.push((name, value.into()));
        self
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The operation's name, if a room named it.
    pub fn operation(&self) -> Option<&str> {
        self.0.operation.as_deref()
    }

    /// The operand's position, if one is to blame.
    pub fn operand(&self) -> Option<usize> {
        self.0.operand
    }

    /// The named facts, in the order in which they were added.
    pub fn details(&self) -> &[(&'static str, Detail)] {
        &self.0.details
    }

    /// One fact by its name.
    pub fn detail(&self, name: &str) -> Option<&Detail> {
        self.0
            .details
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }
}

impl Clone for Error {
    fn clone(&self) -> Self {
        Error(self.0.clone())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operation) = &self.0.operation {
            write!(f, "{operation}: ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {self}", self.0.code.class())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_and_classes_are_unique() {
        let codes: HashSet<_> = ErrorCode::ALL.iter().map(|c| c.code()).collect();
        let classes: HashSet<_> = ErrorCode::ALL.iter().map(|c| c.class()).collect();
        assert_eq!(codes.len(), ErrorCode::ALL.len());
        assert_eq!(classes.len(), ErrorCode::ALL.len());
        assert!(codes.len() >= 36);
    }

    #[test]
    fn the_inner_room_names_the_operation() {
        let error = Error::new(
            ErrorCode::Broadcast,
            "label 'b' is 4 in operand 0 and 6 in operand 1",
        )
        .with_operand(1)
        .with("label", "b")
        .in_operation("einsum")
        .in_operation("matmul");
        assert_eq!(
            error.to_string(),
            "einsum: label 'b' is 4 in operand 0 and 6 in operand 1"
        );
        assert_eq!(error.operand(), Some(1));
        assert_eq!(error.detail("label"), Some(&Detail::Text("b".to_owned())));
        assert_eq!(size_of::<Error>(), size_of::<usize>());
    }
}
