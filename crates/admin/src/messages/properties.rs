//! The properties of a message in a request, as AMQP 0.9.1 encodes them.

use amqp091::{ArrayWriter, KEY_BYTES_MAX, Properties, TableWriter, Value as Field};
use bytes::BytesMut;
use serde_json::{Map as Object, Value};

use super::SHORT_STRING_MAX;
use crate::json::ARGUMENT_DEPTH_MAX;
use crate::reply::Failure;

/// Encodes the properties of a message. Unknown names are ignored, as in RabbitMQ.
///
/// # Errors
/// 400 if a property or a header has a value that AMQP 0.9.1 cannot have.
pub(super) fn encode(properties: &Value) -> Result<BytesMut, Failure> {
    let none = Object::new();
    let fields = match properties {
        Value::Object(fields) => fields,
        // Some clients send an empty list if there are none.
        Value::Array(items) if items.is_empty() => &none,
        _ => return Err(Failure::bad_request("'properties' is not an object")),
    };
    let short = |name: &str| match present(fields, name) {
        None => Ok(None),
        Some(Value::String(text)) if text.len() <= SHORT_STRING_MAX => Ok(Some(text.as_bytes())),
        Some(_) => Err(Failure::bad_request(format!(
            "the property '{name}' is not a string of at most {SHORT_STRING_MAX} bytes"
        ))),
    };
    let number = |name: &str, max: u64| match present(fields, name).map(Value::as_u64) {
        None => Ok(None),
        Some(Some(number)) if number <= max => Ok(Some(number)),
        Some(_) => {
            Err(Failure::bad_request(format!("the property '{name}' is not a whole number from 0 to {max}")))
        }
    };
    let octet = |name: &str| number(name, u8::MAX.into()).map(|n| n.map(|n| n as u8));
    let encoded = Properties {
        content_type: short("content_type")?,
        content_encoding: short("content_encoding")?,
        headers: None,
        delivery_mode: octet("delivery_mode")?,
        priority: octet("priority")?,
        correlation_id: short("correlation_id")?,
        reply_to: short("reply_to")?,
        expiration: short("expiration")?,
        message_id: short("message_id")?,
        timestamp: number("timestamp", u64::MAX)?,
        message_type: short("type")?,
        user_id: short("user_id")?,
        app_id: short("app_id")?,
        cluster_id: short("cluster_id")?,
    };
    let headers = match present(fields, "headers") {
        None => None,
        Some(Value::Object(headers)) => {
            let mut table = BytesMut::new();
            put_fields(&mut TableWriter::new(&mut table), headers, ARGUMENT_DEPTH_MAX)?;
            Some(table)
        }
        Some(Value::Array(items)) if items.is_empty() => None,
        Some(_) => return Err(Failure::bad_request("the property 'headers' is not an object")),
    };
    let mut list = BytesMut::new();
    encoded.put_with_headers(&mut list, |out| headers.map(|table| out.extend_from_slice(&table)));
    Ok(list)
}

/// Returns a field. `null` means that it is absent.
fn present<'a>(fields: &'a Object<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

fn put_fields(
    table: &mut TableWriter<'_>,
    fields: &Object<String, Value>,
    depth: usize,
) -> Result<(), Failure> {
    for (name, value) in fields {
        if name.len() > KEY_BYTES_MAX {
            return Err(Failure::bad_request(format!(
                "the name of a header is longer than {KEY_BYTES_MAX} bytes"
            )));
        }
        match value {
            Value::Object(fields) => put_fields(&mut table.table(name), fields, deeper(depth)?)?,
            Value::Array(items) => put_items(&mut table.array(name), items, deeper(depth)?)?,
            value => table.put(name, &plain(value)?),
        }
    }
    Ok(())
}

fn put_items(array: &mut ArrayWriter<'_>, items: &[Value], depth: usize) -> Result<(), Failure> {
    for item in items {
        match item {
            Value::Object(fields) => put_fields(&mut array.table(), fields, deeper(depth)?)?,
            Value::Array(items) => put_items(&mut array.array(), items, deeper(depth)?)?,
            value => array.put(&plain(value)?),
        }
    }
    Ok(())
}

fn deeper(depth: usize) -> Result<usize, Failure> {
    depth.checked_sub(1).ok_or_else(|| Failure::bad_request("a header is nested too deeply"))
}

/// Returns a value that is neither a table nor an array. Whole numbers have 64 bits, as in RabbitMQ.
fn plain(value: &Value) -> Result<Field<'_>, Failure> {
    Ok(match value {
        Value::Bool(value) => Field::Bool(*value),
        Value::String(text) => Field::LongString(text.as_bytes()),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Field::I64(whole),
            (None, Some(float)) if !number.is_u64() => Field::F64(float),
            _ => {
                return Err(Failure::bad_request(format!(
                    "the header value {number} is greater than {}",
                    i64::MAX
                )));
            }
        },
        Value::Null | Value::Array(_) | Value::Object(_) => Field::Void,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::basic_properties;

    #[test]
    fn properties_survive_a_round_trip() {
        for text in [
            r#"{}"#,
            r#"{"content_type":"text/plain","headers":{"a":"é","n":-7,"f":1.5,"t":true,"v":null,"l":[1,[],{"k":"v"}],"o":{"p":{}}},"delivery_mode":2,"priority":255,"correlation_id":"c","reply_to":"r","expiration":"60000","message_id":"m","timestamp":1700000000,"type":"t","user_id":"u","app_id":"a","cluster_id":"x"}"#,
        ] {
            let list = encode(&serde_json::from_str(text).unwrap()).unwrap();
            assert!(Properties::parse(&list).is_ok());
            assert_eq!(basic_properties(&list).to_string(), text);
        }
        for none in [r#"[]"#, r#"{"priority":null,"headers":[],"unknown":1}"#] {
            let list = encode(&serde_json::from_str(none).unwrap()).unwrap();
            assert_eq!(basic_properties(&list).to_string(), "{}", "{none}");
        }
    }

    #[test]
    fn values_that_amqp_cannot_have_are_refused() {
        let long = "x".repeat(256);
        let deep = format!(r#"{{"headers":{{"a":{}{}}}}}"#, "[".repeat(9), "]".repeat(9));
        for (text, reason) in [
            (r#"7"#, "'properties' is not an object"),
            (r#"{"headers":"x"}"#, "the property 'headers' is not an object"),
            (r#"{"priority":256}"#, "the property 'priority' is not a whole number from 0 to 255"),
            (r#"{"delivery_mode":"2"}"#, "the property 'delivery_mode' is not a whole number from 0 to 255"),
            (
                r#"{"timestamp":-1}"#,
                "the property 'timestamp' is not a whole number from 0 to 18446744073709551615",
            ),
            (r#"{"type":1}"#, "the property 'type' is not a string of at most 255 bytes"),
            (
                &format!(r#"{{"app_id":"{long}"}}"#),
                "the property 'app_id' is not a string of at most 255 bytes",
            ),
            (&format!(r#"{{"headers":{{"{long}":1}}}}"#), "the name of a header is longer than 255 bytes"),
            (
                r#"{"headers":{"n":9223372036854775808}}"#,
                "the header value 9223372036854775808 is greater than 9223372036854775807",
            ),
            (&deep, "a header is nested too deeply"),
        ] {
            let refused = encode(&serde_json::from_str(text).unwrap()).unwrap_err();
            assert_eq!(refused.reason, reason);
        }
    }
}
