//! Snippets in, mutants out.
