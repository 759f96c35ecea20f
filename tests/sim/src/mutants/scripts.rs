//! Mutants of scripts alone need no build: the servers execute another text than the one that clients send.

use std::fs;
use std::path::Path;

use super::Mutant;

impl Mutant {
    /// True when all its edits are in scripts.
    #[must_use]
    pub fn is_of_scripts(&self) -> bool {
        self.edits.iter().all(|edit| Path::new(edit.file).extension().is_some_and(|of| of == "lua"))
    }

    /// A script as the mutant has it. It has what stands in a file between the lines that name others.
    #[must_use]
    pub fn rewritten(&self, script: &str) -> String {
        let mut script = script.to_owned();
        for edit in self.edits {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(edit.file);
            let file = fs::read_to_string(path).unwrap_or_default();
            // An earlier edit of the same file is in the script already.
            let before = self.edits.iter().take_while(|other| !std::ptr::eq(*other, edit));
            let before = before.filter(|other| other.file == edit.file);
            let file = before.fold(file, |file, other| file.replace(other.from, other.to));
            let lines: Vec<_> = file.split_inclusive('\n').collect();
            for part in lines.split(|line| line.trim_start().starts_with("--- @")).map(<[_]>::concat) {
                let [as_it_is, edited] = [code(&part), code(&part.replace(edit.from, edit.to))];
                if as_it_is != edited {
                    script = script.replace(&as_it_is, &edited);
                }
            }
        }
        script
    }
}

/// What the engine sends of it: its lines without comments and indentation.
fn code(part: &str) -> String {
    let lines = part.split_inclusive('\n').map(|line| line.trim_start_matches([' ', '\n']));
    lines.filter(|line| !line.starts_with("--")).collect()
}
