//! The ladder: how a claim on one machine is judged.
//!
//! `Question::RULES` is the ladder itself, in order; the first rule that fits answers. Its precedence is a
//! contract: the tests hold it as a table.

use std::time::Duration;

use crate::domain::{Claim, MachineState, Order, OrderKey, Outcome, Reason, Rule, StateName};

use super::{Machine, OnGap, Place};

/// What a verdict depends on besides machine, state and claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    /// How far two clocks may be apart.
    pub clock_skew: Duration,
    /// Whether somebody can be asked for the truth.
    pub upstream: bool,
}

/// What the ladder answers of one claim on one machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The machine is in `state` by `key` from now on (which may be the state and key that it had).
    Take {
        /// Created, advanced or unchanged.
        outcome: Outcome,
        /// The rule that answered.
        rule: Rule,
        /// The state.
        state: StateName,
        /// Its order key.
        key: OrderKey,
    },
    /// Nothing changes.
    Leave {
        /// Noted, stale or refused.
        outcome: Outcome,
        /// The rule that answered.
        rule: Rule,
    },
    /// The upstream must be asked.
    Ask(Rule),
    /// Nobody can decide this.
    Dead(Rule, Reason),
}

/// Judges one claim. Total: every machine, state, claim and key has a verdict.
#[must_use]
pub fn judge(machine: &Machine, held: Option<&MachineState>, claim: &Claim, key: OrderKey, terms: Terms) -> Verdict {
    let target = match target(machine, held, claim) {
        Target::Place(place) => place,
        Target::None => return Verdict::Leave { outcome: Outcome::Noted, rule: Rule::Noted },
        Target::Ask(rule) if terms.upstream => return Verdict::Ask(rule),
        Target::Ask(rule) => return Verdict::Dead(rule, Reason::Ambiguous { rule }),
        Target::Undeclared(state) => {
            let reason = Reason::UnknownState { machine: machine.name().clone(), state };
            return Verdict::Dead(Rule::UnknownState, reason);
        }
    };
    let Some(held) = held else { return first(machine, target, key, terms) };
    let question = Question { machine, held, current: machine.place(&held.state), target, key, terms };
    let order = key.compare(&held.key, terms.clock_skew);
    let verdict = question.ladder(order);
    match verdict {
        Verdict::Ask(rule) if !terms.upstream => question.alone(rule, order),
        Verdict::Ask(_) | Verdict::Take { .. } | Verdict::Leave { .. } | Verdict::Dead(..) => verdict,
    }
}

/// What a claim points at.
enum Target {
    Place(Place),
    None,
    Ask(Rule),
    Undeclared(StateName),
}

/// Resolves a claim to the one state that it speaks of.
fn target(machine: &Machine, held: Option<&MachineState>, claim: &Claim) -> Target {
    match claim {
        Claim::None => Target::None,
        Claim::Hint => Target::Ask(Rule::Hint),
        Claim::Observed(state) => machine.place(state).map_or_else(|| Target::Undeclared(state.clone()), Target::Place),
        Claim::Happened(name) => {
            let edges = machine.happening(name);
            let Some((_, first)) = edges.first() else { return Target::Undeclared(name.clone()) };
            if edges.iter().all(|(_, to)| to == first) {
                return Target::Place(*first);
            }
            let current = held.and_then(|held| machine.place(&held.state));
            let from_here = edges.iter().find(|(from, _)| Some(*from) == current);
            from_here.map_or(Target::Ask(Rule::NoTarget), |(_, to)| Target::Place(*to))
        }
    }
}

/// The rule for an entity that has no state yet.
fn first(machine: &Machine, target: Place, key: OrderKey, terms: Terms) -> Verdict {
    let initial = machine.is_initial(target);
    if !initial && terms.upstream {
        return Verdict::Ask(Rule::Unknown);
    }
    let rule = if initial { Rule::Created } else { Rule::Unknown };
    match machine.state(target) {
        Some(state) => Verdict::Take { outcome: Outcome::Created, rule, state: state.name.clone(), key },
        None => Verdict::Ask(Rule::Unknown),
    }
}

/// One claim against one held state.
struct Question<'a> {
    machine: &'a Machine,
    held: &'a MachineState,
    /// None if the machine no longer declares the held state.
    current: Option<Place>,
    target: Place,
    key: OrderKey,
    terms: Terms,
}

/// A rule of the ladder: answers if it fits.
type RuleFn<'a> = fn(&Question<'a>, Place, Order) -> Option<Verdict>;

impl<'a> Question<'a> {
    /// The ladder for an entity with a state, in order; where none of these fits, the states are unrelated.
    const RULES: [RuleFn<'a>; 8] =
        [Self::unsure, Self::older, Self::same, Self::terminal, Self::advance, Self::tie, Self::backward, Self::gap];

    fn ladder(&self, order: Order) -> Verdict {
        let Some(current) = self.current else { return Verdict::Ask(Rule::Unrelated) };
        Self::RULES.iter().find_map(|rule| rule(self, current, order)).unwrap_or(Verdict::Ask(Rule::Unrelated))
    }

    fn unsure(&self, current: Place, order: Order) -> Option<Verdict> {
        (order == Order::Unsure).then(|| {
            if self.target == current {
                self.unchanged(Rule::Unsure)
            } else if self.is_behind(current) {
                stale(Rule::Unsure)
            } else {
                Verdict::Ask(Rule::Unsure)
            }
        })
    }

    fn older(&self, current: Place, order: Order) -> Option<Verdict> {
        (order == Order::Older)
            .then(|| if self.is_ahead(current) { Verdict::Ask(Rule::Older) } else { stale(Rule::Older) })
    }

    fn same(&self, current: Place, _: Order) -> Option<Verdict> {
        (self.target == current).then(|| self.unchanged(Rule::Same))
    }

    fn terminal(&self, current: Place, _: Order) -> Option<Verdict> {
        let stuck = self.machine.is_terminal(current) && !self.machine.has_edge(current, self.target);
        stuck.then_some(Verdict::Ask(Rule::Terminal))
    }

    fn advance(&self, current: Place, order: Order) -> Option<Verdict> {
        let way_back = self.machine.reaches(self.target, current);
        if self.machine.has_edge(current, self.target) {
            return (order == Order::Newer || !way_back).then(|| self.moved(Outcome::Advanced, Rule::Advance));
        }
        let versions = matches!((self.key, self.held.key), (OrderKey::Version(_), OrderKey::Version(_)));
        (versions && order == Order::Newer && self.machine.reaches(current, self.target))
            .then(|| self.moved(Outcome::AdvancedGapProven, Rule::Gap))
    }

    fn tie(&self, current: Place, _: Order) -> Option<Verdict> {
        self.machine.has_edge(current, self.target).then_some(Verdict::Ask(Rule::Tie))
    }

    fn backward(&self, current: Place, order: Order) -> Option<Verdict> {
        self.is_behind(current)
            .then(|| if order == Order::Equal { stale(Rule::Backward) } else { Verdict::Ask(Rule::Backward) })
    }

    fn gap(&self, current: Place, order: Order) -> Option<Verdict> {
        self.machine.reaches(current, self.target).then(|| {
            let accept = self.machine.policies().on_gap == OnGap::Accept;
            if accept && self.may_jump(current, order) {
                self.moved(Outcome::AdvancedGapAccepted, Rule::Gap)
            } else {
                Verdict::Ask(Rule::Gap)
            }
        })
    }

    /// What stands in for the upstream's answer when nobody can be asked.
    fn alone(&self, rule: Rule, order: Order) -> Verdict {
        let dead = Verdict::Dead(rule, Reason::Ambiguous { rule });
        let Some(current) = self.current else { return dead };
        match rule {
            Rule::Unsure => {
                let bare = self.key.compare_bare(&self.held.key);
                if bare == Order::Unsure {
                    return dead;
                }
                match self.ladder(bare) {
                    Verdict::Ask(next) => self.alone(next, bare),
                    verdict @ (Verdict::Take { .. } | Verdict::Leave { .. } | Verdict::Dead(..)) => verdict,
                }
            }
            Rule::Terminal => Verdict::Leave { outcome: Outcome::Refused, rule },
            Rule::Tie => self.by_rank(current, Outcome::Advanced, rule),
            Rule::Gap if self.may_jump(current, order) => self.moved(Outcome::AdvancedGapAccepted, rule),
            Rule::Gap => self.by_rank(current, Outcome::AdvancedGapAccepted, rule),
            Rule::Noted
            | Rule::Hint
            | Rule::UnknownState
            | Rule::Created
            | Rule::Unknown
            | Rule::Older
            | Rule::Same
            | Rule::Fields
            | Rule::Advance
            | Rule::Backward
            | Rule::Unrelated
            | Rule::NoTarget
            | Rule::Check
            | Rule::NotFound
            | Rule::Unavailable
            | Rule::Invalid
            | Rule::Panic => dead,
        }
    }

    /// Whether the claim may be taken over a gap: strictly ahead and not older, or newer and reachable.
    fn may_jump(&self, current: Place, order: Order) -> bool {
        let not_older = matches!(order, Order::Newer | Order::Equal);
        (not_older && self.is_ahead(current)) || (order == Order::Newer && self.machine.reaches(current, self.target))
    }

    fn by_rank(&self, current: Place, outcome: Outcome, rule: Rule) -> Verdict {
        if self.machine.rank(self.target) > self.machine.rank(current) {
            self.moved(outcome, rule)
        } else {
            stale(rule)
        }
    }

    fn is_ahead(&self, current: Place) -> bool {
        self.machine.is_strictly_ahead(self.target, current)
    }

    fn is_behind(&self, current: Place) -> bool {
        self.machine.is_strictly_ahead(current, self.target)
    }

    fn moved(&self, outcome: Outcome, rule: Rule) -> Verdict {
        let name = self.machine.state(self.target).map(|state| state.name.clone());
        let state = name.unwrap_or_else(|| self.held.state.clone());
        Verdict::Take { outcome, rule, state, key: self.key }
    }

    fn unchanged(&self, rule: Rule) -> Verdict {
        let key = self.held.key.joined(self.key, self.terms.clock_skew);
        Verdict::Take { outcome: Outcome::Unchanged, rule, state: self.held.state.clone(), key }
    }
}

fn stale(rule: Rule) -> Verdict {
    Verdict::Leave { outcome: Outcome::Stale, rule }
}
