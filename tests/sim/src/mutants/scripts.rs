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

    /// A script as the mutant has it. A script is made of files, one behind the other.
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
            if !file.is_empty() {
                script = script.replace(&file, &file.replace(edit.from, edit.to));
            }
        }
        script
    }
}
