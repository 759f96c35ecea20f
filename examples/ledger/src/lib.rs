//! Examples with a table in SQLite, in `examples`: a package of their own, because SQLite takes long to compile.
