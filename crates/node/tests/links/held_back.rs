//! Publishers of AMQP 0.9.1 that are ahead of their queues.

use broker::settings::Settings;

use super::client091::Client091;
use super::house::House;

/// Without confirms, a publisher knows nothing of what its messages wait for. Its socket is the only thing that can hold
/// it back. `connection.blocked` is for alarms, which last longer.
#[test]
fn the_socket_of_a_publisher_that_is_ahead_is_not_read_and_others_go_on() {
    let credit = Settings::default().max_link_credit;
    let mut house = House::new(1, Settings::default());
    for queue in ["slow", "other"] {
        house.declare(queue, Default::default());
    }
    let mut ahead = Client091::open(&mut house, &[1]);
    let mut beside = Client091::open(&mut house, &[1]);
    beside.consume(&mut house, 1, "other");

    house.log_stopped = true;
    assert!(ahead.is_read(&mut house));
    ahead.publish(&mut house, 1, "slow", credit);
    assert!(!ahead.is_read(&mut house));
    assert!(!ahead.was_blocked(), "there is no alarm");

    assert!(beside.is_read(&mut house));
    beside.publish_transient(&mut house, 1, "other", 2 * credit);
    assert!(beside.is_read(&mut house));
    assert_eq!(beside.deliveries(), 2 * credit);

    house.log_stopped = false;
    house.settle();
    assert!(ahead.is_read(&mut house));
}
