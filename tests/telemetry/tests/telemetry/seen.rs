//! What a subscriber of `tracing` sees in this process: one for all tests, which tell their spans
//! and events by their keys.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

type Fields = BTreeMap<&'static str, String>;

#[derive(Clone, Debug, Default)]
pub(crate) struct SeenSpan {
    id: u64,
    pub(crate) name: &'static str,
    pub(crate) parent: Option<&'static str>,
    pub(crate) fields: Fields,
    pub(crate) is_closed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SeenEvent {
    pub(crate) level: Level,
    pub(crate) fields: Fields,
    /// The names of the spans around it, the innermost first.
    pub(crate) within: Vec<&'static str>,
}

#[derive(Default)]
struct Seen {
    spans: Vec<SeenSpan>,
    events: Vec<SeenEvent>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen { spans: Vec::new(), events: Vec::new() });

fn seen() -> MutexGuard<'static, Seen> {
    SEEN.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Collect;

struct Read<'a>(&'a mut Fields);

impl Visit for Read<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collect {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = context.span(id).and_then(|span| span.parent());
        let mut span =
            SeenSpan { id: id.into_u64(), name: attributes.metadata().name(), ..SeenSpan::default() };
        span.parent = parent.as_ref().map(tracing_subscriber::registry::SpanRef::name);
        attributes.record(&mut Read(&mut span.fields));
        seen().spans.push(span);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        if let Some(span) =
            seen().spans.iter_mut().rev().find(|span| span.id == id.into_u64() && !span.is_closed)
        {
            values.record(&mut Read(&mut span.fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let within = context.event_scope(event).into_iter().flatten().map(|span| span.name()).collect();
        let mut fields = Fields::new();
        event.record(&mut Read(&mut fields));
        seen().events.push(SeenEvent { level: *event.metadata().level(), fields, within });
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        if let Some(span) = seen().spans.iter_mut().rev().find(|span| span.id == id.into_u64()) {
            span.is_closed = true;
        }
    }
}

pub(crate) fn subscribe() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Registry::default().with(Collect)).unwrap());
}

/// The spans whose field `key` is this, in the order of their beginning.
pub(crate) fn spans(key: &str) -> Vec<SeenSpan> {
    let of_key = |span: &&SeenSpan| span.fields.get("key").is_some_and(|found| found == key);
    seen().spans.iter().filter(of_key).cloned().collect()
}

/// The events whose field is this.
pub(crate) fn events(field: &str, value: &str) -> Vec<SeenEvent> {
    let fits = |event: &&SeenEvent| event.fields.get(field).is_some_and(|found| found == value);
    seen().events.iter().filter(fits).cloned().collect()
}

/// Everything that was recorded, as text.
pub(crate) fn all_text() -> String {
    let seen = seen();
    format!("{:?} {:?}", seen.spans, seen.events)
}
