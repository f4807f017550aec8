//! The routes that a contraction can take.

use std::fmt;
use treadle_core::{Error, ErrorCode, Result};

/// How a contraction is computed. A forced route is honoured or refused before any write.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Route {
    /// The plan chooses, and says which.
    #[default]
    Auto,
    /// One nested loop over all labels and all operands at once: slow, and obviously right.
    Reference,
    /// Element by element; for steps that sum nothing over both operands.
    Elementwise,
    /// Matrix products on the operands where they stand, without a copy.
    Gemm,
    /// Products of axes that need not fold: general strides are packed straight into micro-panels.
    Packed,
}

impl Route {
    /// Every route, in the order in which messages list them.
    pub const ALL: &'static [Route] = &[
        Route::Auto,
        Route::Reference,
        Route::Elementwise,
        Route::Gemm,
        Route::Packed,
    ];

    /// The option's text.
    pub const fn name(self) -> &'static str {
        match self {
            Route::Auto => "auto",
            Route::Reference => "reference",
            Route::Elementwise => "elementwise",
            Route::Gemm => "gemm",
            Route::Packed => "packed",
        }
    }

    /// The route of that name; an unknown one lists the valid ones.
    pub fn from_name(name: &str) -> Result<Route> {
        Route::ALL
            .iter()
            .copied()
            .find(|route| route.name() == name)
            .ok_or_else(|| {
                let valid: Vec<String> = Route::ALL.iter().map(|route| format!("'{route}'")).collect();
                Error::new(
                    ErrorCode::Argument,
                    format!("route must be one of {}, not '{name}'", valid.join(", ")),
                )
                .with("argument", "route")
            })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
