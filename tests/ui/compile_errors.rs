//! What the compiler says about each mistake, to the letter.
//!
//! A file holds mistakes of one kind, which rustc reports together, each in a function or module that is named after it.
//! Errors of types hide those of borrows and both hide lints, so these are files of their own.
//! `TRYBUILD=overwrite cargo test --test compile_errors` writes the messages again: read them as a reader who has never seen
//! this crate. The toolchain is pinned, as the words are rustc's too.

#[test]
fn each_mistake_has_its_message() {
    trybuild::TestCases::new().compile_fail("fail/*.rs");
}
