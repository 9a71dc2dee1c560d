"""The cases 01 to 05, 15 and 26, as far as they are about decoding."""

import subprocess
from pathlib import Path

import pytest

from delegate.engine.sources.loader.files import SourceFile, load
from delegate.foundation.errors import ErrorGroup
from tests.sources.loading import CASES, case_files, refusals


class TestScalars:
    """01-yaml-scalars"""

    def test_both_faults_are_told_in_one_pass(self) -> None:
        """A boolean in data and boolean and integer keys are refused with file, document and line."""
        errors = refusals(*case_files("01-yaml-scalars", "input.yaml"))

        # The keys are found while the text is read, the field once its document is whole.
        assert [(error.file, error.line, error.code) for error in errors] == [
            ("input.yaml", 32, "input.field_type"),
            ("input.yaml", 36, "input.key_type"),
            ("input.yaml", 36, "input.key_type"),
        ]
        messages = "\n".join(error.message for error in errors)
        assert "data.feature must be a string, got boolean; quote it (document 2, line 32)" in messages
        assert "metadata.annotations: mapping key is a boolean (`on`); quote it (line 36, document 3)" in messages
        assert "metadata.annotations: mapping key is an integer (`1`); quote it (line 36, document 3)" in messages

    def test_what_is_left_reads_as_kubectl_reads_it(self) -> None:
        """Without the two bad documents, the scalars equal kubectl's and quoted keys stand."""
        text = (CASES / "01-yaml-scalars" / "input.yaml").read_text()
        first, _, _, last = text.split("\n---\n")

        widget, config_map = load([SourceFile("input.yaml", f"{first}\n---\n{last}".encode())]).manifests

        assert widget.body["spec"] == {
            **{"t01": True, "t02": True, "t03": True, "t04": False, "t05": False, "t06": 511, "t07": 511, "t08": 8, "t09": 8},
            **{"t10": "22:22", "t11": 30000, "t12": 1000, "t13": 31, "t14": 3, "t15": "2001-01-01", "t16": "2024-01-01T00:00:00Z"},
            **{"t17": "=", "t18": 1.1, "t19": 9007199254740993, "t20": None, "ops": ["=", "!=", "=~"]},
        }
        assert config_map.annotations == {"on": "kept", "1": "kept"}
        assert config_map.body["data"] == {"feature": "yes", "mode": "0777", "version": "1.10"}


class TestGluedSeparator:
    """02-glued-separator"""

    def test_is_refused_with_both_lines_and_the_reason(self) -> None:
        """The first object would vanish, so the whole set is refused, once."""
        (error,) = refusals(*case_files("02-glued-separator", "input.yaml"))

        assert error.code == "input.duplicate_key"
        assert str(error).startswith("input.yaml:8: ")
        assert "duplicate mapping key `apiVersion` (line 8, first at line 1) in document 1" in error.message
        assert error.hint == "looks like a document separator glued to the end of line 7"

    def test_a_separator_inside_a_block_scalar_is_text(self) -> None:
        """With the glued separator mended, there are three objects, the last with its script whole."""
        text = (CASES / "02-glued-separator" / "input.yaml").read_text().replace("registry-login---", "registry-login\n---")

        manifests = load([SourceFile("input.yaml", text.encode())]).manifests

        assert [manifest.kind for manifest in manifests] == ["ServiceAccount", "Role", "ConfigMap"]
        assert manifests[2].body["data"]["run.sh"].count("---") == 2


class TestEncoding:
    """03-encoding-and-empty-docs"""

    def test_marks_and_line_ends_and_empty_documents_are_read(self) -> None:
        """One object each, values with LF only, nothing from files that hold nothing."""
        loaded = load(
            case_files("03-encoding-and-empty-docs", "bom.yaml", "crlf.yaml", "empties.yaml", "comments-only.yaml", "zero-bytes.yaml")
        )

        assert [manifest.name for manifest in loaded.manifests] == ["with-bom", "with-crlf", "after-empties"]
        assert loaded.manifests[1].body["data"]["note"] == "one\ntwo\n"
        assert loaded.manifests[2].origin.line == 6
        assert loaded.notices == ()

    def test_what_is_no_manifest_is_skipped_with_a_notice(self) -> None:
        """A file of values is neither applied nor fatal."""
        loaded = load(case_files("03-encoding-and-empty-docs", "values.yaml"))

        assert loaded.manifests == ()
        assert loaded.notices == ("values.yaml:1: document 1 is skipped, it has neither apiVersion nor kind",)

    def test_every_bad_file_is_in_the_report(self) -> None:
        """Tab, Latin-1 and UTF-16 are all named with their places, and nothing is loaded."""
        files = case_files("03-encoding-and-empty-docs", "bad-latin1.yaml", "bad-tab.yaml", "bad-utf16.yaml", "bom.yaml")

        with pytest.raises(ErrorGroup) as raised:
            load(files)

        latin1, tab, utf16 = raised.value.errors
        assert latin1.message == "not UTF-8: byte 0xfc at byte offset 88 (line 4)"
        assert (latin1.file, latin1.line) == ("bad-latin1.yaml", 4)
        assert tab.message == "tab used for indentation (line 4, column 1)"
        assert (tab.file, tab.line) == ("bad-tab.yaml", 4)
        assert utf16.file == "bad-utf16.yaml"
        assert "not UTF-8: byte 0xff at byte offset 0" in utf16.message


class TestLists:
    """04-list-kinds"""

    def test_lists_are_taken_apart(self) -> None:
        """Nested, typed, empty and null lists give their items; an object whose kind ends in List is itself."""
        loaded = load(case_files("04-list-kinds", "input.yaml"))

        found = [(manifest.api_version, manifest.kind, manifest.namespace, manifest.name) for manifest in loaded.manifests]
        assert found == [
            ("v1", "ConfigMap", "demo", "first"),
            ("rbac.authorization.k8s.io/v1", "Role", "team-a", "reader"),
            ("rbac.authorization.k8s.io/v1", "Role", "team-b", "reader"),
            ("example.test/v1", "AllowList", "demo", "partners"),
        ]
        assert [(manifest.origin.line, manifest.origin.document) for manifest in loaded.manifests] == [(5, 1), (11, 1), (13, 1), (26, 4)]
        assert list(loaded.manifests[1].body) == ["apiVersion", "kind", "metadata", "rules"]
        assert loaded.lines[1].find(loaded.manifests[1].body, ("rules", 0, "verbs")) == 12


class TestAnchors:
    """05-anchors-merge-keys"""

    def test_merged_objects_are_their_own(self) -> None:
        """Overrides win, and the anchored object stays as it was written."""
        nightly, weekly = load(case_files("05-anchors-merge-keys", "input.yaml")).manifests

        pod = weekly.body["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert weekly.name == "weekly"
        assert weekly.body["spec"]["concurrencyPolicy"] == "Forbid"
        assert weekly.body["spec"]["schedule"] == "0 2 * * 0"
        assert pod == {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.test/task:2", "command": ["run"]}]}
        first = nightly.body["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]
        assert first["image"] == "registry.test/task:1"
        assert first["command"] is not pod["containers"][0]["command"]

    def test_an_alias_bomb_is_refused(self) -> None:
        """What the aliases stand for is counted before it is built."""
        (error,) = refusals(*case_files("05-anchors-merge-keys", "bomb.yaml"))

        assert error.code == "input.too_large"
        assert "alias expansion limit" in error.message
        assert error.file == "bomb.yaml"


class TestSizes:
    """15-big-configmap"""

    @pytest.fixture
    def made(self, tmp_path: Path) -> Path:
        subprocess.run(["/bin/sh", str(CASES / "15-big-configmap" / "make.sh"), str(tmp_path)], check=True, timeout=30)
        return tmp_path

    def test_an_object_over_256_kib_is_loaded(self, made: Path) -> None:
        """Nothing here knows the bound of the last-applied annotation."""
        (manifest,) = load([SourceFile("big.yaml", (made / "big.yaml").read_bytes())]).manifests

        assert len(manifest.body["data"]["panel.json"]) > 256 * 1024

    def test_data_over_a_mebibyte_is_refused_with_size_and_limit(self, made: Path) -> None:
        """The server would answer with a raw 413 or 422 after half of the sync."""
        (error,) = refusals(SourceFile("too-big.yaml", (made / "too-big.yaml").read_bytes()))

        assert error.code == "input.too_large"
        assert "ConfigMap demo/too-big: holds 1258368 bytes of data; the limit is 1048576 (1 MiB)" in error.message
        assert error.line == 4


def test_both_places_of_a_duplicate_can_be_told() -> None:
    """26-duplicates-and-scope: whoever settles namespaces finds file and line with each object."""
    loaded = load(case_files("26-duplicates-and-scope", "a.yaml", "b.yaml"))

    places = {str(manifest.origin) for manifest in loaded.manifests if manifest.name == "dup"}
    assert places == {"a.yaml:1", "b.yaml:1"}
