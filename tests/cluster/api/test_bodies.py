"""What a body has to be: an object, of the kind of its path, in a form that is known, with no field twice."""

from typing import Any

import pytest

from tests.cluster.api.test_definitions import group, widgets  # noqa: F401  # fixtures
from tests.simulator.clients import APPLY, JSON_PATCH, MERGE, STRATEGIC, Client, config_map

YAML = "application/yaml"
TWICE = '{"metadata":{"name":"a","labels":{"x":"1","x":"2"}},"data":{"k":"1","k":"2"}}'
MIXED = '{"metadata":{"name":"a"},"no":1,"data":{"k":"2"},"data":{"k":"2"}}'
TWICE_YAML = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: "1"\n  k: "2"\n'
SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'
PARSED = "couldn't get version/kind; json parse error: "
GO_TYPE = 'Go value of type struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


@pytest.fixture
def maps(place: str) -> str:
    return f"/api/v1{place}/configmaps"


@pytest.mark.parametrize(
    ("kind", "body", "told"),
    [
        ("application/json", TWICE, ['duplicate field "metadata.labels.x"', 'duplicate field "data.k"']),
        ("application/json", MIXED, ['unknown field "no"', 'duplicate field "data"']),
        (YAML, TWICE_YAML, ['line 6: key "k" already set in map']),
    ],
)
async def test_a_field_that_comes_twice_is_warned_of(kind: str, body: str, told: list[str], admin: Client, maps: str) -> None:
    """The last one counts; Ignore says nothing, Strict refuses."""
    warned = await admin.send("POST", maps, body, kind=kind)
    assert (warned.status, warned.body["data"]) == (201, {"k": "2"})
    assert [text.removeprefix("299 - ") for text in warned.warnings] == [f'"{text}"'.replace('"', '\\"')[1:-2] + '"' for text in told]
    ignored = await admin.send("PUT", f"{maps}/a", body, kind=kind, fieldValidation="Ignore")
    refused = await admin.send("PUT", f"{maps}/a", body, kind=kind, fieldValidation="Strict")

    assert (ignored.status, ignored.warnings) == (200, [])
    listed = f"yaml: unmarshal errors:\n  {told[0]}" if kind == YAML else ", ".join(told)
    assert (refused.status, refused.body["message"]) == (
        400,
        f'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: {listed}',
    )


async def test_members_of_an_object_that_comes_twice_are_put_together(admin: Client, maps: str) -> None:
    """As Go's decoder fills one map from both."""
    made = await admin.send("POST", maps, '{"metadata":{"name":"a"},"data":{"k":"1"},"data":{"l":"2"}}')

    assert made.body["data"] == {"k": "1", "l": "2"}


@pytest.mark.parametrize(
    ("kind", "patch", "told"),
    [
        (MERGE, '{"data":{"k":"1","k":"2"}}', 'duplicate field "data.k"'),
        (STRATEGIC, '{"data":{"k":"1","k":"2"}}', 'duplicate field "data.k"'),
        (JSON_PATCH, '[{"op":"add","op":"add","path":"/data/k","value":"2"}]', 'json patch duplicate field "[0].op"'),
    ],
)
async def test_a_member_that_comes_twice_in_a_patch(kind: str, patch: str, told: str, admin: Client, maps: str) -> None:
    """Warned of, or refused when strict."""
    await admin.post(maps, config_map("a", {"k": "v"}))
    refused = await admin.patch(f"{maps}/a", patch, kind, fieldValidation="Strict")
    warned = await admin.patch(f"{maps}/a", patch, kind)

    assert (refused.status, refused.causes) == (422, [("FieldValueInvalid", "patch")])
    assert refused.body["message"].endswith(f"strict decoding error: {told}")
    assert (warned.body["data"], warned.warnings) == ({"k": "2"}, ['299 - "{}"'.format(told.replace('"', '\\"'))])


@pytest.mark.parametrize(("body", "line"), [(TWICE_YAML, 6), (TWICE.replace("{", '{"apiVersion":"v1","kind":"ConfigMap",', 1), 1)])
async def test_a_key_that_comes_twice_in_an_apply(body: str, line: int, admin: Client, maps: str) -> None:
    """Told by its line, in JSON too: an apply is read as YAML."""
    refused = await admin.send("PATCH", f"{maps}/a", body, kind=APPLY, fieldManager="m", fieldValidation="Strict")
    warned = await admin.send("PATCH", f"{maps}/a", body, kind=APPLY, fieldManager="m")

    assert refused.status == 400
    assert refused.body["message"].startswith("error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line")
    assert f'line {line}: key "k" already set in map' in refused.body["message"]
    assert warned.body["data"] == {"k": "2"}
    assert f'299 - "line {line}: key \\"k\\" already set in map"' in warned.warnings


async def test_a_field_that_comes_twice_in_a_custom_object(admin: Client, widgets: str, group: str) -> None:  # noqa: F811
    """Told before what isn't known; the last value counts."""
    body = f'{{"apiVersion":"{group}/v1","kind":"Widget","metadata":{{"name":"w"}},"spec":{{"odd":1,"odd":2,"size":1,"size":2}}}}'
    made = await admin.send("POST", widgets, body)

    assert (made.status, made.body["spec"]["size"]) == (201, 2)
    expected = ('duplicate field \\"spec.odd\\"', 'duplicate field \\"spec.size\\"', 'unknown field \\"spec.odd\\"')
    assert made.warnings == [f'299 - "{text}"' for text in expected]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("[]", f"{PARSED}json: cannot unmarshal array into {GO_TYPE} (5b5d)"),
        ('"x"', f"{PARSED}json: cannot unmarshal string into {GO_TYPE} (227822)"),
        ("", f"{PARSED}unexpected end of JSON input (<empty>)"),
        ("{", f"{PARSED}unexpected end of JSON input ({{)"),
        ("nonsense", f"{PARSED}invalid character 'o' in literal null (expecting 'u') (6e6f6e73656e7365)"),
        ('{"a":1}x', f"{PARSED}invalid character 'x' after top-level value ({{\"a\":1}}x)"),
        (
            '{"kind":3}',
            f'{PARSED}json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":3}})',
        ),
        ('{"apiVersion":"a/b/c"}', 'unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})'),
    ],
)
async def test_what_is_no_object_is_not_recognized(body: str, why: str, admin: Client, maps: str) -> None:
    """400 with the decoder's words and the beginning of the body."""
    await admin.post(maps, config_map("a"))
    for method, path in (("POST", maps), ("PUT", f"{maps}/a")):
        answer = await admin.send(method, path, body)
        expected = f"the object provided is unrecognized (must be of type ConfigMap): {why}"
        assert (answer.status, answer.body["message"]) == (400, expected)


@pytest.mark.parametrize(
    ("version", "kind", "why"),
    [
        ("v1", "Secret", "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
        ("apps/v1", "Deployment", "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"),
        ("v2", "ConfigMap", f'no kind "ConfigMap" is registered for version "v2" {SCHEME}'),
        ("nope/v1", "Nope", f'no kind "Nope" is registered for version "nope/v1" {SCHEME}'),
        ("", "Nope", f'no kind "Nope" is registered for version "v1" {SCHEME}'),
    ],
)
async def test_another_kind_is_refused(version: str, kind: str, why: str, admin: Client, maps: str) -> None:
    """400; a strategic merge patch doesn't look at it."""
    await admin.post(maps, config_map("a", {"k": "v"}))
    body: dict[str, Any] = {"kind": kind, "metadata": {"name": "a"}, **({"apiVersion": version} if version else {})}
    number = version.rpartition("/")[2] or "v1"
    for answer in (await admin.post(maps, body), await admin.put(f"{maps}/a", body)):
        expected = f'{kind} in version "{number}" cannot be handled as a ConfigMap: {why}'
        assert (answer.status, answer.body["message"]) == (400, expected)
    patched = await admin.patch(f"{maps}/a", {**body, "data": {"k": "w"}}, STRATEGIC)

    assert (patched.status, patched.body["kind"], patched.body["data"]) == (200, "ConfigMap", {"k": "w"})


async def test_a_former_version_is_not_the_one_of_the_path(admin: Client, place: str) -> None:
    """It is still understood, and refused."""
    answer = await admin.post(
        f"/apis/apps/v1{place}/deployments", {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "d"}}
    )

    assert answer.status == 400
    assert answer.body["message"] == "the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)"


async def test_a_custom_object_says_what_it_is(admin: Client, widgets: str, group: str) -> None:  # noqa: F811
    """Kind and version are wanted, unlike of built-in ones."""
    spec = {"metadata": {"name": "w"}, "spec": {"size": 1}}
    without_kind = await admin.post(widgets, {"apiVersion": f"{group}/v1", **spec})
    without_version = await admin.post(widgets, {"kind": "Widget", **spec})
    other = await admin.post(widgets, {"apiVersion": f"{group}/v1", "kind": "Other", **spec})
    await admin.post(widgets, {"apiVersion": f"{group}/v1", "kind": "Widget", **spec})
    patched = await admin.patch(f"{widgets}/w", {"kind": "Other", "apiVersion": "v1"})

    assert (without_kind.status, "(must be of type Widget): Object 'Kind' is missing in '{" in without_kind.body["message"]) == (400, True)
    expected = f"the API version in the data () does not match the expected API version ({group}/v1)"
    assert (without_version.status, without_version.body["message"]) == (400, expected)
    assert (other.status, other.body["message"]) == (422, f'Other.{group} "w" is invalid: kind: Invalid value: "Other": must be Widget')
    assert (patched.status, patched.causes) == (422, [("FieldValueInvalid", "kind"), ("FieldValueInvalid", "apiVersion")])


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream", MERGE])
async def test_an_unknown_form_is_refused(kind: str, admin: Client, maps: str) -> None:
    """415, with the forms that are known."""
    answer = await admin.send("POST", maps, config_map("a"), kind=kind)

    assert (answer.status, answer.body["reason"]) == (415, "UnsupportedMediaType")
    assert answer.body["message"].endswith("application/json, application/yaml, application/vnd.kubernetes.protobuf")


@pytest.mark.parametrize("kind", [MERGE, STRATEGIC, JSON_PATCH, "PUT", APPLY])
async def test_only_a_deletion_sets_when_an_object_goes(kind: str, admin: Client, maps: str) -> None:
    """422, and twice the same cause: it is looked at twice."""
    await admin.post(maps, config_map("a", {"k": "v"}))
    at = "2026-01-01T00:00:00Z"
    body = config_map("a", {"k": "v"}, deletionTimestamp=at)
    match kind:
        case "PUT":
            answer = await admin.put(f"{maps}/a", body)
        case "application/apply-patch+yaml":
            answer = await admin.apply(f"{maps}/a", body)
        case "application/json-patch+json":
            answer = await admin.patch(f"{maps}/a", [{"op": "add", "path": "/metadata/deletionTimestamp", "value": at}], kind)
        case _:
            answer = await admin.patch(f"{maps}/a", {"metadata": {"deletionTimestamp": at}}, kind)

    assert (answer.status, answer.causes) == (422, [("FieldValueInvalid", "metadata.deletionTimestamp")] * 2)
    assert answer.body["message"] == f'ConfigMap "a" is invalid: metadata.deletionTimestamp: Invalid value: "{at}": field is immutable'


async def test_when_an_object_goes_is_taken_from_a_new_one(admin: Client, maps: str) -> None:
    """POST wipes what only a deletion sets."""
    made = await admin.post(maps, config_map("a", {"k": "v"}, deletionTimestamp="2026-01-01T00:00:00Z", deletionGracePeriodSeconds=3))

    assert made.status == 201
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds"} & made.body["metadata"].keys()


@pytest.mark.parametrize(
    ("path", "start", "fields"),
    [
        ("/api/v1{}/configmaps", "A_b-", ["metadata.generateName", "metadata.name"]),
        ("/api/v1{}/configmaps", "a.", ["metadata.generateName"]),
        ("/api/v1{}/configmaps", "a-", []),
        ("/apis/rbac.authorization.k8s.io/v1{}/roles", "a/", ["metadata.generateName", "metadata.name"]),
    ],
)
async def test_the_beginning_of_a_name_is_checked_too(path: str, start: str, fields: list[str], admin: Client, place: str) -> None:
    """By the rules of names, but that it may end in a dash."""
    answer = await admin.post(path.format(place), {"metadata": {"generateName": start}})

    assert answer.status == (422 if fields else 201)
    assert [field for _, field in answer.causes] == fields if fields else not answer.body.get("details")


async def test_a_kind_that_counts_no_generations_keeps_a_given_one(admin: Client, maps: str, place: str) -> None:
    """Set once, by the one who creates; never below 0; kinds that count begin at 1."""
    made = await admin.post(maps, config_map("a", {"k": "v"}, generation=5))
    changed = await admin.put(f"{maps}/a", config_map("a", {"k": "w"}, generation=9))
    below = await admin.post(maps, config_map("b", generation=-1))
    counted = await admin.post(
        f"/api/v1{place}/pods", {"metadata": {"name": "p", "generation": 5}, "spec": {"containers": [{"name": "m", "image": "i"}]}}
    )

    assert [answer.body["metadata"].get("generation") for answer in (made, changed, counted)] == [5, 5, 1]
    assert (below.status, below.causes) == (422, [("FieldValueInvalid", "metadata.generation")])


@pytest.mark.parametrize(("finalizer", "status"), [("hold", 422), ("example.test/hold", 201), ("orphan", 201), ("a b", 422)])
async def test_a_finalizer_says_whose_it_is(admin: Client, maps: str, finalizer: str, status: int) -> None:
    """By a domain, but for the few that the server has itself."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": [finalizer]}}
    answer = await admin.post(maps, body, dryRun="All")
    assert answer.status == status
