"""Unknown names get the nearest known one; renamed ones their successor; Kubernetes' own are left alone or pointed out."""

from pathlib import Path

import pytest

from delegate.foundation.settings import LocalSettings, load
from tests.foundation.settings_cases import fault, load_delegate


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("task_capcity", "task_capacity"),
        ("task-capacity", "task_capacity"),
        ("DELEGATE_LOG_LEVEL", "log_level"),
        ("manager_ulr", "manager_url"),
    ],
)
def test_an_unknown_key_in_a_file_is_an_error_with_the_nearest(tmp_path: Path, key: str, nearest: str) -> None:
    """A typing error never means a default."""
    file = tmp_path / "delegate.yaml"
    file.write_text(f"\n{key}: 3\n")

    error = fault(config=file)

    assert str(error) == f"{file}:2: unknown key `{key}`"
    assert error.hint == f"did you mean `{nearest}`?"


def test_an_unknown_key_like_no_other_says_where_the_list_is(tmp_path: Path) -> None:
    """No far-fetched suggestion."""
    file = tmp_path / "delegate.yaml"
    file.write_text("zzzzzz: 3\n")

    assert "config show" in fault(config=file).hint


def test_an_unknown_variable_is_a_warning_with_the_nearest() -> None:
    """It may belong to another version, so it stops nothing."""
    loaded = load_delegate({"DELEGATE_TASK_CAPACTIY": "3", "DELEGATE_DLQ_BUCKET": "s3://bucket"})

    told = {warning.name: warning for warning in loaded.warnings}
    assert told["DELEGATE_TASK_CAPACTIY"].hint == "did you mean DELEGATE_TASK_CAPACITY?"
    assert told["DELEGATE_DLQ_BUCKET"].hint == "did you mean DLQ_BUCKET?"
    assert {warning.event for warning in loaded.warnings} == {"settings.unknown_variable"}
    assert loaded.settings.pool.capacity == 16


def test_variables_of_the_other_programs_are_known() -> None:
    """One environment may hold what the manager, the delegate and people's commands read."""
    environment = {"DELEGATE_API_TOKEN": "abcdefgh", "DELEGATE_MANAGER_LEASE": "60s", "DELEGATE_TEST_KUBECONFIG": "/k"}

    assert load_delegate(environment).warnings == ()
    assert load(LocalSettings, environment={"DELEGATE_TOKEN_FILE": "/t", "HOME": "/"}).warnings == ()


def test_a_renamed_key_is_an_error_with_its_line(tmp_path: Path) -> None:
    """The same in a file."""
    file = tmp_path / "delegate.yaml"
    file.write_text("name: a\ntags: x\n")

    error = fault(config=file)

    assert (error.line, error.hint) == (2, "use `labels`")


SERVICE_LINKS = {
    "DELEGATE_SERVICE_HOST": "10.0.0.1",
    "DELEGATE_SERVICE_PORT": "80",
    "DELEGATE_SERVICE_PORT_HTTP": "80",
    "DELEGATE_PORT": "tcp://10.0.0.1:80",
    "DELEGATE_PORT_80_TCP": "tcp://10.0.0.1:80",
    "DELEGATE_PORT_80_TCP_PROTO": "tcp",
    "DELEGATE_PORT_80_TCP_PORT": "80",
    "DELEGATE_PORT_80_TCP_ADDR": "10.0.0.1",
    "DELEGATE_DNS_PORT_53_UDP": "udp://10.0.0.1:53",
    "DELEGATE_MANAGER_SERVICE_HOST": "10.0.0.2",
    "DELEGATE_MANAGER_PORT": "tcp://10.0.0.2:8080",
}


def test_the_variables_of_services_are_left_alone() -> None:
    """A Service called delegate or delegate-manager in the namespace neither warns nor stops."""
    assert load_delegate(SERVICE_LINKS).warnings == ()


@pytest.mark.parametrize("variable", ["DELEGATE_HTTP_PORT", "DELEGATE_NAME"])
def test_a_services_address_in_a_variable_of_ours_names_the_cause(variable: str) -> None:
    """A Service called delegate-http overwrites DELEGATE_HTTP_PORT: the error says which field of the pod ends that."""
    error = fault({variable: "tcp://10.0.0.1:80"})

    assert variable in error.message
    assert "enableServiceLinks: false" in error.hint


def test_a_port_that_is_no_services_is_an_unknown_variable() -> None:
    """Only what Kubernetes writes is left alone."""
    assert [warning.name for warning in load_delegate({"DELEGATE_PORT": "8080"}).warnings] == ["DELEGATE_PORT"]
