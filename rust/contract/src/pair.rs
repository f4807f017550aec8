//! A pair of tensors as matrix products, with the copies that they need.

use crate::Route;
use crate::fold::{self, A, B, C, Copies, Folding, Loop, Roles};
use crate::gemm::Gemm;
use crate::lower::{Builder, Tensor, refused};
use crate::plan::labels_text;
use crate::step::{Kind, Step, Target};
use treadle_core::Result;
use treadle_core::subscripts::Label;
use treadle_kernels::{Matrix, Product};
use treadle_strided::Nest;

impl Builder<'_> {
    pub(crate) fn product(
        &mut self,
        a: &Tensor,
        b: &Tensor,
        roles: Roles,
        last: bool,
    ) -> Result<Option<Tensor>> {
        let (dtype, isa, route) = (self.dtype(), self.isa, self.request.route);
        let copies = match route {
            Route::Gemm => Copies::None,
            Route::Transpose => Copies::Both,
            _ => Copies::Some,
        };
        let Some(folding) = fold::fold(&roles, dtype, isa, !last, copies) else {
            let labels: Vec<Label> = roles.terms.iter().map(|l| l.label).collect();
            let text = labels_text(&self.bound.names, &labels);
            return Err(refused(
                route,
                &format!(
                    "the summed labels '{text}' do not fold into one axis of both operands; use 'transpose'"
                ),
            ));
        };
        let Folding {
            copied,
            mut rows,
            mut columns,
            mut terms,
            row_core,
            column_core,
            cost_ns,
        } = folding;
        let mut batch = roles.batch;
        let name = if copied == [false; 3] {
            Route::Gemm
        } else {
            Route::Transpose
        };
        let loops = row_core.len() < rows.len() || column_core.len() < columns.len();
        self.note(name, || why(copied, loops, route), cost_ns);

        let a = &self.moved(a, copied[A], A, [&mut batch, &mut rows, &mut terms])?;
        let b = &self.moved(b, copied[B], B, [&mut batch, &mut columns, &mut terms])?;
        let placed = if last && !copied[C] {
            None
        } else {
            let mut loops: Vec<Loop> = [&batch[..], &rows, &columns].concat();
            if !columns_first(&rows, &columns, last) {
                // The denser side of the final layout is innermost here too.
                loops = [&batch[..], &columns, &rows].concat();
            }
            let result = self.result(&mut loops)?;
            for list in [&mut batch, &mut rows, &mut columns] {
                for l in list.iter_mut() {
                    l.strides[C] = result.find(l.label).map_or(0, |(_, stride)| stride);
                }
            }
            Some(result)
        };
        let row = core_axis(&rows[row_core.clone()], [A, C]);
        let column = core_axis(&columns[column_core.clone()], [B, C]);
        let term = core_axis(&terms, [A, B]);
        let product = Product {
            m: row.0,
            n: column.0,
            k: term.0,
            a: Matrix {
                row: row.1[0],
                column: term.1[0],
                conj: a.conj,
            },
            b: Matrix {
                row: term.1[1],
                column: column.1[0],
                conj: b.conj,
            },
            c: Matrix::new(row.1[1], column.1[1]),
        };
        let outside = |list: &[Loop], core: &std::ops::Range<usize>| -> Vec<Loop> {
            list.iter()
                .enumerate()
                .filter(|(at, _)| !core.contains(at))
                .map(|(_, l)| *l)
                .collect()
        };
        let loops = [batch, outside(&rows, &row_core), outside(&columns, &column_core)].concat();
        let nest = Nest::new(
            loops
                .iter()
                .map(|l| (l.extent, [l.strides[C], l.strides[A], l.strides[B]])),
        );
        let gemm = Gemm::of(dtype, isa, product, nest);
        self.steps.push(Step {
            estimate_ns: gemm.estimate_ns(),
            kind: Kind::Gemm {
                gemm: Box::new(gemm),
                inputs: [a.source, b.source],
            },
            target: placed.as_ref().map_or(Target::Out, Self::target),
        });
        if copied[A] {
            self.release(a);
        }
        if copied[B] {
            self.release(b);
        }
        match placed {
            Some(result) if last => {
                let out = self.out.clone();
                self.unary(&result, &out, Target::Out);
                self.release(&result);
                Ok(None)
            }
            other => Ok(other),
        }
    }

    /// A dense copy of a factor in the order of the lists, whose strides are filled in; or the factor itself.
    fn moved(
        &mut self,
        tensor: &Tensor,
        copied: bool,
        array: usize,
        lists: [&mut Vec<Loop>; 3],
    ) -> Result<Tensor> {
        if !copied {
            return Ok(tensor.clone());
        }
        let [batch, free, terms] = lists;
        let least = |list: &[Loop]| {
            list.iter()
                .map(|l| l.strides[array].unsigned_abs())
                .min()
                .unwrap_or(usize::MAX)
        };
        let inner_free = least(free) < least(terms);
        let (outer, inner): (&[Loop], &[Loop]) = if inner_free { (terms, free) } else { (free, terms) };
        let order: Vec<(Label, usize)> = batch
            .iter()
            .filter(|l| l.strides[array] != 0)
            .chain(outer)
            .chain(inner)
            .map(|l| (l.label, l.extent))
            .collect();
        let result = self.dense(&order)?;
        // What the tensor repeats along a batch label is one element here, not a sum.
        let mut source = tensor.clone();
        source
            .axes
            .retain(|(label, ..)| order.iter().any(|(own, _)| own == label));
        self.unary(&source, &result.axes, Self::target(&result));
        for list in [batch, free, terms] {
            for l in list.iter_mut() {
                l.strides[array] = result.find(l.label).map_or(0, |(_, stride)| stride);
            }
        }
        Ok(result)
    }
}

/// True when the columns should be innermost in a dense result.
fn columns_first(rows: &[Loop], columns: &[Loop], last: bool) -> bool {
    let least = |list: &[Loop]| {
        list.iter()
            .map(|l| l.strides[C].unsigned_abs())
            .min()
            .unwrap_or(usize::MAX)
    };
    !last || least(columns) <= least(rows)
}

/// The extent of loops that fold, and their stride in two arrays.
fn core_axis(loops: &[Loop], arrays: [usize; 2]) -> (usize, [isize; 2]) {
    let extent = loops.iter().map(|l| l.extent).product();
    (
        extent,
        loops
            .last()
            .map_or([0, 0], |inner| arrays.map(|array| inner.strides[array])),
    )
}

fn why(copied: [bool; 3], loops: bool, asked: Route) -> String {
    if copied == [false; 3] {
        return if loops {
            "folds into products of matrices inside loops, without a copy".to_owned()
        } else {
            "folds into one batched product of matrices, without a copy".to_owned()
        };
    }
    let what: Vec<&str> = ["the left operand", "the right operand", "the result"]
        .into_iter()
        .zip(copied)
        .filter(|(_, copied)| *copied)
        .map(|(what, _)| what)
        .collect();
    let reason = if asked == Route::Transpose {
        "as asked"
    } else {
        "its axes do not fold, or fold too finely"
    };
    format!("{} copied into a foldable order: {reason}", what.join(" and "))
}
