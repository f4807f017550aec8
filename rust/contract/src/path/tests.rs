use super::*;

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
    let shapes: [&[usize]; 5] = [
        &[9, 5, 2],
        &[5, 2, 9, 5],
        &[2, 5, 5, 2],
        &[9, 5, 2],
        &[2, 5, 2, 2],
    ];
    let _ = shapes;
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
