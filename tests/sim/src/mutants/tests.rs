use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::*;

#[test]
fn each_mutant_changes_a_text_that_stands_once_in_its_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut wrong = Vec::new();
    for Mutant { name, edits, .. } in all() {
        for Edit { file, from, to } in *edits {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            let times = text.matches(from).count();
            if times != 1 || from == to {
                wrong.push(format!("{name}: {times} times in {file}: {from:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_mutant_has_a_name_of_its_own() {
    let mut names = HashSet::new();
    for Mutant { name, edits, .. } in all() {
        assert!(names.insert(name), "{name} is there twice");
        assert!(name.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase()), "{name}");
        assert!(!edits.is_empty(), "{name}");
    }
}

#[test]
fn what_chaos_finds_is_there_with_its_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../chaos");
    for (name, test) in FOUND_BY_CHAOS {
        assert!(all().any(|mutant| mutant.name == *name), "no mutant is called {name}");
        let (module, function) = test.split_once("::").unwrap_or_default();
        let text = fs::read_to_string(tests.join(format!("{module}.rs"))).unwrap_or_default();
        assert!(text.contains(&format!("fn {function}()")), "no test is called {test}");
    }
}
