//! One spelling for equal JSON, and its SHA-256: what a confirmation is bound to and what the audit log records.
//!
//! Source: RFC 8785 (JSON Canonicalization Scheme): no spaces, members sorted by UTF-16 code units, shortest escapes,
//! numbers as ECMAScript prints them. One departure, on purpose: integers beyond 2^53 keep all their digits, because a
//! tool receives all of them, and two calls that a tool can tell apart must never share a hash.

use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

/// The canonical text of a value, UTF-8.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// SHA-256 over the canonical text of a call's arguments. Absent arguments are the empty object.
pub fn arguments_sha256(arguments: &Map<String, Value>) -> [u8; 32] {
    let mut out = String::new();
    write_object(&mut out, arguments);
    Sha256::digest(out.as_bytes()).into()
}

/// SHA-256 over the canonical text of any value.
pub fn canonical_sha256(value: &Value) -> [u8; 32] {
    Sha256::digest(canonical_json(value).as_bytes()).into()
}

// Depth is bounded by the parser (serde_json stops at 128), so recursion is safe.
fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => write_object(out, members),
    }
}

fn write_object(out: &mut String, members: &Map<String, Value>) {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    out.push('{');
    for (at, (key, value)) in sorted.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_string(out, key);
        out.push(':');
        write_value(out, value);
    }
    out.push('}');
}

/// RFC 8785 3.2.2.2.
fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// ECMAScript `Number::toString`, from the shortest digits that read back as the same double.
fn write_number(out: &mut String, number: &Number) {
    let float = match number.as_f64() {
        Some(float) if number.is_f64() && float.is_finite() => float,
        _ => return out.push_str(&number.to_string()),
    };
    if float == 0.0 {
        return out.push('0');
    }
    if float < 0.0 {
        out.push('-');
    }
    let scientific = format!("{:e}", float.abs());
    let (mantissa, exponent) = scientific.split_once('e').expect("`{:e}` always prints an exponent");
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let exponent: i32 = exponent.parse().expect("`{:e}` prints a decimal exponent");
    let (count, point) = (digits.len() as i32, exponent + 1);
    if (count..=21).contains(&point) {
        out.push_str(&digits);
        out.extend(std::iter::repeat_n('0', (point - count) as usize));
    } else if (1..=21).contains(&point) {
        let (whole, fraction) = digits.split_at(point as usize);
        out.push_str(&format!("{whole}.{fraction}"));
    } else if (-5..=0).contains(&point) {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', -point as usize));
        out.push_str(&digits);
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push_str(&format!("{first}{dot}{rest}e{sign}{}", exponent.abs()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> String {
        canonical_json(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn the_examples_of_rfc_8785_come_out_as_printed_there() {
        let sent = r#"{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],
            "string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}"#;
        assert_eq!(
            canonical(sent),
            r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#
        );
        // Section 3.2.3: sorted by UTF-16 code units, where a surrogate pair comes before U+FB33.
        assert_eq!(
            canonical(r#"{"\ufb33":1,"\u20ac":2,"\ud83d\ude00":3,"\r":4,"1":5}"#),
            "{\"\\r\":4,\"1\":5,\"€\":2,\"😀\":3,\"\u{fb33}\":1}"
        );
    }

    #[test]
    fn numbers_are_printed_as_ecmascript_prints_them() {
        for (sent, printed) in [
            ("1.0", "1"),
            ("-0.0", "0"),
            ("-1.5", "-1.5"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("123456789.125", "123456789.125"),
            ("1e-6", "0.000001"),
            ("1e-7", "1e-7"),
            ("1.5e-9", "1.5e-9"),
            ("5e-324", "5e-324"),
            ("18446744073709551615", "18446744073709551615"),
        ] {
            assert_eq!(canonical(sent), printed, "{sent}");
        }
    }

    #[test]
    fn the_hash_depends_on_the_arguments_and_not_on_their_spelling() {
        let hash = |json: &str| arguments_sha256(serde_json::from_str::<Value>(json).unwrap().as_object().unwrap());
        let one = hash(r#"{"kind":"note","body":{"a":1,"b":[true,null]}}"#);
        assert_eq!(one, hash(r#"{ "body": {"b":[true,null], "a":1.0}, "kind":"n\u006fte" }"#));
        assert_ne!(one, hash(r#"{"kind":"note","body":{"a":1,"b":[null,true]}}"#));
        assert_ne!(hash(r#"{"n":9007199254740993}"#), hash(r#"{"n":9007199254740992}"#));
        // Written down, so that tokens and audit rows of an earlier release still match.
        assert_eq!(hex::encode(hash("{}")), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }
}
