//! Models of the protocol, in `tests/models`: a package of their own, because what explores them takes long to compile.
