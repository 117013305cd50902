//! Converts tokens to a tree. There is a method for each rule of the grammar.
//!
//! ```text
//!  or          and ("OR" and)*
//!  and         not ("AND" not)*
//!  not         "NOT" not | comparison
//!  comparison  identifier "IS" ["NOT"] "NULL"
//!            | sum [ ("=" | "<>" | "<" | "<=" | ">" | ">=") sum
//!                  | ["NOT"] "BETWEEN" sum "AND" sum                      in selectors only
//!                  | ["NOT"] "LIKE" string ["ESCAPE" string]
//!                  | ["NOT"] "IN" "(" sum ("," sum)* ")" ]
//!  sum         product (("+" | "-") product)*
//!  product     signed (("*" | "/" | "%") signed)*
//!  signed      ["+" | "-"] primary
//!  primary     "(" or ")" | literal | identifier | "UTC" "(" ")"
//! ```
//!
//! Operators of one rule are left-associative. The bound on tokens limits the length of every chain. Only
//! `NOT` and `(` lead to a nested use of the same rule, and they are counted.

use std::vec;

use super::ast::{Expr, Identifier, Literal, Operator, Sign, Slot};
use super::error::{SqlError, SqlProblem};
use super::lexer::tokens;
use super::like::Like;
use super::token::{Kind, Token};
use super::{DEPTH_MAX, Dialect};

/// Parses a text. Returns the tree and the identifier of each slot.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<(Expr, Vec<Identifier>), SqlError> {
    let tokens = tokens(text, dialect)?.into_iter();
    let mut parser = Parser { tokens, end: text.len(), depth: 0, identifiers: Vec::new() };
    let root = parser.or()?;
    if parser.peek(0).is_some() {
        return Err(parser.expected("an operator or the end"));
    }
    Ok((root, parser.identifiers))
}

struct Parser {
    tokens: vec::IntoIter<Token>,
    /// The length of the text. Errors at the end of the tokens have this position.
    end: usize,
    /// The number of open parentheses and NOTs.
    depth: u32,
    identifiers: Vec<Identifier>,
}

type Parsed = Result<Expr, SqlError>;

impl Parser {
    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.take(&Kind::Or) {
            left = Expr::Or(Box::new([left, self.and()?]));
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.not()?;
        while self.take(&Kind::And) {
            left = Expr::And(Box::new([left, self.not()?]));
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed {
        if self.take(&Kind::Not) { self.deeper(Self::not).map(negated) } else { self.comparison() }
    }

    fn comparison(&mut self) -> Parsed {
        if let (Some(Kind::Identifier(_)), Some(Kind::Is)) = (self.peek(0), self.peek(1)) {
            return self.is_null();
        }
        let left = self.sum()?;
        if let Some(&Kind::Compare(how)) = self.peek(0) {
            self.skip();
            return Ok(Expr::Compare(how, Box::new([left, self.sum()?])));
        }
        let not = self.take(&Kind::Not);
        let found = if self.take(&Kind::Like) {
            Expr::Like(Box::new(left), self.like()?)
        } else if self.take(&Kind::In) {
            Expr::In(Box::new(left), self.list()?)
        } else if self.take(&Kind::Between) {
            let from = self.sum()?;
            self.expect(&Kind::And, "AND")?;
            Expr::Between(Box::new([left, from, self.sum()?]))
        } else if not {
            return Err(self.expected("LIKE or IN"));
        } else {
            return Ok(left);
        };
        Ok(if not { negated(found) } else { found })
    }

    fn is_null(&mut self) -> Parsed {
        let Expr::Identifier(slot) = self.primary()? else { return Err(self.expected("an identifier")) };
        self.expect(&Kind::Is, "IS")?;
        let not = self.take(&Kind::Not);
        self.expect(&Kind::Null, "NULL")?;
        let found = Expr::IsNull(slot);
        Ok(if not { negated(found) } else { found })
    }

    fn like(&mut self) -> Result<Like, SqlError> {
        let position = self.position();
        let pattern = self.string("a string as pattern")?;
        let mut escape = None;
        if self.take(&Kind::Escape) {
            let position = self.position();
            let text = self.string("a string of one character as escape")?;
            let mut chars = text.chars();
            escape = chars.next().filter(|_| chars.next().is_none());
            if escape.is_none() {
                return Err(SqlError { position, what: SqlProblem::Escape });
            }
        }
        Like::new(pattern, escape).map_err(|what| SqlError { position, what })
    }

    fn list(&mut self) -> Result<Vec<Expr>, SqlError> {
        self.expect(&Kind::Open, "'('")?;
        let mut items = vec![self.sum()?];
        while self.take(&Kind::Comma) {
            items.push(self.sum()?);
        }
        self.expect(&Kind::Close, "',' or ')'")?;
        Ok(items)
    }

    fn sum(&mut self) -> Parsed {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek(0) {
                Some(Kind::Plus) => Operator::Add,
                Some(Kind::Minus) => Operator::Subtract,
                _ => return Ok(left),
            };
            self.skip();
            left = Expr::Arithmetic(operator, Box::new([left, self.product()?]));
        }
    }

    fn product(&mut self) -> Parsed {
        let mut left = self.signed()?;
        loop {
            let operator = match self.peek(0) {
                Some(Kind::Times) => Operator::Multiply,
                Some(Kind::Slash) => Operator::Divide,
                Some(Kind::Percent) => Operator::Remainder,
                _ => return Ok(left),
            };
            self.skip();
            left = Expr::Arithmetic(operator, Box::new([left, self.signed()?]));
        }
    }

    fn signed(&mut self) -> Parsed {
        let sign = match self.peek(0) {
            Some(Kind::Plus) => Sign::Plus,
            Some(Kind::Minus) => Sign::Minus,
            _ => return self.primary(),
        };
        self.skip();
        Ok(Expr::Signed(sign, Box::new(self.primary()?)))
    }

    fn primary(&mut self) -> Parsed {
        let starts =
            |kind: &Kind| matches!(kind, Kind::Open | Kind::Utc | Kind::Literal(_) | Kind::Identifier(_));
        match self.next_if(starts) {
            Some(Kind::Open) => {
                let inner = self.deeper(Self::or)?;
                self.expect(&Kind::Close, "an operator or ')'")?;
                Ok(inner)
            }
            Some(Kind::Utc) => {
                self.expect(&Kind::Open, "'('")?;
                self.expect(&Kind::Close, "')'")?;
                Ok(Expr::Utc)
            }
            Some(Kind::Literal(literal)) => Ok(Expr::Literal(literal)),
            Some(Kind::Identifier(identifier)) => Ok(Expr::Identifier(self.slot(identifier))),
            _ => Err(self.expected("a value")),
        }
    }

    /// Returns the slot of an identifier. Each occurrence has the same slot.
    fn slot(&mut self, identifier: Identifier) -> Slot {
        let known = self.identifiers.iter().position(|known| *known == identifier);
        let index = known.unwrap_or_else(|| {
            self.identifiers.push(identifier);
            self.identifiers.len() - 1
        });
        // The index fits, because an expression has fewer identifiers than tokens.
        Slot(index as u8)
    }

    fn deeper(&mut self, inner: fn(&mut Self) -> Parsed) -> Parsed {
        if self.depth == DEPTH_MAX {
            return Err(SqlError { position: self.position(), what: SqlProblem::TooDeep });
        }
        self.depth += 1;
        let parsed = inner(self);
        self.depth -= 1;
        parsed
    }

    fn string(&mut self, what: &'static str) -> Result<Box<str>, SqlError> {
        match self.next_if(|kind| matches!(kind, Kind::Literal(Literal::String(_)))) {
            Some(Kind::Literal(Literal::String(text))) => Ok(text),
            _ => Err(self.expected(what)),
        }
    }

    fn expect(&mut self, kind: &Kind, what: &'static str) -> Result<(), SqlError> {
        if self.take(kind) { Ok(()) } else { Err(self.expected(what)) }
    }

    fn take(&mut self, kind: &Kind) -> bool {
        self.next_if(|next| next == kind).is_some()
    }

    fn next_if(&mut self, wanted: impl Fn(&Kind) -> bool) -> Option<Kind> {
        if self.peek(0).is_some_and(wanted) { self.tokens.next().map(|token| token.kind) } else { None }
    }

    fn skip(&mut self) {
        self.tokens.next();
    }

    fn peek(&self, ahead: usize) -> Option<&Kind> {
        self.tokens.as_slice().get(ahead).map(|token| &token.kind)
    }

    /// Returns the position of the next token.
    fn position(&self) -> usize {
        self.tokens.as_slice().first().map_or(self.end, |token| token.at)
    }

    fn expected(&self, what: &'static str) -> SqlError {
        SqlError { position: self.position(), what: SqlProblem::Expected(what) }
    }
}

fn negated(expr: Expr) -> Expr {
    Expr::Not(Box::new(expr))
}
