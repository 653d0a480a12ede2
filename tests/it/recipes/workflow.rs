//! deploy/n8n/workflow.json: whole, and in the words of the API it calls.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Recipe, file};
use crate::bed::Database;
use crate::decision::{Site, post};

const ONCEGATE: &str = "http://oncegate:8080";

fn json_of(path: &str) -> Value {
    serde_json::from_str(&file(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn nodes() -> BTreeMap<String, Value> {
    let workflow = json_of("deploy/n8n/workflow.json");
    let nodes = workflow["nodes"].as_array().expect("nodes").clone();
    let named: BTreeMap<_, _> =
        nodes.iter().map(|node| (text(&node["name"]), node.clone())).collect();
    assert_eq!(named.len(), nodes.len(), "names are unique");
    named
}

#[track_caller]
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn kind(node: &Value) -> String {
    text(&node["type"]).trim_start_matches("n8n-nodes-base.").to_owned()
}

/// Whom each node is connected to, by its outputs.
fn connections() -> BTreeMap<String, Vec<Vec<String>>> {
    let workflow = json_of("deploy/n8n/workflow.json");
    let connections = workflow["connections"].as_object().expect("connections");
    let targets = |output: &Value| -> Vec<String> {
        let targets = output.as_array().expect("targets").iter();
        targets.map(|target| text(&target["node"])).collect()
    };
    connections
        .iter()
        .map(|(from, to)| {
            let outputs = to["main"].as_array().expect("outputs").iter();
            (from.clone(), outputs.map(targets).collect())
        })
        .collect()
}

#[test]
fn the_workflow_is_well_formed() {
    let (nodes, connections) = (nodes(), connections());
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    for (name, node) in &nodes {
        assert!(node["typeVersion"].is_number(), "{name}");
        assert!(node["id"].is_string() && node["position"].is_array(), "{name}");
        if matches!(kind(node).as_str(), "webhook" | "stickyNote") {
            reached.insert(name);
        }
        // What an expression looks back at is there.
        for named in
            node.to_string().split("$('").skip(1).filter_map(|rest| rest.split('\'').next())
        {
            assert!(nodes.contains_key(named), "{name} refers to {named}");
        }
    }
    for (from, outputs) in &connections {
        assert!(nodes.contains_key(from), "{from} is connected and not there");
        for target in outputs.iter().flatten() {
            assert!(nodes.contains_key(target), "{from} leads to {target}, which is not there");
        }
    }
    let mut left: Vec<&str> = reached.iter().copied().collect();
    while let Some(name) = left.pop() {
        for target in connections.get(name).into_iter().flatten().flatten() {
            if reached.insert(target) {
                left.push(target);
            }
        }
    }
    let all: BTreeSet<&str> = nodes.keys().map(String::as_str).collect();
    assert_eq!(reached, all, "every node is reached from a trigger");

    // Each decision has its branch, and both ends of the business are told.
    let description = json_of("src/admin/openapi.json");
    let answer = &description["paths"]["/acquire"]["post"]["responses"]["200"]["content"];
    let decisions = &answer["application/json"]["schema"]["properties"]["decision"]["enum"];
    let rules = nodes["Which decision?"]["parameters"]["rules"]["values"].as_array();
    let words: Vec<_> = rules
        .expect("rules")
        .iter()
        .map(|rule| rule["conditions"]["conditions"][0]["rightValue"].clone())
        .collect();
    assert_eq!(&Value::Array(words), decisions);
    assert_eq!(connections["Which decision?"].len(), 4);
    assert_eq!(connections["Which decision?"][0], ["Business"]);
    assert_eq!(connections["Business"], [["Complete: DONE"], ["Complete: FAILED"]]);
    assert_eq!(nodes["Business"]["onError"], "continueErrorOutput");

    // The recipe calls back where the workflow listens.
    let path = text(&nodes["Due again"]["parameters"]["path"]);
    assert!(Recipe::read("n8n").0.contains(&format!("/webhook/{path}\"")), "{path}");
}

/// The members of an object in an expression, with what stands for each.
fn members(expression: &str) -> BTreeMap<String, String> {
    let inner = expression
        .strip_prefix("={{ JSON.stringify({ ")
        .and_then(|rest| rest.strip_suffix(" }) }}"))
        .unwrap_or_else(|| panic!("another form of expression: {expression}"));
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for character in inner.chars() {
        match character {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().expect("there is one").push(character);
    }
    let pairs = parts.iter().map(|part| part.split_once(": ").expect("a name and a value"));
    pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
}

fn requests() -> Vec<(String, Value, BTreeMap<String, String>)> {
    let calls = nodes().into_iter().filter(|(_, node)| {
        kind(node) == "httpRequest" && text(&node["parameters"]["url"]).starts_with(ONCEGATE)
    });
    calls
        .map(|(name, node)| {
            let body = members(&text(&node["parameters"]["jsonBody"]));
            (name, node, body)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_one_that_the_api_describes() {
    let description = json_of("src/admin/openapi.json");
    let requests = requests();
    assert_eq!(requests.len(), 3, "acquire, and two ways to complete");
    for (name, node, body) in &requests {
        let parameters = &node["parameters"];
        let path = text(&parameters["url"]).trim_start_matches(ONCEGATE).to_owned();
        let method = text(&parameters["method"]).to_lowercase();
        let operation = &description["paths"][&path][&method];
        assert!(operation.is_object(), "{name}: {method} {path}");
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        for member in body.keys() {
            assert!(schema["properties"][member].is_object(), "{name}: {member}");
        }
        for member in schema["required"].as_array().expect("required members") {
            assert!(body.contains_key(&text(member)), "{name} lacks {member}");
        }
        if let Some(status) = body.get("final_status") {
            let words = schema["properties"]["final_status"]["enum"].as_array().expect("words");
            assert!(words.contains(&json!(status.trim_matches('\''))), "{name}: {status}");
        }
        assert_eq!(parameters["genericAuthType"], "httpHeaderAuth", "{name}");
        assert!(node["credentials"]["httpHeaderAuth"].is_object(), "{name}");
    }
    // And the API takes them, with values as n8n would fill them in.
    let Some(site) = Site::on(Database::Sqlite) else { return };
    let gateway = site.gateway("").await;
    let send = async |name: &str, key: &str, first: &Value| {
        let (_, node, body) = requests.iter().find(|(other, ..)| other == name).expect(name);
        let filled = body.iter().map(|(member, value)| {
            let value = match member.as_str() {
                "scope" => json!("order_process"),
                "idempotency_key" => json!(key),
                "attempt_count" | "token" => first[member].clone(),
                "result" => json!({ "id": 7 }),
                _ => {
                    serde_json::from_str(value).unwrap_or_else(|_| json!(value.trim_matches('\'')))
                }
            };
            (member.clone(), value)
        });
        let body = Value::Object(filled.collect());
        let path = text(&node["parameters"]["url"]).trim_start_matches(ONCEGATE).to_owned();
        let answer = post(&gateway, &path, &body).await;
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        answer.json()
    };
    for (ending, key, then) in [
        ("Complete: DONE", "done", "SKIP_ALREADY_DONE"),
        ("Complete: FAILED", "failed", "RETRY_LATER"),
    ] {
        let first = send("Acquire", key, &json!({})).await;
        assert_eq!(first["decision"], "PROCEED");
        assert_eq!(send(ending, key, &first).await["ok"], true);
        assert_eq!(send("Acquire", key, &json!({})).await["decision"], then);
    }
    // What the workflow reads of a callback is in it.
    let noticed = ["tenant", "scope", "idempotency_key", "status", "attempt_count", "last_error"];
    for read in nodes()["From oncegate"].to_string().split("$json.body.").skip(1) {
        let member = read.split(|c: char| !(c.is_ascii_alphabetic() || c == '_')).next();
        assert!(member.is_some_and(|member| noticed.contains(&member)), "{member:?}");
    }
}
