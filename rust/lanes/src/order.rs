//! Results in the order of the items, and the failure of the lowest index.

/// Puts what the lanes collected, each with the index of its item, in the order of the items.
///
/// Items without a result (the map stopped before them) are `None`. Each lane keeps its own list while it runs, so
/// that a result costs no synchronisation.
pub fn in_order<T>(len: usize, lanes: impl IntoIterator<Item = Vec<(usize, T)>>) -> Vec<Option<T>> {
    let mut ordered: Vec<Option<T>> = Vec::new();
    ordered.resize_with(len, || None);
    for (index, value) in lanes.into_iter().flatten() {
        if let Some(slot) = ordered.get_mut(index) {
            debug_assert!(slot.is_none(), "item {index} has two results");
            *slot = Some(value);
        }
    }
    ordered
}

/// The failure of the lowest index.
pub fn lowest<F>(failures: impl IntoIterator<Item = (usize, F)>) -> Option<(usize, F)> {
    failures.into_iter().min_by_key(|(index, _)| *index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stand_at_the_index_of_their_item() {
        let lanes = vec![vec![(1, 'b'), (4, 'e')], vec![], vec![(3, 'd'), (0, 'a')]];
        assert_eq!(
            in_order(5, lanes),
            [Some('a'), Some('b'), None, Some('d'), Some('e')]
        );
        assert_eq!(in_order::<u8>(0, vec![]), []);
    }

    #[test]
    fn the_lowest_index_wins() {
        assert_eq!(lowest([(4, 'x'), (2, 'y'), (9, 'z')]), Some((2, 'y')));
        assert_eq!(lowest::<u8>([]), None);
    }
}
