//! The scripts that a server knows.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::scripting::{Chunk, digest_of};

/// Makes another script of the one that a client has sent.
pub type Rewrite = Rc<dyn Fn(&str) -> String>;

#[derive(Clone, Default)]
pub(super) struct Scripts {
    known: BTreeMap<String, Rc<Chunk>>,
    pub(super) rewrite: Option<Rewrite>,
}

impl Scripts {
    pub(super) fn get(&self, digest: &str) -> Option<Rc<Chunk>> {
        self.known.get(digest).cloned()
    }

    /// Compiles the script unless it is known. The error is that of the compiler.
    pub(super) fn load(&mut self, source: &[u8]) -> Result<Rc<Chunk>, String> {
        let digest = digest_of(source);
        if let Some(chunk) = self.known.get(&digest) {
            return Ok(Rc::clone(chunk));
        }
        let source = String::from_utf8_lossy(source);
        let chunk = match &self.rewrite {
            Some(rewrite) => Chunk::compile(&digest, &rewrite(&source))?,
            None => Chunk::compile(&digest, &source)?,
        };
        let chunk = Rc::new(chunk);
        self.known.insert(digest, Rc::clone(&chunk));
        Ok(chunk)
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.known.keys()).finish()
    }
}
