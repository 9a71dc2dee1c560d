"""Values of a chart in layers, from weak to strong, and the arguments that hand them to helm. Pure.

The order is Argo CD's: the chart's own, value files, `values` or `valuesObject`, parameters, file parameters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from delegate.engine.sources.variables import substitute
from delegate.model.resources import JsonObject
from delegate.model.sources import HelmOptions

_SEPARATORS = re.compile(r"([\\,.=\[\]])")
_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


def inline_values(options: HelmOptions) -> bytes | None:
    """The file that `valuesObject`, or `values`, stands for; None without either."""
    if options.values_object is not None:
        return msgspec.json.encode(options.values_object)
    return options.values.encode() if options.values.strip() else None


def parameter_arguments(options: HelmOptions, variables: Mapping[str, str]) -> list[str]:
    """A comma in a value is part of it, unless the value is a list in braces; as Argo CD hands parameters over."""
    arguments: list[str] = []
    for parameter in options.parameters:
        value = _whole(substitute(parameter.value, variables))
        arguments += ["--set-string" if parameter.force_string else "--set", f"{parameter.name}={value}"]
    return arguments


def file_argument(name: str, path: str) -> list[str]:
    return ["--set-file", f"{name}={_whole(path)}"]


def exact_argument(path: Sequence[str | int], number: int) -> list[str]:
    """Sets one whole number; helm reads those of `--set` as such."""
    return ["--set", f"{name_of(path)}={number}"]


def list_argument(path: Sequence[str | int], value: object) -> list[str]:
    """Sets a whole list, in the place of the chart's own: `--set` alone would leave holes in it."""
    return ["--set-json", f"{name_of(path)}={msgspec.json.encode(value).decode()}"]


def name_of(path: Sequence[str | int]) -> str:
    """A value's name as `--set` reads it (helm/pkg/strvals)."""
    words = ""
    for step in path:
        words += f"[{step}]" if isinstance(step, int) else ("." if words else "") + _SEPARATORS.sub(r"\\\1", step)
    return words


def merge(layers: Iterable[JsonObject]) -> JsonObject:
    """Mappings are merged, null takes a value away, everything else takes the place of what is weaker."""
    merged: JsonObject = {}
    for layer in layers:
        merged = _over(merged, layer)
    return merged


def _over(weak: JsonObject, strong: JsonObject) -> JsonObject:
    result = dict(weak)
    for key, value in strong.items():
        present = result.get(key)
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _over(present, value) if isinstance(present, dict) and isinstance(value, dict) else value
    return result


def _whole(value: str) -> str:
    return value if value.startswith("{") and value.endswith("}") else _UNESCAPED_COMMA.sub(r"\\,", value)
