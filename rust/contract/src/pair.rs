//! A pair of tensors as a batch of products.

use crate::Route;
use crate::fold::{self, B, C, Folding, Loop, Roles};
use crate::gemm::Gemm;
use crate::lower::{Builder, Tensor, refused};
use crate::plan::labels_text;
use crate::step::{Kind, Step, Target};
use treadle_core::Result;
use treadle_core::subscripts::Label;
use treadle_strided::Nest;

impl Builder<'_> {
    pub(crate) fn product(
        &mut self,
        a: &Tensor,
        b: &Tensor,
        mut roles: Roles,
        last: bool,
    ) -> Result<Option<Tensor>> {
        let (dtype, isa, route) = (self.dtype(), self.isa, self.request.route);
        let placed = if last {
            None
        } else {
            Some(self.placed(&mut roles)?)
        };
        let conj = [a.conj, b.conj];
        let folding = match route {
            Route::Gemm => match fold::fold_in_place(&roles, conj) {
                Some(folding) => folding,
                None => {
                    let labels: Vec<Label> = roles.terms.iter().map(|l| l.label).collect();
                    let text = labels_text(&self.bound.names, &labels);
                    return Err(refused(
                        route,
                        &format!(
                            "the summed labels '{text}' do not fold into one axis of both operands; use 'packed'"
                        ),
                    ));
                }
            },
            _ => fold::fold(&roles, conj),
        };
        let Folding {
            batch,
            axes,
            foldable,
        } = folding;
        let nest = Nest::new(
            batch
                .iter()
                .map(|l| (l.extent, [l.strides[C], l.strides[fold::A], l.strides[B]])),
        );
        let gemm = Gemm::new(dtype, isa, axes, nest, route == Route::Packed)?;
        let (name, why) = match route {
            Route::Packed => (Route::Packed, "as asked"),
            Route::Gemm => (Route::Gemm, "as asked"),
            _ if gemm.is_sums() => (
                Route::Gemm,
                "one row or column: summed where the factors stand, without a copy",
            ),
            _ if foldable => (
                Route::Gemm,
                "folds into one batched product of matrices, without a copy",
            ),
            _ => (
                Route::Packed,
                "its axes do not fold; they are packed from where they stand",
            ),
        };
        let estimate_ns = gemm.estimate_ns();
        self.note(name, || why.to_owned(), estimate_ns);
        self.steps.push(Step {
            estimate_ns,
            kind: Kind::Gemm {
                gemm: Box::new(gemm),
                inputs: [a.source, b.source],
            },
            target: placed.as_ref().map_or(Target::Out, Self::target),
        });
        Ok(placed)
    }

    /// A dense intermediate for the pair, whose strides the roles learn.
    fn placed(&mut self, roles: &mut Roles) -> Result<Tensor> {
        let by_factor = |loops: &[Loop], factor: usize| {
            let mut sorted = loops.to_vec();
            sorted.sort_by_key(|l| (std::cmp::Reverse(l.strides[factor].unsigned_abs()), l.label));
            sorted
        };
        let mut loops: Vec<Loop> = [
            &roles.batch[..],
            &by_factor(&roles.rows, fold::A),
            &by_factor(&roles.columns, B),
        ]
        .concat();
        self.prefer(&mut loops);
        let result = self.result(&mut loops)?;
        for l in [&mut roles.batch, &mut roles.rows, &mut roles.columns]
            .into_iter()
            .flatten()
        {
            l.strides[C] = result.find(l.label).map_or(0, |(_, stride)| stride);
        }
        Ok(result)
    }
}
