//! The compiler's exact messages for each mistake.
//!
//! A file holds mistakes of one kind, which rustc reports together, each in a function or module
//! that is named after it. Type errors hide borrow errors and both hide lints, so each of these has
//! its own files. `TRYBUILD=overwrite cargo test --test compile_errors` writes the messages again:
//! read them as a reader who has never seen this crate. The toolchain is pinned, as the words are
//! rustc's too.

#[test]
fn each_mistake_has_its_message() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
