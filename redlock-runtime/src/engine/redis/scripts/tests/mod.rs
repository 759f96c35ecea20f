mod names;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::base::tick::{SETTLES, early};
use crate::engine::protocol::{CLAIM, QUEUE_TTL};
use crate::engine::redis::connect::fence_floor::{BEHIND, LEAST};
use names::Names;

const PLAIN: Dialect = Dialect { sharded: false, reads_parts: true };
const SHARDED: Dialect = Dialect { sharded: true, reads_parts: true };

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/engine/redis/scripts").join(name)
}

/// The texts of the files of a folder, by their names.
fn texts(name: &str) -> HashMap<String, String> {
    let files = std::fs::read_dir(folder(name)).unwrap().map(|file| file.unwrap().path());
    let text = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    files.map(text).collect()
}

/// `UPDATE_SNAPSHOTS=1` writes them.
#[test]
fn what_is_built_is_what_a_server_gets_with_its_comments() {
    let (commands, includes, mut built) = (texts("commands"), texts("includes"), texts("built"));
    let names = |texts: &HashMap<String, String>| {
        let mut names: Vec<_> = texts.keys().cloned().collect();
        names.sort();
        names
    };
    let mut scripts: Vec<_> = Script::ALL.iter().map(|script| script.name().to_owned()).collect();
    scripts.sort();
    assert_eq!(names(&commands), scripts);
    assert_eq!(names(&includes), INCLUDES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    for script in Script::ALL {
        let name = script.name();
        let text = joined(name, &|file| match file {
            File::Command(name) => commands.get(name).unwrap_or_else(|| panic!("no command {name}")),
            File::Include(name) => includes.get(name).unwrap_or_else(|| panic!("no include {name}")),
        });
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(folder("built").join(format!("{name}.lua")), &text).unwrap();
            built.insert(name.to_owned(), text.clone());
        }
        assert!(built.get(name) == Some(&text), "{name}: run it with UPDATE_SNAPSHOTS=1");
        let lines = text.split_inclusive('\n').map(|line| line.trim_start_matches([' ', '\n']));
        let code: String = lines.filter(|line| !line.starts_with("--")).collect();
        assert_eq!(code, script.source(PLAIN), "{name}");
    }
    assert_eq!(names(&built), scripts);
}

#[test]
fn each_name_in_a_script_is_declared_once_and_used() {
    for script in Script::ALL {
        for sharded in [false, true] {
            let source = script.source(Dialect { sharded, reads_parts: true });
            let problems = Names::of_script(source).problems;
            assert!(problems.is_empty(), "{script:?}: {problems:?}");
        }
    }
}

/// An include takes what it names, and has no keys and arguments of its own. A file names what it takes
/// from another one.
#[test]
fn each_file_names_what_it_takes_from_others() {
    let (commands, includes) = (texts("commands"), texts("includes"));
    let mut problems = Vec::new();
    for (folder, texts) in [("commands", &commands), ("includes", &includes)] {
        for (name, text) in texts {
            let found = Names::of_file(text, folder == "includes", &includes).problems;
            problems.extend(found.into_iter().map(|problem| format!("{folder}/{name}: {problem}")));
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn mistakes_with_names_are_found() {
    let includes = HashMap::from([
        ("one".to_owned(), "--- @with key\nlocal function one() return key end\n".to_owned()),
        ("two".to_owned(), "local function two() end\n".to_owned()),
    ]);
    for (script, problem) in [
        ("local a = 1\nreturn b", "b is not declared"),
        ("do local a = 1 end\nreturn a", "a is not declared"),
        ("local a = a\nreturn a", "a is not declared"),
        ("for i = 1, 2 do KEYS[i] = i end\nreturn i", "i is not declared"),
        ("local a = 1\nlocal a = 2\nreturn a", "a is declared twice"),
        ("local a, b = 1\nreturn {b = a}", "b is not used"),
        ("local function f(a) end\nreturn f()", "a is not used"),
    ] {
        assert!(Names::of_script(script).problems.iter().any(|found| found == problem), "{script}");
    }
    for (file, problem) in [
        ("--- @include \"one\" (key)\nreturn one()", "key is not declared"),
        ("local key = 1\n--- @include \"one\"\nreturn one(key)", "one takes [\"key\"]"),
        ("return two()", "two is not declared"),
        ("--- @include \"two\"\nreturn 1", "nothing of two is used"),
        ("--- @include \"three\"\nreturn 1", "there is no three"),
    ] {
        let problems = Names::of_file(file, false, &includes).problems;
        assert!(problems.iter().any(|found| found == problem), "{file}: {problems:?}");
    }
    for (include, problem) in [
        ("local function f() return KEYS[1] end", "KEYS is not declared"),
        ("return 1", "it returns"),
        ("--- @with a\nlocal function f() end", "a is not used"),
    ] {
        let problems = Names::of_file(include, true, &includes).problems;
        assert!(problems.iter().any(|found| found == problem), "{include}: {problems:?}");
    }
}

#[test]
fn where_access_rules_forbid_getrange_no_script_calls_it() {
    for script in Script::ALL {
        for sharded in [false, true] {
            let source = script.source(Dialect { sharded, reads_parts: false });
            assert!(!source.contains("GETRANGE"), "{source}");
        }
    }
}

#[test]
fn a_server_gets_the_lines_of_a_file_without_comments_and_indentation() {
    const FILE: &[u8] = b"-- Takes it.\n--- @with a\n--- @include \"b\" (c, d)\n\nif free then\n  -- Now.\n  take('--') -- it\nend\n";
    const CODE: [u8; code_length(FILE)] = code(FILE);
    assert_eq!(std::str::from_utf8(&CODE), Ok("--- @include \"b\" \nif free then\ntake('--') -- it\nend\n"));
    for script in Script::ALL {
        let source = script.source(SHARDED);
        assert!(source.is_ascii() && source.ends_with('\n'), "{source}");
        assert!(source.lines().all(|line| !line.is_empty() && !line.starts_with([' ', '-'])), "{source}");
    }
}

#[test]
fn scripts_and_engine_use_the_same_numbers() {
    let source = Script::Acquire.source(PLAIN);
    for (name, number) in [
        ("CLAIM", CLAIM.as_millis()),
        ("QUEUE_TTL", QUEUE_TTL.as_millis()),
        ("BEHIND", BEHIND.as_micros()),
        ("LEAST", LEAST.into()),
    ] {
        let [plain, text] = [format!("local {name} = {number}"), format!("local {name} = '{number}'")];
        assert!(source.lines().any(|line| line == plain || line == text), "{name}");
    }
    let claim_and_grace = format!("local CLAIM_AND_GRACE = '{}'\n", CLAIM.as_millis() + 100);
    for line in [&*claim_and_grace, "local GRACE = 100\n"] {
        assert!(Script::Release.source(PLAIN).contains(line), "{line}");
    }
    let numbers = format!("local MOST_EARLY, SETTLES = {}, {}\n", early(u64::MAX), SETTLES.as_millis());
    assert!(Script::Tick.code().contains(&numbers), "{numbers}");
}

#[test]
fn in_a_cluster_only_a_hint_is_published_to_all_nodes() {
    let (in_a_cluster, others): (Vec<_>, Vec<_>) =
        INCLUDES.iter().partition(|(name, _)| name.ends_with("_sharded"));
    for (name, code) in others {
        let is_replaced = in_a_cluster.iter().any(|(other, _)| other.strip_suffix("_sharded") == Some(name));
        let publishes = code.contains("'PUBLISH'") || code.contains("'NUMSUB'");
        assert_eq!(publishes, is_replaced, "{name}");
        let remains = Script::ALL.iter().any(|script| script.source(SHARDED).contains(code));
        assert!(!publishes || !remains, "{name}");
    }
    for script in Script::ALL {
        assert!(!script.code().contains("'PUBLISH'") && !script.code().contains("'NUMSUB'"), "{script:?}");
    }
}
