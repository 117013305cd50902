//! Conversion between JSON and AMQP values, and parsers for the fields of request bodies.

use amqp10::{Map, Value as Amqp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use catalog::Arguments;
use serde_json::{Map as Object, Number, Value};

use crate::reply::Failure;

/// The greatest depth of nested lists and objects in an argument. Arguments that are nested more deeply are
/// refused, because they could not be read back.
pub(crate) const ARGUMENT_DEPTH_MAX: usize = 8;

/// Parses a body as an object. An empty body and `null` are the empty object, as in RabbitMQ.
///
/// # Errors
/// 400 `not_json` for any other body.
pub(crate) fn parse_body(body: &[u8]) -> Result<Object<String, Value>, Failure> {
    if body.trim_ascii().is_empty() {
        return Ok(Object::new());
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(Value::Null) => Ok(Object::new()),
        _ => Err(Failure::bad_request("not_json")),
    }
}

/// Returns a boolean field. The strings `true` and `false` are accepted, too.
///
/// # Errors
/// 400 for any other value.
pub(crate) fn boolean(fields: &Object<String, Value>, name: &str, default: bool) -> Result<bool, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(Value::Bool(value)) => Ok(*value),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(_) => Err(Failure::bad_request(format!("'{name}' is not a boolean"))),
    }
}

/// Returns a string field.
///
/// # Errors
/// 400 for any other value.
pub(crate) fn text(fields: &Object<String, Value>, name: &str, default: &str) -> Result<String, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(default.to_owned()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Failure::bad_request(format!("'{name}' is not a string"))),
    }
}

/// Returns an integer field.
///
/// # Errors
/// 400 for any other value.
pub(crate) fn integer(fields: &Object<String, Value>, name: &str, default: i64) -> Result<i64, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => {
            value.as_i64().ok_or_else(|| Failure::bad_request(format!("'{name}' is not a whole number")))
        }
    }
}

/// Returns the field `arguments`.
///
/// # Errors
/// 400 if it is not an object or is nested too deeply.
pub(crate) fn arguments(fields: &Object<String, Value>) -> Result<Arguments, Failure> {
    table(fields, "arguments")
}

/// Returns an object field. The catalog limits how much it may contain.
///
/// # Errors
/// 400 if it is not an object or is nested too deeply.
pub(crate) fn table(fields: &Object<String, Value>, name: &str) -> Result<Arguments, Failure> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(Arguments::new()),
        // Some clients send an empty list if they have no arguments.
        Some(Value::Array(items)) if items.is_empty() => Ok(Arguments::new()),
        Some(Value::Object(arguments)) => {
            arguments.iter().map(|(k, v)| Ok((k.clone(), to_amqp(v, ARGUMENT_DEPTH_MAX)?))).collect()
        }
        Some(_) => Err(Failure::bad_request(format!("'{name}' is not an object"))),
    }
}

/// Converts arguments to a JSON object.
pub(crate) fn from_arguments(arguments: &Arguments) -> Value {
    Value::Object(arguments.iter().map(|(k, v)| (k.clone(), from_amqp(v))).collect())
}

fn to_amqp(value: &Value, depth: usize) -> Result<Amqp, Failure> {
    let deeper =
        || depth.checked_sub(1).ok_or_else(|| Failure::bad_request("an argument is nested too deeply"));
    Ok(match value {
        Value::Null => Amqp::Null,
        Value::Bool(v) => Amqp::Boolean(*v),
        Value::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(v), _) => Amqp::Long(v),
            (None, Some(v)) => Amqp::Ulong(v),
            (None, None) => Amqp::Double(n.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Amqp::String(text.clone()),
        Value::Array(items) => {
            let depth = deeper()?;
            Amqp::List(items.iter().map(|v| to_amqp(v, depth)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let depth = deeper()?;
            let pairs: Result<Vec<_>, Failure> =
                fields.iter().map(|(k, v)| Ok((Amqp::String(k.clone()), to_amqp(v, depth)?))).collect();
            Amqp::Map(Map(pairs?))
        }
    })
}

/// Shows the arguments that the broker does not know, each with the one that was probably meant. Adds nothing if there are none.
pub(crate) fn add_unknown_arguments(body: &mut Value, unknown: Vec<(&str, Option<&'static str>)>) {
    if !unknown.is_empty() {
        let rows = unknown.into_iter().map(|(name, meant)| (name.to_owned(), meant.into()));
        body["unknown_arguments"] = Value::Object(rows.collect());
    }
}

/// Converts a value to JSON. Octets become text if they are UTF-8, else base64. A number that JSON cannot
/// represent becomes `null`.
pub(crate) fn from_amqp(value: &Amqp) -> Value {
    let float = |v: f64| Number::from_f64(v).map_or(Value::Null, Value::Number);
    match value {
        Amqp::Null => Value::Null,
        Amqp::Boolean(v) => Value::Bool(*v),
        Amqp::Float(v) => float((*v).into()),
        Amqp::Double(v) => float(*v),
        Amqp::Decimal32(octets) => octets_to_json(octets),
        // Arguments of AMQP 0.9.1 may be decimals.
        Amqp::Decimal64(octets) => match amqp10::decimal::scale_and_value(*octets) {
            Some((scale, value)) => float(f64::from(value) / 10f64.powi(scale.into())),
            None => octets_to_json(octets),
        },
        Amqp::Decimal128(octets) => octets_to_json(octets),
        Amqp::Char(c) => c.to_string().into(),
        Amqp::Timestamp(ms) => (*ms).into(),
        Amqp::Uuid(octets) => uuid(octets).into(),
        Amqp::Binary(octets) => {
            std::str::from_utf8(octets).map_or_else(|_| octets_to_json(octets), |text| text.into())
        }
        Amqp::List(items) => items.iter().map(from_amqp).collect(),
        Amqp::Array(array) => array.items().iter().map(from_amqp).collect(),
        Amqp::Map(map) => Value::Object(map.iter().map(|(k, v)| (key(k), from_amqp(v))).collect()),
        Amqp::Described(described) => from_amqp(&described.value),
        other => match (other.as_str(), other.as_i64(), other.as_u64()) {
            (Some(text), ..) => text.into(),
            (_, Some(v), _) => v.into(),
            (.., Some(v)) => v.into(),
            _ => Value::Null,
        },
    }
}

fn key(value: &Amqp) -> String {
    match from_amqp(value) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn octets_to_json(octets: &[u8]) -> Value {
    STANDARD.encode(octets).into()
}

fn uuid(octets: &[u8; 16]) -> String {
    let hex: String = octets.iter().map(|b| format!("{b:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_a_round_trip() {
        let sent = r#"{"arguments":{"b":true,"f":1.5,"i":-7,"l":[1,"x",null],"m":{"k":{"z":2}},"u":18446744073709551615}}"#;
        let arguments = arguments(&parse_body(sent.as_bytes()).unwrap()).unwrap();
        assert_eq!(arguments.get("i"), Some(&Amqp::Long(-7)));
        assert_eq!(arguments.get("u"), Some(&Amqp::Ulong(u64::MAX)));
        assert_eq!(format!(r#"{{"arguments":{}}}"#, from_arguments(&arguments)), sent);
    }

    #[test]
    fn nesting_has_a_bound() {
        let deep = format!(r#"{{"arguments":{{"a":{}{}}}}}"#, "[".repeat(9), "]".repeat(9));
        assert!(arguments(&parse_body(deep.as_bytes()).unwrap()).is_err());
        let deep = format!(r#"{{"arguments":{{"a":{}{}}}}}"#, "[".repeat(8), "]".repeat(8));
        assert!(arguments(&parse_body(deep.as_bytes()).unwrap()).is_ok());
    }

    #[test]
    fn every_type_has_a_json_form() {
        let cases = [
            (Amqp::Symbol("s".into()), r#""s""#),
            (Amqp::Uuid([0xab; 16]), r#""abababab-abab-abab-abab-abababababab""#),
            (Amqp::Binary("text".into()), r#""text""#),
            (Amqp::Binary(vec![0xff].into()), r#""/w==""#),
            (Amqp::Ubyte(1), "1"),
            (Amqp::Byte(-1), "-1"),
            (Amqp::Double(f64::NAN), "null"),
            (Amqp::Decimal64(amqp10::decimal::decimal64(2, 314)), "3.14"),
            (Amqp::Decimal64([0xff; 8]), r#""//////////8=""#),
            (Amqp::Char('é'), r#""é""#),
            (Amqp::Map([(1u32, 2u32)].into_iter().collect()), r#"{"1":2}"#),
        ];
        for (value, json) in cases {
            assert_eq!(from_amqp(&value).to_string(), json);
        }
    }
}
