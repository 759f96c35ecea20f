//! The result that all callers get: that of the body, or none.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::fmt::Debug;

use kit::{runtime, unique};
use redlocked::once::{Json, OnInterrupted, Once, ResultCodec};
use redlocked::{LockError, LockManager};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::DAY;

async fn locks() -> LockManager {
    LockManager::connect(format!("memory://{}", unique("results"))).await.unwrap()
}

/// What the caller that runs the body gets, and the next one.
async fn twice<T: Debug, C: ResultCodec<T>>(value: T, codec: impl Fn() -> C) -> [Result<T, LockError>; 2] {
    let locks = locks().await;
    let once = || locks.lock("k").once(DAY).on_interrupted(OnInterrupted::Error).codec(codec());
    let first = once().run(async move |_guard| Ok(value)).await;
    assert!(!matches!(first, Ok(Once::Replayed(_))), "{first:?}");
    let second = once().run(async |_guard| Err(LockError::NotConfigured)).await;
    [first, second].map(|result| result.map(Once::into_inner))
}

async fn is_kept<T: Clone + Debug + PartialEq + Serialize + DeserializeOwned>(value: T) {
    let both = twice(value.clone(), || Json).await;
    assert_eq!(both, [Ok(value.clone()), Ok(value)]);
}

/// The effects are done, so a body that is not to run again was interrupted.
fn is_refused<T: Debug>([first, second]: [Result<T, LockError>; 2], because: &str) {
    let Err(LockError::NotStored { reason, .. }) = &first else { panic!("{first:?}, {second:?}") };
    assert!(reason.contains(because), "{reason}");
    assert!(matches!(second, Err(LockError::Interrupted { .. })), "{second:?}");
}

#[test]
fn numbers_are_the_same_to_their_last_bit() {
    runtime().block_on(async {
        let locks = locks().await;
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for n in 1..=3000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let any = f64::from_bits(random);
            let any = if any.is_finite() { any } else { 5e-324 };
            let digits = u32::try_from(random >> 32).unwrap();
            let small = if f32::from_bits(digits).is_finite() { f32::from_bits(digits) } else { -0.0 };
            // A net price with VAT, and any number.
            let value = (100.0 / f64::from(n) * 1.19, any, small);
            let once = || locks.lock(format!("{n}")).once(DAY);
            let bits =
                |(price, any, small): (f64, f64, f32)| (price.to_bits(), any.to_bits(), small.to_bits());
            for replayed in [false, true] {
                let result = once().run(async |_guard| Ok::<_, LockError>(value)).await.unwrap();
                assert_eq!(result.is_replayed(), replayed);
                assert_eq!(bits(result.into_inner()), bits(value), "{value:?}");
            }
        }
    });
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Either {
    Whole(u64),
    Part(f64),
    Text { text: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Row {
    id: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rows: Vec<u8>,
    #[serde(flatten)]
    more: HashMap<String, Either>,
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some")]
    change: Change,
}

/// As in a patch: no change, none from now on, or a new one.
type Change = Option<Option<u8>>;

fn some<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Change, D::Error> {
    Option::deserialize(from).map(Some)
}

#[test]
fn what_json_gives_back_is_kept() {
    runtime().block_on(async {
        is_kept(()).await;
        is_kept((None::<u8>, Some(1), [Some("null"); 2].map(|text| text.map(str::to_owned)))).await;
        is_kept([Either::Part(2.0), Either::Whole(2), Either::Text { text: "é\u{0}\"".into() }]).await;
        is_kept((u64::MAX, i64::MIN, u128::MAX, -0.0, 'ß')).await;
        is_kept(BTreeMap::from([(-1, Ok::<_, String>(1)), (2, Err("no".to_owned()))])).await;
        // Each hash map has an order of its own.
        for _ in 0..20 {
            is_kept((0..9).map(|n| (format!("key {n}"), n)).collect::<HashMap<_, _>>()).await;
            is_kept((0..2).map(|n| (n, [n; 3])).collect::<HashSet<_>>()).await;
        }
        let more = HashMap::from([("a".to_owned(), Either::Whole(1)), ("b".to_owned(), Either::Part(0.1))]);
        for change in [None, Some(None), Some(Some(1))] {
            is_kept(Row { id: -7, rows: vec![], more: more.clone(), change }).await;
        }
        is_kept(serde_json::json!({ "b": [1, 2.5, null, { "a": "x" }], "a": -1 })).await;
    });
}

#[derive(Debug, Serialize, Deserialize)]
struct WithoutDefault {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rows: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OneWay {
    #[serde(skip_deserializing)]
    token: String,
}

/// Whole numbers only.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Ambiguous {
    Part(f64),
    Whole(u64),
}

#[test]
fn what_json_does_not_give_back_is_not_stored_and_its_caller_hears_it_at_once() {
    const CHANGES: &str = "changes when it is decoded";
    runtime().block_on(async {
        is_refused(twice(Some(None::<u32>), || Json).await, CHANGES);
        is_refused(twice(Some(()), || Json).await, CHANGES);
        is_refused(twice(vec![Some(serde_json::Value::Null)], || Json).await, CHANGES);
        is_refused(twice([1.08, f64::NAN], || Json).await, "invalid type: null");
        is_refused(twice(f32::INFINITY, || Json).await, "invalid type: null");
        is_refused(twice(Some(f64::NAN), || Json).await, CHANGES);
        is_refused(twice(WithoutDefault { rows: vec![] }, || Json).await, "missing field");
        is_refused(twice(OneWay { token: "abc".into() }, || Json).await, CHANGES);
        is_refused(twice(Ambiguous::Whole(2), || Json).await, CHANGES);
        is_refused(twice(BTreeMap::from([((1, 2), 3)]), || Json).await, "cannot be encoded");
    });
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Secret {
    id: u64,
    #[serde(skip)]
    token: String,
}

/// Nobody can see that it is missing, so the first caller does without it, too.
#[test]
fn what_serde_skips_no_caller_gets() {
    runtime().block_on(async {
        let both = twice(Secret { id: 1, token: "abc".into() }, || Json).await;
        let kept = Secret { id: 1, token: String::new() };
        assert_eq!(both, [Ok(kept.clone()), Ok(kept)]);
    });
}

type Encoded = Result<Vec<u8>, Box<dyn Error + Send + Sync>>;

/// In another way each time, as one that encrypts.
struct Salted;

impl ResultCodec<String> for Salted {
    fn encode(&self, value: &String) -> Encoded {
        Ok(format!("{}|{value}", unique("salt")).into_bytes())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, Box<dyn Error + Send + Sync>> {
        Ok(std::str::from_utf8(bytes)?.split_once('|').ok_or("no salt")?.1.to_owned())
    }
}

/// In lines, in whichever order they come.
struct Lines;

impl ResultCodec<HashSet<String>> for Lines {
    fn encode(&self, lines: &HashSet<String>) -> Encoded {
        Ok(lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect())
    }

    fn decode(&self, bytes: &[u8]) -> Result<HashSet<String>, Box<dyn Error + Send + Sync>> {
        Ok(std::str::from_utf8(bytes)?.lines().map(str::to_owned).collect())
    }
}

/// Decodes less than was encoded.
struct Forgetful;

impl ResultCodec<String> for Forgetful {
    fn encode(&self, value: &String) -> Encoded {
        Ok(value.clone().into_bytes())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, Box<dyn Error + Send + Sync>> {
        let text = std::str::from_utf8(bytes)?;
        if text.is_empty() { Err("nothing there".into()) } else { Ok(text[1..].to_owned()) }
    }
}

#[test]
fn the_results_of_a_codec_are_compared_too() {
    runtime().block_on(async {
        let text = || "abc".to_owned();
        assert_eq!(twice(text(), || Salted).await, [Ok(text()), Ok(text())]);
        let lines: HashSet<_> = (0..9).map(|n| format!("line {n}")).collect();
        assert_eq!(twice(lines.clone(), || Lines).await, [Ok(lines.clone()), Ok(lines)]);
        is_refused(twice(text(), || Forgetful).await, "changes when it is decoded");
        is_refused(twice(String::new(), || Forgetful).await, "nothing there");
    });
}

#[test]
fn sync_code_gets_the_stored_result_too() {
    let locks = LockManager::connect_blocking(format!("memory://{}", unique("results"))).unwrap();
    let once = |key: &str| locks.lock(key).once(DAY);
    let refused = once("a").run_blocking(|_guard| Ok(Some(f64::NAN)));
    assert!(matches!(refused, Err(LockError::NotStored { .. })), "{refused:?}");
    let secret = once("b").run_blocking(|_guard| Ok::<_, LockError>(Secret { id: 1, token: "abc".into() }));
    assert_eq!(secret, Ok(Once::Ran(Secret { id: 1, token: String::new() })));
}
