//! The example, run.

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/outbound.rs"]
mod outbound;

#[tokio::test]
async fn client_stays_under_the_limit_of_a_service() {
    outbound::run().await.unwrap();
}
