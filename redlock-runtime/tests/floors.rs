//! The house: arrows between files point down only, and each floor names what it may.
//!
//! Reads the sources as text. What only tests see does not count, and neither does a child that
//! names its parent: together they are one module.
#![allow(clippy::expect_used, reason = "a source that cannot be read fails the test where it is read")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of a crate by module: `engine::lock_table::held`; the root is the empty name.
struct Crate {
    files: BTreeMap<String, String>,
}

impl Crate {
    fn read(sources: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(sources);
        let mut paths = Vec::new();
        collect(&root, &mut paths);
        assert!(paths.len() > 10, "{} is not where the sources are", root.display());
        let mut files = BTreeMap::new();
        let mut for_tests = Vec::new();
        for path in &paths {
            let module = module_of(path.strip_prefix(&root).expect("it was found there"));
            let text = without_tests(&fs::read_to_string(path).expect("a source that can be read"));
            for name in text.lines().collect::<Vec<_>>().windows(2).filter_map(|lines| match lines {
                ["#[cfg(test)]", next] => next.strip_prefix("mod ")?.strip_suffix(';'),
                _ => None,
            }) {
                for_tests.push(join(&module, name));
            }
            files.insert(module, text);
        }
        files.retain(|module, _| !for_tests.iter().any(|test| module == test || is_below(module, test)));
        Self { files }
    }

    /// What a file imports, or names by a whole path.
    fn imports(&self, module: &str) -> BTreeSet<String> {
        let text = &self.files[module];
        let mut paths = Vec::new();
        for statement in text.split(';') {
            if let Some(at) = statement.rfind("use ").filter(|at| is_start_of_line(statement, *at)) {
                flatten(&statement[at + 4..], &mut paths);
            }
        }
        paths.extend(
            text.match_indices("crate::")
                .chain(text.match_indices("super::"))
                .map(|(at, _)| path_at(text, at)),
        );
        let imported = paths.iter().filter_map(|path| self.file_of(module, path));
        imported.filter(|other| other != module && !is_below(module, other)).collect()
    }

    /// The module in which the path `super::held::Held` ends.
    fn file_of(&self, module: &str, path: &str) -> Option<String> {
        let mut at = module.to_owned();
        let mut segments = path.split("::").map(str::trim).peekable();
        match segments.peek()? {
            &"crate" => {
                at = String::new();
                segments.next();
            }
            &"self" => drop(segments.next()),
            &"super" => {}
            first if self.files.contains_key(&join(module, first)) => {}
            _ => return None,
        }
        while segments.next_if_eq(&"super").is_some() {
            at = at.rsplit_once("::").map_or_else(String::new, |(parent, _)| parent.to_owned());
        }
        for segment in segments {
            let next = join(&at, segment);
            if !self.files.contains_key(&next) {
                break;
            }
            at = next;
        }
        (!at.is_empty()).then_some(at)
    }

    /// Files that import each other, in a row of which the last imports the first.
    fn circle(&self) -> Option<Vec<String>> {
        let imports: BTreeMap<&String, _> =
            self.files.keys().map(|file| (file, self.imports(file))).collect();
        circle_of(&imports)
    }
}

fn walk(
    file: &String,
    imports: &BTreeMap<&String, BTreeSet<String>>,
    row: &mut Vec<String>,
    done: &mut BTreeSet<String>,
) -> Option<Vec<String>> {
    if let Some(at) = row.iter().position(|before| before == file) {
        return Some(row.split_off(at));
    }
    if !done.contains(file) {
        row.push(file.clone());
        for next in &imports[file] {
            if let Some(circle) = walk(next, imports, row, done) {
                return Some(circle);
            }
        }
        row.pop();
        done.insert(file.clone());
    }
    None
}

/// The types of some files, with the methods and the fields of each, and who calls and names them.
///
/// Read as text, by the words of this house: `self` is the type of the `impl` around it, and any
/// other receiver is of the type that it is named after (`held` is a `Held`, `table` a `LockTable`,
/// `cx` a `Context`).
struct Types<'a> {
    files: BTreeMap<&'a String, &'a String>,
    /// By type and method, the files where an `impl` has it.
    methods: BTreeMap<(&'a str, &'a str), BTreeSet<&'a String>>,
    /// By type and field, the file that defines it and keeps it to itself.
    fields: BTreeMap<(&'a str, &'a str), &'a String>,
}

impl<'a> Types<'a> {
    fn of(files: BTreeMap<&'a String, &'a String>) -> Self {
        let (mut methods, mut fields) = (BTreeMap::<_, BTreeSet<_>>::new(), BTreeMap::new());
        for (file, text) in &files {
            for (kind, owner, body) in items(text) {
                for line in body.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     "))
                {
                    let is_for_others = line.starts_with("    pub");
                    let line = without_visibility(line.trim_start());
                    if kind == "impl"
                        && let Some(method) = line.strip_prefix("fn ")
                    {
                        methods.entry((owner, word(method))).or_default().insert(*file);
                    } else if kind == "struct"
                        && !is_for_others
                        && line.starts_with(|letter: char| letter.is_ascii_lowercase())
                    {
                        fields.insert((owner, word(line)), *file);
                    }
                }
            }
        }
        Self { files, methods, fields }
    }

    /// `Held` for `held`; the type around it for `self`.
    fn named<'t>(&self, receiver: &'t str, around: &'t str) -> &'t str
    where
        'a: 't,
    {
        match receiver {
            "self" | "Self" => around,
            "table" => "LockTable",
            "cx" => "Context",
            _ if receiver.starts_with(char::is_uppercase) => receiver,
            _ => {
                let is_it = |owner: &str| owner.eq_ignore_ascii_case(&receiver.replace('_', ""));
                let owners = self.methods.keys().map(|(owner, _)| *owner);
                owners
                    .chain(self.fields.keys().map(|(owner, _)| *owner))
                    .find(|owner| is_it(owner))
                    .unwrap_or("")
            }
        }
    }

    /// Each `receiver.name` and `Type::name` of a file: the type, the name, and whether it is
    /// called.
    fn uses(&self, file: &String) -> Vec<(&str, &str, bool)> {
        let mut found = Vec::new();
        for (_, around, body) in items(self.files[file]) {
            for (at, dot) in body.match_indices('.').chain(body.match_indices("::")) {
                let before = &body[..at];
                let start = before.rfind(|letter: char| !is_of_word(letter)).map_or(0, |at| at + 1);
                // `self.outbox.push` is a call of what the field is.
                if start < at && !before[..start].ends_with('.') {
                    let name = word(&body[at + dot.len()..]);
                    let rest = &body[at + dot.len() + name.len()..];
                    let is_called = rest.starts_with('(') || dot == "::";
                    found.push((self.named(&before[start..], around), name, is_called));
                }
            }
        }
        found
    }

    /// The files whose methods each file calls.
    fn calls(&self) -> BTreeMap<&'a String, BTreeSet<String>> {
        let of = |file: &'a String| {
            let uses = self.uses(file);
            let called = uses.iter().filter(|(_, _, is_called)| *is_called);
            let there = called.filter_map(|(owner, name, _)| self.methods.get(&(*owner, *name)));
            there.filter(|there| !there.contains(file)).flatten().map(|file| (*file).clone()).collect()
        };
        self.files.keys().map(|file| (*file, of(file))).collect()
    }

    /// The fields that a file names although another one defines them.
    fn foreign_fields(&self) -> BTreeSet<String> {
        let mut foreign = BTreeSet::new();
        for file in self.files.keys() {
            for (owner, name, is_called) in self.uses(file) {
                // What a method takes beside its lock: its fields are arguments.
                if !is_called
                    && owner != "Context"
                    && self.fields.get(&(owner, name)).is_some_and(|own| own != file)
                {
                    foreign.insert(format!("{file} names {owner}.{name}"));
                }
            }
        }
        foreign
    }
}

/// The structs and the `impl`s of a file: which of the two, the type, and the body.
fn items(text: &str) -> Vec<(&'static str, &str, &str)> {
    let starts = text.match_indices('\n').map(|(at, _)| at + 1).chain([0]);
    let item = |at: usize| {
        let line = without_visibility(&text[at..]);
        let kind = ["struct", "impl"].into_iter().find(|kind| line.starts_with(kind))?;
        let (head, body) = line[kind.len()..].split_once("{\n")?;
        let owner = head.rsplit_once(" for ").map_or(head, |(_, owner)| owner);
        let owner = if owner.starts_with('<') { owner.split_once("> ")?.1 } else { owner };
        let body = body.split_once("\n}").map_or(body, |(body, _)| body);
        (!head.contains(';')).then_some((kind, word(owner.trim()), body))
    };
    starts.filter_map(item).collect()
}

fn without_visibility(line: &str) -> &str {
    let Some(rest) = line.strip_prefix("pub") else { return line };
    rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")).map_or(rest.trim_start(), |(_, rest)| rest)
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn word(text: &str) -> &str {
    &text[..text.find(|letter: char| !is_of_word(letter)).unwrap_or(text.len())]
}

fn circle_of(arrows: &BTreeMap<&String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut done = BTreeSet::new();
    arrows.keys().find_map(|start| walk(start, arrows, &mut Vec::new(), &mut done))
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder that can be read") {
        let path = entry.expect("an entry that can be read").path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
}

fn module_of(file: &Path) -> String {
    let file = file.with_extension("");
    let mut parts: Vec<_> = file.iter().map(|part| part.to_str().expect("a name in UTF-8")).collect();
    if matches!(parts.last(), Some(&"mod" | &"lib")) {
        parts.pop();
    }
    parts.join("::")
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn is_below(module: &str, other: &str) -> bool {
    module.strip_prefix(other).is_some_and(|rest| rest.starts_with("::"))
}

/// The code of a file: no comments, and nothing from its unit tests on.
fn without_tests(text: &str) -> String {
    let tests = ["\n#[cfg(test)]\nmod tests {", "\n#[cfg(test)]\npub(crate) mod tests {"];
    let end = tests.iter().filter_map(|tests| text.find(tests)).min().unwrap_or(text.len());
    let code = |line: &&str| !line.trim_start().starts_with("//");
    text[..end].lines().filter(code).flat_map(|line| [line, "\n"]).collect()
}

fn is_start_of_line(text: &str, at: usize) -> bool {
    let line = text[..at].rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty() || line.trim().starts_with("pub") && !line.contains("fn")
}

/// `a::{b, c::{d, e}}` is `a::b`, `a::c::d` and `a::c::e`.
fn flatten(tree: &str, paths: &mut Vec<String>) {
    let Some((head, rest)) = tree.split_once('{') else {
        paths.push(tree.split(" as ").next().unwrap_or(tree).trim().to_owned());
        return;
    };
    let rest = rest.rsplit_once('}').map_or(rest, |(inside, _)| inside);
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in rest.char_indices().chain([(rest.len(), ',')]) {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = rest[start..at].trim();
                start = at + 1;
                if !part.is_empty() {
                    flatten(&format!("{}{part}", head.trim()), paths);
                }
            }
            _ => {}
        }
    }
}

fn path_at(text: &str, at: usize) -> String {
    let is_path = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    text[at..]
        .chars()
        .take_while(|letter| is_path(*letter))
        .collect::<String>()
        .trim_end_matches(':')
        .to_owned()
}

/// Lines that name the crate `redis`, not our module of that name.
fn names_the_client(text: &str) -> bool {
    text.match_indices("redis::").any(|(at, _)| {
        let before = text[..at].chars().next_back().unwrap_or('\n');
        !(before.is_alphanumeric() || before == '_' || before == ':')
    })
}

#[test]
fn no_file_of_the_runtime_is_in_a_circle_of_imports() {
    assert_eq!(Crate::read("src").circle(), None);
}

#[test]
fn no_file_of_the_macros_is_in_a_circle_of_imports() {
    assert_eq!(Crate::read("../redlock-macros/src").circle(), None);
}

#[test]
fn the_redis_client_is_named_only_where_the_caller_gives_one() {
    let runtime = Crate::read("src");
    // A client says where the locks are, and a fenced write goes over a connection of the caller's own.
    let allowed = ["address::of_client", "fenced_redis"];
    for (module, text) in &runtime.files {
        // In tests it reads what our code reads, too.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_allowed = allowed.contains(&module.as_str());
        assert!(is_allowed || !names_the_client(text), "{module} names the crate `redis`");
    }
    for module in allowed {
        assert!(names_the_client(&runtime.files[module]), "the test sees it where it is");
    }
}

#[test]
fn the_table_knows_no_io_no_clock_and_nothing_above_the_protocol() {
    let runtime = Crate::read("src");
    let table = || {
        runtime
            .files
            .keys()
            .filter(|module| *module == "engine::lock_table" || is_below(module, "engine::lock_table"))
    };
    assert!(table().count() > 5, "the table is there");
    for module in table() {
        for other in runtime.imports(module) {
            let floors = ["engine::topology", "engine::redis", "engine::event_loop", "engine::handle"];
            assert!(
                !floors.iter().any(|floor| other == *floor || is_below(&other, floor)),
                "{module} names {other}"
            );
        }
        for forbidden in
            ["Moment::now", "Instant::now", "SystemTime", "mpsc", "tokio::net", "tokio::time", "spawn"]
        {
            assert!(!runtime.files[module].contains(forbidden), "{module} has {forbidden}");
        }
    }
}

/// True of a type with methods of its own. Whoever sets a flag, a number or a time has to know what
/// else changes with it.
fn is_part(of: &str) -> bool {
    let plain = ["bool", "u8", "u16", "u32", "u64", "usize", "Id", "Duration", "Moment", "Option", "Vec"];
    !of.starts_with(['&', '(']) && !plain.contains(&word(of))
}

fn table_of(runtime: &Crate) -> Types<'_> {
    let is_table = |file: &&String| *file == "engine::lock_table" || is_below(file, "engine::lock_table");
    Types::of(runtime.files.iter().filter(|(file, _)| is_table(file)).collect())
}

#[test]
fn the_calls_of_the_table_go_down_only() {
    let runtime = Crate::read("src");
    let table = table_of(&runtime);
    let calls = table.calls();
    assert!(calls.values().map(BTreeSet::len).sum::<usize>() > 20, "the test sees them: {calls:?}");
    assert_eq!(circle_of(&calls), None);
}

#[test]
fn no_file_of_the_table_names_a_flag_a_number_or_a_time_of_another() {
    let runtime = Crate::read("src");
    let table = table_of(&runtime);
    assert!(
        table.fields.contains_key(&("Attempts", "holder")),
        "the test sees them: {:?}",
        table.fields.keys()
    );
    assert_eq!(table.foreign_fields(), BTreeSet::new());
    for (file, text) in &table.files {
        for (_, owner, body) in
            items(text).into_iter().filter(|(kind, owner, _)| *kind == "struct" && *owner != "Context")
        {
            for line in body.lines().filter(|line| line.starts_with("    pub")) {
                let (_, of) = line.split_once(": ").expect("a field and its type");
                assert!(is_part(of), "{file}: a field of {owner} is for others, and no part: {line}");
            }
        }
    }
}

#[test]
fn the_transport_and_the_client_know_nothing_of_the_table() {
    let runtime = Crate::read("src");
    for module in runtime.files.keys() {
        let below = ["engine::topology", "engine::redis"]
            .into_iter()
            .find(|floor| module == floor || is_below(module, floor));
        let Some(floor) = below else { continue };
        for other in runtime.imports(module) {
            let forbidden = other == "engine::lock_table"
                || is_below(&other, "engine::lock_table")
                || other == "engine::event_loop";
            let upwards = floor == "engine::redis"
                && (other == "engine::topology" || is_below(&other, "engine::topology"));
            assert!(!forbidden && !upwards, "{module} names {other}");
        }
    }
}

#[test]
fn the_ground_names_nothing_above_it() {
    let runtime = Crate::read("src");
    let is_ground = |module: &str| module == "base" || is_below(module, "base");
    for module in runtime.files.keys().filter(|module| is_ground(module)) {
        for other in runtime.imports(module) {
            assert!(is_ground(&other), "{module} names {other}");
        }
    }
    let is_protocol = |module: &str| module == "engine::protocol" || is_below(module, "engine::protocol");
    for module in runtime.files.keys().filter(|module| is_protocol(module)) {
        for other in runtime.imports(module) {
            let is_known = is_ground(&other) || is_protocol(&other) || other == "engine::slots";
            assert!(is_known, "{module} names {other}");
        }
    }
}

#[test]
fn no_package_compiles_the_files_of_another() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for folder in ["src", "tests", "benches", "examples", "fuzz", "redlock-macros", "redlock-runtime"] {
        collect(&root.join(folder), &mut paths);
    }
    assert!(paths.len() > 100, "{} is the root", root.display());
    let included = "#[path = \"..";
    for path in paths.iter().filter(|path| !path.ends_with(file!())) {
        let text = fs::read_to_string(path).expect("a source that can be read");
        assert!(!text.contains(included), "{} includes a file of another folder", path.display());
    }
}

#[test]
fn circles_and_paths_are_seen() {
    let files = [
        ("a", "use crate::b::B;\n"),
        ("b", "pub(crate) use super::c::{self, D};\n"),
        ("c", "fn f() { crate::a::g() }\n"),
        ("a::child", "use super::A;\n"),
    ];
    let files = files.map(|(module, text)| (module.to_owned(), text.to_owned()));
    let tree = Crate { files: files.into_iter().collect() };
    assert_eq!(tree.circle(), Some(["a", "b", "c"].map(str::to_owned).to_vec()));
    assert!(tree.imports("a::child").is_empty());
    let files = [
        (
            "a",
            "pub(super) struct Held {\n    name: u8,\n}\n\nimpl Held {\n    fn a(&self) {\n        self.b();\n    }\n}\n",
        ),
        (
            "b",
            "impl Held {\n    pub(super) fn b(&self) {\n        self.name;\n    }\n    fn c(held: Held) {\n        held.a();\n    }\n}\n",
        ),
    ];
    let files = files.map(|(module, text)| (module.to_owned(), text.to_owned()));
    let table = Types::of(files.iter().map(|(module, text)| (module, text)).collect());
    assert_eq!(circle_of(&table.calls()), Some(["a", "b"].map(str::to_owned).to_vec()));
    assert_eq!(table.foreign_fields(), BTreeSet::from(["b names Held.name".to_owned()]));
    assert!(names_the_client("    redis::cmd") && !names_the_client("use super::redis::node;"));
}
