//! The suite passes on the simplest store that keeps every promise.

mod reference;

use reference::Reference;

tollgate_conformance::conformance!(Reference);
