//! Warns of tags of users that give no rights. Any tag is allowed, as in RabbitMQ.

use catalog::access::TAGS;
use catalog::nearest::did_you_mean;

use crate::escape;
use crate::output::warn;

/// Writes a warning for each tag that gives a user no rights.
pub(crate) fn warn_of_unknown(tags: &[String]) {
    tags.iter().filter_map(|tag| warning(tag)).for_each(|text| warn(&text));
}

fn warning(tag: &str) -> Option<String> {
    if tag.is_empty() || TAGS.contains(&tag) {
        return None;
    }
    let meant = match did_you_mean(tag, TAGS.into_iter()) {
        none if none.is_empty() => ".".to_owned(),
        meant => meant,
    };
    Some(format!("tag '{}' gives no rights{meant} Those that do: {}", escape::line(tag), TAGS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_tags_have_a_warning() {
        assert!(TAGS.into_iter().chain([""]).all(|tag| warning(tag).is_none()));
        let known = "Those that do: administrator, monitoring, policymaker, management, impersonator";
        let expected = format!("tag 'managemnt' gives no rights; did you mean 'management'? {known}");
        assert_eq!(warning("managemnt"), Some(expected));
        assert_eq!(warning("team\u{1b}"), Some(format!("tag 'team\\u{{1b}}' gives no rights. {known}")));
    }
}
