//! Examples with a table in a database, in `examples`: a package of their own, because the database
//! takes long to compile.
