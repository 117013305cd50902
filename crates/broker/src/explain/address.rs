//! Explains why logins from one address wait.

use catalog::access::Guessing;

/// What is known about the logins of an address. For IPv6, it is that of the first 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddressFacts {
    pub guessing: Guessing,
    /// The logins that wait to be checked.
    pub unchecked: usize,
}

/// Why logins from an address wait. `docs/operations/slow.md` says what to do about each cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressCause {
    /// So many failed logins wait that the sockets of further ones are closed.
    LoginsClosed,
    /// Many logins of the address have failed, so failed ones wait for their answers.
    FailedLoginsWait,
    /// Logins wait to be checked.
    LoginsUnchecked,
    /// No login waits now, but so many have failed that the next failure waits if they are of one user. Of which users they
    /// are is not kept.
    FailedLoginsMayWait,
    /// No login of the address waits.
    LoginsCalm,
}

impl AddressCause {
    pub const ALL: [Self; 5] = [
        Self::LoginsClosed,
        Self::FailedLoginsWait,
        Self::LoginsUnchecked,
        Self::FailedLoginsMayWait,
        Self::LoginsCalm,
    ];

    pub fn of(facts: &AddressFacts) -> Self {
        let Guessing { failures, waiting } = facts.guessing;
        match () {
            () if waiting >= Guessing::WAITING_MAX => Self::LoginsClosed,
            () if waiting > 0 || failures > Guessing::FAILURES_MAX => Self::FailedLoginsWait,
            () if facts.unchecked > 0 => Self::LoginsUnchecked,
            () if failures >= Guessing::OF_USER_MAX => Self::FailedLoginsMayWait,
            () => Self::LoginsCalm,
        }
    }

    /// The name in listings.
    pub const fn word(self) -> &'static str {
        match self {
            Self::LoginsClosed => "logins_closed",
            Self::FailedLoginsWait => "failed_logins_wait",
            Self::LoginsUnchecked => "logins_unchecked",
            Self::FailedLoginsMayWait => "failed_logins_may_wait",
            Self::LoginsCalm => "logins_calm",
        }
    }

    /// Says what it means, for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::LoginsClosed => {
                "so many failed logins of the address wait for their answers that the sockets of further ones are closed"
            }
            Self::FailedLoginsWait => {
                "many logins of the address have failed, so the answers to failed ones wait"
            }
            Self::LoginsUnchecked => "logins of the address wait to be checked",
            Self::FailedLoginsMayWait => {
                "no login of the address waits, but if those that have failed are of one user, the answer to the next failed one of \
                 that user waits"
            }
            Self::LoginsCalm => "no login of the address waits",
        }
    }

    /// Says more about what it means, for people.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::LoginsClosed | Self::FailedLoginsWait => {
                "Whoever guesses passwords has to wait. So has a client with a wrong password that tries again and again."
            }
            Self::LoginsUnchecked => {
                "Checking a password takes long on purpose. More logins come than can be checked."
            }
            Self::FailedLoginsMayWait => {
                "Logins of the address have failed. So many failures of one user would make the next one wait."
            }
            Self::LoginsCalm => {
                "Logins from this address are checked at once, and failed ones are answered at once."
            }
        }
    }

    /// Says what to do, for people. `None`: nothing.
    pub const fn advice(self) -> Option<&'static str> {
        match self {
            Self::LoginsClosed | Self::FailedLoginsWait | Self::FailedLoginsMayWait => Some(
                "find the client with the wrong password (the log names the users), and correct or stop it; right passwords are \
                 let in as soon as they are checked, and one failure is forgiven each second",
            ),
            Self::LoginsUnchecked => Some(
                "if this stays so, clients log in more often than passwords can be checked: let them keep their connections open",
            ),
            Self::LoginsCalm => None,
        }
    }
}

impl AddressFacts {
    /// Returns the numbers behind the cause, with their names.
    pub fn numbers(&self) -> [(&'static str, u64); 6] {
        let Guessing { failures, waiting } = self.guessing;
        [
            ("failed_logins_waiting", waiting as u64),
            ("failed_logins_waiting_max", Guessing::WAITING_MAX as u64),
            ("failures", failures),
            ("failures_max", Guessing::FAILURES_MAX),
            ("failures_of_one_user_max", Guessing::OF_USER_MAX),
            ("logins_unchecked", self.unchecked as u64),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hinders_most_is_the_cause() {
        let of = |failures, waiting, unchecked| {
            AddressCause::of(&AddressFacts { guessing: Guessing { failures, waiting }, unchecked })
        };
        assert_eq!(of(19, 0, 0), AddressCause::LoginsCalm);
        assert_eq!(of(20, 0, 0), AddressCause::FailedLoginsMayWait, "the next one with the same user waits");
        assert_eq!(of(60, 0, 0), AddressCause::FailedLoginsMayWait);
        assert_eq!(of(60, 0, 1), AddressCause::LoginsUnchecked);
        assert_eq!(of(61, 0, 1), AddressCause::FailedLoginsWait);
        assert_eq!(of(21, 1, 0), AddressCause::FailedLoginsWait, "with one user");
        assert_eq!(of(21, Guessing::WAITING_MAX, 0), AddressCause::LoginsClosed);
    }
}
