"""How many new pods make which share of the load.

Without a router both sets stand behind one Service, and the share is that of the pods: `new / (new + stable)`. So not every share can be
reached, and what can is computed, bounded and reported. With a router the share is the router's, and pods only have to bear it.
"""

import math

import msgspec

from delegate.model.rollouts.errors import UnreachableShareError
from delegate.model.rollouts.loads import Load
from delegate.model.rollouts.steps import CanaryScale


class Share(msgspec.Struct, frozen=True):
    """`wanted` and `effective` in percent; `count` new pods beside `stable` old ones; `words`: where that isn't how to say it."""

    wanted: float
    effective: float
    count: int
    stable: int
    words: str = ""

    def __str__(self) -> str:
        if self.words:
            return self.words
        if math.isclose(self.wanted, self.effective, abs_tol=0.05):
            return f"{self.wanted:g}% ({self.count} new beside {self.stable} old pods)"
        return f"{self.effective:.1f}% for the wanted {self.wanted:g}% ({self.count} new beside {self.stable} old pods)"


def effective_share(count: int, stable: int) -> float:
    """In percent; of no pods at all: 0."""
    return 100.0 * count / (count + stable) if count + stable else 0.0


def nearest_count(stable: int, wanted: float) -> int:
    """The number of new pods whose share is least far from the wanted one (percent, under 100); of two equally far, the larger."""
    if wanted <= 0:
        return 0
    exact = stable * wanted / (100.0 - wanted)
    low = math.floor(exact)
    distances = [(abs(effective_share(count, stable) - wanted), -count) for count in (low, low + 1)]
    return -min(distances, key=lambda each: (round(each[0], 9), each[1]))[1]


def share_by_pods(stable: int, wanted: float, most: float | None = None) -> Share:
    """The share that pods alone reach. `most`: the largest effective share that is agreed to, in percent.

    Raises UnreachableShareError where there is nothing to stand beside, where only no new pod at all comes near the wanted share, or where
    the nearest one is larger than agreed. Without `most` a share is near where it is nearer than none. A weight of 100 is as many new pods
    as there are old ones: the rest is promotion.
    """
    if stable <= 0:
        raise UnreachableShareError("the workload is scaled to zero: there is nothing that a new version could stand beside")
    if wanted <= 0:
        return Share(wanted, 0.0, 0, stable)
    if wanted >= 100:
        return Share(wanted, effective_share(stable, stable), stable, stable)
    count = nearest_count(stable, wanted)
    if count == 0 and most is not None:
        count = 1
    share = Share(wanted, effective_share(count, stable), count, stable)
    if count == 0 or (most is not None and share.effective > most + 1e-9):
        raise _unreachable(stable, wanted, most)
    return share


def _unreachable(stable: int, wanted: float, most: float | None) -> UnreachableShareError:
    below = math.floor(stable * wanted / (100.0 - wanted))
    nearest = " and ".join(f"{effective_share(count, stable):.4g}%" for count in (below, below + 1))
    bound = f" under the bound of {most:g}%" if most is not None else ""
    return UnreachableShareError(
        f"a share of {wanted:g}% can't be reached beside {stable} old {'pod' if stable == 1 else 'pods'} without a router{bound}: "
        f"the nearest are {nearest}",
        hint=f"set maxEffectiveShare to at least {effective_share(max(1, below), stable):.4g}, choose another weight, or name a router",
    )


def share_by_router(stable: int, wanted: float) -> Share:
    """The share that a router gives, with as many new pods as bear it: at least one where there is any weight."""
    if stable <= 0:
        raise UnreachableShareError("the workload is scaled to zero: there is nothing that a new version could stand beside")
    return Share(wanted, wanted, math.ceil(stable * wanted / 100.0 - 1e-9), stable)


def scaled_share(share: Share, stable: int, load: Load, scale: CanaryScale | None) -> Share:
    """With as many new pods as a step says, never fewer than the share takes, and one at least where any request may lead to them."""
    wanted = 0
    if scale is not None:
        wanted = scale.replicas if scale.replicas is not None else math.ceil(stable * (scale.weight or 0.0) / 100.0 - 1e-9)
    return msgspec.structs.replace(share, count=max(share.count, wanted, int(bool(load.header_routes))))


def share_by_ordinals(replicas: int, wanted: float, most: float | None = None) -> Share:
    """The share that whole ordinals of one set reach: `count` of its `replicas` pods. `most` as for `share_by_pods`.

    Raises UnreachableShareError. Under a weight of 100 at least one pod stays as it was, unless `most` agrees to all of them.
    """
    if replicas <= 0:
        raise UnreachableShareError("the workload is scaled to zero: there is no pod that could be of a new version")
    highest = replicas if wanted >= 100 or (most or 0.0) >= 100 else replicas - 1
    count = min(highest, math.floor(replicas * wanted / 100.0 + 0.5 + 1e-9))
    if count == 0 and wanted > 0 and most is not None and highest:
        count = 1
    share = Share(wanted, effective_share(count, replicas - count), count, replicas - count)
    if wanted > 0 and (count == 0 or (wanted < 100 and most is not None and share.effective > most + 1e-9)):
        raise _unreachable_inside(replicas, wanted, most)
    return share


def _unreachable_inside(replicas: int, wanted: float, most: float | None) -> UnreachableShareError:
    below = math.floor(replicas * wanted / 100.0)
    nearest = " and ".join(f"{100.0 * count / replicas:.4g}%" for count in (below, below + 1))
    bound = f" under the bound of {most:g}%" if most is not None else ""
    return UnreachableShareError(
        f"a share of {wanted:g}% can't be reached by whole ordinals of {replicas} {'pod' if replicas == 1 else 'pods'}{bound}: "
        f"the nearest are {nearest}",
        hint=f"set maxEffectiveShare to at least {100.0 * max(1, below) / replicas:.4g}, or choose another weight",
    )


def reached_share(kind: str, replicas: int, wanted: float, most: float | None, *, routed: bool) -> Share:
    """By whatever makes the share of a workload of this kind. Raises UnreachableShareError."""
    if kind == "StatefulSet":
        return share_by_ordinals(replicas, wanted, most)
    return share_by_router(replicas, wanted) if routed else share_by_pods(replicas, wanted, most)


def covering_count(replicas: int, max_unavailable: str | int | None, *, recreate: bool) -> int:
    """How many ready pods must stand beside a set that is being updated, so that as many serve as before: what its own rule lets go."""
    if recreate:
        return replicas
    if max_unavailable is None:
        max_unavailable = "25%"
    if isinstance(max_unavailable, int):
        return min(replicas, max_unavailable)
    return min(replicas, math.floor(replicas * float(max_unavailable.removesuffix("%")) / 100.0))


def promotion_share(wanted: float, count: int, stable: int) -> Share:
    """Of a set that already stands, whatever was asked for."""
    return Share(wanted, effective_share(count, stable), count, stable)
