//! Replays the corpus of the fuzz targets.

#[path = "../../../fuzz/checks/address_parser.rs"]
mod address_parser;
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

use replay::replay;

#[test]
fn address_parser_corpus() {
    replay("address_parser", address_parser::check);
}
