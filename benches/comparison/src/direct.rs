//! Direct hand-off, written by hand: the reference for a lock that a release hands over.

use std::sync::Arc;

use kit::contender::Direct;

use crate::contender::{Clients, Contender, Kind, Part};

pub const DIRECT: &str = "direct hand-off by hand";

pub async fn join(all: &mut Vec<Contender>, url: &str, clients: usize) {
    let mut direct = Clients::new();
    for _ in 0..clients {
        direct.push(Arc::new(Direct::connect(url).await));
    }
    all.push(Contender { name: DIRECT, kind: Kind::Reference, part: Part::Everything, clients: direct });
}
