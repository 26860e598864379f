//! The order in which loads have their turns within a round: each load follows each other load equally often (Williams
//! 1949, Australian Journal of Scientific Research A 2).

/// Orders of `count` things in which each directly follows each other one equally often: once in `count` orders if
/// `count` is even, twice in `2 * count` orders if it is odd.
pub(crate) fn balanced(count: usize) -> Vec<Vec<usize>> {
    let zigzag = |at: usize| if at % 2 == 1 { at.div_ceil(2) } else { (count - at / 2) % count };
    let order = |shift: usize| -> Vec<usize> { (0..count).map(|at| (zigzag(at) + shift) % count).collect() };
    let mut orders: Vec<Vec<usize>> = (0..count).map(order).collect();
    if count % 2 == 1 {
        let turned: Vec<Vec<usize>> = orders.iter().map(|order| order.iter().rev().copied().collect()).collect();
        orders.extend(turned);
    }
    orders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_comes_after_each_other_equally_often() {
        for count in 1..9 {
            let mut after: BTreeMap<(usize, usize), usize> = BTreeMap::new();
            for order in balanced(count) {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..count), "{order:?}");
                order.windows(2).for_each(|pair| *after.entry((pair[0], pair[1])).or_default() += 1);
            }
            let times = after.values().next().copied().unwrap_or(0);
            assert_eq!(after.len(), count * (count - 1), "{after:?}");
            assert!(after.values().all(|of| *of == times), "{after:?}");
        }
    }
}
