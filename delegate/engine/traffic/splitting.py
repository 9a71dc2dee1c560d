"""Weights in routes that are lists of rules, each with a list of weighted targets (HTTPRoute, VirtualService): bodies in, bodies out.

Only three things are ever changed: the weights of targets that lead to the stable Service, targets that lead to the canary's Service, and
rules that lead to nothing else (header rules). Everything else is somebody else's and is passed through as it is.
"""

import copy
from collections.abc import Iterator
from typing import Protocol

import msgspec

from delegate.engine.traffic.errors import RoutingSpecError
from delegate.model.resources import JsonObject
from delegate.model.rollouts.loads import HeaderRoute, Load

_CLOSE_ENOUGH = 0.5
_MOST_DECIMALS = 4


class Shape(Protocol):
    """How one kind of route spells rules and targets."""

    @property
    def rules(self) -> str:
        """The field of `spec` that holds the rules."""

    @property
    def targets(self) -> str:
        """The field of a rule that holds its targets."""

    @property
    def matches(self) -> str:
        """The field of a rule that says which requests it is for."""

    @property
    def default_weight(self) -> int:
        """Of a target beside others that says none."""

    @property
    def decimals(self) -> bool:
        """Whether weights of one rule may sum up to something else than 100."""

    def is_stable(self, target: JsonObject) -> bool: ...

    def is_canary(self, target: JsonObject) -> bool: ...

    def canary_target(self, target: JsonObject) -> JsonObject:
        """The target of the new version for one of the stable version."""

    def header_rule(self, rule: JsonObject, route: HeaderRoute) -> JsonObject:
        """A rule for those of the rule's requests that the header route takes, with no targets yet."""


class FirstRule(msgspec.Struct, frozen=True):
    """A rule as it was before the first weight: by what it is known again, and the weights of its stable targets (null: it says none)."""

    name: str
    matches: JsonObject | list[JsonObject] | None
    weights: list[int | None]


def first_rules(body: JsonObject, shape: Shape, names: tuple[str, ...] = ()) -> tuple[FirstRule, ...]:
    """Every rule that leads to the stable Service; of those with `names`, where there are any."""
    found = []
    for rule in _rules(body, shape):
        weights = [target.get("weight") for target in _targets(rule, shape) if shape.is_stable(target)]
        if weights and (not names or rule.get("name") in names):
            found.append(FirstRule(str(rule.get("name") or ""), copy.deepcopy(rule.get(shape.matches)), weights))
    return tuple(found)


def names_canary(body: JsonObject, shape: Shape) -> bool:
    return any(shape.is_canary(target) for rule in _rules(body, shape) for target in _targets(rule, shape))


def with_load(body: JsonObject, shape: Shape, first: tuple[FirstRule, ...], load: Load) -> JsonObject:
    """The route with this load on the new version in every rule of `first`; whatever it had before.

    A rule that came since is left alone. Header rules stand right before the rule whose requests they take. Raises RoutingSpecError
    where weights of others leave no such share.
    """
    back = without_canary(body, shape, first)
    rules: list[JsonObject] = []
    for rule, known in _paired(back, shape, first):
        if known is None:
            rules.append(rule)
            continue
        rules += [_header_rule(rule, shape, route) for route in load.header_routes]
        rules.append({**rule, shape.targets: _split(rule, shape, load.weight)})
    return _with_rules(back, shape, rules)


def without_canary(body: JsonObject, shape: Shape, first: tuple[FirstRule, ...]) -> JsonObject:
    """The route as it was before the first weight, as far as it was changed for the canary."""
    rules: list[JsonObject] = []
    for rule, known in _paired(body, shape, first):
        targets = _targets(rule, shape)
        kept = [target for target in targets if not shape.is_canary(target)]
        if targets and not kept:
            continue
        if known is not None:
            rules.append({**rule, shape.targets: _restored(kept, shape, known)})
        elif len(kept) < len(targets):
            rules.append({**rule, shape.targets: _merged(targets, shape)})
        else:
            rules.append(rule)
    return _with_rules(body, shape, rules)


def weight_of(body: JsonObject, shape: Shape) -> float:
    """The weight of the new version in percent, of its rules the largest; 0 where none leads to it. Header rules don't count."""
    found = [0.0]
    for rule in _rules(body, shape):
        pairs = [(_weight(target, shape), shape.is_canary(target)) for target in _targets(rule, shape) if _is_ours(target, shape)]
        both = sum(weight for weight, _ in pairs)
        if both and any(not new for _, new in pairs):
            found.append(100.0 * sum(weight for weight, new in pairs if new) / both)
    return max(found)


def weights_in(body: JsonObject, shape: Shape) -> list[list[tuple[bool, int]]]:
    """By rule that leads to the stable Service: whether a target is the new version's, and its weight. Whatever else a server fills in."""
    ours = [[target for target in _targets(rule, shape) if _is_ours(target, shape)] for rule in _rules(body, shape)]
    told = [[(shape.is_canary(target), _weight(target, shape)) for target in targets] for targets in ours]
    return [rule for rule in told if any(not new for new, _ in rule)]


def header_matches(body: JsonObject, shape: Shape) -> list[JsonObject | list[JsonObject] | None]:
    """What the rules match that lead to the new version alone."""
    ours = [rule for rule in _rules(body, shape) if _targets(rule, shape)]
    return [rule.get(shape.matches) for rule in ours if all(shape.is_canary(target) for target in _targets(rule, shape))]


def standing_routes(
    body: JsonObject, shape: Shape, first: tuple[FirstRule, ...], routes: tuple[HeaderRoute, ...]
) -> tuple[HeaderRoute, ...]:
    """Those whose rules stand there for every rule of `first`."""
    back, stands = without_canary(body, shape, first), header_matches(body, shape)
    known = [rule for rule, known in _paired(back, shape, first) if known is not None]
    return tuple(route for route in routes if known and all(shape.header_rule(rule, route).get(shape.matches) in stands for rule in known))


def _is_ours(target: JsonObject, shape: Shape) -> bool:
    return shape.is_stable(target) or shape.is_canary(target)


def _rules(body: JsonObject, shape: Shape) -> list[JsonObject]:
    return list((body.get("spec") or {}).get(shape.rules) or ())


def _targets(rule: JsonObject, shape: Shape) -> list[JsonObject]:
    return list(rule.get(shape.targets) or ())


def _with_rules(body: JsonObject, shape: Shape, rules: list[JsonObject]) -> JsonObject:
    if shape.rules not in (body.get("spec") or {}):
        return body
    return {**body, "spec": {**body["spec"], shape.rules: rules}}


def _weight(target: JsonObject, shape: Shape) -> int:
    weight = target.get("weight")
    return shape.default_weight if weight is None else int(weight)


def _paired(body: JsonObject, shape: Shape, first: tuple[FirstRule, ...]) -> Iterator[tuple[JsonObject, FirstRule | None]]:
    """Each rule with what it was at first; rules that are alike are taken in order, and one with other targets is none of them."""
    left = list(first)
    for rule in _rules(body, shape):
        stable = sum(1 for target in _targets(rule, shape) if shape.is_stable(target))
        known = next(
            (
                each
                for each in left
                if each.name == str(rule.get("name") or "") and each.matches == rule.get(shape.matches) and len(each.weights) == stable
            ),
            None,
        )
        if known is not None:
            left.remove(known)
        yield rule, known


def _restored(kept: list[JsonObject], shape: Shape, known: FirstRule) -> list[JsonObject]:
    weights = iter(known.weights)
    return [_weighing(target, next(weights)) if shape.is_stable(target) else target for target in kept]


def _merged(targets: list[JsonObject], shape: Shape) -> list[JsonObject]:
    """Of a rule whose first state nobody knows any more: what went to the new version goes to the stable one."""
    kept: list[JsonObject] = []
    for target in targets:
        if not shape.is_canary(target):
            kept.append(target)
        elif kept and shape.is_stable(kept[-1]):
            kept[-1] = _weighing(kept[-1], _weight(kept[-1], shape) + _weight(target, shape))
    return kept


def _split(rule: JsonObject, shape: Shape, weight: float) -> list[JsonObject]:
    targets = _targets(rule, shape)
    split: list[JsonObject] = []
    for target in targets:
        if not shape.is_stable(target):
            split.append(target)
            continue
        stable, canary = _sole_parts(weight, decimals=shape.decimals) if len(targets) == 1 else _parts(_weight(target, shape), weight)
        split += [_weighing(target, stable), _weighing(shape.canary_target(target), canary)]
    return split


def _sole_parts(weight: float, *, decimals: bool) -> tuple[int, int]:
    """Of a target that has a rule for itself, whatever its weight was: of 100, or of more where that says it exactly."""
    total = 100
    if decimals:
        for _ in range(_MOST_DECIMALS):
            if abs(weight * total / 100 - round(weight * total / 100)) < 1e-9:
                break
            total *= 10
    return _parts(total, weight)


def _parts(total: int, weight: float) -> tuple[int, int]:
    """A weight divided, its sum kept. Raises RoutingSpecError where whole numbers don't come near enough, or only none or all do."""
    if total == 0:
        return 0, 0
    canary = round(total * weight / 100.0)
    far = abs(100.0 * canary / total - weight) > _CLOSE_ENOUGH
    if far or (canary == 0 and weight > 0) or (canary == total and weight < 100):
        raise RoutingSpecError(
            f"a stable weight of {total} can't be divided so that {weight:g}% of it go to the new version",
            hint="multiply all weights of that rule by 100, or choose another weight",
        )
    return total - canary, canary


def _weighing(target: JsonObject, weight: int | None) -> JsonObject:
    rest = {field: value for field, value in target.items() if field != "weight"}
    return rest if weight is None else {**rest, "weight": weight}


def _header_rule(rule: JsonObject, shape: Shape, route: HeaderRoute) -> JsonObject:
    stable = next(target for target in _targets(rule, shape) if shape.is_stable(target))
    return {
        **shape.header_rule(copy.deepcopy(rule), route),
        shape.targets: [_weighing(shape.canary_target(stable), shape.default_weight)],
    }
