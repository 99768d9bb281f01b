//! The example, run: for more people with `TOLLGATE_PEOPLE`.

use tollgate_testkit::{Flavor, Server};

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/reminders.rs"]
mod reminders;

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_reminded_at_night() {
    let people = std::env::var("TOLLGATE_PEOPLE").map_or(10_000, |text| text.parse().unwrap());
    let bytes = reminders::in_memory(people).await.unwrap();
    assert!(bytes > 0 && bytes < 1_000 * people, "{bytes}");
    let server = Server::start(Flavor::System);
    let bytes = reminders::on_server(people / 10, &server.url())
        .await
        .unwrap();
    assert!(bytes > 0, "{bytes}");
}
