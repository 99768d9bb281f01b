//! The example, run; its own tests run here, too.

#[allow(dead_code, reason = "`main` is for the example alone")]
#[path = "../../examples/signup.rs"]
mod signup;

#[tokio::test]
async fn service_answers_on_a_real_store() {
    signup::run().await.unwrap();
}
