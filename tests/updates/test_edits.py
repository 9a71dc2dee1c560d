"""Edits of YAML texts: the one scalar changes, everything else stays byte for byte, and what can't be meant is refused."""

import pytest

from delegate.model.updates.applying import apply_update
from delegate.model.updates.errors import (
    AmbiguousEditError,
    EditedFileError,
    EditNotFoundError,
    MutableTagError,
    NotScalarError,
    UnreadableYamlError,
    UpdateError,
    UpdateSpecError,
)
from delegate.model.updates.messages import branch_for, commit_message, describe_changes, has_trailer
from delegate.model.updates.requests import GitUpdateSpec, read_update, refuse_mutable
from delegate.model.updates.scalars import Value

URL = "https://git.example.test/config.git"
DIGEST = "sha256:" + "a" * 64
DEPLOYMENT = """\
# Who serves the shop.
apiVersion: apps/v1
kind: Deployment
metadata: {name: checkout,   labels: {"app": 'checkout'}}
spec:
    replicas: 3   # as measured
    template:
        spec:
            containers:
            - name: main
              image: registry.example:5000/shop/checkout:1.3.0   # set by the pipeline
              args: [ "--a",
                      '--b' ]
            - name: sidecar
              image: registry.example:5000/shop/proxy:1.3.0
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: checkout
data:
  version: "1.3.0"
  app.mode: fast
"""


def edited(text: str, path: str, value: Value, object_name: str = "") -> str:
    spec = {"repoURL": URL, "edits": [{"file": "f.yaml", "path": path, "value": value, "object": object_name}]}
    updated = apply_update(read_update(spec), {"f.yaml": text.encode()}, ())
    return updated.files["f.yaml"].decode() if updated.files else text


def imaged(files: dict[str, str], name: str, reference: str, path: str = "") -> dict[str, str]:
    update = read_update({"repoURL": URL, "images": {name: reference}, "path": path})
    updated = apply_update(update, {file: text.encode() for file, text in files.items()}, tuple(files))
    return files | {file: content.decode() for file, content in updated.files.items()}


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        ("spec.template.spec.containers[name=main].image", "x/y:2", "registry.example:5000/shop/checkout:1.3.0   #", "x/y:2   #"),
        ("/spec/template/spec/containers/1/image", "x/y:2", "registry.example:5000/shop/proxy:1.3.0", "x/y:2"),
        ("spec.replicas", 5, "replicas: 3   #", "replicas: 5   #"),
        ("data.version", "1.10", '"1.3.0"', '"1.10"'),
        ("data.version", 2, '"1.3.0"', '"2"'),
        ('data["app.mode"]', "true", "app.mode: fast", 'app.mode: "true"'),
        ('data["app.mode"]', "1e3", "app.mode: fast", 'app.mode: "1e3"'),
        ('data["app.mode"]', "1.4.0-rc.1", "app.mode: fast", "app.mode: 1.4.0-rc.1"),
        ('data["app.mode"]', "a: b # c\n", "app.mode: fast", 'app.mode: "a: b # c\\n"'),
        ("metadata.labels.app", "it's", "'checkout'}", "'it''s'}"),
        ("spec.template.spec.containers[0].args[1]", "--c", "'--b'", "'--c'"),
    ],
)
def test_one_scalar_changes(path: str, value: Value, before: str, after: str) -> None:
    """In the quotes that it had, and with its comment; in quotes where a reader could take it for something else."""
    assert edited(DEPLOYMENT, path, value) == DEPLOYMENT.replace(before, after, 1)


def test_line_ends_and_marks_stay() -> None:
    """A byte order mark, carriage returns, characters beyond the basic plane, and no newline at the end."""
    text = "\ufeff# 😀 ü\r\na:\t# empty\r\nb: [x, 'y']\r\nc: 1"
    assert edited(text, "a", "v1") == text.replace("a:", "a: v1")
    assert edited(text, "c", 2) == text[:-1] + "2"


@pytest.mark.parametrize(
    ("text", "path", "error", "words"),
    [
        ("a: {b: 1}", "a.c", EditNotFoundError, "a.c is not there"),
        ("", "a", EditNotFoundError, "empty"),
        ("a: 1\n---\na: 2\n", "a", AmbiguousEditError, "2 times, on the lines 1, 3"),
        ("a: {b: 1}", "a", NotScalarError, "a mapping"),
        ("a: [1]", "a", NotScalarError, "a list"),
        ("a: &x 1\nb: *x", "b", NotScalarError, "an alias"),
        ("a: &x 1\nb: *x", "a", NotScalarError, "an anchor"),
        ("a: !!str 1", "a", NotScalarError, "a tag"),
        ("a: |\n  x\n", "a", NotScalarError, "block"),
        ("a: {{ .Values.a }}\nb: [", "a", UnreadableYamlError, "no YAML"),
        ("a: " + "[" * 300 + "]" * 300, "b", UnreadableYamlError, "deep"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, path: str, error: type[UpdateError], words: str) -> None:
    """With the file, and the line where there is one."""
    with pytest.raises(error, match=words) as raised:
        edited(text, path, "x")
    assert raised.value.file == "f.yaml"


def test_the_nearest_name_is_told() -> None:
    """As a hint, with the place that was reached."""
    with pytest.raises(EditNotFoundError) as raised:
        edited(DEPLOYMENT, "spec.template.spec.container[0].image", "x")
    assert raised.value.hint == "did you mean containers in spec.template.spec?"


def test_an_object_is_chosen_among_the_documents() -> None:
    """By kind and name; the others are left alone."""
    assert "name: checkout2\ndata" in edited(DEPLOYMENT, "metadata.name", "checkout2", "ConfigMap/checkout")
    with pytest.raises(EditNotFoundError) as raised:
        edited(DEPLOYMENT, "metadata.name", "x", "Service/checkout")
    assert "Deployment/checkout, ConfigMap/checkout" in raised.value.hint


def test_bytes_that_are_no_text_are_refused() -> None:
    """And a file that isn't there."""
    update = read_update({"repoURL": URL, "edits": [{"file": "f.yaml", "path": "a", "value": 1}]})
    with pytest.raises(EditedFileError, match="UTF-8"):
        apply_update(update, {"f.yaml": b"a: \xff"}, ())
    with pytest.raises(EditedFileError, match="not in the repository"):
        apply_update(update, {}, ())


KUSTOMIZATION = """\
resources: [deployment.yaml]
images:
# the shop
- name: shop/checkout   # ours
  newName: registry.example/checkout
  newTag: "1.3.0" # was 1.2
- name: shop/proxy
- {name: shop/other, newTag: v1}
- name: shop/pinned
  digest: sha256:%s
""" % ("b" * 64)


class TestImages:
    def test_in_a_kustomization(self) -> None:
        """By the name, or by the new one; the manifests below stay as they are."""
        files = {"kustomization.yaml": KUSTOMIZATION, "deployment.yaml": "image: shop/checkout:1\n"}
        wanted = files | {"kustomization.yaml": KUSTOMIZATION.replace('"1.3.0"', '"1.4.0"')}
        assert imaged(files, "shop/checkout", "1.4.0") == wanted
        assert imaged(files, "registry.example/checkout", "1.4.0") == wanted

    def test_an_entry_without_a_tag_gets_one(self) -> None:
        """On a line of its own, as far in as the others."""
        expected = KUSTOMIZATION.replace("- name: shop/proxy\n", '- name: shop/proxy\n  newTag: "1.10"\n')
        assert imaged({"kustomization.yaml": KUSTOMIZATION}, "shop/proxy", "1.10")["kustomization.yaml"] == expected
        last = "images:\n  - name: a/b"
        assert imaged({"kustomization.yaml": last}, "a/b", "v2")["kustomization.yaml"] == last + "\n    newTag: v2"

    def test_a_digest_makes_room_for_a_tag(self) -> None:
        """It would win over a tag beside it. The other way round too."""
        changed = imaged({"kustomization.yaml": KUSTOMIZATION}, "shop/pinned", "v2")["kustomization.yaml"]
        assert changed == KUSTOMIZATION.replace("digest: sha256:" + "b" * 64, "newTag: v2")
        changed = imaged({"kustomization.yaml": KUSTOMIZATION}, "shop/other", DIGEST)["kustomization.yaml"]
        assert changed == KUSTOMIZATION.replace("newTag: v1", f"digest: {DIGEST}")

    def test_in_the_values_of_a_chart(self) -> None:
        """Repository and tag beside each other, with or without a registry, and images in one text."""
        values = "image:\n  registry: r.example\n  repository: shop/checkout\n  tag: v1  # t\nside: {image: r.example/shop/checkout:v0}\n"
        expected = values.replace("tag: v1 ", "tag: v2 ").replace(":v0", ":v2")
        assert imaged({"values.yaml": values}, "r.example/shop/checkout", "v2")["values.yaml"] == expected

    def test_in_manifests(self) -> None:
        """Only the image of that name; a port is no tag, and a digest is replaced whole."""
        changed = imaged({"d.yaml": DEPLOYMENT}, "registry.example:5000/shop/checkout", "1.4.0")["d.yaml"]
        assert changed == DEPLOYMENT.replace("checkout:1.3.0", "checkout:1.4.0")
        pinned = f"image: shop/checkout:v1@{DIGEST}\n"
        assert imaged({"d.yaml": pinned}, "shop/checkout", "v2")["d.yaml"] == "image: shop/checkout:v2\n"
        assert imaged({"d.yaml": pinned}, "shop/checkout", DIGEST)["d.yaml"] == f"image: shop/checkout@{DIGEST}\n"

    def test_an_image_that_is_nowhere(self) -> None:
        """Files that hold its name and are no YAML are named."""
        with pytest.raises(EditNotFoundError, match=r"nowhere in the repository; t/x\.yaml can't be read"):
            imaged({"t/x.yaml": "image: shop/checkout:{{ .Values.tag }}\n{{ end }}\n"}, "shop/checkout", "v2")

    def test_several_environments_are_not_changed_at_once(self) -> None:
        """Unless a directory above them was named."""
        files = {f"{name}/d.yaml": "image: shop/checkout:v1\n" for name in ("dev", "prod")}
        with pytest.raises(AmbiguousEditError, match="2 directories: dev, prod"):
            imaged(files, "shop/checkout", "v2")
        assert set(imaged(files, "shop/checkout", "v2", ".").values()) == {"image: shop/checkout:v2\n"}

    def test_what_is_there_already_is_no_change(self) -> None:
        """Also where only some of several places have it."""
        update = read_update({"repoURL": URL, "images": {"shop/checkout": "v1"}})
        assert not apply_update(update, {"d.yaml": b"image: shop/checkout:v1\n"}, ("d.yaml",)).files


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "repoURL"),
        ({"repoURL": URL}, "neither edits nor images"),
        ({"repoURL": URL, "images": {"a": "b c"}}, "neither a tag nor a digest"),
        ({"repoURL": URL, "images": {"a:1": "2"}}, "no name of an image"),
        ({"repoURL": URL, "images": {"a": "2"}, "branch": "refs/heads/main"}, "no name of a branch"),
        ({"repoURL": URL, "images": {"a": "2"}, "branch": "-x"}, "no name of a branch"),
        ({"repoURL": URL, "images": {"a": "2"}, "branch": "a..b"}, "no name of a branch"),
        ({"repoURL": URL, "images": {"a": "2"}, "mode": "force"}, "mode"),
        ({"repoURL": URL, "images": {"a": "2"}, "extra": 1}, "extra"),
        ({"repoURL": URL, "images": {"a": "2"}, "path": "../x"}, "leads out"),
        ({"repoURL": URL, "edits": [{"file": "../x", "path": "a", "value": 1}]}, "leads out"),
        ({"repoURL": URL, "edits": [{"file": ".git/config", "path": "a", "value": 1}]}, "leads out"),
        ({"repoURL": URL, "edits": [{"file": "/etc/x", "path": "a", "value": 1}]}, "leads out"),
        ({"repoURL": URL, "edits": [{"file": "x", "path": "a..b", "value": 1}]}, "no path"),
        ({"repoURL": URL, "edits": [{"file": "x", "path": "a", "value": [1]}]}, "value"),
    ],
)
def test_a_request_that_cannot_be_meant(spec: dict[str, object], words: str) -> None:
    """Before anything is fetched."""
    with pytest.raises(UpdateSpecError, match=words):
        read_update(spec)


@pytest.mark.parametrize(
    ("images", "path", "value", "mutable"),
    [
        ({"a/b": "latest"}, "x", "1", True),
        ({"a/b": "1.4.0"}, "x", "latest", False),
        ({}, "images[0].newTag", "latest", True),
        ({}, "spec.containers[0].image", "a/b", True),
        ({}, "spec.containers[0].image", "a:5000/b:latest", True),
        ({}, "spec.containers[0].image", f"a/b@{DIGEST}", False),
        ({}, "image.tag", "1.4.0", False),
    ],
)
def test_mutable_tags_are_refused(images: dict[str, str], path: str, value: str, mutable: bool) -> None:
    """However they would get into the repository."""
    spec = read_update({"repoURL": URL, "images": images, "edits": [{"file": "f", "path": path, "value": value}]})
    if mutable:
        with pytest.raises(MutableTagError, match="mutable-tags"):
            refuse_mutable(spec, ("latest", "prod"))
    else:
        refuse_mutable(spec, ("latest", "prod"))


class TestMessages:
    def message(self, **fields: object) -> str:
        spec = read_update({"repoURL": URL, "images": {"shop/checkout": "1.4.0"}, **fields})
        return commit_message(spec, application="checkout", environment="prod", task="t-1")

    def test_the_default(self) -> None:
        """Environment, Application, tag, and below it the task."""
        assert self.message() == "deploy(prod): checkout 1.4.0\n\nDelegate-Task: t-1\n"
        assert self.message(images={"a/b": "1", "c": "2"}).startswith("deploy(prod): checkout b 1, c 2\n")
        edits = [{"file": "f", "path": "a", "value": 7}]
        assert self.message(images={}, edits=edits).startswith("deploy(prod): checkout 7\n")

    def test_trailers_stay_one_block(self) -> None:
        """So that git reads them as such."""
        message = self.message(message="Ship it\n\nReviewed-by: ada <a@example.test>")
        assert message == "Ship it\n\nReviewed-by: ada <a@example.test>\nDelegate-Task: t-1\n"
        assert has_trailer(message, "t-1")
        assert not has_trailer(message, "t-11")

    def test_branch_and_description(self) -> None:
        """The branch is the same for a task however often it runs; the description says what changes, and why."""
        assert branch_for("checkout", "t-1") == branch_for("checkout", "t-1") != branch_for("checkout", "t-2")
        spec = GitUpdateSpec(repo_url=URL, images={"shop/checkout": "v2"})
        touched = apply_update(spec, {"d.yaml": b"image: shop/checkout:v1\n"}, ("d.yaml",)).touched
        text = describe_changes(touched, "error ratio 12 % over 5 min", "t-1")
        assert text == (
            "error ratio 12 % over 5 min\n\n- `d.yaml:1` `image`: `shop/checkout:v1` → `shop/checkout:v2`\n\nDelegate-Task: t-1"
        )
