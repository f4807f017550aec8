//! What a plan is made from.

use crate::{Optimize, Route};
use treadle_core::{DType, layout::Order, subscripts::Subscripts};
use treadle_kernels::Isa;

/// One operand as the plan sees it: no pointer, strides in elements.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct OperandSpec {
    /// Extent of each axis.
    pub shape: Vec<usize>,
    /// Stride of each axis in elements; any sign, zero repeats.
    pub strides: Vec<isize>,
    /// Read conjugated.
    pub conj: bool,
}

/// Everything that a plan depends on; also the key of a plan cache.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PlanRequest {
    /// The one dtype of operands, intermediates and result. `float16` and `bfloat16` are converted before.
    pub dtype: DType,
    /// The subscripts.
    pub subscripts: Subscripts,
    /// The operands, in order.
    pub operands: Vec<OperandSpec>,
    /// Shape and strides of the caller's output; `None` for a fresh one, whose strides the plan tells.
    pub out: Option<(Vec<usize>, Vec<isize>)>,
    /// Memory order of a fresh output.
    pub order: Order,
    /// The order of pairwise steps.
    pub optimize: Optimize,
    /// The route.
    pub route: Route,
    /// Restricts kernels; `None` is the best that this machine has.
    pub isa: Option<Isa>,
    /// Elements that an intermediate may have at most; where one would have more, labels are sliced.
    pub memory_limit: Option<usize>,
    /// Positions of operands that do not change: what depends on them alone is computed once, by `Plan::prepare`.
    pub constants: Vec<usize>,
}

impl PlanRequest {
    /// A request with every option at its default.
    pub fn new(dtype: DType, subscripts: Subscripts, operands: Vec<OperandSpec>) -> Self {
        PlanRequest {
            dtype,
            subscripts,
            operands,
            out: None,
            order: Order::K,
            optimize: Optimize::Auto,
            route: Route::Auto,
            isa: None,
            memory_limit: None,
            constants: Vec::new(),
        }
    }
}
