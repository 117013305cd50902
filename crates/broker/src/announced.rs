//! A consumer that an event has announced. Another event follows at its end.

use std::sync::Arc;

use crate::cx::Cx;
use crate::notices::Notice;

/// What the event about the end of a consumer says.
#[derive(Debug)]
pub struct Announced {
    pub tag: Arc<str>,
    pub channel: String,
    pub vhost: Arc<str>,
    pub user: Arc<str>,
}

impl Announced {
    /// Emits the event that the consumer of this queue has ended.
    pub(crate) fn emit_end(&self, queue: &str, cx: &mut Cx<'_>) {
        let Some(vhost) = cx.settings.event_vhost() else { return };
        cx.post.notices.push(Notice::event(vhost, "consumer.deleted", cx.now_ms, |headers| {
            headers.text("consumer_tag", &self.tag);
            headers.text("channel", &self.channel);
            headers.text("queue", queue);
            headers.text("vhost", &self.vhost);
            headers.text("user_who_performed_action", &self.user);
        }));
    }
}
