//! The locks that other callers wanted, too, when this process last had to do with them: a direct request for one would most
//! likely be in vain.

use std::sync::Arc;

use crate::ground::host::HashSet;

/// With more locks than this, all are forgotten: each costs one request more then.
const MOST: usize = 1000;

#[derive(Default)]
pub(super) struct Contended(HashSet<Arc<str>>);

impl Contended {
    pub(super) fn has(&self, name: &Arc<str>) -> bool {
        self.0.contains(name)
    }

    pub(super) fn insert(&mut self, name: &Arc<str>) {
        if self.0.len() >= MOST && !self.0.contains(name) {
            self.0.clear();
        }
        self.0.insert(Arc::clone(name));
    }

    pub(super) fn remove(&mut self, name: &Arc<str>) {
        self.0.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_a_thousand_are_remembered() {
        let mut contended = Contended::default();
        for number in 0..10_000 {
            let name = Arc::from(format!("lock:{number}"));
            contended.insert(&name);
            assert!(contended.has(&name) && contended.0.len() <= MOST);
        }
        let last = Arc::from("lock:9999");
        contended.remove(&last);
        assert!(!contended.has(&last));
    }
}
