//! Prometheus reads what `Observed` counts, and answers the queries of the dashboard and the alarms.
//! `cargo xtask test --every-server` installs it.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU32;
use std::process::Command;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use serde_json::Value;
use tollgate_core::{ErrorKind, RateLimiter};
use tollgate_layers::limits::Limits;
use tollgate_layers::{Share, usual};
use tollgate_memory::MemoryStore;
use tollgate_mock::{Fault, FaultyStore};
use tollgate_testkit::Program;

use crate::dashboard::{dashboard, docs, plain, read};

/// How long every query may take to have an answer.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(250);
/// How long most calls are allowed, and then how long most are denied.
const PHASE: Duration = Duration::from_secs(8);
/// What the rules look at, and what they look at here.
const WINDOWS: [(&str, &str); 4] = [
    ("[2m]", "[4s]"),
    ("[5m]", "[4s]"),
    ("[1h]", "[4s]"),
    ("offset 1d", "offset 8s"),
];
/// Keys, or how they begin.
const BUSY: &str = "busy-client";
const GUEST: &str = "guest-client";

/// Makes calls that end in every way, until `stop` is closed.
fn call(recorder: &PrometheusRecorder, stop: &Receiver<()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    let faults = [
        Fault::None,
        Fault::Fail(ErrorKind::Malformed),
        Fault::None,
        Fault::Fail(ErrorKind::Unsupported),
        Fault::None,
        Fault::Fail(ErrorKind::Unavailable),
    ];
    let limiter = |faults: Box<dyn Iterator<Item = Fault> + Send>| {
        let local = Share::new(MemoryStore::new(), NonZeroU32::MIN);
        let store = usual(FaultyStore::new(MemoryStore::new(), faults), local);
        let limits = [
            "burst=gcra:3/1s",
            "all=gcra:1000/1s",
            "next=gcra:2/1s,shadow",
        ];
        RateLimiter::new(store, limits).unwrap()
    };
    let waits = limiter(Box::new([Fault::Delay(PATIENCE * 60)].into_iter()));
    let limiter = limiter(Box::new(faults.into_iter().cycle()));
    let started = Instant::now();
    let calls = async {
        let mut guests = 0;
        while stop.try_recv() == Err(TryRecvError::Empty) {
            // Errors and denials are part of it.
            let _ = limiter.check(BUSY).await;
            let phase = started.elapsed().as_secs() / PHASE.as_secs();
            for _ in 0..9 {
                guests += 1;
                let guest = format!("{GUEST}-{guests}");
                let key = if phase.is_multiple_of(2) {
                    &guest
                } else {
                    BUSY
                };
                let _ = limiter.check(key).await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limits.toml");
    fs::write(&path, "burst = 'gcra:3/1s'").unwrap();
    metrics::with_local_recorder(recorder, || {
        let _limits = Limits::watch(&path, |text| toml::from_str(text), |_| {}).unwrap();
        fs::write(&path, "burst = 'gcra:3'").unwrap();
        runtime.block_on(async {
            tokio::select! {
                answer = waits.check(BUSY) => panic!("{answer:?}"),
                () = calls => {}
            }
        });
    });
}

/// Serves the metrics, and returns the address.
fn export(metrics: PrometheusHandle) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let _ = thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(&stream).lines();
            let _ = lines
                .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                .count();
            let head = "HTTP/1.0 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n\r\n";
            let _ = write!(stream, "{head}{}", metrics.render());
        }
    });
    address
}

fn prometheus(target: SocketAddr) -> Program {
    Program::start("prometheus", |port, folder| {
        let mut rules = read("alerts.yml");
        for (from, to) in WINDOWS {
            rules = rules.replace(from, to);
        }
        fs::write(folder.join("alerts.yml"), rules).unwrap();
        let config = format!(
            "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\n\
             rule_files: [alerts.yml]\n\
             scrape_configs: [{{job_name: test, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        let path = folder.join("prometheus.yml");
        fs::write(&path, config).unwrap();
        vec![
            format!("--config.file={}", path.display()),
            format!("--storage.tsdb.path={}", folder.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ]
    })
}

/// Returns the data that Prometheus answers, or `None` if it is an error.
fn get(prometheus: &Program, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(prometheus.address()).unwrap();
    write!(stream, "GET /api/v1/{path} HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let mut answer: Value = serde_json::from_str(body).ok()?;
    (answer["status"] == "success").then(|| answer["data"].take())
}

/// Returns whether a query has an answer that is a number.
fn has_answer(prometheus: &Program, query: &str) -> bool {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = get(prometheus, &format!("query?query={encoded}"));
    let samples = answer.map(|mut answer| answer["result"].take());
    let samples = samples.as_ref().and_then(Value::as_array);
    samples.into_iter().flatten().any(|sample| {
        let number = sample["value"][1].as_str().map(str::parse::<f64>);
        number.is_some_and(|number| number.is_ok_and(f64::is_finite))
    })
}

/// Returns the rules as Prometheus has read them, once it is ready.
fn rules(prometheus: &Program) -> Vec<Value> {
    let deadline = Instant::now() + PATIENCE;
    let answer = loop {
        match get(prometheus, "rules") {
            Some(answer) => break answer,
            None => assert!(Instant::now() < deadline, "{}", prometheus.log()),
        }
        thread::sleep(PAUSE);
    };
    let groups = answer["groups"].as_array().unwrap().iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules.collect()
}

/// Asserts that an alarm is explained on a page.
fn assert_is_explained(alarm: &Value) {
    let name = alarm["name"].as_str().unwrap();
    let page = read("operating.md");
    assert!(page.contains(&format!("| `{name}` |")), "{name}");
    let annotations = &alarm["annotations"];
    assert!(annotations["summary"].is_string(), "{alarm}");
    assert!(alarm["duration"].as_f64().unwrap() > 0.0, "{alarm}");
    let (file, section) = annotations["runbook_url"]
        .as_str()
        .and_then(|url| url.split_once('#'))
        .unwrap();
    let text = read(file).to_lowercase();
    let heading = format!("## {}", section.replace('-', " "));
    assert!(text.lines().any(|line| line == heading), "{heading}");
}

/// Runs `promtool` with these arguments.
fn assert_promtool(arguments: &[&str], input: Option<File>) {
    let mut command = Command::new(Program::path("promtool"));
    let _ = command.args(arguments);
    if let Some(input) = input {
        let _ = command.stdin(input);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn alarms_tell_services_and_limits_apart() {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/interop/alerts.yml");
    assert_promtool(&["test", "rules", cases], None);
}

#[test]
fn prometheus_answers_every_query_of_the_dashboard_and_the_alarms() {
    let alarms = docs("alerts.yml");
    assert_promtool(&["check", "rules", alarms.to_str().unwrap()], None);
    let duration = Matcher::Full("tollgate_decision_duration_seconds".to_owned());
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(duration, &[0.0001, 0.001, 0.01, 0.1, 1.0])
        .unwrap()
        .build_recorder();
    let metrics = recorder.handle();
    let (_calls, stop) = channel();
    let _ = thread::spawn(move || call(&recorder, &stop));
    let prometheus = prometheus(export(metrics.clone()));

    let (panels, limits) = dashboard();
    let metric = limits.strip_prefix("label_values(");
    let metric = metric.and_then(|rest| rest.strip_suffix(", limit)"));
    let mut queries = vec![format!("{}{{limit!=''}}", metric.unwrap())];
    for panel in panels {
        let filled = panel.queries.iter().map(|query| {
            let one = query.replace("$limit", "burst|all|next");
            plain(&one, "[4s]")
        });
        queries.extend(filled);
    }
    for rule in rules(&prometheus) {
        queries.push(rule["query"].as_str().unwrap().to_owned());
        if rule["type"] == "alerting" {
            assert_is_explained(&rule);
        }
    }
    let deadline = Instant::now() + PATIENCE;
    while !queries.is_empty() {
        assert!(Instant::now() < deadline, "no answers to {queries:#?}");
        thread::sleep(PAUSE);
        queries.retain(|query| !has_answer(&prometheus, query));
    }
    for rule in rules(&prometheus) {
        assert_eq!(rule["health"], "ok", "{rule}");
    }

    let text = metrics.render();
    for label in [
        r#"outcome="allowed",source="store""#,
        r#"outcome="denied",source="cache""#,
        r#"outcome="denied_by_other""#,
        r#"outcome="shadow_denied""#,
        r#"source="fallback""#,
        r#"kind="malformed""#,
        r#"kind="unsupported""#,
    ] {
        assert!(text.contains(label), "no {label} in:\n{text}");
    }
    // Keys are never labels.
    assert!(!text.contains(BUSY) && !text.contains(GUEST), "{text}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics");
    fs::write(&path, text).unwrap();
    assert_promtool(&["check", "metrics"], Some(File::open(path).unwrap()));
}
