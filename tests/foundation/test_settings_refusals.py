"""What can't be meant is refused, all of it in one report, each with the place and the remedy."""

import os
from pathlib import Path

import pytest

from delegate.foundation.errors import DelegateError
from delegate.foundation.settings import DelegateSettings, ManagerSettings, load
from tests.foundation.settings_cases import fault, faults, load_delegate


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("DELEGATE_TASK_CAPACITY", "many", "'many' is no whole number"),
        ("DELEGATE_TASK_CAPACITY", "0", "it goes from 1 to"),
        ("DELEGATE_TASK_CAPACITY", "1e3", "no whole number"),
        ("DELEGATE_RETRY_BASE_MS", "250ms", "no whole number"),
        ("DELEGATE_DRAIN_TIMEOUT", "10", "no duration"),
        ("DELEGATE_DRAIN_TIMEOUT", "ten minutes", "such as 250ms, 30s, 5m or 24h"),
        ("DELEGATE_ROTATE_INTERVAL", "0s", "out of range"),
        ("DELEGATE_DLQ_MAX_BYTES", "1 lot", "no size"),
        ("DELEGATE_DLQ_MAX_BYTES", "1Ki", "too small"),
        ("DELEGATE_HTTP_PORT", "70000", "it goes from 0 to 65535"),
        ("DELEGATE_LOG_LEVEL", "loud", "one of debug, info, warning, error"),
        ("DELEGATE_LOG_FORMAT", "xml", "one of json, console"),
        ("DELEGATE_LABELS", "env", "key=value"),
        ("DELEGATE_LABELS", "env=dev,env=prod", "given twice"),
        ("DELEGATE_ALLOW_HTTP", "perhaps", "neither true nor false"),
        ("DLQ_BUCKET", "bucket/prefix", "s3://bucket"),
        ("SSL_CERT_FILE", "/does/not/exist.pem", "can't be read: No such file or directory"),
        ("SSL_CERT_FILE", "/" + "x" * 5000, "can't be read: File name too long"),
        ("DELEGATE_STATE_DIR", "~no-such-user/state", "write the whole path"),
        ("HTTPS_PROXY", "socks5://proxy:1080", "http://host:port"),
        ("DELEGATE_MANAGER_URL", "manager.example:8443", "write https://manager.example:8443"),
        ("DELEGATE_MANAGER_URL", "ftp://manager.example", "write https://manager.example"),
        ("DELEGATE_MANAGER_URL", "https://", "names no host"),
        ("DELEGATE_MANAGER_URL", "https://manager.example:99999", "no URL"),
        ("DELEGATE_MANAGER_URL", "https://manager.example/?a=b", "query or fragment"),
        ("DELEGATE_RETRY_BASE_MS", "40000", "above the cap of one wait"),
    ],
)
def test_a_value_that_cant_be_meant_names_its_variable(variable: str, value: str, words: str) -> None:
    """The message begins with the variable and says what would be right."""
    error = fault({variable: value})

    assert error.message.startswith(f"{variable}: ")
    assert words in error.message


def test_a_value_in_the_file_is_refused_with_its_line(tmp_path: Path) -> None:
    """The same refusal from a file carries file and line."""
    file = tmp_path / "delegate.yaml"
    file.write_text("# settings\n\nlog_level: loud\n")

    error = fault(config=file)

    assert (error.file, error.line) == (str(file), 3)
    assert str(error).startswith(f"{file}:3: log_level: ")


def test_a_flag_is_refused_by_its_name() -> None:
    """The flag, not the variable, is named when the flag is wrong."""
    assert fault(flags={"task_capacity": "x"}).message.startswith("--task-capacity: ")


def test_everything_that_is_wrong_is_in_one_report(tmp_path: Path) -> None:
    """Nobody has to start the program five times to find five faults."""
    file = tmp_path / "delegate.yaml"
    file.write_text("task_capacity: none\nlog_levle: info\nhttp_port: 1\nhttp_port: 2\n")

    found = faults({"DELEGATE_DRAIN_TIMEOUT": "x", "DELEGATE_TOKEN_FILE": "/does/not/exist"}, config=file)

    told = " | ".join(str(each) for each in found)
    assert len(found) == 5
    assert all(
        words in told for words in ("task_capacity", "log_levle", "http_port is given twice", "DELEGATE_DRAIN_TIMEOUT", "TOKEN_FILE")
    )


def test_the_managers_address_is_required() -> None:
    """Without it the refusal names the variable, the flag and the key."""
    with pytest.raises(DelegateError) as raised:
        load(DelegateSettings, environment={})

    assert raised.value.message == "DELEGATE_MANAGER_URL is not set"
    assert "--manager-url" in raised.value.hint
    assert "`manager_url`" in raised.value.hint
    assert load(DelegateSettings, environment={}, require=False).settings.link.url == ""


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8080", "http://localhost", "http://[::1]:9", "http://manager.localhost:1", "https://anywhere.example"]
)
def test_plain_http_reaches_this_machine_and_https_any(url: str) -> None:
    """Nothing leaves the machine in the clear."""
    assert load_delegate({"DELEGATE_MANAGER_URL": url}).settings.link.url == url


@pytest.mark.parametrize("url", ["http://manager.example", "http://10.0.0.1:8080", "http://localhost.example"])
def test_plain_http_beyond_this_machine_has_to_be_allowed(url: str) -> None:
    """The refusal names the switch that accepts it."""
    error = fault({"DELEGATE_MANAGER_URL": url})

    assert "in the clear" in error.message
    assert "--allow-http" in error.hint
    assert load_delegate({"DELEGATE_MANAGER_URL": url, "DELEGATE_ALLOW_HTTP": "true"}).settings.link.url == url


def test_credentials_in_the_managers_address_are_refused_unseen() -> None:
    """The message says where tokens belong and repeats none."""
    error = fault({"DELEGATE_MANAGER_URL": "https://me:hunter22@manager.example"})

    assert "credentials" in error.message
    assert "hunter22" not in f"{error} {error.hint} {error!r}"


def test_the_address_keeps_its_path_and_loses_its_slash() -> None:
    """Paths of the protocol are joined below it, with one slash."""
    link = load_delegate({"DELEGATE_MANAGER_URL": "HTTPS://Manager.example:8443/team/a/"}).settings.link

    assert link.url == "https://manager.example:8443/team/a"
    assert link.join("/api/x") == link.join("api/x") == "https://manager.example:8443/team/a/api/x"


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        (b"task_capacity: 3\n  bad indent: [\n", 2, "no YAML"),
        (b"a: 1\nb: 'open\n", 3, "no YAML"),
        (b"- a list\n", 1, "no mapping"),
        (b"just a text\n", 1, "no mapping"),
        (b"\n\nname: caf\xe9\n", 3, "not UTF-8"),
        (b"[1, 2]: 3\n", 1, "a key is no text"),
        (b"labels: {a: {b: c}}\n", 1, "plain texts"),
        (b"no_proxy: [[a]]\n", 1, "plain texts"),
    ],
)
def test_a_file_that_cant_be_read_is_refused_with_file_and_line(tmp_path: Path, content: bytes, line: int, words: str) -> None:
    """Syntax and shape faults carry their line."""
    file = tmp_path / "delegate.yaml"
    file.write_bytes(content)

    error = fault(config=file)

    assert error.file == str(file)
    assert error.line == line
    assert words in error.message


def test_a_missing_file_is_refused_if_it_was_asked_for(tmp_path: Path) -> None:
    """A mistyped --config doesn't silently run with defaults."""
    error = fault(config=tmp_path / "nowhere.yaml")

    assert error.file == str(tmp_path / "nowhere.yaml")
    assert "--config" in error.hint


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    """A log file given by mistake isn't read whole."""
    file = tmp_path / "delegate.yaml"
    file.write_bytes(b"#" * (2**20 + 1))

    assert "larger than" in fault(config=file).message


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    """The remedy names the file."""
    file = tmp_path / "delegate.yaml"
    file.touch(mode=0o000)
    if os.geteuid() == 0:  # root reads everything, so it becomes nobody for a moment
        os.seteuid(65534)
    try:
        error = fault(config=file)
    finally:
        os.seteuid(os.getuid())

    assert "Permission denied" in error.message
    assert str(file) in error.hint


@pytest.mark.parametrize(("given", "missing"), [("CERT", "KEY"), ("KEY", "CERT")])
def test_half_a_key_pair_is_refused(tmp_path: Path, given: str, missing: str) -> None:
    """A certificate without its key, or the other way round, names the other variable."""
    file = tmp_path / "pair.pem"
    file.touch()

    error = fault({f"DELEGATE_MANAGER_TLS_{given}": str(file)}, program=ManagerSettings)

    assert error.message.startswith(f"DELEGATE_MANAGER_TLS_{given}: ")
    assert f"DELEGATE_MANAGER_TLS_{missing}" in error.hint


def test_a_lease_shorter_than_two_heartbeats_is_refused() -> None:
    """One late heartbeat must not cost a lease."""
    assert fault({"DELEGATE_MANAGER_LEASE": "15s"}, program=ManagerSettings).message.startswith("DELEGATE_MANAGER_LEASE: ")


@pytest.mark.parametrize("listen", ["8080", "host:port", "::1:8080", "host:99999", ""])
def test_an_address_to_listen_on_is_host_and_port(listen: str) -> None:
    """IPv6 addresses stand in brackets."""
    if not listen:
        assert load(ManagerSettings, environment={"DELEGATE_MANAGER_LISTEN": listen}).settings.serving.listen.port == 8080
        return
    assert "host:port" in fault({"DELEGATE_MANAGER_LISTEN": listen}, program=ManagerSettings).message


def test_a_manager_in_the_open_without_tls_is_warned_about() -> None:
    """It may stand behind something that speaks TLS, so it starts."""
    loaded = load(ManagerSettings, environment={"DELEGATE_MANAGER_LISTEN": "[::]:8080"})

    assert (loaded.settings.serving.listen.host, loaded.settings.serving.listen.port) == ("::", 8080)
    assert "without TLS" in loaded.warnings[0].message
