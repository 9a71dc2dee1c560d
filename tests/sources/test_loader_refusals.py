"""What the loader refuses beside the recorded cases, where it says that is, and what it takes nevertheless."""

import msgspec
import pytest

from delegate.engine.sources.limits import SourceLimits
from delegate.engine.sources.loader.files import SourceFile
from tests.sources.loading import HEAD, bodies, load_text, refusals, refusals_of


@pytest.mark.parametrize(
    ("text", "code", "line", "words"),
    [
        ("- a\n- b\n", "input.incomplete_object", 1, "document 1 is no object but a list"),
        ("hello\n", "input.incomplete_object", 1, "document 1 is no object but a string"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "input.incomplete_object", 1, "has apiVersion but no kind"),
        ("kind: ConfigMap\nmetadata: {name: a}\n", "input.incomplete_object", 1, "has kind but no apiVersion"),
        ("apiVersion: v1\nkind: 5\nmetadata: {name: a}\n", "input.field_type", 2, "kind must be a string, got integer"),
        ("apiVersion: v1\nkind: A\nmetadata: x\n", "input.field_type", 3, "metadata must be a mapping, got string"),
        ("apiVersion: v1\nkind: A\nmetadata:\n  name: 5\n", "input.field_type", 4, "metadata.name must be a string, got integer; quote it"),
        ("apiVersion: v1\nkind: A\nmetadata:\n", "input.incomplete_object", 3, "neither metadata.name nor metadata.generateName"),
        (HEAD + "stringData:\n  a: 5\n", "input.field_type", 5, "stringData.a must be a string, got integer; quote it"),
        (HEAD.replace("name: sample", "name: a, labels: {x/y: 1.5}"), "input.field_type", 3, 'metadata.labels["x/y"] must be a string'),
        (HEAD + "spec: {a: 1, a: 2}\n", "input.duplicate_key", 4, "duplicate mapping key `a` (line 4, first at line 4)"),
        (HEAD + "spec:\n  ? [a]\n  : 1\n", "input.key_type", 5, "spec: mapping key is a list"),
        (HEAD + "spec: {~: 1}\n", "input.key_type", 4, "spec: mapping key is null (`~`); quote it"),
        (HEAD + "spec: {y: 1}\n", "input.key_type", 4, "spec: mapping key is a boolean (`y`); quote it"),
        (HEAD + "spec: {1.5: 1}\n", "input.key_type", 4, "spec: mapping key is a number (`1.5`); quote it"),
        (HEAD + "spec: !!python/name:os.system\n", "input.tag", 4, "spec: tag !!python/name:os.system has no meaning"),
        (HEAD + "spec: !!set {a}\n", "input.tag", 4, "tag !!set has no meaning"),
        (HEAD + "spec: {a: [0, .inf]}\n", "input.scalar", 4, "spec.a[1]: a number that JSON can't hold"),
        (HEAD + "spec: {a: [*b]}\n", "input.syntax", 4, "unknown anchor `b`"),
        (HEAD + "spec: &a [*a]\n", "input.syntax", 4, "anchor `a` contains itself"),
        (HEAD + "spec: {<<: 5}\n", "input.syntax", 4, "`<<` needs a mapping"),
        (HEAD + "spec: 'a\x00b'\n", "input.syntax", 4, "character U+0000 is not allowed"),
        ("%YAML 1.2\n---\n" + HEAD, "input.syntax", 1, "YAML directives are not read"),
        ("spec: {{ .Values.x }}\n" + HEAD, "input.key_type", 1, "mapping key is a mapping"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "input.foreign_document", None, "LFS pointer"),
    ],
)
def test_is_refused_with_its_place(text: str, code: str, line: int | None, words: str) -> None:
    """The first fault names code, file, line and cause."""
    error = refusals_of(text)[0]

    assert (error.code, error.file, error.line) == (code, "file.yaml", line)
    assert words in error.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("spec: {{ .Values.x }}\n", "render it first"),
        ("<<<<<<< HEAD\na: 1\n=======\na: 2\n", "unresolved merge conflict"),
        ("a: 'x'---\nb: 1\n", "glued to other text in line 1"),
        ("a: x---b: c\n", "glued to other text in line 1"),
        ("--- apiVersion: v1\nkind: A\n", "on a line of its own"),
        ("---apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "glued to `apiVersion`"),
        (HEAD + "note: |\n  text\n  ---\n" + HEAD, "glued to the end of line 6"),
        ("apiVersion: v2\nname: chart\nversion: 1.0.0\n", "rendered with Helm"),
        ("a: b: c\n", "quote the value"),
    ],
)
def test_a_likely_mistake_is_named(text: str, hint: str) -> None:
    """Mistakes that are made often get their remedy in the hint."""
    assert hint in refusals_of(text)[0].hint


@pytest.mark.parametrize(
    "text",
    ["a:\n\tb: 1\n", "a: 1\n\tb: 2\n", "a: |\n\tx\n", "\ta: 1\n", "a:\n  - b\n\t- c\n"],
)
def test_a_tab_is_called_by_its_name(text: str) -> None:
    """libyaml's own words differ from place to place."""
    (error,) = refusals_of(text)

    assert error.message.startswith("tab used for indentation (line ")


def test_all_faults_of_all_files_come_in_one_report() -> None:
    """The first syntax error of each file, and everything else that is wrong."""
    good = HEAD + "spec: {a: 1}\n"
    errors = refusals(
        SourceFile("a.yaml", (HEAD + "spec: {on: 1, off: 2}\n---\n" + good + "---\nx: [\n").encode()),
        SourceFile("b.yaml", good.encode()),
        SourceFile("c.json", b'{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": 1, "a": "2"}'),
        SourceFile("d.yaml", b"apiVersion: v1\nkind: Secret\nmetadata: {}\ndata: {a: 1}\nstringData: {b: true}\n"),
    )

    assert [(error.file, error.code) for error in errors] == [
        ("a.yaml", "input.key_type"),
        ("a.yaml", "input.key_type"),
        ("a.yaml", "input.syntax"),
        ("c.json", "input.syntax"),
        ("d.yaml", "input.incomplete_object"),
        ("d.yaml", "input.field_type"),
        ("d.yaml", "input.field_type"),
    ]


def test_faults_past_the_limit_are_counted() -> None:
    """A set of a hundred thousand faults makes a report of the agreed length."""
    text = HEAD + "spec:\n" + "".join(f"  {number}: x\n" for number in range(100))

    errors = refusals_of(text, limits=msgspec.structs.replace(SourceLimits(), faults=10))

    assert len(errors) == 11
    assert errors[-1].message == "90 more faults are not listed"


def test_notices_past_the_limit_are_counted() -> None:
    """Skipped documents are named up to the limit."""
    loaded = load_text("a: 1\n---\n" * 30)

    assert len(loaded.notices) == 21
    assert loaded.notices[-1] == "10 more notices are not listed"


def test_what_is_no_manifest_may_hold_anything() -> None:
    """A workflow or a template with tags of its own is skipped, not judged."""
    loaded = load_text("on: push\njobs: {a: 1, a: 2}\nx: !Ref y\nz: .inf\n---\n" + HEAD)

    assert [manifest.name for manifest in loaded.manifests] == ["sample"]
    assert len(loaded.notices) == 1


def test_no_value_is_shown() -> None:
    """A secret that is written wrongly is in no message."""
    text = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData:\n  pin: 48151623\n  on: hunter2\n  'x: hunter2\n"

    told = "".join(f"{error} {error.hint}" for error in refusals_of(text))

    assert "hunter2" not in told
    assert "48151623" not in told


@pytest.mark.parametrize("name", ["kustomization.yaml", "deep/kustomization.yml"])
def test_a_kustomization_is_not_applied_unrendered(name: str) -> None:
    """With or without its kind, it means more than the files beside it."""
    for text in (b"resources: [a.yaml]\n", b"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: [a.yaml]\n"):
        (error,) = refusals(SourceFile(name, text))
        assert error.code == "input.foreign_document"


class TestMerging:
    """Merge keys beyond case 05."""

    def test_a_key_before_the_merge_loses_as_in_kubectl_and_is_told(self) -> None:
        """go-yaml applies members in written order; the author may not expect it."""
        loaded = load_text(HEAD + "base: &b {a: 1, c: 3}\nspec:\n  a: 2\n  <<: *b\n  d: 4\n")

        assert loaded.manifests[0].body["spec"] == {"a": 1, "c": 3, "d": 4}
        assert loaded.notices[0].startswith("file.yaml:7: `<<` replaces `a`")

    def test_the_first_of_several_mappings_wins(self) -> None:
        """A list of mappings, nested merges and two merges in one mapping."""
        text = HEAD + "x: &x {a: 1}\ny1: &y {<<: *x, a: 2, b: 2}\nspec: {<<: [*x, *y]}\nother: {<<: *x, '<<': 5}\n"
        (body,) = (manifest.body for manifest in load_text(text).manifests)

        assert body["y1"] == {"a": 2, "b": 2}
        assert body["spec"] == {"a": 1, "b": 2}
        assert body["other"] == {"a": 1, "<<": 5}

    def test_two_equal_keys_beside_a_merge_are_still_two(self) -> None:
        """An override is legal once."""
        (error,) = refusals_of(HEAD + "base: &b {a: 1}\nspec:\n  <<: *b\n  a: 2\n  a: 3\n")

        assert "duplicate mapping key `a` (line 8" in error.message

    def test_lines_follow_the_merge(self) -> None:
        """A merged member stands where it is merged in, an override where it is written."""
        loaded = load_text(HEAD + "base: &b\n  a: 1\n  c: {d: 3}\nspec:\n  z: 0\n  <<: *b\n  a: 2\n  e: 5\n")
        body, lines = loaded.manifests[0].body, loaded.lines[0]

        found = {key: lines.find(body, ("spec", key)) for key in body["spec"]}
        assert found == {"z": 8, "a": 10, "c": 9, "e": 11}
        assert lines.find(body, ("spec", "c", "d")) == 9


class TestLists:
    """Lists beyond case 04."""

    def test_an_item_that_says_nothing_is_refused(self) -> None:
        """A plain List has no kind to pass on."""
        (error,) = refusals_of("apiVersion: v1\nkind: List\nitems:\n- metadata: {name: a}\n")

        assert (error.line, "items[0] has neither apiVersion nor kind" in error.message) == (4, True)

    def test_what_stands_beside_the_items_is_not_lost(self) -> None:
        """An object of a kind ending in List with a spec and items can't be taken apart in silence."""
        (error,) = refusals_of("apiVersion: a.b/v1\nkind: AllowList\nmetadata: {name: a}\nspec: {}\nitems: []\n")

        assert "`spec` beside the items of a list would be lost" in error.message

    def test_a_fault_inside_an_item_has_its_own_line(self) -> None:
        """Also where the item inherited its type."""
        text = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n  data:\n    a: '1'\n    b: 2\n"
        (error,) = refusals_of(text)

        assert error.line == 7
        assert error.object == "ConfigMap a"


class TestJson:
    """Files that begin with a brace."""

    def test_several_documents_may_follow_each_other(self) -> None:
        """With lines and document numbers of their own."""
        one = '{"apiVersion": "v1",\n "kind": "ConfigMap",\n "metadata": {"name": "%s"}}'
        loaded = load_text(one % "a" + "\n\n" + one % "b", "x.json")

        assert [(manifest.name, manifest.origin.line, manifest.origin.document) for manifest in loaded.manifests] == [
            ("a", 1, 1),
            ("b", 5, 2),
        ]

    def test_whole_floats_are_integers_as_between_go_programs(self) -> None:
        """1.0 is 1 on the wire."""
        (body,) = bodies('{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"d":[1.0,1e3,-0,-0.0,2.5,1e20]}')

        assert isinstance(body, dict)
        assert [(type(value), value) for value in body["d"]] == [(int, 1), (int, 1000), (int, 0), (int, 0), (float, 2.5), (float, 1e20)]

    @pytest.mark.parametrize(
        ("member", "code", "line", "words"),
        [
            ('"a": 1,\n"a": 2', "input.duplicate_key", 4, "duplicate mapping key `a` (line 4, first at line 3)"),
            ('"a": [0, {"b":\n18446744073709551616}]', "input.scalar", 3, "d.a[1].b: integer outside 64 bits"),
            ('"a": 1e999', "input.scalar", 3, "d.a: a number that is too large for JSON"),
            ('"a": "\\ud800"', "input.encoding", 1, "half of a surrogate pair"),
            ('"a": NaN', "input.syntax", None, "not JSON: NaN is no JSON"),
            ('"a": 1,,', "input.syntax", 3, "not JSON: "),
        ],
    )
    def test_what_would_change_is_refused_with_its_line(self, member: str, code: str, line: int | None, words: str) -> None:
        """The same refusals as in YAML."""
        text = '{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"},\n"d": {\n' + member + "\n}}\n"
        (error,) = refusals_of(text, "x.json")

        assert (error.code, error.line) == (code, line)
        assert words in error.message

    def test_surrogate_pairs_are_characters(self) -> None:
        """JSON writes what lies beyond 16 bits in two escapes."""
        (body,) = bodies('{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"d":"\\ud83d\\ude00\\/"}')

        assert isinstance(body, dict)
        assert body["d"] == "😀/"

    def test_a_flow_mapping_of_yaml_is_yaml(self) -> None:
        """A brace alone makes no JSON."""
        (body,) = bodies("{apiVersion: v1, kind: ConfigMap, metadata: {name: q}}\n")

        assert body == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "q"}}

    def test_items_of_a_list_have_their_own_lines(self) -> None:
        """Also nested, and after other fields that hold arrays."""
        text = (
            '{"kind": "List", "apiVersion": "v1",\n "metadata": {"items": [1, 2]},\n "items": [\n'
            '  {"apiVersion": "v1",\n   "kind": "ConfigMap", "metadata": {"name": "a"}},\n'
            '  {"apiVersion": "v1", "kind": "SecretList", "items": [\n   {"metadata":\n {"name": "b"}}\n]}]}'
        )
        loaded = load_text(text, "x.json")

        assert [(manifest.kind, manifest.origin.line) for manifest in loaded.manifests] == [("ConfigMap", 4), ("Secret", 7)]
        assert loaded.lines[1].find(loaded.manifests[1].body, ("metadata", "name")) == 8


class TestBounds:
    """Nothing that a file holds can cost more than its bounds."""

    @pytest.mark.parametrize("text", ["[" * 150 + "]" * 150, "[" * 5000, '{"a":' * 5000])
    def test_depth(self, text: str) -> None:
        """Nesting is refused, in YAML and in JSON, long before any recursion is too deep."""
        limits = msgspec.structs.replace(SourceLimits(), depth=100)

        for document in (HEAD + "spec: " + text + "\n", '{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"d":' + text + "}"):
            error = refusals_of(document, limits=limits)[0]
            assert error.code in ("input.too_large", "input.syntax")

    def test_nodes(self) -> None:
        """Many small nodes are refused by their number."""
        limits = msgspec.structs.replace(SourceLimits(), nodes=1000)

        (error,) = refusals_of(HEAD + "spec: [" + "[]," * 2000 + "]\n", limits=limits)
        assert "more than 1000 nodes" in error.message
        (error,) = refusals_of((HEAD + "---\n") * 400, limits=limits)
        assert "more than 1000 nodes" in error.message

    def test_bytes(self) -> None:
        """A file past its limit isn't even decoded."""
        (error,) = refusals_of(HEAD, limits=msgspec.structs.replace(SourceLimits(), file_bytes=10))

        assert error.message == f"{len(HEAD)} bytes; the limit of one file is 10"

    def test_aliases_of_long_texts(self) -> None:
        """A text that is repeated counts by its length."""
        text = HEAD + f"a: &a {'x' * 100_000}\nspec: [" + "*a," * 200 + "]\n"
        (error,) = refusals_of(text)

        assert "alias expansion limit: aliases stand for more than" in error.message

    def test_aliases_that_nest(self) -> None:
        """Aliases may not build what could not be written."""
        chain = "".join(f"x{number}: &x{number} [[[[[[[[[[*x{number - 1}]]]]]]]]]]\n" for number in range(1, 40))
        (error,) = refusals_of(HEAD + "x0: &x0 [a]\n" + chain)

        assert "nest deeper" in error.message

    def test_an_object_that_etcd_would_not_store(self) -> None:
        """1.5 MiB of JSON."""
        (error,) = refusals_of(HEAD + "spec: " + "x" * 1_600_000 + "\n")

        assert "the limit is 1572864 (1.5 MiB, what etcd stores)" in error.message
