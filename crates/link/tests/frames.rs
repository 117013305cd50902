//! Replays the corpus of the fuzz target, whole and with damage.

#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/link_frames.rs"]
mod link_frames;
#[allow(unreachable_pub, reason = "the fuzz target calls it, too")]
#[path = "../../../fuzz/checks/replay.rs"]
mod replay;

#[test]
fn link_frames_corpus() {
    replay::replay("link_frames", link_frames::check);
}

/// These inputs were made by another implementation of HMAC and of the frames.
#[test]
fn valid_handshakes_are_complete() {
    for (reader, input, is_valid) in [
        (3, &include_bytes!("../../../fuzz/corpus/link_frames/accept_secret")[2..], true),
        (3, &include_bytes!("../../../fuzz/corpus/link_frames/accept_wrong_proof")[2..], false),
        (4, &include_bytes!("../../../fuzz/corpus/link_frames/accept_certificates")[2..], true),
        (5, &include_bytes!("../../../fuzz/corpus/link_frames/dial_secret")[2..], true),
    ] {
        assert_eq!(link_frames::admits(reader, input.chunks(7)), is_valid, "reader {reader}");
    }
}

#[test]
fn damaged_inputs_do_no_harm() {
    replay::replay("link_frames", |input| {
        let mut damaged = input.to_vec();
        // The heads are at the beginning.
        for at in 0..input.len().min(400) {
            for value in [0, 1, 0x7f, 0xff, input[at] ^ 4] {
                damaged[at] = value;
                link_frames::check(&damaged);
            }
            damaged[at] = input[at];
            link_frames::check(&input[..at]);
        }
    });
}
