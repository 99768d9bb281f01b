//! Sentinels, and the servers behind them, that require passwords and TLS.

use tollgate_core::ErrorKind;
use tollgate_scenarios::Client;
use tollgate_scenarios::secured as shared;
use tollgate_testkit::{Authority, Flavor, SentinelGroup};

use crate::client::Fred;
use shared::{
    ASKED, REFUSED, call, choose, decides, follows_a_failover, is_misconfigured, is_refused,
    let_in, limiter, options,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sentinels_and_servers_are_given_their_passwords() {
    choose();
    let authority = Authority::new();
    let group = SentinelGroup::options(Flavor::System).tls(&authority);
    let group = group.password("secret").sentinel_password("word").start();
    for server in group.servers() {
        let_in(server, &["+role"]);
    }
    let connect = async |server: &str, sentinels: &str| {
        let address = &group.sentinel_addresses()[0];
        let name = group.primary_name();
        let url =
            format!("rediss-sentinel://{server}{address}?sentinelServiceName={name}{sentinels}");
        Fred { batched: false }
            .trusting(&url, &authority, None, options())
            .await
    };
    let word = "&sentinelPassword=word";
    decides(connect(":secret@", word).await).await;
    is_misconfigured(connect("", word), ASKED).await;
    is_misconfigured(connect(":wrong@", word), REFUSED).await;
    is_misconfigured(connect(":secret@", ""), ASKED).await;
    let wrong = connect(":secret@", "&sentinelPassword=wrong");
    is_refused(wrong, ErrorKind::Unavailable, "passwords and TLS settings").await;

    let limiter = limiter(connect("limiter:secret@", word).await.unwrap());
    assert_eq!(call(&limiter, "carol").await, 8);
    follows_a_failover(&group, &limiter).await;
}
