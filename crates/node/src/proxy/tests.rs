use proptest::prelude::*;

use super::*;

fn own(len: usize) -> Result<Option<(Header, usize)>, HeaderError> {
    Ok(Some((Header::Own, len)))
}

fn proxied(peer: &str, local: &str, len: usize) -> Result<Option<(Header, usize)>, HeaderError> {
    let header = Header::Proxied { peer: peer.parse().unwrap(), local: local.parse().unwrap() };
    Ok(Some((header, len)))
}

/// Makes a header of version 2.
fn binary(command: u8, family: u8, behind: &[u8]) -> Vec<u8> {
    let mut header = binary::SIGNATURE.to_vec();
    header.extend([command, family]);
    header.extend(u16::try_from(behind.len()).unwrap().to_be_bytes());
    header.extend(behind);
    header
}

const IPV4: &[u8] = &[192, 0, 2, 1, 198, 51, 100, 1, 0xdc, 0x04, 0x16, 0x28];

#[test]
fn lines_are_read() {
    let line = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 5672\r\nAMQP";
    assert_eq!(parse(line), proxied("192.0.2.1:56324", "198.51.100.1:5672", line.len() - 4));
    let line = b"PROXY TCP6 2001:db8::1 ::ffff:198.51.100.1 0 65535\r\n";
    assert_eq!(parse(line), proxied("[2001:db8::1]:0", "[::ffff:198.51.100.1]:65535", line.len()));
    let line = b"PROXY UNKNOWN\r\nPROXY UNKNOWN\r\n";
    assert_eq!(parse(line), own(15));
    let line = b"PROXY UNKNOWN \xff  whatever\r\n";
    assert_eq!(parse(line), own(line.len()));
    let longest = [&b"PROXY UNKNOWN "[..], &[b'f'; 91], b"\r\n"].concat();
    assert_eq!((longest.len(), parse(&longest)), (text::LINE_BYTES_MAX, own(longest.len())));
}

#[test]
fn malformed_lines_are_refused() {
    for line in [
        &b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 5672\n"[..],
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324\r\n",
        b"PROXY TCP4  192.0.2.1 198.51.100.1 56324 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 5672 \r\n",
        b"PROXY TCP4 192.0.2.01 198.51.100.1 56324 5672\r\n",
        b"PROXY TCP4 ::1 ::1 56324 5672\r\n",
        b"PROXY TCP6 192.0.2.1 198.51.100.1 56324 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 65536 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 +6324 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1 06324 5672\r\n",
        b"PROXY TCP4 192.0.2.1 198.51.100.1  5672\r\n",
        b"PROXY UDP4 192.0.2.1 198.51.100.1 56324 5672\r\n",
        b"PROXY UNKNOWNS\r\n",
        b"PROXY \xff\r\n",
        b"PROXY \r\n",
        b"PROXY \n",
    ] {
        assert!(matches!(parse(line), Err(HeaderError::Line(_))), "{}", line.escape_ascii());
    }
    let long = [b"PROXY UNKNOWN ".to_vec(), vec![b'f'; 93]].concat();
    assert_eq!(parse(&long[..106]), Ok(None));
    assert_eq!(parse(&long), Err(HeaderError::LongLine));
}

#[test]
fn binary_headers_are_read() {
    assert_eq!(
        parse(&binary(0x21, 0x11, IPV4)),
        proxied("192.0.2.1:56324", "198.51.100.1:5672", 16 + IPV4.len())
    );
    let mut ipv6 = [0; 36];
    (ipv6[15], ipv6[31], ipv6[33], ipv6[35]) = (1, 2, 3, 4);
    assert_eq!(parse(&binary(0x21, 0x21, &ipv6)), proxied("[::1]:3", "[::2]:4", 52));
    let field = [IPV4, &[0xea, 0, 2, 7, 7, 0x04, 0, 0]].concat();
    assert_eq!(
        parse(&[&binary(0x21, 0x11, &field)[..], b"AMQP"].concat()),
        proxied("192.0.2.1:56324", "198.51.100.1:5672", 16 + field.len())
    );
    // What a health check sends, and what has no address of IP.
    assert_eq!(parse(&binary(0x20, 0x00, b"")), own(16));
    assert_eq!(parse(&binary(0x20, 0x99, b"anything")), own(24));
    assert_eq!(parse(&binary(0x21, 0x00, b"anything")), own(24));
    assert_eq!(parse(&binary(0x21, 0x31, &[b'/'; 216])), own(232));
    assert_eq!(parse(&binary(0x20, 0, &vec![0; HEADER_BYTES_MAX - 16])), own(HEADER_BYTES_MAX));
}

#[test]
fn malformed_binary_headers_are_refused() {
    for (header, expected) in [
        (binary(0x11, 0x11, IPV4), HeaderError::Command(0x11)),
        (binary(0x22, 0x11, IPV4), HeaderError::Command(0x22)),
        (binary(0x21, 0x12, IPV4), HeaderError::Family(0x12)),
        (binary(0x21, 0x41, IPV4), HeaderError::Family(0x41)),
        (binary(0x21, 0x10, IPV4), HeaderError::Family(0x10)),
        (binary(0x21, 0x11, &IPV4[..11]), HeaderError::ShortAddresses),
        (binary(0x21, 0x21, IPV4), HeaderError::ShortAddresses),
        (binary(0x21, 0x31, &[0; 215]), HeaderError::ShortAddresses),
        (binary(0x21, 0x11, &[IPV4, &[1, 0]].concat()), HeaderError::Fields),
        (binary(0x21, 0x11, &[IPV4, &[1, 0, 2, 7]].concat()), HeaderError::Fields),
        (binary(0x21, 0x11, &[IPV4, &[3, 0, 2, 7, 7]].concat()), HeaderError::Fields),
        (binary(0x21, 0x11, &[IPV4, &[3, 0, 4, 0, 0, 0, 0]].concat()), HeaderError::Checksum),
        (binary(0x20, 0, &vec![0; HEADER_BYTES_MAX - 15]), HeaderError::TooLong(HEADER_BYTES_MAX + 1)),
    ] {
        assert_eq!(parse(&header), Err(expected), "{}", header.escape_ascii());
    }
}

#[test]
fn a_checksum_is_that_of_the_header_without_it() {
    let mut header = binary(0x21, 0x11, &[IPV4, &[0x04, 0, 1, 9, 0x03, 0, 4, 0, 0, 0, 0]].concat());
    let at = header.len() - 4;
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &header) as u32;
    header[at..].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(parse(&header), proxied("192.0.2.1:56324", "198.51.100.1:5672", header.len()));
    header[at] ^= 1;
    assert_eq!(parse(&header), Err(HeaderError::Checksum));
}

#[test]
fn what_is_no_header_is_shown() {
    let error = parse(b"AMQP\x03\x01\x00\x00more").unwrap_err();
    assert_eq!(error.to_string(), "the connection starts with 'AMQP\\x03\\x01\\x00\\x00'");
    assert!(parse(b"PROXYS").is_err());
    assert!(parse(b"\r\n\r\n\r").is_err());
    assert_eq!(parse(b""), Ok(None));
}

fn any_header() -> impl Strategy<Value = Vec<u8>> {
    let line = (any::<[u8; 4]>(), any::<[u8; 4]>(), any::<u16>(), any::<u16>()).prop_map(|(a, b, p, q)| {
        let (a, b) = (std::net::Ipv4Addr::from(a), std::net::Ipv4Addr::from(b));
        format!("PROXY TCP4 {a} {b} {p} {q}\r\n").into_bytes()
    });
    let field = (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)).prop_map(|(kind, value)| {
        // Nearly every checksum would be wrong.
        let kind = if kind == 3 { 4 } else { kind };
        [&[kind, 0, value.len() as u8], &value[..]].concat()
    });
    let binary = (any::<[u8; 36]>(), any::<bool>(), proptest::collection::vec(field, 0..5)).prop_map(
        |(addresses, is_ipv4, fields)| {
            let (family, len) = if is_ipv4 { (0x11, 12) } else { (0x21, 36) };
            binary(0x21, family, &[&addresses[..len], &fields.concat()].concat())
        },
    );
    prop_oneof![line, binary]
}

proptest! {
    /// A header is complete with its last byte and not before, and what follows does not matter.
    #[test]
    fn a_header_ends_where_it_ends(
        header in any_header(),
        behind in proptest::collection::vec(any::<u8>(), 0..20),
    ) {
        for cut in 0..header.len() {
            prop_assert_eq!(parse(&header[..cut]), Ok(None));
        }
        let parsed = parse(&header);
        let len = parsed.clone().unwrap().map(|(_, len)| len);
        prop_assert_eq!(len, Some(header.len()));
        prop_assert_eq!(parse(&[header, behind].concat()), parsed);
    }

    /// A damaged header is refused or read, and at some length the parser needs no more input.
    #[test]
    fn no_input_breaks_the_parser(
        mut header in any_header(),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..6),
    ) {
        for (at, byte) in damage {
            let at = at.index(header.len());
            header[at] = byte;
        }
        let parsed = parse(&header);
        if let Ok(Some((_, len))) = parsed {
            prop_assert!(len <= header.len());
        }
        header.resize(HEADER_BYTES_MAX, b' ');
        prop_assert_ne!(parse(&header), Ok(None));
    }

    #[test]
    fn a_network_contains_what_shares_its_bits(a in any::<u32>(), b in any::<u32>(), bits in 0u8..=32) {
        let text = format!("{}/{bits}", std::net::Ipv4Addr::from(a));
        let network = match text.parse::<Network>() {
            Ok(network) | Err(NetworkError::Outside(network)) => network,
            Err(NetworkError::Form) => panic!("{text}"),
        };
        let shares = bits == 0 || a >> (32 - bits) == b >> (32 - bits);
        prop_assert_eq!(network.contains(std::net::Ipv4Addr::from(b).into()), shares);
        prop_assert!(network.contains(std::net::Ipv4Addr::from(a).into()));
        prop_assert_eq!(network.to_string().parse(), Ok(network));
    }
}

#[test]
fn networks_are_read() {
    let contains =
        |network: &str, address: &str| network.parse::<Network>().unwrap().contains(address.parse().unwrap());
    assert!(contains("10.0.0.0/8", "10.255.0.1"));
    assert!(contains("10.0.0.0/8", "::ffff:10.255.0.1"), "a listener for both families shows IPv4 like this");
    assert!(!contains("10.0.0.0/8", "11.0.0.1"));
    assert!(contains("10.0.0.5", "10.0.0.5") && !contains("10.0.0.5", "10.0.0.4"));
    assert!(contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1"));
    assert!(!contains("::/0", "10.0.0.1") && !contains("0.0.0.0/0", "::1"), "the other family");
    assert!(contains("::1", "::1") && !contains("::1", "::2"));
    for text in
        ["", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "10.0.0/8", "::1/129", "::ffff:10.0.0.1", "proxy"]
    {
        assert_eq!(text.parse::<Network>(), Err(NetworkError::Form), "{text}");
    }
    let told = "10.0.0.5/8".parse::<Network>().unwrap_err().to_string();
    assert_eq!(told, "the address has bits outside the network: 10.0.0.0/8 is needed");
}
