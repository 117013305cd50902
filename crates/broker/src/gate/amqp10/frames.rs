//! Finds the small frames of a read.

use amqp10::frame::parse_header;

/// Returns the number of bytes at the start that are whole frames shorter than `large`.
pub(super) fn small_frames(bytes: &[u8], large: usize) -> usize {
    let mut end = 0;
    while let Some(header) = bytes[end..].first_chunk()
        && let Ok(header) = parse_header(header, u32::MAX)
        && (header.size as usize) < large
        && header.size as usize <= bytes.len() - end
    {
        end += header.size as usize;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(bytes: usize) -> Vec<u8> {
        let mut frame = [&(bytes as u32).to_be_bytes()[..], &[2, 0, 0, 0]].concat();
        frame.resize(bytes, bytes as u8);
        frame
    }

    #[test]
    fn small_frames_are_whole() {
        for (read, large, end) in [
            (vec![], 100, 0),
            (b"AMQP\x00\x01\x00\x00".to_vec(), 100, 0),
            (vec![0, 0, 0, 7, 2, 0, 0, 0], 100, 0),
            (frame(8), 100, 8),
            (frame(100), 100, 0),
            ([frame(99), frame(8)].concat(), 100, 107),
            ([frame(99), frame(100), frame(8)].concat(), 100, 99),
            ([frame(99), vec![0, 0]].concat(), 100, 99),
            ([frame(99), vec![0xff; 8]].concat(), usize::MAX, 99),
        ] {
            assert_eq!(small_frames(&read, large), end, "{read:?}");
        }
    }
}
