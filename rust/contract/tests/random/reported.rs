//! What a plan's line about a product says, as numbers.

/// A product of matrices as a plan tells it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Product {
    /// Rows, columns and terms as they are computed.
    pub(crate) extents: [usize; 3],
    /// Rows, columns and terms of a block, when the product is packed.
    pub(crate) block: Option<[usize; 3]>,
    pub(crate) in_place: bool,
    pub(crate) several_axes: bool,
    /// Tile, dtype and instruction set of the kernel, as `8x4 float64 avx2`.
    pub(crate) kernel: Option<String>,
}

impl Product {
    /// Which of rows, columns and terms are more than one block has.
    pub(crate) fn is_beyond_a_block(&self) -> [bool; 3] {
        let block = self.block.unwrap_or([usize::MAX; 3]);
        [0, 1, 2].map(|at| self.extents[at] > block[at])
    }
}

fn triple(text: &str) -> Option<[usize; 3]> {
    let numbers: Vec<usize> = text.split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
    numbers.try_into().ok()
}

/// The product of a step, if it is one: `product 40x50x60 (packed, tiles 8x4 float64 avx2, blocks 40x52x60), ...`.
pub(crate) fn product(step: &str) -> Option<Product> {
    let told = step.split_once("product ")?.1;
    let (extents, _) = told.split_once(' ')?;
    let mut extents = triple(extents)?;
    let parts = told.split_once('(')?.1.split_once(')')?;
    if parts.1.starts_with(" transposed") {
        extents.swap(0, 1);
    }
    let after = |word: &str| {
        let text = parts.0.split_once(word)?.1;
        Some(text.split(',').next().unwrap_or(text))
    };
    Some(Product {
        extents,
        block: after("blocks ").and_then(triple),
        in_place: parts.0.starts_with("in place"),
        several_axes: parts.0.contains("loops"),
        kernel: after("tiles ").map(str::to_owned),
    })
}

#[test]
fn a_line_is_read() {
    let line = "each part of 'a': product 40x50x60 times 3 (packed, tiles 8x4 float64 avx2, blocks 48x40x32, axes of 2, 1 \
                and 1 loops) transposed, operand 0 * operand 1 -> out";
    let found = product(line).unwrap();
    assert_eq!((found.extents, found.block), ([50, 40, 60], Some([48, 40, 32])));
    assert_eq!(found.kernel.as_deref(), Some("8x4 float64 avx2"));
    assert_eq!(found.is_beyond_a_block(), [true, false, true]);
    assert!(found.several_axes && !found.in_place);
    let line = "product 7x9x2 (in place, tiles 24x8 float64 avx512, 1 pieces), operand 0 * operand 1 -> out";
    let found = product(line).unwrap();
    assert_eq!(
        (found.extents, found.block, found.in_place),
        ([7, 9, 2], None, true)
    );
    assert_eq!(product("copy 20 elements, operand 0 -> out"), None);
}
