//! Plans against a real MongoDB: what is stored, and what is reported of it.

mod fixture;
mod trouble;
mod writes;
