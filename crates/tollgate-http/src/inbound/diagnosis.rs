//! What the layer logs about its setup, once for each mistake that a request shows.

use std::sync::atomic::{AtomicU32, Ordering};

use http::request::Parts;
use tollgate_core::Limit;

use super::client_ip::{ClientIp, Mistake};
use super::client_key::{NoKey, Unknown};
use super::key_by::KeyBy;
use super::question::{NotAsked, Question};
use super::shared::Shared;
use super::warning::{Warning, Warnings};

/// How many requests a layer examines for mistakes in its setup.
const EXAMINED: u32 = 100;
/// So many layers that each served one request are a mistake.
const LAYERS_OF_ONE_REQUEST: u32 = 20;

static OF_ONE_REQUEST: AtomicU32 = AtomicU32::new(0);
static OF_ALL_LAYERS: Warnings = Warnings::new();

impl<S> Shared<S> {
    /// Warns of the mistake, if it is one, that a store is not asked.
    #[cold]
    pub(super) fn warn_not_asked(&self, why: &NotAsked) {
        match why {
            NotAsked::NoKey(NoKey::Unknown(Unknown::Peer)) => self.warnings.log_once(
                Warning::NoPeer,
                "requests come without the address of their connection, and are refused: with \
                 axum, serve with `into_make_service_with_connect_info::<SocketAddr>()`; with \
                 another server, insert `tollgate_http::inbound::Peer` into their extensions",
            ),
            NotAsked::NoKey(NoKey::Unknown(Unknown::Hops(header))) => self.warnings.log_once(
                Warning::MissingHop,
                format_args!(
                    "a request had fewer addresses in `{header}` than there should be proxies, and \
                     was refused: it came past a proxy, or their number is wrong"
                ),
            ),
            NotAsked::NoKey(NoKey::Unknown(Unknown::Header(header))) => self.warnings.log_once(
                Warning::MissingClientHeader,
                format_args!(
                    "a request did not have one address in `{header}`, and was refused: let the \
                     proxy set it, in place of what the client sent"
                ),
            ),
            NotAsked::Plan(plan) => {
                let unknown = |plan| format!("the plan {plan:?}, which the layer does not know,");
                let plan = plan.as_ref().map_or_else(|| "no plan".to_owned(), unknown);
                self.warnings.log_once(
                    Warning::UnknownPlan,
                    format_args!(
                        "a request had {plan} and was refused: pass its limits to `by_plan`, or let \
                         a layer before set it"
                    ),
                );
            }
            NotAsked::Zone => self.warnings.log_once(
                Warning::NoZone,
                "a request did not bring the time zone of a limit `@local`, or the day of one with \
                 `day=local`, and was refused: let `Policy::zone` return one of the database of time \
                 zones for each, and `Policy::day` a day from 1 to 31",
            ),
            NotAsked::Limits(why) => self.warnings.log_once(
                Warning::UnknownPlan,
                format_args!("a request has no limiter, and was refused: {why}"),
            ),
            NotAsked::NoKey(_) => {}
        }
    }

    fn clients(&self) -> impl Iterator<Item = &ClientIp> {
        let keys = self.rules.iter().map(|rule| &rule.policy.key);
        keys.filter_map(KeyBy::client)
    }

    /// Looks for signs that the clients of a proxy are counted together. They may come at any time,
    /// and matter when a request is denied.
    pub(super) fn examine_client(&self, parts: &Parts) {
        for client in self.clients() {
            match client.mistake(parts) {
                Some(Mistake::UnusedHeader) => self.warnings.log_once(
                    Warning::UnusedForwarded,
                    "a request came with the header of a proxy, but is counted by the address \
                     of its connection: behind a proxy, all clients share that; use \
                     `ClientIp::behind` with the proxy's address",
                ),
                Some(Mistake::UnknownProxy { peer, header }) => self.warnings.log_once(
                    Warning::UnknownProxy,
                    format_args!(
                        "a request came with `{header}` from {peer}, which is none of the proxies, \
                         and is counted by that address: if it is a proxy, all its clients share \
                         that; add it to the proxies"
                    ),
                ),
                Some(Mistake::MissingAddress { peer, header }) => self.warnings.log_once(
                    Warning::MissingAddress,
                    format_args!(
                        "a request from the proxy {peer} has no address at the end of `{header}`, \
                         and is counted by the proxy's, which all its clients share: let the proxy \
                         append the client's address, or read the header that it writes"
                    ),
                ),
                None => {}
            }
        }
    }

    /// Looks for mistakes in the setup, in the first requests.
    pub(super) fn examine(&self, parts: &mut Parts, question: &Question) {
        if self.examined.load(Ordering::Relaxed) < EXAMINED {
            self.examine_early(parts, question);
        }
    }

    #[cold]
    fn examine_early(&self, parts: &mut Parts, question: &Question) {
        let _ = self.examined.fetch_add(1, Ordering::Relaxed);
        self.examine_client(parts);
        if self.clients().any(ClientIp::trusts_everybody) {
            self.warnings.log_once(
                Warning::EverythingTrusted,
                "every address is trusted as a proxy's, so any client chooses the address that \
                 it is counted by: name the addresses of the proxies only",
            );
        }
        if self.warnings.have_logged(Warning::CountedTwice) {
            return;
        }
        let counted = parts.extensions.get_or_insert_default::<Counted>();
        let counts = |limit: &Limit| !limit.algorithm().can_block();
        for (_, asked, limit) in question.each().filter(|(_, _, limit)| counts(limit)) {
            let key = asked.key.as_key();
            let state = (
                limit.identity().to_owned(),
                key.partition().to_vec(),
                key.rest().to_vec(),
            );
            if counted.0.contains(&state) {
                self.warnings.log_once(
                    Warning::CountedTwice,
                    format_args!(
                        "a request is counted twice for one key by the limit `{}`: add the layer \
                         once, or give the limits different names",
                        limit.name()
                    ),
                );
            } else {
                counted.0.push(state);
            }
        }
    }
}

/// By which limits and keys a request was counted, in its extensions.
#[derive(Clone, Default)]
struct Counted(Vec<(String, Vec<u8>, Vec<u8>)>);

impl<S> Drop for Shared<S> {
    fn drop(&mut self) {
        if *self.examined.get_mut() == 1
            && OF_ONE_REQUEST.fetch_add(1, Ordering::Relaxed) >= LAYERS_OF_ONE_REQUEST
        {
            OF_ALL_LAYERS.log_once(
                Warning::LayerPerRequest,
                "many layers served one request each: make the layer once, or nothing is \
                 limited in memory, and connections to a server are made for every request",
            );
        }
    }
}
