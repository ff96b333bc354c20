//! The merged configuration for people: what holds after all layers, with secrets masked.

use serde_json::{Map, Value, json};

use super::{Config, Sources};

/// What stands in place of a secret.
const MASK: &str = "********";

/// A configuration that may be shown to anybody.
#[derive(Clone, PartialEq, Debug)]
pub struct Shown(Value);

impl Config {
    /// The configuration with its secrets counted and masked.
    #[must_use]
    pub fn show(&self, sources: &Sources) -> Shown {
        let Self { server, paths, store, engine, telemetry, sources: declared } = self;
        let mut shown = json!({
            "server": server,
            "paths": paths,
            "store": store,
            "engine": engine,
            "telemetry": telemetry,
        });
        let each = declared.iter().map(|(name, declared)| {
            let mut source = json!(declared.spec);
            if let Some(table) = source.as_object_mut() {
                if json!(declared.retry) != json!({}) {
                    table.insert("retry".to_owned(), json!(declared.retry));
                }
                table.extend(standing(sources, name.as_str()));
            }
            (name.to_string(), source)
        });
        let each: Map<String, Value> = each.collect();
        if let Some(table) = shown.as_object_mut() {
            table.insert("sources".to_owned(), Value::Object(each));
        }
        mask(&mut shown);
        Shown(shown)
    }
}

/// Whether a source is on, and what it has of secrets.
fn standing(sources: &Sources, name: &str) -> Map<String, Value> {
    let mut shown = Map::new();
    if let Some(source) = sources.on.get(name) {
        let upstream = if source.upstream().is_some() { "on" } else { "off: it has no API key, or declares none" };
        shown.insert("standing".to_owned(), json!({ "door": "on", "upstream": upstream, "secrets": MASK }));
    } else if let Some(off) = sources.off.iter().find(|off| off.source.as_str() == name) {
        shown.insert("standing".to_owned(), json!({ "door": format!("off: {}", off.why) }));
    }
    shown
}

/// Masks what may be a secret although no key of ours asks for one: fixed headers, and passwords in addresses.
fn mask(value: &mut Value) {
    match value {
        Value::Object(table) => {
            if let Some(Value::Object(headers)) = table.get_mut("headers") {
                headers.iter_mut().filter(|(name, _)| is_telling(name)).for_each(|(_, value)| *value = json!(MASK));
            }
            table.values_mut().for_each(mask);
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) => {
            if let Some(masked) = without_password(text) {
                *text = masked;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn is_telling(header: &str) -> bool {
    let header = header.to_lowercase();
    ["auth", "key", "token", "secret", "cookie", "password"].iter().any(|word| header.contains(word))
}

fn without_password(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let (_, host) = host.rsplit_once('@')?;
    Some(format!("{scheme}://{MASK}@{host}{path}"))
}

impl Shown {
    /// As JSON.
    #[must_use]
    pub const fn json(&self) -> &Value {
        &self.0
    }

    /// As TOML, in the form of a configuration file.
    #[must_use]
    pub fn toml(&self) -> String {
        // TOML has no null; a key without a value is left out.
        let mut value = self.0.clone();
        drop_null(&mut value);
        toml::to_string_pretty(&value).unwrap_or_else(|error| format!("# it can't be shown as TOML: {error}\n"))
    }
}

fn drop_null(value: &mut Value) {
    match value {
        Value::Object(table) => {
            table.retain(|_, value| !value.is_null());
            table.values_mut().for_each(drop_null);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_null),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
