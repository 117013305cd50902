//! One authenticated request, as its handler gets it, and what routes without a login have.

use std::net::SocketAddr;
use std::sync::Arc;

use catalog::access::Identity;
use node::AdminApi;
use serde_json::{Map, Value};

use crate::ports::Ports;
use crate::query::Query;

/// An authenticated request.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub api: &'a AdminApi,
    pub ports: &'a Ports,
    pub who: Identity,
    /// The address of the HTTP client.
    pub peer: SocketAddr,
    pub query: Query,
    /// The fields of the body; empty if the method has no body.
    pub fields: Map<String, Value>,
    /// The body of definitions, which have too many fields; empty for other actions.
    pub body: Arc<[u8]>,
    /// The value of the header `X-Reason`.
    pub reason: Option<String>,
    /// True with the header `If-None-Match: *`: the client wants to change nothing that exists [RFC 9110, 13.1.2].
    pub only_new: bool,
    /// The segments of the path that match the route's parts in braces.
    pub params: &'a [String],
}

impl Call<'_> {
    /// Returns the segment that matches the route's part in braces with this index; empty if there is none.
    pub(crate) fn param(&self, index: usize) -> &str {
        self.params.get(index).map_or("", String::as_str)
    }

    /// Like [`Self::param`], but `None` if the route has fewer parts.
    pub(crate) fn optional_param(&self, index: usize) -> Option<&str> {
        self.params.get(index).map(String::as_str)
    }
}

/// The state that handlers use to answer requests.
#[derive(Clone)]
pub(crate) struct Source {
    pub api: AdminApi,
    pub ports: Ports,
}
