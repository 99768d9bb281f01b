//! Requests to another service wait for permits, are sent again when the service asks for that, and
//! share what it says.

mod costs;
mod layer;
mod readiness;
mod refusals;
mod remote;
mod service;
