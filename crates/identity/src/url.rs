//! URLs that a setting names. Those who read the log and the settings must not find a password in one.

use std::borrow::Cow;

use hyper::Uri;

/// What is shown in the place of a secret.
const HIDDEN: &str = "***";

/// Returns true if a URL has a user or a password before its host.
pub fn has_user(url: &Uri) -> bool {
    // Behind a colon without a port there is a slash that is a part of a password.
    url.authority().is_some_and(|of| of.as_str().contains('@') || of.as_str().ends_with(':'))
}

/// Returns a URL for an error: without its query, which can have a token.
pub(crate) fn shown(url: &Uri) -> String {
    let of = url.authority().map_or("", |of| of.as_str());
    let of = of.rsplit('@').next().unwrap_or_default();
    format!("{}://{of}{}", url.scheme_str().unwrap_or_default(), url.path())
}

/// Returns a text in which user, password, query and fragment of a URL are hidden. A text without a URL stays as it is. It may hide
/// more: a password can have any character, also one that ends a host or a URL, so all before the last `@` may belong to it.
pub fn hide(text: &str) -> Cow<'_, str> {
    let Some((scheme, url)) = text.split_once("://") else { return Cow::Borrowed(text) };
    let (user, url) = match url.rsplit_once('@') {
        Some((_, rest)) => ("***@", rest),
        None => ("", url),
    };
    match url.find(['?', '#']) {
        Some(at) => format!("{scheme}://{user}{}{HIDDEN}", &url[..=at]).into(),
        None => format!("{scheme}://{user}{url}").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_urls_are_hidden() {
        for (text, shown) in [
            ("sluice@localhost", "sluice@localhost"),
            ("https://h:1/p", "https://h:1/p"),
            ("https://u:p@h/p", "https://***@h/p"),
            ("https://u:p?w/#@h/p", "https://***@h/p"),
            ("https://h/p?token=t", "https://h/p?***"),
            ("https://h/p#t", "https://h/p#***"),
            ("https://h/p?next=https://u:p@h", "https://***@h"),
            ("https://u:my pass@h/p", "https://***@h/p"),
            ("https://u:my ://pass@h/p q?t x", "https://***@h/p q?***"),
            ("://", "://"),
        ] {
            assert_eq!(hide(text), shown, "{text}");
        }
    }

    #[test]
    fn a_user_before_the_host_is_found() {
        for (url, has) in [
            ("https://h/p@q?u@h", false),
            ("https://[::1]:1/", false),
            ("https://u@h", true),
            ("https://u:p@h", true),
            ("https://u:/p@h", true),
        ] {
            // A URL that cannot be parsed is refused in any case.
            assert_eq!(url.parse().map_or(has, |url| has_user(&url)), has, "{url}");
        }
        let url: Uri = "https://u:p@h:1/p?q".parse().unwrap();
        assert_eq!(shown(&url), "https://h:1/p");
    }
}
