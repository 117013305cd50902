//! Transcripts: frames that one endpoint receives, and the frames that it sends.

use crate::script::{INCOMPLETE_MAX, Script, attach, head, session_flow};
use amqp10::{
    AmqpError, Attach, Begin, Chunk, DeliveryState, Detach, Disposition, End, Event, Flow, Map, Open,
    Outgoing, Performative, Radius, ReceiverSettleMode, Role, Symbol, Tag, Target, TargetArchetype, Transfer,
    TransferHead, Value, Violation, condition, put_frame,
};
use bytes::{Bytes, BytesMut};

fn event(name: &str) -> crate::script::Handled {
    Ok(Some(name.to_owned()))
}

fn detach(handle: u32) -> Detach {
    Detach { handle, closed: true, error: None }
}

/// A delivery of one transfer without payload on handle 0.
fn single(id: u32) -> Transfer<'static> {
    Transfer {
        handle: 0,
        delivery_id: Some(id),
        delivery_tag: Some(b"t"),
        message_format: None,
        settled: None,
        more: false,
        rcv_settle_mode: None,
        state: None,
        resume: false,
        aborted: false,
        batchable: false,
    }
}

#[test]
fn heartbeats_are_sent_while_idle() {
    // [2.4.5] The peer wants a frame every 10 s. We send one every 5 s.
    let mut script = Script::opened();
    assert_eq!(script.endpoint.next_deadline(), Some(5000));
    script.endpoint.handle_timeout(4999).unwrap();
    assert!(script.sent().is_empty());
    script.endpoint.handle_timeout(5000).unwrap();
    assert_eq!(script.sent(), ["empty"]);
    script.endpoint.handle_written(7000);
    assert_eq!(script.endpoint.next_deadline(), Some(12_000));
    assert_eq!(script.bytes(b"\x00\x00\x00\x08\x02\x00\x00\x00"), Ok(None));
    script.endpoint.close(None, false);
    assert_eq!(script.endpoint.next_deadline(), Some(60_000), "no heartbeats while closing");
}

#[test]
fn several_heartbeats_are_handled_at_once_and_ours_is_sent_early() {
    const HEARTBEAT: &[u8] = b"\x00\x00\x00\x08\x02\x00\x00\x00";
    let more = [HEARTBEAT, HEARTBEAT, b"\x00\x00\x00\x20\x02\x00\x00\x00"].concat();
    assert_eq!(Script::logged_in().endpoint.handle_heartbeats(&more, 0), 0, "not before OPEN");
    let mut script = Script::opened();
    assert_eq!(script.endpoint.handle_heartbeats(&more[8..], 3000), 8);
    assert!(script.sent().is_empty(), "2 s are left until ours");
    assert_eq!(script.endpoint.handle_heartbeats(&more, 3750), 16);
    assert_eq!(script.sent(), ["empty"]);
    assert_eq!(script.endpoint.next_deadline(), Some(8750));
    assert_eq!(script.endpoint.handle_heartbeats(&more[16..], 8750), 0, "it has a body");
    assert_eq!(script.endpoint.handle_heartbeats(&HEARTBEAT[..7], 8750), 0);
    assert!(script.sent().is_empty());
    script.endpoint.handle_timeout(63_749).unwrap();
    let fault = script.endpoint.handle_timeout(63_750).unwrap_err();
    assert_eq!(fault.violation, Violation::IdleTimeOut, "60 s after the last frame");
}

#[test]
fn drain_uses_up_the_credit() {
    // [2.6.7] The delivery-count advances by the remaining credit, and the answer follows the deliveries.
    let mut script = Script::attached(Role::Receiver, 10);
    script.credit(0, 10, 0, 5).unwrap();
    assert!(script.send(b"a", 0) && script.send(b"b", 1));
    script.endpoint.report_credit(0, 0, 0, true);
    assert_eq!(script.sent(), ["transfer 0 [1]", "transfer 1 [1]", "flow 0 count 5 credit 0 drain"]);
    assert!(!script.send(b"c", 2));
    script.credit(2, 10, 5, 1).unwrap();
    assert!(script.send(b"c", 2));
}

#[test]
fn the_senders_drain_uses_up_our_credit() {
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 5, true, false);
    assert_eq!(script.sent(), ["flow 0 count 0 credit 5 drain"]);
    let drained = Flow {
        handle: Some(0),
        delivery_count: Some(5),
        link_credit: Some(0),
        drain: true,
        ..session_flow(0, 10)
    };
    assert_eq!(script.flow(drained), event("Flow"));
    let link = |s: &Script| s.endpoint.session(0).unwrap().link(0).unwrap().receiver_credit();
    assert_eq!((link(&script).credit(), link(&script).delivery_count()), (0, 5));
    assert!(script.transfer(&head(0, b"t"), b"x").is_err());
}

#[test]
fn echo_is_answered() {
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 3, false, false);
    script.sent();
    script.flow(Flow { echo: true, ..session_flow(0, 10) }).unwrap();
    assert_eq!(script.sent(), ["flow window 4"]);
    script.flow(Flow { echo: true, handle: Some(0), ..session_flow(0, 10) }).unwrap();
    assert_eq!(script.sent(), ["flow 0 count 0 credit 3"]);
    // For a link on which we send, the caller answers, because only the caller knows `available`.
    let mut script = Script::attached(Role::Receiver, 10);
    let asks = Flow {
        echo: true,
        handle: Some(0),
        link_credit: Some(2),
        delivery_count: Some(0),
        ..session_flow(0, 10)
    };
    script.flow(asks).unwrap();
    assert!(script.sent().is_empty());
    script.endpoint.report_credit(0, 0, 9, false);
    assert_eq!(script.sent(), ["flow 0 count 0 credit 2"]);
}

#[test]
fn the_window_opens_at_half() {
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 100, false, false);
    script.sent();
    let frames = (0..4).map(|id| {
        script.transfer(&head(id, b"t"), b"x").unwrap();
        script.sent()
    });
    let opened: Vec<_> = frames.collect();
    assert_eq!(opened, [vec![], vec!["flow window 4".to_owned()], vec![], vec!["flow window 4".to_owned()]]);
    // A wider window is announced when the open window is half used. It opens again when half of the wider
    // window is used.
    script.endpoint.widen_window(0, 6);
    script.endpoint.widen_window(0, 5);
    let frames = (4..9).map(|id| {
        script.transfer(&head(id, b"t"), b"x").unwrap();
        script.sent()
    });
    let opened: Vec<_> = frames.collect();
    let window = || vec!["flow window 6".to_owned()];
    assert_eq!(opened, [window(), vec![], vec![], window(), vec![]]);
}

/// A growing delivery takes slightly more memory than it has bytes. The limit is for memory.
#[test]
fn incomplete_deliveries_count_with_the_memory_that_they_take() {
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 2, false, false);
    let first = TransferHead { more: true, ..head(0, b"t") };
    assert_eq!(script.transfer(&first, &[0; INCOMPLETE_MAX - 2]), Ok(None));
    assert_eq!(script.endpoint.incomplete_bytes(), INCOMPLETE_MAX - 2);
    let fault = script.transfer(&first, b"x").unwrap_err();
    assert_eq!(fault.violation, Violation::IncompleteDeliveries { max: INCOMPLETE_MAX });
}

#[test]
fn incomplete_deliveries_are_bounded_over_all_links() {
    // [2.7.5] max-message-size bounds each of them, but a client may have thousands of links.
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 2, false, false);
    assert_eq!(
        script.transfer(&TransferHead { more: true, ..head(0, b"t") }, &[0; INCOMPLETE_MAX]),
        Ok(None)
    );
    assert!(script.receive(0, &attach("m", 1, Role::Sender)).is_ok());
    script.endpoint.attach(0, Some(1), attach("m", 1, Role::Receiver));
    script.endpoint.grant(0, 1, 2, false, false);
    let more = TransferHead { more: true, handle: 1, ..head(1, b"u") };
    let fault = script.transfer(&more, b"x").unwrap_err();
    assert_eq!(fault.violation, Violation::IncompleteDeliveries { max: INCOMPLETE_MAX });
    let (radius, condition) = fault.violation.sentence();
    assert_eq!((radius, condition), (Radius::Connection, condition::RESOURCE_LIMIT_EXCEEDED));
}

#[test]
fn aborted_deliveries_spend_credit_and_leave_nothing() {
    // [2.7.5]
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 2, false, false);
    assert_eq!(script.transfer(&TransferHead { more: true, ..head(0, b"t") }, b"half"), Ok(None));
    assert_eq!(script.endpoint.session(0).unwrap().partial_bytes(), 4);
    let abort = TransferHead { aborted: true, ..TransferHead::default() };
    assert_eq!(script.transfer(&abort, b"ignored"), event("Discarded"));
    assert_eq!(script.endpoint.session(0).unwrap().partial_bytes(), 0);
    assert_eq!(script.transfer(&head(1, b"t"), b"x"), event("Transfer b\"x\""));
    assert!(script.transfer(&head(2, b"t"), b"x").is_err());
}

#[test]
fn resumed_deliveries_are_ignored() {
    // [2.6.13] The delivery is unknown here, whether it has one transfer or many.
    let mut script = Script::attached(Role::Sender, 10);
    script.endpoint.grant(0, 0, 3, false, false);
    let resumed = |id, more| Transfer { resume: true, more, ..single(id) };
    assert_eq!(script.receive(0, &Performative::Transfer(resumed(0, false))), event("Discarded"));
    assert_eq!(script.receive(0, &Performative::Transfer(resumed(1, true))), Ok(None));
    assert_eq!(script.transfer(&TransferHead::default(), b"the rest"), event("Discarded"));
    assert_eq!(script.endpoint.session(0).unwrap().partial_bytes(), 0);
    assert_eq!(script.transfer(&head(2, b"t"), b"x"), event("Transfer b\"x\""));
    assert!(script.transfer(&head(3, b"t"), b"x").is_err(), "their credit is spent");
}

#[test]
fn a_delivery_says_who_settles_first() {
    // [2.7.5] It is the link's mode unless the transfer has its own. That may not be `second` on a link of
    // mode `first`.
    use ReceiverSettleMode::{First, Second};
    for (link, transfer, effective) in [
        (First, None, First),
        (First, Some(First), First),
        (Second, None, Second),
        (Second, Some(First), First),
    ] {
        let mut script = Script::begun(10);
        assert_eq!(
            script.receive(0, &Attach { rcv_settle_mode: link, ..attach("l", 0, Role::Sender) }),
            event("Attach")
        );
        let answer = Attach { rcv_settle_mode: link, ..attach("l", 0, Role::Receiver) };
        script.endpoint.attach(0, Some(0), answer);
        script.endpoint.grant(0, 0, 1, false, false);
        let mut frame = BytesMut::new();
        let sent = Transfer { rcv_settle_mode: transfer, ..single(0) };
        put_frame(&mut frame, 0, &Performative::Transfer(sent));
        match script.endpoint.handle_frame(Chunk::Borrowed(&frame), 0) {
            Ok(Some(Event::Transfer { delivery, .. })) => {
                assert_eq!(delivery.rcv_settle_mode, effective);
                assert!(!delivery.settled, "unless the sender says so");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_flood_of_reports_becomes_one() {
    let mut script = Script::attached(Role::Receiver, 0);
    script.credit(0, 0, 0, 5).unwrap();
    assert!(script.send(b"x", 1));
    for available in 0..1000 {
        script.endpoint.report_credit(0, 0, available, false);
    }
    script.endpoint.report_credit(0, 0, 0, true);
    assert_eq!(script.endpoint.session(0).unwrap().pending_len(), 2, "the delivery and the newest report");
    assert_eq!(script.sent(), Vec::<String>::new());
    script.flow(session_flow(0, 10)).unwrap();
    assert_eq!(script.sent(), ["transfer 0 [1]", "flow 0 count 5 credit 0 drain"]);
}

#[test]
fn a_state_report_waits_after_deliveries_and_replaces_no_answer() {
    let mut script = Script::attached(Role::Receiver, 0);
    script.credit(0, 0, 0, 5).unwrap();
    assert!(script.send(b"x", 1));
    script.endpoint.report_credit(0, 0, 0, true);
    [true, false, true, false].into_iter().for_each(|active| report_active(&mut script, active));
    assert_eq!(script.sent(), Vec::<String>::new());
    script.flow(session_flow(0, 10)).unwrap();
    assert_eq!(
        script.sent(),
        ["transfer 0 [1]", "flow 0 count 5 credit 0 drain", "flow 0 count 5 credit 0 active=false"]
    );
}

/// Reports a state of the link.
fn report_active(script: &mut Script, active: bool) {
    let mut properties = Map::new();
    properties.insert(Symbol::from_static("active"), Value::Boolean(active));
    script.endpoint.report_state(0, 0, 0, properties);
}

#[test]
fn a_state_that_the_peer_knows_is_not_reported_again() {
    let mut script = Script::attached(Role::Receiver, 1);
    script.credit(0, 1, 0, 5).unwrap();
    report_active(&mut script, false);
    assert_eq!(script.sent(), ["flow 0 count 0 credit 5 active=false"]);
    // The second delivery waits for the window, and so do the states after it. The last one replaces the other one.
    assert!(script.send(b"x", 1) && script.send(b"x", 2));
    report_active(&mut script, true);
    report_active(&mut script, false);
    script.flow(session_flow(1, 10)).unwrap();
    assert_eq!(script.sent(), ["transfer 0 [1]", "transfer 1 [1]"]);
    report_active(&mut script, true);
    report_active(&mut script, true);
    assert_eq!(script.sent(), ["flow 0 count 2 credit 3 active=true"]);
}

#[test]
fn detaching_aborts_a_partly_sent_delivery() {
    // The output is full but the window is open, so the abort can be sent.
    let mut script = Script::attached(Role::Receiver, 100_000);
    script.credit(0, 100_000, 0, 2).unwrap();
    let large = Bytes::from(vec![1; 2 << 20]);
    assert!(script.endpoint.send(0, 0, &Outgoing::whole(Tag::from_number(0), false, &large, 0)));
    assert!(script.endpoint.session(0).unwrap().has_pending(0));
    script.endpoint.detach(0, 0, None);
    let mut frames = script.sent();
    while script.endpoint.output_len() > 0 {
        frames.extend(script.sent());
    }
    assert_eq!(frames[frames.len() - 2..], ["transfer 0 [0] aborted", "detach 0"]);
    assert_eq!(
        (
            script.endpoint.session(0).unwrap().unsettled_len(),
            script.endpoint.session(0).unwrap().pending_len()
        ),
        (0, 0)
    );
    // The window is closed, so only the DETACH is sent.
    let mut script = Script::attached(Role::Receiver, 1);
    script.credit(0, 1, 0, 2).unwrap();
    assert!(script.endpoint.send(0, 0, &Outgoing::whole(Tag::from_number(0), false, &large, 0)));
    script.sent();
    script.endpoint.detach(0, 0, None);
    assert_eq!(script.sent(), ["detach 0"]);
}

#[test]
fn deliveries_and_reports_wait_in_order() {
    let mut script = Script::attached(Role::Receiver, 1);
    script.credit(0, 1, 0, 10).unwrap();
    for n in 0..3 {
        assert!(script.send(&[n], u64::from(n)));
    }
    script.endpoint.report_credit(0, 0, 0, false);
    assert!(script.send(b"later", 3));
    assert_eq!(script.sent(), ["transfer 0 [1]"]);
    assert_eq!(script.endpoint.session(0).unwrap().pending_len(), 4);
    script.flow(session_flow(1, 2)).unwrap();
    assert_eq!(
        script.sent(),
        ["transfer 1 [1]", "transfer 2 [1]", "flow 0 count 3 credit 7"],
        "the report does not count the delivery after it"
    );
    // The peer assumes that one transfer is in flight, so the window is smaller by one.
    script.flow(session_flow(2, 1)).unwrap();
    assert!(script.sent().is_empty());
    script.flow(session_flow(3, 5)).unwrap();
    assert_eq!(script.sent(), ["transfer 3 [5]"]);
    assert_eq!(script.endpoint.session(0).unwrap().pending_len(), 0);
}

#[test]
fn settled_deliveries_need_no_credit() {
    let mut script = Script::attached(Role::Receiver, 10);
    let x = Bytes::from_static(b"x");
    let settled = |n: u64| Outgoing::whole(Tag::from_number(n), true, &x, n);
    script.credit(0, 10, 0, 1).unwrap();
    script.credit(0, 10, 0, 0).unwrap();
    assert!(!script.send(b"no", 0));
    assert!(script.endpoint.send(0, 0, &settled(1)));
    assert_eq!(script.sent(), ["transfer 0 [1]"]);
    let link = script.endpoint.session(0).unwrap().link(0).unwrap().sender_credit();
    assert_eq!((link.delivery_count(), link.credit()), (1, 0));
    script.credit(1, 10, 0, 1).unwrap();
    assert!(!script.send(b"no", 2), "the delivery without credit is counted");
    script.credit(1, 10, 1, 1).unwrap();
    assert!(script.send(b"yes", 3));
}

#[test]
fn a_refused_link_gets_attach_and_detach() {
    let mut script = Script::begun(10);
    assert_eq!(script.receive(0, &attach("no", 3, Role::Sender)), event("Attach"));
    let mut refusal = attach("no", 0, Role::Receiver);
    refusal.target = None;
    script.endpoint.attach(0, Some(0), refusal);
    let error = amqp10::AmqpError::new(amqp10::condition::NOT_FOUND);
    script.endpoint.detach(0, 0, Some(error));
    assert_eq!(script.sent(), ["attach 0 no", "detach 0 amqp:not-found"]);
    // Frames that the peer sent before it received our DETACH are ignored. Its DETACH frees the handle.
    assert_eq!(script.transfer(&TransferHead { handle: 3, ..head(0, b"t") }, b"x"), Ok(None));
    assert_eq!(script.receive(0, &detach(3)), event("Detach"));
    assert_eq!(script.endpoint.session(0).unwrap().links().count(), 0);
    assert_eq!(script.attach("yes", 3, Role::Sender), 0);
}

#[test]
fn frames_fit_what_the_peer_takes() {
    // [2.7.1] The peer accepts frames of 512 bytes.
    let long = "x".repeat(1000);
    let frame = |script: &mut Script| {
        let len = script.endpoint.output_len();
        assert!((1..=512).contains(&len), "{len} bytes");
        script.sent()
    };
    let mut script = Script::logged_in();
    script.receive(0, &Open { max_frame_size: 512, ..Open::new("client") }).unwrap();
    let mut properties = Map::new();
    properties.insert(Symbol::from_static("product"), Value::from(long.as_str()));
    script.endpoint.open(Open { properties: Some(properties), ..Open::new("server") });
    assert_eq!(frame(&mut script), ["open"]);
    script.receive(0, &Begin { incoming_window: 9, ..Begin::default() }).unwrap();
    script.endpoint.begin(Some(0), true);
    script.sent();
    // An ATTACH cannot be shortened, so nothing is sent and the caller gets `None`.
    script.receive(0, &attach("l", 0, Role::Sender)).unwrap();
    let answer = |address: &str| {
        let target = Target { address: Some(address.to_owned()), ..Target::default() };
        Attach { target: Some(TargetArchetype::Target(target)), ..attach("l", 0, Role::Receiver) }
    };
    assert_eq!(script.endpoint.attach(0, Some(0), answer(&long)), None);
    assert_eq!(script.endpoint.attach(0, None, answer(&long)), None);
    assert_eq!(script.endpoint.output_len(), 0);
    assert_eq!(script.endpoint.attach(0, Some(0), answer("short")), Some(0));
    assert_eq!(frame(&mut script), ["attach 0 l"]);
    // An error that does not fit into a frame is shortened.
    let error = || {
        let mut info = Map::new();
        info.insert(Symbol::from_static("info"), Value::from(long.as_str()));
        let (condition, description) = (condition::NOT_FOUND, Some("\u{fc}".repeat(1000)));
        AmqpError { condition, description, info: Some(info) }
    };
    let rejected = DeliveryState::Rejected(Some(error()));
    script.endpoint.disposition(0, Role::Receiver, (u32::MAX - 1, u32::MAX), true, &rejected);
    assert_eq!(frame(&mut script), ["disposition"]);
    script.endpoint.detach(0, 0, Some(error()));
    assert_eq!(frame(&mut script), ["detach 0 amqp:not-found"]);
    script.endpoint.end(0, Some(error()));
    assert_eq!(frame(&mut script), ["end"]);
    script.endpoint.close(Some(error()), false);
    assert_eq!(frame(&mut script), ["close"]);
    // An error that fits stays unchanged.
    let short = AmqpError { description: Some("why".into()), ..AmqpError::new(condition::NOT_FOUND) };
    assert_eq!(short.clone().within(512), short);
}

#[test]
fn handles_above_the_peers_are_not_used() {
    // [2.7.2] The peer accepts one link. It detached and attached again before its DETACH was answered.
    let mut script = Script::opened();
    script.receive(0, &Begin { incoming_window: 9, handle_max: 0, ..Begin::default() }).unwrap();
    script.endpoint.begin(Some(0), true);
    script.attach("l", 0, Role::Sender);
    assert!(script.receive(0, &attach("other", 1, Role::Sender)).is_err());
    assert_eq!(script.endpoint.attach(0, None, attach("ours", 0, Role::Sender)), None);
    assert_eq!(script.receive(0, &detach(0)), event("Detach"));
    // The DETACH is answered first, so that the link has the only handle.
    assert_eq!(script.receive(0, &attach("l", 0, Role::Sender)), event("Attach"));
    assert_eq!(script.sent().last().map(String::as_str), Some("detach 0"));
    assert_eq!(script.endpoint.attach(0, Some(0), attach("l", 0, Role::Receiver)), Some(0));
    let fault = script.receive(0, &attach("other", 0, Role::Sender)).unwrap_err();
    assert_eq!(fault.radius(), Radius::Session);
}

#[test]
fn channels_above_the_peers_are_not_used() {
    // [2.7.1]
    let mut script = Script::logged_in();
    script.receive(0, &Open { channel_max: 1, ..Open::new("client") }).unwrap();
    script.endpoint.open(Open::new("server"));
    let begun = [0; 3].map(|_| script.endpoint.begin(None, true));
    assert_eq!(begun, [Some(0), Some(1), None]);
}

#[test]
fn a_flow_sets_the_next_incoming_id() {
    // [2.5.6]
    let mut script = Script::begun(10);
    script.flow(Flow { next_outgoing_id: 7, ..session_flow(0, 10) }).unwrap();
    assert_eq!(script.endpoint.session(0).unwrap().next_incoming_id(), 7);
}

#[test]
fn handles_are_used_again() {
    let mut script = Script::attached(Role::Sender, 10);
    // The peer detaches and attaches again with the same name and handle, before we answer.
    assert_eq!(script.receive(0, &detach(0)), event("Detach"));
    assert_eq!(script.attach("link", 0, Role::Sender), 1);
    script.endpoint.detach(0, 0, None);
    assert_eq!(script.sent(), ["attach 1 link", "detach 0"]);
    let links: Vec<u32> = script.endpoint.session(0).unwrap().links().map(|(n, _)| n).collect();
    assert_eq!(links, [1]);
    assert_eq!(script.attach("other", 1, Role::Sender), 0);
}

#[test]
fn links_can_be_detached_before_they_are_answered() {
    let mut script = Script::begun(10);
    let link = script.endpoint.attach(0, None, attach("mine", 0, Role::Sender)).unwrap();
    script.endpoint.detach(0, link, None);
    let again = script.endpoint.attach(0, None, attach("mine", 0, Role::Sender)).unwrap();
    assert_ne!(link, again);
    assert_eq!(script.sent(), ["attach 0 mine", "detach 0", "attach 1 mine"]);
    assert_eq!(script.receive(0, &attach("mine", 0, Role::Receiver)), Ok(None));
    assert_eq!(script.receive(0, &detach(0)), event("Detach"));
    assert_eq!(script.receive(0, &attach("mine", 0, Role::Receiver)), event("Attach"));
    let session = script.endpoint.session(0).unwrap();
    assert_eq!(session.links().map(|(n, l)| (n, l.remote_handle)).collect::<Vec<_>>(), [(again, Some(0))]);
}

#[test]
fn channels_are_used_again() {
    let mut script = Script::attached(Role::Receiver, 1);
    script.credit(0, 1, 0, 10).unwrap();
    assert!(script.send(b"a", 0) && script.send(b"waits", 1));
    script.sent();
    script.endpoint.end(0, None);
    // Nothing follows our END. Frames that the peer sent before it received the END are ignored.
    script.flow(session_flow(1, 10)).unwrap();
    assert!(!script.send(b"b", 2));
    script.endpoint.grant(0, 0, 1, false, false);
    script.endpoint.pump();
    assert_eq!(script.sent(), ["end"]);
    assert_eq!(script.receive(0, &Disposition::new(Role::Receiver, 0)), Ok(None));
    assert_eq!(script.receive(0, &End { error: None }), event("End"));
    assert!(script.endpoint.session(0).is_none());
    assert_eq!(script.receive(0, &detach(0)), Ok(None), "no session, no notice");
    assert_eq!(script.receive(0, &Begin::default()), event("Begin"));
    script.endpoint.begin(Some(0), true);
    assert_eq!(script.sent(), ["begin"]);
}

#[test]
fn a_channel_whose_session_lingers_is_not_taken_over() {
    let mut script = Script::begun(10);
    assert_eq!(script.receive(0, &End { error: None }), event("End"));
    assert_eq!(script.receive(0, &Begin { next_outgoing_id: 9, ..Begin::default() }), event("Begin"));
    assert_eq!(script.endpoint.session(1).unwrap().next_incoming_id(), 9);
    script.endpoint.begin(Some(1), true);
    script.endpoint.end(0, None);
    assert!(script.endpoint.session(0).is_none() && script.endpoint.session(1).is_some());
}

#[test]
fn sessions_can_be_ended_before_they_are_answered() {
    let mut script = Script::opened();
    assert_eq!(script.endpoint.begin(None, true), Some(0));
    script.endpoint.end(0, None);
    assert_eq!(script.sent(), ["begin", "end"]);
    assert_eq!(script.endpoint.begin(None, true), Some(1));
    let answer = |to| Begin { remote_channel: Some(to), ..Begin::default() };
    assert_eq!(script.receive(2, &answer(0)), Ok(None));
    assert_eq!(script.receive(2, &End { error: None }), event("End"));
    assert_eq!(script.receive(2, &answer(1)), event("Begin"));
    assert!(script.endpoint.session(0).is_none());
}

#[test]
fn delivery_count_is_absent_before_the_senders_attach() {
    let mut script = Script::begun(10);
    let link = script.endpoint.attach(0, None, attach("mine", 0, Role::Receiver)).unwrap();
    script.endpoint.grant(0, link, 5, false, false);
    assert_eq!(script.sent(), ["attach 0 mine", "flow 0 count - credit 5"]);
    let mut answer = attach("mine", 0, Role::Sender);
    answer.initial_delivery_count = Some(u32::MAX);
    script.receive(0, &answer).unwrap();
    for id in 0..5 {
        script.transfer(&head(id, b"t"), b"x").unwrap();
    }
    let credit = script.endpoint.session(0).unwrap().link(link).unwrap().receiver_credit();
    assert_eq!((credit.delivery_count(), credit.credit()), (4, 0));
}
