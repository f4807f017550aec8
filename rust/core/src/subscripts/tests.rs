use super::*;
use crate::Detail;

fn bind(text: &str, shapes: &[&[usize]]) -> Result<Bound> {
    Subscripts::parse(text)?.bind(shapes)
}

fn message(text: &str, shapes: &[&[usize]]) -> String {
    bind(text, shapes).unwrap_err().message().to_owned()
}

fn output(text: &str, shapes: &[&[usize]]) -> (String, Vec<usize>) {
    let bound = bind(text, shapes).unwrap();
    (
        bound
            .output
            .iter()
            .map(|&l| bound.names[l as usize].clone())
            .collect::<Vec<_>>()
            .join(" "),
        bound.output_shape(),
    )
}

#[test]
fn implicit_output_is_in_code_point_order() {
    for (text, names, shape) in [
        ("aB", "B a", [3, 2]),
        ("bA", "A b", [3, 2]),
        ("ba", "a b", [3, 2]),
        ("ab", "a b", [2, 3]),
    ] {
        assert_eq!(
            output(text, &[&[2, 3]]),
            (names.to_owned(), shape.to_vec()),
            "{text}"
        );
    }
    assert_eq!(output("ii", &[&[3, 3]]).1, Vec::<usize>::new());
    assert_eq!(output("i j , jk", &[&[2, 3], &[3, 4]]).1, [2, 4]);
    assert_eq!(
        output("éα,αz", &[&[2, 3], &[3, 4]]),
        ("z é".to_owned(), vec![4, 2])
    );
}

#[test]
fn ellipses_broadcast_from_the_right() {
    assert_eq!(
        output("...ij,...jk->...ik", &[&[5, 1, 2, 3], &[4, 3, 6]]).1,
        [5, 4, 2, 6]
    );
    assert_eq!(output("i...", &[&[2, 3, 4]]).1, [3, 4, 2]);
    assert_eq!(output("i...->i", &[&[3, 3, 3]]).1, [3]);
    assert_eq!(output("i->...i", &[&[3]]).1, [3]);
    assert_eq!(output("t...i,ti->t...", &[&[10, 2], &[1, 2]]).1, [10]);
    assert!(
        message("...i,...i->...", &[&[2, 5], &[3, 5]])
            .contains("'...[-1]' is 2 in operand 0 and 3 in operand 1")
    );
}

#[test]
fn length_one_broadcasts_between_operands_but_not_on_a_diagonal() {
    assert_eq!(bind("ik,jk->ij", &[&[4, 1], &[1, 3]]).unwrap().extents, [4, 1, 3]);
    assert_eq!(bind("i,i,i->", &[&[1], &[0], &[1]]).unwrap().extents, [0]);
    let error = bind("ii->i", &[&[1, 3]]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Broadcast);
}

#[test]
fn sizes_that_differ_name_label_sizes_and_operands() {
    let error = bind("aabcb,abc", &[&[3, 3, 4, 5, 6], &[3, 4, 5]]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Broadcast);
    assert_eq!(error.detail("label"), Some(&Detail::Text("b".to_owned())));
    assert!(error.message().contains("is 4 on one axis and 6"), "{error}");
    assert_eq!(
        message("A,A->A", &[&[2], &[2, 2]]),
        "operand 1 has 2 axes, but its subscripts have 1 label; '...' stands for axes without a label"
    );
    assert!(message("ij,i->", &[&[5, 1], &[2]]).contains("label 'i' is 5 in operand 0 and 2 in operand 1"));
}

#[test]
fn bad_strings_say_where() {
    for (text, part) in [
        (
            "i$j",
            "'$' is no label (labels are letters) in operand 0 at position 1",
        ),
        ("ij->->ij", "a second '->' at position 4"),
        (
            "i..j",
            "a '.' that is not part of '...' in operand 0 at position 1",
        ),
        ("i->..i", "'.' that is not part of '...' in the output"),
        ("i->&", "'&' is no label"),
        ("i-j", "'-' that is not part of '->'"),
        ("(ij,jk", "never closed"),
        ("ij),jk", "a ')' without its '('"),
        ("a(b,c)", "'(' inside an operand"),
        ("(a,b)c", "right after ')'"),
        ("i->j", "output label 'j' is in no operand"),
        ("ij->jij", "output label 'j' is repeated"),
        ("...i...->i", "operand 0 has more than one '...'"),
        ("i->i,", "',' in the output"),
        ("i1", "'1' is no label"),
    ] {
        let error = Subscripts::parse(text).unwrap_err();
        assert_eq!(error.code(), ErrorCode::Subscripts, "{text}");
        assert!(error.message().contains(part), "{text}: {error}");
    }
    assert_eq!(
        message("bix,iox->box", &[&[12, 81, 2], &[12, 81, 2]]),
        "label 'i' is 81 in operand 0 and 12 in operand 1; sizes must be equal, or 1"
    );
    assert_eq!(
        message("...i,ij->...j", &[&[], &[2, 2]]),
        "operand 0 has 0 axes, but its subscripts have 1 label"
    );
    assert_eq!(
        message("i,j", &[&[2]]),
        "the subscripts name 2 operands, but 1 was given"
    );
    assert_eq!(
        message("i", &[]),
        "the subscripts name 1 operand, but 0 were given"
    );
}

#[test]
fn empty_operands_count() {
    assert_eq!(Subscripts::parse("").unwrap().operands(), 1);
    assert_eq!(Subscripts::parse(",->").unwrap().operands(), 2);
    assert_eq!(Subscripts::parse("(,)").unwrap().operands(), 2);
    assert_eq!(output(",ij->ij", &[&[], &[2, 3]]).1, [2, 3]);
}

#[test]
fn parentheses_fix_the_order() {
    let nesting = |text: &str| {
        Subscripts::parse(text)
            .unwrap()
            .nesting()
            .map(<[Vec<usize>]>::to_vec)
    };
    assert_eq!(nesting("ij,jk"), None);
    assert_eq!(nesting("(ij,jk),kl->il"), Some(vec![vec![0, 1], vec![3, 2]]));
    assert_eq!(nesting("ij,(jk,kl)->il"), Some(vec![vec![1, 2], vec![0, 3]]));
    assert_eq!(nesting("(ij,jk)->ik"), Some(vec![vec![0, 1]]));
    assert_eq!(
        nesting("((a,b),(c,d))"),
        Some(vec![vec![0, 1], vec![2, 3], vec![4, 5]])
    );
    assert_eq!(nesting("(ij)"), None);
    let deep = format!("{}i{}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(nesting(&deep), None);
}

#[test]
fn label_lists_take_any_number_of_labels() {
    let inputs: Vec<Vec<Term>> = (0..70u32)
        .map(|i| vec![Term::Label(i * 1000), Term::Label((i + 1) * 1000)])
        .collect();
    let shapes = vec![&[2usize, 2][..]; 70];
    let bound = Subscripts::from_terms(&inputs, None, |label| label.to_string())
        .unwrap()
        .bind(&shapes)
        .unwrap();
    assert_eq!(bound.output, [0, 70]);
    assert_eq!(bound.names[70], "70000");
    let error = Subscripts::from_terms(&[vec![Term::Label(7)]], Some(&[Term::Label(9)]), |label| {
        format!("label-{label}")
    })
    .unwrap_err();
    assert!(error.message().contains("'label-9' is in no operand"), "{error}");
    assert!(Subscripts::from_terms(&[], None, |_| String::new()).is_err());
}
