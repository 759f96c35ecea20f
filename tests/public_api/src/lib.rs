//! The list of public items of each published library is in `items`, and a test compares it.
