//! Properties that every expression has.

use proptest::prelude::*;

use super::super::like::Like;
use super::super::{Dialect, SqlFilter, SqlProblem};
use super::model::{self, MESSAGE};
use super::{NOW_MS, POSITION, filter, selector};
use crate::filter::scene;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_naive_evaluation_agrees(tree in model::tree()) {
        let text = tree.text();
        let filter = filter(&text);
        // A random tree may have too many tokens. It has no other errors.
        prop_assume!(!matches!(&filter, Err(error) if error.what == SqlProblem::TooManyTokens));
        let truth = filter.map(|filter| filter.truth(&scene::message(MESSAGE), POSITION, NOW_MS));
        prop_assert_eq!(truth, Ok(Ok(tree.truth())), "{}", text);
    }

    #[test]
    fn displayed_expressions_parse_to_the_same(tree in model::tree()) {
        let Ok(found) = filter(&tree.text()) else { return Ok(()) };
        let written = found.to_string();
        prop_assert!(written.len() <= tree.text().len(), "parentheses only go: {}", written);
        prop_assert_eq!(filter(&written), Ok(found), "{}", written);
    }

    /// Both dialects have the same results, except for `<>`.
    #[test]
    fn selectors_and_filters_have_the_same_results(tree in model::tree()) {
        let text = tree.text().replace("<>", "=");
        let Ok(same) = filter(&text) else { return Ok(()) };
        let message = scene::message(MESSAGE);
        let selector = selector(&model::as_selector(&text)).map(|found| found.truth(&message, POSITION, NOW_MS));
        prop_assert_eq!(selector, Ok(same.truth(&message, POSITION, NOW_MS)), "{}", text);
    }

    #[test]
    fn like_agrees_with_a_naive_search(text in "[abc]{0,12}", pattern in model::pattern()) {
        let like = Like::new(pattern.as_str().into(), None).unwrap();
        prop_assert_eq!(like.matches(text.as_bytes()), Some(model::like(&text, &pattern)));
    }

    #[test]
    fn a_text_matches_itself_and_wildcards(text in "[^%_\\x00-\\x1f\\x7f]{0,20}") {
        for pattern in [text.clone(), "%".to_owned(), format!("%{text}%"), "_".repeat(text.chars().count())] {
            let like = Like::new(pattern.as_str().into(), None).unwrap();
            prop_assert_eq!(like.matches(text.as_bytes()), Some(true), "{}", pattern);
        }
    }

    #[test]
    fn any_text_is_an_expression_or_refused(text in "([a-z]{1,3}|[0-9.Ex]{1,4}|['\"\\[\\]%_ ]|AND|OR|NOT|LIKE|IN|IS|NULL|UTC|ESCAPE|between|JMSType|[=<>!+*/(),-]| ){0,24}") {
        for dialect in [Dialect::Filter, Dialect::Selector] {
            match SqlFilter::parse(&text, dialect) {
                Ok(filter) => prop_assert_eq!(SqlFilter::parse(&filter.to_string(), dialect), Ok(filter)),
                Err(error) => prop_assert!(error.position <= text.len() && text.is_char_boundary(error.position)),
            }
        }
    }
}
