//! The members of a group, and how they change.

/// The most members of a group, voters and learners together. A change that exceeds this is refused.
pub const MEMBERS_MAX: usize = 256;

/// One replica of a group. A member that leaves and returns gets a new number, so that late messages of its
/// former membership are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The node that the replica is on.
    pub node: u32,
    /// The number of this member, from 1, among all that the group has ever had.
    pub number: u32,
}

impl Member {
    /// Returns the member as one number. It is never 0 for a valid member.
    pub fn id(self) -> u64 {
        u64::from(self.node) << 32 | u64::from(self.number)
    }

    /// Returns the member with this number; `None` for 0, which means no member.
    pub fn from_id(id: u64) -> Option<Self> {
        let member = Self { node: (id >> 32) as u32, number: id as u32 };
        (id != 0).then_some(member)
    }
}

/// The members of a group at one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The members that vote, in ascending order.
    voters: Vec<Member>,
    /// The members that receive entries and do not count for a majority, in ascending order.
    learners: Vec<Member>,
    /// The number of the next member.
    next: u32,
}

impl Members {
    /// Returns the members of a new group: one voter on each node, numbered in the order of `nodes`.
    pub fn founding(nodes: &[u32]) -> Self {
        let mut voters: Vec<Member> =
            nodes.iter().zip(1..).map(|(&node, number)| Member { node, number }).collect();
        voters.sort_unstable();
        Self { voters, learners: Vec::new(), next: nodes.len() as u32 + 1 }
    }

    /// Builds members from their parts. Returns `None` if a group cannot have them.
    pub fn from_parts(mut voters: Vec<Member>, mut learners: Vec<Member>, next: u32) -> Option<Self> {
        voters.sort_unstable();
        learners.sort_unstable();
        let members = Self { voters, learners, next };
        let mut nodes: Vec<u32> = members.all().map(|member| member.node).collect();
        nodes.sort_unstable();
        let is_sound = !members.voters.is_empty()
            && nodes.len() <= MEMBERS_MAX
            && nodes.windows(2).all(|pair| pair[0] != pair[1])
            && members.all().all(|member| 0 < member.number && member.number < next);
        is_sound.then_some(members)
    }

    pub fn voters(&self) -> &[Member] {
        &self.voters
    }

    pub fn learners(&self) -> &[Member] {
        &self.learners
    }

    /// Returns the number of the next member.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Returns all members, voters first.
    pub fn all(&self) -> impl Iterator<Item = Member> + '_ {
        self.voters.iter().chain(&self.learners).copied()
    }

    pub fn contains(&self, member: Member) -> bool {
        self.is_voter(member) || self.learners.binary_search(&member).is_ok()
    }

    pub fn is_voter(&self, member: Member) -> bool {
        self.voters.binary_search(&member).is_ok()
    }

    /// Returns the member on `node`. A node has at most one.
    pub fn on_node(&self, node: u32) -> Option<Member> {
        self.all().find(|member| member.node == node)
    }

    /// Returns true if `member` was a member and no longer is.
    pub fn is_former(&self, member: Member) -> bool {
        member.number < self.next && !self.contains(member)
    }

    /// Returns the members after `change`; `None` if the change does not fit them.
    pub fn after(&self, change: Change) -> Option<Self> {
        let Self { mut voters, mut learners, mut next } = self.clone();
        match change {
            Change::Add(member) => {
                if member.number != next {
                    return None;
                }
                next = next.checked_add(1)?;
                learners.push(member);
            }
            Change::Promote(member) => {
                learners.remove(learners.binary_search(&member).ok()?);
                voters.push(member);
            }
            Change::Remove(member) => {
                if !self.contains(member) {
                    return None;
                }
                voters.retain(|other| *other != member);
                learners.retain(|other| *other != member);
            }
        }
        Self::from_parts(voters, learners, next)
    }
}

/// A change of the members. The next change must wait until this one is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds a learner. Its number is [`Members::next`].
    Add(Member),
    /// Makes a learner a voter.
    Promote(Member),
    /// Removes a learner or a voter.
    Remove(Member),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_never_given_twice() {
        let founding = Members::founding(&[7, 5]);
        let [a, b] = [Member { node: 7, number: 1 }, Member { node: 5, number: 2 }];
        assert_eq!(founding.voters(), [b, a]);
        let without = founding.after(Change::Remove(a)).unwrap();
        assert!(without.is_former(a) && !without.is_former(b));
        assert_eq!(without.after(Change::Add(a)), None);
        let again = Member { node: 7, number: 3 };
        assert!(!without.is_former(again));
        let with = without.after(Change::Add(again)).unwrap();
        assert_eq!((with.learners(), with.next()), (&[again][..], 4));
        assert!(with.after(Change::Promote(again)).unwrap().is_voter(again));
    }

    #[test]
    fn invalid_members_are_refused() {
        let founding = Members::founding(&[1]);
        let only = founding.voters()[0];
        assert_eq!(founding.after(Change::Remove(only)), None);
        assert_eq!(founding.after(Change::Add(Member { node: 1, number: 2 })), None);
        assert_eq!(founding.after(Change::Promote(only)), None);
        assert_eq!(founding.after(Change::Remove(Member { node: 2, number: 2 })), None);
        assert_eq!(Members::from_parts(vec![Member { node: 1, number: 0 }], vec![], 2), None);
        assert_eq!(Members::from_parts(vec![], vec![only], 2), None);
    }
}
