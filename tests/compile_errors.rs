//! What the compiler says about each mistake, to the letter; and what must compile.
//!
//! One mistake a file, named after it. `TRYBUILD=overwrite cargo test --test compile_errors` writes the messages anew:
//! read them as somebody who has never seen this crate. The toolchain is pinned, as the words are rustc's too.

#[test]
fn each_mistake_has_its_message() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}

#[test]
fn what_is_right_compiles() {
    trybuild::TestCases::new().pass("tests/ui/pass/*.rs");
}
