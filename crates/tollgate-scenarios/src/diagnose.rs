//! Diagnoses servers, each of which is misconfigured in one way.

use std::slice;
use std::time::Duration;

use tollgate_testkit::{Cluster, Flavor, Proxy, Server};
use tollgate_wire::operate::{Diagnosis, Finding, Severity};

use crate::clear::options;
use crate::client::Client;

use Severity::{Note, Ok as Fine, Serious, Unknown, Warning};

/// Returns the most severe finding of `check`.
#[track_caller]
fn found<'a>(diagnosis: &'a Diagnosis, check: &str) -> &'a Finding {
    let findings = diagnosis.findings().iter();
    let of_check = findings.filter(|finding| finding.check == check);
    let finding = of_check.max_by_key(|finding| finding.severity);
    finding.unwrap_or_else(|| panic!("no {check} in {diagnosis:#?}"))
}

#[track_caller]
fn is(diagnosis: &Diagnosis, check: &str, severity: Severity, words: &[&str]) {
    let finding = found(diagnosis, check);
    assert_eq!(finding.severity, severity, "{finding:?}");
    for word in words {
        let told = format!("{}: {}", finding.found, finding.advice);
        assert!(told.contains(word), "{word} is not in {told}");
    }
    // Every finding worse than `Fine` comes with advice.
    assert_eq!(finding.advice.is_empty(), severity == Fine, "{finding:?}");
}

async fn of(client: &dyn Client, server: &Server) -> Diagnosis {
    client
        .server(&server.url(), options())
        .await
        .unwrap()
        .diagnose()
        .await
}

fn leaves_nothing(servers: &[Server]) {
    for server in servers {
        let keys = server.command(&["DBSIZE"]).integer();
        assert_eq!(keys, Some(0), "keys were left");
    }
}

/// On well-configured servers, no finding is worse than a note.
pub async fn finds_nothing_wrong(client: &dyn Client) {
    for flavor in Flavor::chosen() {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let server = Server::options(flavor).args(durable).start();
        let diagnosis = of(client, &server).await;
        // The note that there is no replica.
        assert_eq!(diagnosis.worst(), Note, "{diagnosis:#?}");
        assert!(diagnosis.findings().len() >= 11, "{diagnosis:#?}");
        for finding in diagnosis.findings() {
            let is_note = finding.check == "replicas";
            let severity = if is_note { Note } else { Fine };
            assert_eq!(finding.severity, severity, "{flavor}: {finding:?}");
        }
        leaves_nothing(&[server]);
    }
}

/// Settings of a server, the check that finds them, how severe they are, and words of what it says.
const SETTINGS: &str = "\
--maxmemory 100mb --maxmemory-policy allkeys-lru => eviction: serious: allkeys-lru & noeviction
--maxmemory-policy volatile-ttl => eviction: warning: volatile-ttl & noeviction
=> persistence: warning: restart & appendonly yes
--save 3600 1 => persistence: warning: snapshots & appendonly yes
--appendonly yes => persistence: note: everysec & always
--appendonly yes --appendfsync no => persistence: warning: appendfsync & always
--min-replicas-to-write 1 => replicas: serious: only 0 connected, of 1 needed
--min-replicas-to-write 1 => writes: serious: NOREPLICAS & too few replicas
--maxmemory 100kb => writes: serious: OOM & give it more
--rename-command EVALSHA NONE => permissions: serious: `evalsha` & do not rename or disable
--rename-command EVALSHA NONE => decisions: serious: fixed-window, gcra & EVALSHA
--rename-command CONFIG NONE => persistence: warning: no append-only file
";

/// Finds server settings that endanger limits.
pub async fn finds_dangerous_settings(client: &dyn Client) {
    for line in SETTINGS.lines() {
        let (arguments, found) = line.split_once("=> ").unwrap();
        let [check, severity, words] = found.splitn(3, ": ").collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let mut severities = [Note, Warning, Serious].into_iter();
        let severity = severities.find(|it| it.to_string() == severity).unwrap();
        let words: Vec<_> = words.split(" & ").collect();
        // A command is renamed to nothing, which is to disable it.
        let arguments = arguments.split_whitespace();
        let arguments = arguments.map(|word| word.replace("NONE", ""));
        let server = Server::options(Flavor::System).args(arguments).start();
        let diagnosis = of(client, &server).await;
        is(&diagnosis, check, severity, &words);
        leaves_nothing(&[server]);
    }
}

/// Waits until `INFO replication` of `server` contains `words`.
async fn replication_says(server: &Server, words: &str) {
    loop {
        let reply = server.command(&["INFO", "replication"]);
        if reply.text().is_some_and(|text| text.contains(words)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Finds primaries that do not wait for their replicas, and stores connected to a replica.
pub async fn finds_replicas_that_are_not_waited_for(client: &dyn Client) {
    let primary = Server::start(Flavor::System);
    let of_it = [
        "--replicaof".to_owned(),
        "127.0.0.1".to_owned(),
        primary.port().to_string(),
    ];
    let replica = Server::options(Flavor::System).args(of_it).start();
    replication_says(&replica, "master_link_status:up").await;
    replication_says(&primary, "state=online").await;
    let diagnosis = of(client, &primary).await;
    let words = ["1 connected", "min-replicas-to-write 1"];
    is(&diagnosis, "replicas", Warning, &words);
    primary.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    replication_says(&primary, "min_slaves_good_slaves:1").await;
    let diagnosis = of(client, &primary).await;
    is(&diagnosis, "replicas", Fine, &words[..1]);
    let diagnosis = of(client, &replica).await;
    let advice = "connect to the primary";
    is(&diagnosis, "role", Serious, &["replica", advice]);
    is(&diagnosis, "writes", Serious, &["READONLY", advice]);
    leaves_nothing(&[primary]);
}

const NEEDED: &str =
    "evalsha get lindex llen lpush lrange lset ltrim pexpire rpush script|load set time unlink";
/// The additional commands that the diagnosis itself runs.
const LOOKED_AT: &str = "config|get hello info ping scan select";

/// Finds which command a user lacks, for each command that limits need.
pub async fn finds_what_a_user_lacks(client: &dyn Client) {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        let of = async |user: &str| {
            let url = format!("redis://{user}:secret@{}", server.address());
            let store = client.server(&url, options()).await.unwrap();
            store.diagnose().await
        };
        let set = |user: &str, keys: &str, commands: &[&str]| {
            let mut words = vec!["ACL", "SETUSER", user, "on", ">secret", keys];
            words.extend(commands);
            let reply = server.command(&words);
            assert_eq!(reply.text(), Some("OK"), "{reply:?}");
        };
        // Redis 6.2 does not support subcommands such as `config|get` in ACLs.
        let mut looked_at: Vec<_> = LOOKED_AT.split(' ').collect();
        looked_at.retain(|name| flavor != Flavor::Redis62 || !name.contains('|'));
        let all = NEEDED.split(' ').chain(looked_at);
        let all: Vec<_> = all.map(|name| format!("+{name}")).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();

        set("whole", "~shop:*", &all);
        let diagnosis = of("whole").await;
        is(&diagnosis, "permissions", Fine, &[]);
        is(&diagnosis, "decisions", Fine, &[]);
        for missing in NEEDED.split(' ') {
            let mut others = all.clone();
            others.retain(|name| name[1..] != *missing);
            let user = format!("no-{}", missing.replace('|', "-"));
            set(&user, "~shop:*", &others);
            // Otherwise the script might be loaded already, and a missing `script|load` would not
            // show.
            server.command(&["SCRIPT", "FLUSH"]);
            let diagnosis = of(&user).await;
            let severity = match missing {
                "evalsha" | "get" | "set" | "time" => Serious,
                _ => Warning,
            };
            let mut findings = diagnosis.findings().iter();
            let finding = findings.find(|finding| finding.found.contains("cannot run"));
            let finding = finding.unwrap_or_else(|| panic!("{missing}: {diagnosis:#?}"));
            assert_eq!((finding.check, finding.severity), ("permissions", severity));
            let of = |name: &str| finding.found.contains(&format!("`{name}`"));
            let named: Vec<_> = NEEDED.split(' ').filter(|name| of(name)).collect();
            assert_eq!(named, [missing], "{finding:?}");
            let advice = format!("+{missing}");
            assert!(finding.advice.contains(&advice), "{finding:?}");
            // A user without `unlink` leaves keys behind, which expire.
            for key in server.keys() {
                let left = server.command(&["PTTL", &key]).integer().unwrap();
                let expires = (1..=60_000).contains(&left);
                assert!(expires && missing == "unlink", "{key}: {left}");
            }
            server.command(&["FLUSHALL"]);
        }

        set("elsewhere", "~other:*", &all);
        let diagnosis = of("elsewhere").await;
        is(&diagnosis, "permissions", Serious, &["`shop:`", "~shop:*"]);

        set("blind", "~shop:*", &all);
        set("blind", "~shop:*", &["-config", "-info", "-scan"]);
        let diagnosis = of("blind").await;
        for check in ["version", "role", "eviction", "persistence", "replicas"] {
            is(&diagnosis, check, Unknown, &["allow"]);
        }
        is(&diagnosis, "states ahead", Unknown, &["allow"]);
        leaves_nothing(&[server]);
    }
}

/// Finds a server with a long round trip, and one that does not answer.
pub async fn finds_slow_servers(client: &dyn Client) {
    let server = Server::start(Flavor::System);
    let proxy = Proxy::start(server.address());
    let options = options().with_deadline(Duration::from_secs(3));
    let store = client.server(&proxy.url(), options).await.unwrap();
    proxy.delay_replies(Duration::from_millis(120));
    let diagnosis = store.diagnose().await;
    is(&diagnosis, "round trip", Warning, &["deadline"]);
    proxy.delay_replies(Duration::ZERO);
    server.pause();
    let diagnosis = store.diagnose().await;
    server.resume();
    let words = ["does not answer", "check that it is running"];
    is(&diagnosis, "connection", Serious, &words);
}

/// Finds nothing wrong with a healthy cluster; finds a missing master, and a cluster that
/// is used as a single server.
pub async fn finds_what_a_cluster_lacks(client: &dyn Client) {
    let options = || options().with_deadline(Duration::from_secs(1));
    let arguments = ["--cluster-require-full-coverage", "no"];
    let cluster = Cluster::options(Flavor::System).masters(3);
    let cluster = cluster.replicas(0).args(arguments).start();
    let urls = cluster.urls();
    let store = client.cluster(&urls, options()).await.unwrap();
    let diagnosis = store.diagnose().await;
    is(&diagnosis, "slots", Fine, &["all 16384", "3 masters"]);
    // Each master is checked.
    for check in ["permissions", "decisions", "writes", "states ahead"] {
        let findings = diagnosis.findings().iter();
        let servers: Vec<_> = findings
            .filter(|finding| finding.check == check && finding.severity == Fine)
            .map(|finding| finding.server.clone())
            .collect();
        assert_eq!(servers.len(), 3, "{diagnosis:#?}");
        let addresses = cluster.addresses();
        assert!(addresses.iter().all(|node| servers.contains(node)));
    }
    leaves_nothing(cluster.nodes());

    let node = slice::from_ref(&cluster.nodes()[0]);
    let alone = client.server(&node[0].url(), options()).await.unwrap();
    let diagnosis = alone.diagnose().await;
    let words = ["a node of a cluster", "redis-cluster://"];
    is(&diagnosis, "cluster", Serious, &words);

    let master = &cluster.nodes()[1];
    master.kill();
    let diagnosis = store.diagnose().await;
    let findings = diagnosis.findings().iter();
    // fred is connected to no master while it looks for the one that is gone.
    let servers = [&master.address(), "server"];
    let mut of_it = findings
        .filter(|finding| finding.check == "connection" && servers.contains(&&*finding.server));
    let is_found = of_it.any(|finding| finding.severity == Serious);
    assert!(is_found, "{diagnosis:#?}");
    assert_eq!(diagnosis.worst(), Serious);
}
