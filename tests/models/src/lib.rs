//! Models of the protocol, in `tests/models`: a package of their own, because their model checker
//! takes long to compile.
