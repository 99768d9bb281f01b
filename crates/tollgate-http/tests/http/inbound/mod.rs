//! `InboundLayer`: whom it counts, what it lets through, and what it says.

mod afterwards;
mod body;
mod client_ip;
mod drain;
mod fields;
mod hostile;
mod keys;
mod limits;
mod refusals;
mod service;
mod support;
mod supported;
mod warnings;
