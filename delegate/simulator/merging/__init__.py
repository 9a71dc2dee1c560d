"""Structured merge of objects by their field types: the field set of a value, merge, comparison and removal.

A transcription of the rules of structured-merge-diff (`typed`): keyed lists merge by key and sets by value, atomic lists and maps
are leaves, null and missing differ. Values are never changed; a merge that changes nothing returns the very object it was given.
"""

from delegate.simulator.merging.comparisons import Comparison, compare
from delegate.simulator.merging.elements import TypingError
from delegate.simulator.merging.members import field_set
from delegate.simulator.merging.merges import merge
from delegate.simulator.merging.misfits import printed, shown_path
from delegate.simulator.merging.removals import remove, with_named_members

__all__ = [
    "Comparison",
    "TypingError",
    "compare",
    "field_set",
    "merge",
    "printed",
    "remove",
    "shown_path",
    "with_named_members",
]
