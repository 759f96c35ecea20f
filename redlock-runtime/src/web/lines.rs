//! The lines that the answers leave in the log.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::base::error::LockError;
use crate::base::error::tests::samples;
use crate::web::Answer;

/// The level and the fields of each line.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<(Level, String)>>>);

struct Shown(String);

impl Visit for Shown {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing into a string does not fail.
        let _ = write!(self.0, "{field}={value:?};");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut shown = Shown(String::new());
        event.record(&mut shown);
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push((*event.metadata().level(), shown.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// `answer` says whether the answer to an error blames the service.
pub(super) fn each_failure_leaves_one(answer: impl Fn(LockError) -> bool) {
    let mut failures = 0;
    for error in samples() {
        let (lines, kind, message) = (Lines::default(), error.kind(), format!("{error:?}"));
        let level = if Answer::to(&error) == Answer::Failed { Level::ERROR } else { Level::WARN };
        let is_failure = tracing::subscriber::with_default(lines.clone(), || answer(error));
        let lines = std::mem::take(&mut *lines.0.lock().unwrap_or_else(PoisonError::into_inner));
        assert_eq!(lines.len(), usize::from(is_failure), "{kind}: {lines:?}");
        for (found, shown) in lines {
            failures += 1;
            assert_eq!(found, level, "{shown}");
            assert!(shown.contains(&format!("outcome=\"{kind}\";error={message};")), "{shown}");
        }
    }
    assert!(failures > 5);
}
