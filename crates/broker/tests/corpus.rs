//! Replays the corpus of the fuzz targets.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/address_parser.rs"]
mod address_parser;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn address_parser_corpus() {
    replay("address_parser", address_parser::check);
}
