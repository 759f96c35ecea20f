mod properties;
mod snapshots;
