//! Scans any bytes as a message. Shared by the fuzz target and the test that replays the corpus.

use std::ops::Range;

use amqp10::sections::{map_content, map_pairs, properties, property_field, scan, to, user_id};

/// Scans a message. The ranges of a valid one must be adjacent, and no lazy reader may panic on it.
pub fn check(data: &[u8]) {
    let Ok(sections) = scan(data) else { return };
    let cut = |range: &Range<u32>| &data[range.start as usize..range.end as usize];

    let bare = [&sections.properties, &sections.application_properties, &Some(sections.body.clone())];
    let mut at = sections.bare.start;
    for range in bare.into_iter().chain([&sections.footer]).flatten() {
        assert_eq!(range.start, at);
        at = range.end;
    }
    assert_eq!(at, sections.bare.end);
    assert_eq!(at as usize, data.len());

    if let Some(section) = sections.properties.as_ref().map(cut) {
        let whole = properties(section);
        let (user_id, to) = (user_id(section), to(section));
        if let Ok(whole) = whole {
            assert_eq!(user_id, Ok(whole.user_id.as_deref()));
            assert_eq!(to, Ok(whole.to.as_deref()));
        }
        for index in 0..14 {
            let _ = property_field(section, index);
        }
    }
    for section in [&sections.delivery_annotations, &sections.message_annotations, &sections.footer] {
        let Some(section) = section.as_ref().map(cut) else { continue };
        let mut pairs = 0;
        for pair in map_pairs(section).expect("the scan has read this map") {
            let (key, value) = pair.expect("the scan has read these pairs");
            assert!(key.starts_with("x-") && !value.is_empty());
            pairs += 1;
        }
        let content = map_content(section).expect("the scan has read this map");
        assert_eq!(content.pairs, pairs);
        assert_eq!(content.range.end as usize, section.len());
    }
    if let Some(section) = sections.application_properties.as_ref().map(cut) {
        let _ = map_pairs(section).expect("a scanned message has a valid map head").count();
    }
}
