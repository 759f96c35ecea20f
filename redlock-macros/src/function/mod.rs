//! The function below the attribute.

pub(crate) mod captures;
pub(crate) mod item;
pub(crate) mod return_type;
pub(crate) mod returned_future;
pub(crate) mod scope;
pub(crate) mod types;
