"""How one object of a set is treated: whose its fields are, and what its sync options say."""

import hashlib

import msgspec

from delegate.model.ownership import Mode, Ownership
from delegate.model.sync_options import SyncOptionSet
from delegate.model.takeover import Takes, is_client_side_or_of, is_of_others


class Treatment(msgspec.Struct, frozen=True):
    """`predecessors` are the managers whose fields are taken over once, as those of client-side apply are."""

    ownership: Ownership = Ownership()
    options: SyncOptionSet = SyncOptionSet()
    predecessors: frozenset[str] = frozenset()

    @property
    def takes(self) -> Takes:
        """Which entries of managedFields are taken over."""
        return is_of_others if self.overrides else is_client_side_or_of(self.predecessors)

    @property
    def settles(self) -> bool:
        """Whether what is sent depends on what is there."""
        ownership = self.ownership
        return bool(ownership.managers or ownership.expressions or any(mode in _SETTLED for mode, _ in ownership.paths))

    @property
    def overrides(self) -> bool:
        """Whether the object is to be ours alone."""
        return self.ownership.mode is Mode.OVERRIDE

    @property
    def merges(self) -> bool:
        return self.ownership.mode is Mode.MERGE or any(mode is Mode.MERGE for mode, _ in self.ownership.paths)

    def hash_with(self, manifest_hash: str) -> str:
        """What the applied mark stands for: the manifest, and the rules by which it was applied."""
        if self.ownership.is_plain:
            return manifest_hash
        digest = hashlib.sha256(f"{manifest_hash}{self.ownership.fingerprint}".encode())
        return digest.hexdigest()[: len(manifest_hash)]


_SETTLED = (Mode.CREATE_ONLY, Mode.IGNORE)
