//! `Setup`: a server's version, role, eviction, persistence and replicas, from `INFO` and
//! `CONFIG GET`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::finding::{Finding, Severity};
use super::{Command, Reply, command};

/// The settings to read, one by one: Redis 6.2 takes only one in a `CONFIG GET`.
const SETTINGS: [&str; 5] = [
    "appendfsync",
    "appendonly",
    "maxmemory-policy",
    "min-replicas-to-write",
    "save",
];

/// The fields of `INFO` and the settings of a server.
#[derive(Debug, Default)]
pub(super) struct Setup {
    info: BTreeMap<String, String>,
    settings: BTreeMap<String, String>,
}

/// Returns the commands that read how a server is set up.
pub(super) fn questions() -> Vec<Command> {
    let setting = |name: &&str| command([b"CONFIG", b"GET", name.as_bytes()]);
    let mut commands = vec![command([b"INFO"])];
    commands.extend(SETTINGS.iter().map(setting));
    commands
}

impl Setup {
    /// Reads the replies to [`questions`], and leaves out those that are errors.
    pub(super) fn new(replies: &[Reply]) -> Self {
        let mut setup = Self::default();
        let Some((info, settings)) = replies.split_first() else {
            return setup;
        };
        for line in info.text().unwrap_or_default().lines() {
            if let Some((name, value)) = line.split_once(':') {
                setup.info.insert(name.to_owned(), value.trim().to_owned());
            }
        }
        for setting in settings {
            if let [name, value, ..] = setting.items()
                && let (Some(name), Some(value)) = (name.text(), value.text())
            {
                setup.settings.insert(name, value);
            }
        }
        setup
    }

    fn info(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    fn setting(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.info(name)?.parse().ok()
    }

    /// Returns whether the server is a node of a cluster.
    pub(super) fn is_cluster_node(&self) -> bool {
        self.info("cluster_enabled") == Some("1") || self.info("redis_mode") == Some("cluster")
    }

    /// Returns how long the server has run.
    pub(super) fn uptime(&self) -> Duration {
        Duration::from_secs(self.number("uptime_in_seconds").unwrap_or_default())
    }

    /// Returns one finding for each part of the setup.
    pub(super) fn findings(&self) -> Vec<Finding> {
        vec![
            self.version(),
            self.role(),
            self.eviction(),
            self.persistence(),
            self.replicas(),
        ]
    }

    fn version(&self) -> Finding {
        const CHECK: &str = "version";
        if let Some(version) = self.info("valkey_version") {
            return Finding::ok(CHECK, format!("Valkey {version}"));
        }
        let Some(version) = self.info("redis_version") else {
            let found = "the server does not say which version it is";
            let advice = "allow `INFO`, or see that it is Redis 6.2 or later, or Valkey";
            return Finding::new(Severity::Unknown, CHECK, found, advice);
        };
        let mut numbers = version.split('.').map(|part| part.parse::<u64>().ok());
        match (numbers.next().flatten(), numbers.next().flatten()) {
            (Some(major), Some(minor)) if (major, minor) >= (6, 2) => {
                Finding::ok(CHECK, format!("Redis {version}"))
            }
            (Some(_), Some(_)) => Finding::new(
                Severity::Serious,
                CHECK,
                format!("Redis {version} is too old"),
                "upgrade to Redis 6.2 or later, or to Valkey",
            ),
            _ => Finding::new(
                Severity::Unknown,
                CHECK,
                format!("the version {version:?} is not understood"),
                "see that it is Redis 6.2 or later, or Valkey",
            ),
        }
    }

    fn role(&self) -> Finding {
        const CHECK: &str = "role";
        match self.info("role") {
            Some("master") => Finding::ok(CHECK, "a primary"),
            Some(role) => Finding::new(
                Severity::Serious,
                CHECK,
                format!("the server is a replica ({role}) and refuses writes"),
                "connect to the primary; Sentinel and cluster clients find it",
            ),
            None => Finding::new(
                Severity::Unknown,
                CHECK,
                "the server does not say whether it is a primary",
                "allow `INFO`",
            ),
        }
    }

    fn eviction(&self) -> Finding {
        const CHECK: &str = "eviction";
        const ADVICE: &str = "set `maxmemory-policy noeviction`, and keep other programs' caches \
                              on another server";
        let policy = self
            .setting("maxmemory-policy")
            .or_else(|| self.info("maxmemory_policy"));
        let Some(policy) = policy else {
            return Finding::new(
                Severity::Unknown,
                CHECK,
                "the server does not say what it evicts",
                "allow `INFO`, or see that `maxmemory-policy` is `noeviction`",
            );
        };
        if policy == "noeviction" {
            return Finding::ok(CHECK, "no key is evicted (`noeviction`)");
        }
        match self.number("maxmemory") {
            Some(0) => Finding::new(
                Severity::Warning,
                CHECK,
                format!(
                    "`maxmemory-policy` is `{policy}`: once a `maxmemory` is set, states are \
                     evicted, and each is a fresh limit for its key"
                ),
                ADVICE,
            ),
            _ => Finding::new(
                Severity::Serious,
                CHECK,
                format!(
                    "`maxmemory-policy` is `{policy}`: when memory runs out, states are evicted, \
                     and each is a fresh limit for its key"
                ),
                ADVICE,
            ),
        }
    }

    fn persistence(&self) -> Finding {
        const CHECK: &str = "persistence";
        let is_logged = match (self.setting("appendonly"), self.info("aof_enabled")) {
            (Some(setting), _) => Some(setting == "yes"),
            (None, Some(enabled)) => Some(enabled == "1"),
            (None, None) => None,
        };
        match (is_logged, self.setting("appendfsync"), self.setting("save")) {
            (Some(true), Some("always"), _) => {
                Finding::ok(CHECK, "every write is on disk before it is answered")
            }
            (Some(true), Some("everysec"), _) => Finding::new(
                Severity::Note,
                CHECK,
                "a crash loses the last second or two (`appendfsync everysec`), and their calls \
                 are admitted again",
                "set `appendfsync always` where even that is too much",
            ),
            (Some(true), Some(when), _) => Finding::new(
                Severity::Warning,
                CHECK,
                format!("a crash loses what the system has not written yet (`appendfsync {when}`)"),
                "set `appendfsync everysec` or `always`",
            ),
            (Some(false), _, Some("")) => Finding::new(
                Severity::Warning,
                CHECK,
                "nothing is kept on disk: after a restart every key has a fresh limit",
                "set `appendonly yes`, unless windows are shorter than a restart",
            ),
            (Some(false), _, Some(_)) => Finding::new(
                Severity::Warning,
                CHECK,
                "only snapshots are kept on disk: a crash forgets what was counted since the last",
                "set `appendonly yes`",
            ),
            (Some(false), _, None) => Finding::new(
                Severity::Warning,
                CHECK,
                "no append-only file is kept: a crash forgets what was counted since the last \
                 snapshot, if there is one",
                "set `appendonly yes`",
            ),
            (Some(true), None, _) => Finding::new(
                Severity::Unknown,
                CHECK,
                "an append-only file is kept, but the server does not say when it is written to \
                 disk",
                "allow `CONFIG GET`, or see that `appendfsync` is `everysec` or `always`",
            ),
            (None, ..) => Finding::new(
                Severity::Unknown,
                CHECK,
                "the server does not say what it keeps over a restart",
                "allow `INFO`, or see that `appendonly` is `yes`",
            ),
        }
    }

    fn replicas(&self) -> Finding {
        const CHECK: &str = "replicas";
        let Some(replicas) = self.number("connected_slaves") else {
            return Finding::new(
                Severity::Unknown,
                CHECK,
                "the server does not say whether it has replicas",
                "allow `INFO`",
            );
        };
        let needed = self.setting("min-replicas-to-write");
        let needed = needed.and_then(|needed| needed.parse::<u64>().ok());
        // In `INFO` only if `min-replicas-to-write` is above 0.
        let good = self.number("min_slaves_good_slaves");
        match (replicas, needed, good) {
            (_, Some(needed), Some(good)) if needed > good => Finding::new(
                Severity::Serious,
                CHECK,
                format!("only {good} connected, of {needed} needed: writes are refused"),
                "bring replicas back, or lower `min-replicas-to-write`",
            ),
            (_, Some(1..), _) | (_, None, Some(_)) => Finding::ok(
                CHECK,
                format!("{replicas} connected, and writes wait for none to be missing"),
            ),
            (0, ..) => Finding::new(
                Severity::Note,
                CHECK,
                "no replica: while the server is down, calls fail, or a fallback decides",
                "add a replica, with Sentinels or in a cluster, if that may not last until the server is up again",
            ),
            (_, Some(0), _) => Finding::new(
                Severity::Warning,
                CHECK,
                format!(
                    "{replicas} connected, but `min-replicas-to-write` is 0: a primary that is cut \
                     off goes on to admit calls beside the one that replaces it"
                ),
                "set `min-replicas-to-write 1`",
            ),
            (_, None, None) => Finding::new(
                Severity::Unknown,
                CHECK,
                format!(
                    "{replicas} connected, but the server does not say how many it needs to accept \
                     writes"
                ),
                "allow `CONFIG GET`, or see that `min-replicas-to-write` is 1 or more",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(info: &str, settings: &[(&str, &str)]) -> Setup {
        let bytes = |text: &str| Reply::Bytes(text.into());
        let mut replies = vec![bytes(info)];
        let pair = |(name, value): &(&str, &str)| Reply::List(vec![bytes(name), bytes(value)]);
        replies.extend(settings.iter().map(pair));
        Setup::new(&replies)
    }

    #[test]
    fn old_versions_are_serious() {
        for (info, severity) in [
            ("redis_version:7.0.15", Severity::Ok),
            ("redis_version:6.2.0", Severity::Ok),
            ("redis_version:10.0.1", Severity::Ok),
            ("redis_version:6.1.240", Severity::Serious),
            ("redis_version:6.0.16", Severity::Serious),
            ("redis_version:5.0.7", Severity::Serious),
            ("redis_version:new", Severity::Unknown),
            ("", Severity::Unknown),
        ] {
            assert_eq!(setup(info, &[]).version().severity, severity, "{info}");
        }
        // Valkey also says which Redis it is like.
        let valkey = setup("redis_version:6.0.4\r\nvalkey_version:9.1.2", &[]).version();
        let seen = (valkey.severity, &*valkey.found);
        assert_eq!(seen, (Severity::Ok, "Valkey 9.1.2"));
    }

    #[test]
    fn a_server_without_information_is_reported() {
        for finding in setup("", &[]).findings() {
            assert_eq!(finding.severity, Severity::Unknown, "{finding:?}");
            assert!(!finding.advice.is_empty());
        }
        // A managed server, which refuses `CONFIG`.
        let info = "maxmemory_policy:allkeys-lru\nmaxmemory:9\naof_enabled:0\nconnected_slaves:1";
        let setup = setup(info, &[]);
        assert_eq!(setup.eviction().severity, Severity::Serious);
        assert_eq!(setup.persistence().severity, Severity::Warning);
        assert_eq!(setup.replicas().severity, Severity::Unknown);
        // That writes are logged is known, but not when.
        let logged = self::setup("aof_enabled:1", &[]).persistence();
        assert_eq!(logged.severity, Severity::Unknown);
        assert!(logged.found.starts_with("an append-only file is kept"));
    }

    #[test]
    fn a_cluster_node_is_recognized_by_either_field() {
        for (info, expected) in [
            ("cluster_enabled:1", true),
            ("redis_mode:cluster", true),
            ("redis_mode:standalone\r\ncluster_enabled:1", true),
            ("redis_mode:standalone\r\ncluster_enabled:0", false),
            ("", false),
        ] {
            assert_eq!(setup(info, &[]).is_cluster_node(), expected, "{info}");
        }
    }
}
