"""Labels and selectors: a selector is met by a delegate that carries all of its labels."""

from collections.abc import Mapping

import msgspec


def matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def missing(selector: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that a delegate lacks."""
    return {key: value for key, value in selector.items() if labels.get(key) != value}


def write_labels(labels: Mapping[str, str]) -> str:
    """Labels as they are stored: equal labels are equal texts."""
    return msgspec.json.encode(labels, order="sorted").decode()


def read_labels(text: str) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str])


def show_labels(labels: Mapping[str, str]) -> str:
    """`env=dev, gpu=true`, as people write them."""
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
