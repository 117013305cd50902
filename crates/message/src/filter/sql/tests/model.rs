//! A second, simple implementation of the language. Random expressions are checked against it.
//!
//! It shares only the text of the expression with the tested code. Numbers are small enough to be exact in a
//! double.

use proptest::prelude::*;

/// The values of the identifiers in the random tests, as the text of a message.
pub(super) const MESSAGE: &str = "six=uint 6; half=double 0.5; minus=int -3; zero=ubyte 0; word=string abcab; short=symbol a; \
     empty=string ; yes=true; no=false; nothing=null; p.subject=string ab; p.group_sequence=uint 2; h.priority=5";

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Unknown,
    Boolean(bool),
    Number { v: f64, whole: bool },
    Text(String),
}

fn lookup(name: &str) -> Value {
    let number = |v: f64| Value::Number { v, whole: v.fract() == 0.0 };
    match name {
        "six" => number(6.0),
        "half" => number(0.5),
        "minus" => number(-3.0),
        "zero" => number(0.0),
        "word" => Value::Text("abcab".into()),
        "short" => Value::Text("a".into()),
        "empty" => Value::Text(String::new()),
        "yes" => Value::Boolean(true),
        "no" => Value::Boolean(false),
        "p.subject" => Value::Text("ab".into()),
        "p.group_sequence" => number(2.0),
        "h.priority" => number(5.0),
        _ => Value::Unknown,
    }
}

const NAMES: [&str; 16] = [
    "six",
    "half",
    "minus",
    "zero",
    "word",
    "short",
    "empty",
    "yes",
    "no",
    "nothing",
    "gone",
    "p.subject",
    "p.group_sequence",
    "p.to",
    "h.priority",
    "[gone]",
];

/// An expression and its text, with parentheses around everything except single words.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Name(&'static str),
    Number(u8),
    Half(u8),
    Text(String),
    Boolean(bool),
    Not(Box<Tree>),
    Sign(&'static str, Box<Tree>),
    Two(&'static str, Box<Tree>, Box<Tree>),
    Like(Box<Tree>, String),
    In(Box<Tree>, Vec<Tree>),
    IsNull(&'static str),
}

impl Tree {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Name(name) => (*name).to_owned(),
            Self::Number(n) => n.to_string(),
            Self::Half(n) => format!("{n}.5"),
            Self::Text(text) => format!("'{text}'"),
            Self::Boolean(v) => if *v { "TRUE" } else { "FALSE" }.to_owned(),
            Self::Not(inner) => format!("(NOT {})", inner.text()),
            Self::Sign(sign, inner) => format!("({sign}{})", inner.text()),
            Self::Two(operator, left, right) => format!("({} {operator} {})", left.text(), right.text()),
            Self::Like(inner, pattern) => format!("({} LIKE '{pattern}')", inner.text()),
            Self::In(inner, list) => {
                let list: Vec<String> = list.iter().map(Self::text).collect();
                format!("({} IN ({}))", inner.text(), list.join(", "))
            }
            Self::IsNull(name) => format!("({name} IS NULL)"),
        }
    }

    pub(super) fn value(&self) -> Value {
        match self {
            Self::Name(name) => lookup(name),
            Self::Number(n) => Value::Number { v: (*n).into(), whole: true },
            Self::Half(n) => Value::Number { v: f64::from(*n) + 0.5, whole: false },
            Self::Text(text) => Value::Text(text.clone()),
            Self::Boolean(v) => Value::Boolean(*v),
            Self::Not(inner) => known(truth(&inner.value()).map(|v| !v)),
            Self::Sign(sign, inner) => match inner.value() {
                Value::Number { v, whole } => Value::Number { v: if *sign == "-" { -v } else { v }, whole },
                _ => Value::Unknown,
            },
            Self::Two("AND", left, right) => known(kleene(&left.value(), &right.value(), false)),
            Self::Two("OR", left, right) => known(kleene(&left.value(), &right.value(), true)),
            Self::Two(operator @ ("+" | "-" | "*" | "/" | "%"), left, right) => {
                arithmetic(operator, left.value(), right.value())
            }
            Self::Two(operator, left, right) => known(compare(operator, &left.value(), &right.value())),
            Self::Like(inner, pattern) => match inner.value() {
                Value::Text(text) => Value::Boolean(like(&text, pattern)),
                _ => Value::Unknown,
            },
            Self::In(inner, list) => match inner.value() {
                Value::Unknown => Value::Unknown,
                wanted => {
                    Value::Boolean(list.iter().any(|item| compare("=", &item.value(), &wanted) == Some(true)))
                }
            },
            Self::IsNull(name) => Value::Boolean(lookup(name) == Value::Unknown),
        }
    }

    /// Evaluates to true, false or unknown.
    pub(super) fn truth(&self) -> Option<bool> {
        truth(&self.value())
    }
}

fn known(truth: Option<bool>) -> Value {
    truth.map_or(Value::Unknown, Value::Boolean)
}

fn truth(value: &Value) -> Option<bool> {
    if let Value::Boolean(v) = value { Some(*v) } else { None }
}

/// AND if `decides` is false, OR if it is true. One side equal to `decides` decides; otherwise both sides
/// must be known.
fn kleene(left: &Value, right: &Value, decides: bool) -> Option<bool> {
    let (left, right) = (truth(left), truth(right));
    if left == Some(decides) || right == Some(decides) {
        return Some(decides);
    }
    if left.is_none() || right.is_none() { None } else { Some(!decides) }
}

fn arithmetic(operator: &str, left: Value, right: Value) -> Value {
    let (Value::Number { v: a, whole: a_whole }, Value::Number { v: b, whole: b_whole }) = (left, right)
    else {
        return Value::Unknown;
    };
    let whole = a_whole && b_whole;
    match operator {
        "+" => Value::Number { v: a + b, whole },
        "-" => Value::Number { v: a - b, whole },
        "*" => Value::Number { v: a * b, whole },
        "/" if b != 0.0 => Value::Number { v: a / b, whole: false },
        "%" if whole && b != 0.0 => Value::Number { v: a % b, whole },
        _ => Value::Unknown,
    }
}

fn compare(operator: &str, left: &Value, right: &Value) -> Option<bool> {
    let order = match (left, right) {
        (Value::Unknown, _) | (_, Value::Unknown) => return None,
        (Value::Number { v: a, .. }, Value::Number { v: b, .. }) => a.partial_cmp(b),
        (Value::Text(a), Value::Text(b)) => Some(a.cmp(b)),
        (Value::Boolean(a), Value::Boolean(b)) => {
            return Some(match operator {
                "=" => a == b,
                "<>" => a != b,
                _ => false,
            });
        }
        _ => None,
    };
    Some(match operator {
        "=" => order.is_some_and(|o| o.is_eq()),
        "<>" => !order.is_some_and(|o| o.is_eq()),
        "<" => order.is_some_and(|o| o.is_lt()),
        "<=" => order.is_some_and(|o| o.is_le()),
        ">" => order.is_some_and(|o| o.is_gt()),
        _ => order.is_some_and(|o| o.is_ge()),
    })
}

/// Converts the text of a tree to the other dialect. Strings of trees contain only the letters a, b and c.
pub(super) fn as_selector(text: &str) -> String {
    let names = [
        ("p.subject", "JMSType"),
        ("p.group_sequence", "JMSXGroupSeq"),
        ("p.to", "\"properties.to\""),
        ("h.priority", "JMSPriority"),
        ("[gone]", "\"gone\""),
        ("AND", "and"),
        (" IN ", " In "),
    ];
    names.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// Matches by trying everything.
pub(super) fn like(text: &str, pattern: &str) -> bool {
    let mut rest = pattern.chars();
    let mut rest_of_text = text.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('%') => {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| like(&text[at..], rest.as_str()))
        }
        Some('_') => rest_of_text.next().is_some() && like(rest_of_text.as_str(), rest.as_str()),
        Some(c) => rest_of_text.next() == Some(c) && like(rest_of_text.as_str(), rest.as_str()),
    }
}

pub(super) fn pattern() -> impl Strategy<Value = String> {
    "[abc%_]{0,7}"
}

/// Returns random expressions of a few dozen tokens.
pub(super) fn tree() -> impl Strategy<Value = Tree> {
    const OPERATORS: [&str; 13] = ["AND", "OR", "AND", "OR", "=", "<>", "<", "<=", ">", ">=", "+", "-", "*"];
    let name = || proptest::sample::select(&NAMES[..]);
    let leaf = prop_oneof![
        5 => name().prop_map(Tree::Name),
        2 => (0u8..8).prop_map(Tree::Number),
        1 => (0u8..4).prop_map(Tree::Half),
        1 => "[abc]{0,3}".prop_map(Tree::Text),
        1 => any::<bool>().prop_map(Tree::Boolean),
        1 => name().prop_map(Tree::IsNull),
    ];
    leaf.prop_recursive(5, 24, 3, move |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let any_operator = proptest::sample::select(&OPERATORS[..]);
        let rare_operator = proptest::sample::select(&["/", "%"][..]);
        prop_oneof![
            2 => boxed().prop_map(Tree::Not),
            1 => (proptest::sample::select(&["+", "-"][..]), boxed()).prop_map(|(s, t)| Tree::Sign(s, t)),
            6 => (any_operator, boxed(), boxed()).prop_map(|(o, l, r)| Tree::Two(o, l, r)),
            1 => (rare_operator, boxed(), boxed()).prop_map(|(o, l, r)| Tree::Two(o, l, r)),
            1 => (boxed(), pattern()).prop_map(|(t, p)| Tree::Like(t, p)),
            1 => (boxed(), proptest::collection::vec(inner.clone(), 1..4)).prop_map(|(t, l)| Tree::In(t, l)),
        ]
    })
}
