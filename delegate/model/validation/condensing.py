"""Makes the condensed definitions of the OpenAPI ones that Kubernetes publishes (as JSON schema, `$defs` by name).

    python -m delegate.model.validation.condensing _definitions.json 1.37 > delegate/model/validation/definitions.json.gz

Descriptions, defaults and whatever strict checks don't ask for are left out. The result is the same for the same input.
"""

import gzip
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

_REFERENCE = "#/$defs/"
_ANYTHING: dict[str, Any] = {}
_QUANTITY = {"t": "quantity"}
_INT_OR_STRING = {"t": "int-or-string"}
_SPECIAL: Mapping[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _QUANTITY,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
}
_KINDS = "x-kubernetes-group-version-kind"


def condense(definitions: Mapping[str, Any], release: str) -> bytes:
    """Gzipped JSON: `release`; `kinds`, names by `group/version/Kind`; `types` by name.

    A type has `t` (string, integer, number, boolean, array, object, quantity, int-or-string; none: anything), `p` its properties,
    `r` the required ones, `i` what its items are, `v` what its values are, `ref` the name of another.
    """
    kinds: dict[str, str] = {}
    types: dict[str, Any] = {}
    for name, schema in sorted(definitions.items()):
        types[_short(name)] = _SPECIAL.get(name) or _type(schema)
        for kind in schema.get(_KINDS, ()):
            # DeleteOptions and its like belong to every group and are nobody's manifest.
            if len(schema[_KINDS]) == 1 and "metadata" in schema.get("properties", {}):
                kinds[f"{kind['group']}/{kind['version']}/{kind['kind']}"] = _short(name)
    document = {"release": release, "kinds": kinds, "types": types}
    return gzip.compress(msgspec.json.encode(document, order="deterministic"), 9, mtime=0)


def _short(name: str) -> str:
    """`io.k8s.api.core.v1.Container` as `core.v1.Container`; the names stay different from each other."""
    return name.removeprefix("io.k8s.").removeprefix("api.")


def _type(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, dict):
        return _ANYTHING
    if "$ref" in schema:
        return {"ref": _short(schema["$ref"].removeprefix(_REFERENCE))}
    kind = schema.get("type")
    plain = next((each for each in kind if each != "null"), "") if isinstance(kind, list) else kind
    if not plain or (plain == "object" and "properties" not in schema and "additionalProperties" not in schema):
        return _ANYTHING
    made: dict[str, Any] = {"t": plain}
    if "properties" in schema:
        made["p"] = {name: _type(below) for name, below in schema["properties"].items()}
        if schema.get("required"):
            made["r"] = schema["required"]
    if isinstance(schema.get("additionalProperties"), dict):
        made["v"] = _type(schema["additionalProperties"])
    if "items" in schema:
        made["i"] = _type(schema["items"])
    return made


if __name__ == "__main__":
    source = msgspec.json.decode(Path(sys.argv[1]).read_bytes())
    sys.stdout.buffer.write(condense(source["$defs"], sys.argv[2]))
