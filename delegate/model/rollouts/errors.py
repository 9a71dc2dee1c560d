"""Faults of canaries, as the pure rules find them.

RolloutError
├── CanarySpecError          a canary that can't be meant                                           input
├── UnreachableShareError    a share that no number of pods comes near                              policy
├── OverlapError             selectors by which controllers would see each other's pods             conflict
├── UpdateRuleError          an update rule of the set that leaves no room for a canary               conflict
├── IllegalMoveError         a step that does not follow from where a canary stands                 internal
└── CorruptJournalError      a journal that can't be read                                           conflict
"""

from delegate.foundation.errors import Category, DelegateError


class RolloutError(DelegateError):
    """The root of this package's errors."""


class CanarySpecError(RolloutError):
    default_code = "input.canary"
    category = Category.INPUT


class UnreachableShareError(RolloutError):
    default_code = "policy.share_unreachable"
    category = Category.POLICY


class OverlapError(RolloutError):
    default_code = "conflict.selector_overlap"
    category = Category.CONFLICT


class UpdateRuleError(RolloutError):
    default_code = "conflict.update_rule"
    category = Category.CONFLICT


class IllegalMoveError(RolloutError):
    default_code = "internal.illegal_move"


class CorruptJournalError(RolloutError):
    default_code = "conflict.canary_journal"
    category = Category.CONFLICT
