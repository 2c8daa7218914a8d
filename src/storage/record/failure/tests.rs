//! How much of a failure is kept.

use super::*;

fn failure(message: String) -> Failure {
    Failure::new(FailureKind::Error, message)
}

/// The bytes that it takes in the store.
fn stored(failure: &Failure) -> usize {
    crate::storage::value::encode(b"key", failure).len()
}

/// Branches inside branches, each with what the innermost says.
fn nested(depth: usize, inside: Failure) -> Failure {
    (0..depth).fold(inside, |inside, _| {
        failure("outer".to_owned()).in_branches(vec![("branch".to_owned(), inside)])
    })
}

/// Found in review: only the branches of the outermost failure were shortened, and a document that was quoted two branches
/// deep made a commit that no store took.
#[test]
fn what_is_quoted_is_shortened_however_deep_it_lies() {
    for depth in 0..10 {
        let bounded = nested(depth, failure("x".repeat(9_000_000))).bounded();
        assert!(stored(&bounded) < FAILURE_BYTES_MAX, "{depth}");
        let mut innermost = &bounded;
        while let Some((_, inside)) = innermost.branches.first() {
            innermost = inside;
        }
        assert!(innermost.message.starts_with("xxx"), "{depth}");
    }
    let mut quoting = failure("short".to_owned());
    quoting.causes = vec!["x".repeat(1_000_000); 100];
    quoting.path = "p".repeat(1_000_000);
    assert!(stored(&quoting.bounded()) < FAILURE_BYTES_MAX);
}

/// Found in review: all of nineteen thousand branches were named.
#[test]
fn of_many_branches_the_first_are_kept_and_the_rest_are_counted() {
    let branches = (0..19_000).map(|number| (number.to_string(), failure("no".to_owned()).at("n".repeat(200))));
    let bounded = failure("all".to_owned()).in_branches(branches.collect()).bounded();
    assert!(stored(&bounded) < FAILURE_BYTES_MAX);
    let kept = bounded.branches.len();
    assert!(kept > 100, "{kept}");
    assert_eq!(bounded.causes, [format!("and {} more", 19_000 - kept)]);
    let first = (0..kept).map(|number| number.to_string());
    assert!(bounded.branches.iter().map(|(name, _)| name.clone()).eq(first));
}

/// What follows from a failure does not change because there is much of it.
#[test]
fn one_of_every_kind_is_kept() {
    let branches = (0..19_000).map(|number| {
        let kind = if number == 18_000 {
            FailureKind::Rollback
        } else {
            FailureKind::Error
        };
        (number.to_string(), Failure::new(kind, "x".repeat(100)))
    });
    let whole = nested(3, failure("all".to_owned()).in_branches(branches.collect()));
    assert!(whole.asks_for_rollback());
    let bounded = whole.bounded();
    assert!(bounded.asks_for_rollback());
    assert!(stored(&bounded) < FAILURE_BYTES_MAX);
}

#[test]
fn a_failure_of_the_usual_size_is_kept_as_it_is() {
    let mut usual = nested(20, failure("no".to_owned()).at("a/b/c".to_owned()).after(3));
    usual.causes = vec!["why".to_owned(); 5];
    assert_eq!(usual.clone().bounded(), usual);
}
