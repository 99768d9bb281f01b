//! The dashboard of Grafana in `docs/dashboard.json`.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The variables and windows of the queries.
const LIMIT: &str = r#"limit=~"$limit""#;
const WINDOW: &str = "[$__rate_interval]";

/// A panel, such as a chart.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) queries: Vec<String>,
}

/// Returns the path of a file of the documentation.
pub(crate) fn docs(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs")).join(name)
}

pub(crate) fn read(name: &str) -> String {
    fs::read_to_string(docs(name)).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Returns the dashboard's panels, and the query of its variable for the limit.
///
/// # Panics
///
/// Panics if a panel lacks what helps to read it.
pub(crate) fn dashboard() -> (Vec<Panel>, String) {
    let dashboard: Value = serde_json::from_str(&read("dashboard.json")).unwrap();
    let [source, limit] = items(&dashboard["templating"]["list"]) else {
        panic!("two variables: {dashboard}");
    };
    assert_eq!(text(&source["type"]), "datasource");
    assert_eq!(text(&limit["name"]), "limit");
    let panels = items(&dashboard["panels"]).iter().map(|panel| {
        let description = text(&panel["description"]);
        let is_sentence = description.ends_with('.') && !description.contains(". ");
        assert!(is_sentence, "{panel}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string());
        for of in [panel, limit] {
            let uid = format!("${{{}}}", text(&source["name"]));
            assert_eq!(text(&of["datasource"]["uid"]), uid, "{of}");
        }
        let targets = items(&panel["targets"]);
        let queries = targets.iter().map(|target| {
            assert!(text(&target["legendFormat"]).contains("{{"), "{target}");
            text(&target["expr"]).to_owned()
        });
        Panel {
            title: text(&panel["title"]).to_owned(),
            queries: queries.collect(),
        }
    });
    (panels.collect(), text(&limit["query"]["query"]).to_owned())
}

/// Returns a query of the dashboard for all limits and for this window.
pub(crate) fn plain(query: &str, window: &str) -> String {
    query
        .replace(&format!(", {LIMIT}"), "")
        .replace(&format!("{{{LIMIT}}}"), "")
        .replace(WINDOW, window)
}

#[test]
fn the_page_has_the_queries_of_the_dashboard() {
    let page = read("operating.md");
    let (panels, _) = dashboard();
    let rows = panels.iter().map(|panel| {
        let query = plain(&panel.queries[0], "[5m]");
        format!("| {} | `{query}` |\n", panel.title)
    });
    let table = format!(
        "| panel | query |\n|---|---|\n{}\n",
        rows.collect::<String>()
    );
    assert!(page.contains(&table), "operating.md lacks this:\n{table}");
}
