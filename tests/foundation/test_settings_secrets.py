"""Secrets come by value or by file, at each level; they show nowhere."""

import copy
import pickle
from pathlib import Path

import msgspec
import pytest

from delegate.foundation.redaction import KNOWN_SECRETS
from delegate.foundation.secrets import HIDDEN, Secret, SecretUrl, hide_credentials
from delegate.foundation.settings import ManagerSettings, OperatorSettings, SettingsError, load
from tests.foundation.settings_cases import fault, faults, load_delegate

TOKEN = "s3cr3t-t0k3n-of-a-test"


@pytest.mark.parametrize("content", [TOKEN, f"{TOKEN}\n", f"{TOKEN}\r\n"])
def test_a_file_holds_the_secret_with_or_without_a_newline(tmp_path: Path, content: str) -> None:
    """Editors and `echo` end files with a newline; it is no part of the token."""
    file = tmp_path / "token"
    file.write_bytes(content.encode())

    loaded = load_delegate({"DELEGATE_TOKEN_FILE": str(file)})

    assert loaded.settings.link.require_token().reveal() == TOKEN
    assert next(view.source for view in loaded.describe() if view.name == "token") == "environment DELEGATE_TOKEN_FILE"


def test_each_level_takes_a_file(tmp_path: Path) -> None:
    """As flag, variable and key; the higher level wins, whichever of its two ways it uses."""
    for level in ("flag", "variable", "key"):
        (tmp_path / level).write_text(f"{TOKEN}-{level}")
    config = tmp_path / "delegate.yaml"
    config.write_text(f"token_file: {tmp_path / 'key'}\n")
    variable = {"DELEGATE_TOKEN_FILE": str(tmp_path / "variable")}

    by_key = load_delegate(config=config)
    by_variable = load_delegate(variable, config=config)
    by_flag = load_delegate(variable, flags={"token_file": str(tmp_path / "flag")}, config=config)

    assert [each.settings.link.require_token().reveal()[len(TOKEN) :] for each in (by_key, by_variable, by_flag)] == [
        "-key",
        "-variable",
        "-flag",
    ]


@pytest.mark.parametrize(
    ("content", "words"), [(None, "No such file"), (b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe", "holds no text")]
)
def test_a_file_that_holds_no_secret_names_variable_and_path(tmp_path: Path, content: bytes | None, words: str) -> None:
    """A secret that isn't mounted is found at the start, not at the first request."""
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)

    error = fault({"DELEGATE_TOKEN_FILE": str(file)})

    assert error.message.startswith(f"DELEGATE_TOKEN_FILE: {file} ")
    assert words in error.message
    assert error.hint


def test_a_directory_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    """The usual mistake of a mount."""
    assert "Is a directory" in fault({"DELEGATE_TOKEN_FILE": str(tmp_path)}).message


def test_a_huge_file_is_no_secret(tmp_path: Path) -> None:
    """Nothing is read without a bound."""
    file = tmp_path / "token"
    file.write_bytes(b"x" * (64 * 2**10 + 1))

    assert "larger than" in fault({"DELEGATE_TOKEN_FILE": str(file)}).message


def test_both_ways_at_one_level_are_refused(tmp_path: Path) -> None:
    """Which of the two is meant can't be guessed; neither value is repeated."""
    file = tmp_path / "token"
    file.write_text(TOKEN)

    error = fault({"DELEGATE_TOKEN": TOKEN, "DELEGATE_TOKEN_FILE": str(file)})

    assert error.message == "DELEGATE_TOKEN and DELEGATE_TOKEN_FILE are both given"
    assert TOKEN not in f"{error!r} {error.hint}"


def test_both_keys_in_a_file_are_refused(tmp_path: Path) -> None:
    """The same in the settings file, with its line."""
    config = tmp_path / "delegate.yaml"
    config.write_text(f"token: {TOKEN}\ntoken_file: /x\n")

    error = fault(config=config)

    assert (error.line, error.message) == (2, "token and token_file are both given")


def test_a_secret_on_the_command_line_is_taken_with_a_warning() -> None:
    """Everybody on the machine can read it there."""
    loaded = load_delegate(flags={"token": TOKEN})

    assert loaded.settings.link.require_token().reveal() == TOKEN
    assert [warning.event for warning in loaded.warnings] == ["settings.secret_on_command_line"]
    assert "DELEGATE_TOKEN_FILE" in loaded.warnings[0].hint


def test_a_missing_token_says_how_to_get_one() -> None:
    """Only whoever needs it asks."""
    with pytest.raises(SettingsError, match="DELEGATE_TOKEN is not set") as raised:
        load_delegate().settings.link.require_token()
    with pytest.raises(SettingsError, match="DELEGATE_API_TOKEN is not set"):
        load(OperatorSettings, environment={}).settings.link.require_token()

    assert "delegate token create" in raised.value.hint


def test_no_secret_is_seen_in_settings_descriptions_or_errors() -> None:
    """repr, str, the listing and every error hide the token and the passwords in URLs."""
    environment = {"DELEGATE_TOKEN": TOKEN, "HTTPS_PROXY": "http://me:pr0xypass@proxy.example:3128"}
    loaded = load_delegate(environment)
    manager = load(ManagerSettings, environment={"DELEGATE_MANAGER_DATABASE_URL": "postgresql://me:dbp4ss@db/delegate"})
    refused = faults({**environment, "DELEGATE_TASK_CAPACITY": "x", "HTTP_PROXY": "ftp://me:pr0xypass@x"})

    seen = (
        f"{loaded!r} {loaded.describe()!r} {manager!r} {manager.describe()!r} {[(str(each), repr(each), each.hint) for each in refused]!r}"
    )

    assert not [secret for secret in (TOKEN, "pr0xypass", "dbp4ss") if secret in seen]
    values = {view.name: view.value for view in loaded.describe()}
    assert values["token"] == HIDDEN
    assert values["https_proxy"] == f"http://{HIDDEN}@proxy.example:3128"


def test_secrets_that_were_read_are_masked_from_then_on() -> None:
    """Loading registers them, so that no log line or error shows them."""
    load_delegate({"DELEGATE_TOKEN": TOKEN})

    assert KNOWN_SECRETS.mask(f"x {TOKEN} y") == f"x {HIDDEN} y"


def test_passwords_in_urls_are_masked_from_then_on() -> None:
    """Written and URL-decoded; the rest of the address stays readable."""
    load_delegate({"HTTPS_PROXY": "http://me:pr0xy%2Fpass@proxy.example:3128"})

    assert KNOWN_SECRETS.mask("pr0xy%2Fpass pr0xy/pass proxy.example me") == f"{HIDDEN} {HIDDEN} proxy.example me"


def test_a_secret_too_short_to_mask_is_warned_about() -> None:
    """It works, but it can't be kept out of the logs."""
    loaded = load_delegate({"DELEGATE_TOKEN": "abc"})

    assert [(warning.event, warning.name) for warning in loaded.warnings] == [("settings.secret_too_short", "DELEGATE_TOKEN")]
    assert KNOWN_SECRETS.mask("abc") == "abc"


def test_a_secret_shows_only_when_asked() -> None:
    """Formatting, copying and comparing keep it hidden; encoders and pickles refuse it."""
    secret = Secret(TOKEN)

    assert {str(secret), f"{secret}", f"{secret:>8}", "%s" % secret, f"{copy.deepcopy(secret)}"} == {HIDDEN}  # noqa: UP031 - that way too
    assert TOKEN not in repr(secret)
    assert TOKEN not in repr({"a": [secret]})
    assert secret == Secret(TOKEN)
    assert secret != Secret("other")
    assert len({secret, Secret(TOKEN)}) == 1
    assert bool(secret)
    assert not Secret("")
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p4ssw0rd@h:1/x", f"https://{HIDDEN}@h:1/x"),
        ("https://t0ken@h", f"https://{HIDDEN}@h"),
        ("u:p4ss@h", f"{HIDDEN}@h"),
        ("https://u:p4/ss@h/x", f"https://{HIDDEN}@h/x"),
        ("https://u:p@ss@h/x", f"https://{HIDDEN}@h/x"),
        ("postgresql://u:p4ss@[::1]:5/db", f"postgresql://{HIDDEN}@[::1]:5/db"),
        ("ssh://git@host/repo", "ssh://git@host/repo"),
        ("git@host:team/repo", "git@host:team/repo"),
        ("https://h:80/a@b", "https://h:80/a@b"),
        ("https://h/x", "https://h/x"),
    ],
)
def test_only_the_credentials_of_a_url_are_hidden(url: str, shown: str) -> None:
    """People still see which host is meant."""
    assert hide_credentials(url) == shown
    assert str(SecretUrl(url)) == shown
