//! A small journal as literal bytes.
