use super::tree::Tree;
use super::*;
use crate::greedy::{self, Judgement};
use treadle_core::subscripts::{Label, Term};

fn bound(text: &str, shapes: &[&[usize]]) -> (Subscripts, Bound) {
    let subscripts = Subscripts::parse(text).unwrap();
    let bound = subscripts.bind(shapes).unwrap();
    (subscripts, bound)
}

fn cost(text: &str, shapes: &[&[usize]], optimize: &Optimize) -> f64 {
    let (subscripts, bound) = bound(text, shapes);
    let path = find_path(&subscripts, &bound, optimize).unwrap();
    let again = Path::from_positions(shapes.len(), &path.positions()).unwrap();
    let sorted = |path: &Path| {
        path.pairs()
            .into_iter()
            .map(|[a, b]| [a.min(b), a.max(b)])
            .collect::<Vec<_>>()
    };
    assert_eq!(sorted(&again), sorted(&path));
    path_cost(&bound, &path).flops
}

#[test]
fn wrong_paths_are_refused() {
    for (path, part) in [
        (vec![vec![0, 1]], "leaves 2 operands"),
        (
            vec![vec![0, 1], vec![0, 2]],
            "position 2 is out of range; 2 operands remain",
        ),
        (vec![vec![0, 0], vec![1, 2]], "position 0 stands twice"),
        (vec![vec![0, 1], vec![3, 2], vec![0, 4]], "out of range"),
        (
            vec![vec![0, 1], vec![0, 1], vec![0, 1]],
            "position 1 is out of range; 1 operand remain",
        ),
        (vec![vec![], vec![0, 1, 2]], "names no operand"),
        (vec![], "leaves 3 operands"),
    ] {
        let error = Path::from_positions(3, &path).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Path);
        assert!(error.message().contains(part), "{path:?}: {error}");
    }
}

#[test]
fn positions_and_numbers_agree() {
    let path = Path::from_positions(4, &[vec![1, 3], vec![0], vec![0, 1, 2]]).unwrap();
    assert_eq!(path.steps(), [vec![1, 3], vec![0], vec![2, 4, 5]]);
    assert_eq!(path.positions(), [vec![1, 3], vec![0], vec![0, 1, 2]]);
    assert_eq!(path.pairs(), [[1, 3], [2, 4], [5, 0]]);
}

#[test]
fn optimal_is_never_dearer_than_greedy() {
    let sizes = |labels: &str| -> Vec<usize> {
        labels
            .chars()
            .map(|c| [9, 5, 2][(c as usize - 'a' as usize) % 3])
            .collect()
    };
    for text in [
        "abc,bdih,dfjm,kfg,chmg->aijk",
        "db,cc,fe,fe,aa,ff,fe,cb,ea,ac->d",
        "ab,bc,cd,de,ef->af",
        "a,b,ab,cd->cd",
    ] {
        let operands: Vec<Vec<usize>> = text
            .split("->")
            .next()
            .unwrap()
            .split(',')
            .map(|labels| {
                if text.starts_with("db") {
                    vec![3; labels.len()]
                } else {
                    sizes(labels)
                }
            })
            .collect();
        let shapes: Vec<&[usize]> = operands.iter().map(Vec::as_slice).collect();
        let (optimal, greedy) = (
            cost(text, &shapes, &Optimize::Optimal),
            cost(text, &shapes, &Optimize::Greedy),
        );
        assert!(optimal <= greedy, "{text}: {optimal} {greedy}");
        assert!(optimal <= cost(text, &shapes, &Optimize::Sequential), "{text}");
    }
}

#[test]
fn a_chain_is_contracted_from_its_thin_end() {
    let shapes: [&[usize]; 3] = [&[100, 100], &[100, 100], &[100, 1]];
    for optimize in [Optimize::Optimal, Optimize::Greedy, Optimize::Auto] {
        assert_eq!(cost("ij,jk,kl->il", &shapes, &optimize), 40_000.0);
    }
    assert_eq!(cost("ij,jk,kl->il", &shapes, &Optimize::Sequential), 2_020_000.0);
    assert_eq!(cost("(ij,jk),kl->il", &shapes, &Optimize::Optimal), 2_020_000.0);
}

#[test]
fn limits_and_conflicts_are_named() {
    let shapes = vec![&[2usize][..]; 13];
    let (subscripts, bound13) = bound(&["a"; 13].join(","), &shapes);
    let error = find_path(&subscripts, &bound13, &Optimize::Optimal).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Unsupported);
    let (nested, bound3) = bound("(a,b),c", &[&[2], &[3], &[4]]);
    let error = find_path(&nested, &bound3, &Optimize::Path(vec![vec![0, 1], vec![0, 1]])).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Path);
    assert!(
        Optimize::from_name("x")
            .unwrap_err()
            .message()
            .contains("'greedy'")
    );
}

/// A connected network with that many bonds besides a tree's, and some open ends.
fn network(count: usize, more: usize, extent: usize, seed: u64) -> (Subscripts, Bound) {
    let mut state = seed;
    let mut below = move |end: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % end
    };
    let mut labels: Vec<Vec<Label>> = vec![Vec::new(); count];
    let mut extents = Vec::new();
    let mut bond = |holders: &[usize], labels: &mut Vec<Vec<Label>>, extent: usize| {
        for &holder in holders {
            labels[holder].push(extents.len() as Label);
        }
        extents.push(extent);
    };
    for at in 1..count {
        bond(&[at, below(at)], &mut labels, 2 + below(extent));
    }
    for _ in 0..more {
        let (first, second) = (below(count), below(count));
        if first != second {
            bond(&[first, second], &mut labels, 2 + below(extent));
        }
    }
    bond(&[0], &mut labels, 3);
    let output = [Term::Label(extents.len() as Label - 1)];
    let terms: Vec<Vec<Term>> = labels
        .iter()
        .map(|labels| labels.iter().map(|&label| Term::Label(label)).collect())
        .collect();
    let shapes: Vec<Vec<usize>> = labels
        .iter()
        .map(|labels| labels.iter().map(|&label| extents[label as usize]).collect())
        .collect();
    let shapes: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
    let subscripts = Subscripts::from_terms(&terms, Some(&output), |label| label.to_string()).unwrap();
    let bound = subscripts.bind(&shapes).unwrap();
    (subscripts, bound)
}

#[test]
fn refining_never_makes_an_order_dearer() {
    let mut better = 0;
    for seed in 0..20 {
        let (_, bound) = network(12 + seed as usize, 14, 4, seed);
        let pairs = greedy::pairs(&bound, Judgement::PLAIN, &[]);
        let operands = bound.inputs.len();
        let mut tree = Tree::new(&bound, &pairs, &[]);
        let cost_of = |pairs: Vec<[usize; 2]>| {
            let path = Path::from_numbers(operands, pairs.into_iter().map(|pair| pair.to_vec()).collect());
            // Every tensor once, and one left.
            let again = Path::from_positions(operands, &path.positions()).unwrap();
            assert_eq!(again.steps().len(), operands - 1);
            path_cost(&bound, &path).flops
        };
        let mut last = tree.total();
        assert_eq!(last, cost_of(pairs));
        for leaves in [3, 5, 7] {
            tree.refine(leaves, 2);
            let now = tree.total();
            assert!(now <= last * (1.0 + 1e-12), "{seed}: {now} {last}");
            let real = cost_of(tree.pairs());
            assert!((now - real).abs() <= 1e-12 * real, "{seed}: {now} {real}");
            better += usize::from(now < last);
            last = now;
        }
    }
    assert!(better > 20, "{better}");
}

#[test]
fn a_few_operands_that_cost_much_are_contracted_in_the_cheapest_order() {
    for seed in 0..30 {
        let (subscripts, bound) = network(7, 5, 40, 100 + seed);
        let cost = |optimize: Optimize| {
            let path = find_path(&subscripts, &bound, &optimize).unwrap();
            assert_eq!(find_path(&subscripts, &bound, &optimize).unwrap(), path);
            path_cost(&bound, &path).flops
        };
        let (optimal, greedy) = (cost(Optimize::Optimal), cost(Optimize::Greedy));
        // Unless it is so cheap that looking for more would cost more.
        assert!(
            greedy <= optimal * (1.0 + 1e-9) || greedy < 7.0 * 5e3,
            "{seed}: {greedy} {optimal}"
        );
    }
}

#[test]
fn of_equally_good_orders_the_one_that_needs_less_memory_is_taken() {
    // Equal matrices: from one end to the other, not in a balanced tree.
    let chain: Vec<Vec<Term>> = (0..16).map(|at| [at, at + 1].map(Term::Label).to_vec()).collect();
    let subscripts = Subscripts::from_terms(&chain, None, |label| label.to_string()).unwrap();
    let shape: &[usize] = &[4, 4];
    let bound = subscripts.bind(&[shape; 16]).unwrap();
    let pairs = find_path(&subscripts, &bound, &Optimize::Greedy).unwrap().pairs();
    let chained = pairs.windows(2).enumerate();
    let last = |at: usize| 16 + at;
    assert!(
        chained.into_iter().all(|(at, pair)| pair[1].contains(&last(at))),
        "{pairs:?}"
    );
}

#[test]
fn constants_weigh_less() {
    let (subscripts, bound) = bound("ai,ij,jk,kl->al", &[&[1, 8], &[8, 8], &[8, 8], &[8, 8]]);
    for optimize in [Optimize::Auto, Optimize::Greedy, Optimize::Optimal] {
        let free = find_path(&subscripts, &bound, &optimize).unwrap();
        assert!(free.pairs()[0].contains(&0), "{free:?}");
        let path = find_path_with(&subscripts, &bound, &optimize, &[1, 2, 3]).unwrap();
        assert!(path.pairs()[2].contains(&0), "{path:?}");
        // One constant changes nothing.
        assert_eq!(
            find_path_with(&subscripts, &bound, &optimize, &[2]).unwrap(),
            free
        );
    }
    // A given order stays.
    let given = Optimize::Path(vec![vec![0, 1], vec![0, 2], vec![0, 1]]);
    let path = find_path_with(&subscripts, &bound, &given, &[1, 2, 3]).unwrap();
    assert_eq!(path.pairs()[0], [0, 1]);
}
