"""Whatever stands in the environment or the file, loading ends with settings or with words; never otherwise, never with a secret."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delegate.foundation.errors import DelegateError, flatten
from delegate.foundation.settings import Loaded, load
from delegate.foundation.settings.declarations import declared_in
from delegate.foundation.settings.programs import PROGRAMS

DECLARED = declared_in(*PROGRAMS)
VARIABLES = [each.variable for each in DECLARED.values()] + [f"{each.variable}_FILE" for each in DECLARED.values() if each.secret]
KEYS = [each.key for each in DECLARED.values()] + [f"{each.key}_file" for each in DECLARED.values() if each.secret]
TEXTS = st.one_of(
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
    st.sampled_from(
        [
            "0",
            "-1",
            "1e9",
            "true",
            "30s",
            "9" * 50,
            "1h" * 50,
            "http://",
            "https://[::1",
            "s3://",
            "tcp://10.0.0.1:80",
            "~",
            "/",
            ":",
            "[::]:0",
        ]
    ),
)
tolerant = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("program", PROGRAMS)
@given(environment=st.dictionaries(st.sampled_from(VARIABLES), TEXTS, max_size=8))
def test_any_environment_ends_in_settings_or_words(program: type, environment: dict[str, str]) -> None:
    """Every fault names a variable."""
    try:
        loaded: Loaded[object] = load(program, environment=environment)
    except DelegateError as error:
        faults = flatten(error)
    else:
        faults = ()
        assert loaded.describe()

    assert all(any(variable in fault.message for variable in VARIABLES) for fault in faults)


@tolerant
@given(content=st.one_of(st.binary(max_size=60), st.dictionaries(st.sampled_from(KEYS), TEXTS, max_size=6)))
def test_any_file_ends_in_settings_or_words(tmp_path: Path, content: bytes | dict[str, str]) -> None:
    """Every fault names the file."""
    file = tmp_path / "delegate.yaml"
    if isinstance(content, dict):
        content = "".join(f"{key}: {value}\n" for key, value in content.items()).encode()
    file.write_bytes(content)

    faults: tuple[DelegateError, ...] = ()
    try:
        load(PROGRAMS[0], environment={}, config=file, require=False)
    except DelegateError as error:
        faults = flatten(error)

    assert all(fault.file == str(file) for fault in faults)


@given(
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=12, max_size=40),
    place=st.sampled_from(["token", "url", "proxy"]),
)
def test_no_refusal_repeats_a_secret(secret: str, place: str) -> None:
    """Not even one that stands where it can't be meant. A letter that no message has marks it."""
    secret = f"{secret[:6]}ß{secret[6:]}"
    environment = {"DELEGATE_TASK_CAPACITY": "x", "DELEGATE_MANAGER_URL": "https://m.example"}
    environment |= {
        "token": {"DELEGATE_TOKEN": secret, "DELEGATE_TOKEN_FILE": "/x"},
        "url": {"DELEGATE_MANAGER_URL": f"https://me:{secret}@m.example"},
        "proxy": {"HTTPS_PROXY": f"socks5://me:{secret}@proxy.example"},
    }[place]

    with pytest.raises(DelegateError) as raised:
        load(PROGRAMS[0], environment=environment)

    told = "".join(f"{fault} {fault.hint} {fault!r}" for fault in flatten(raised.value))
    assert "ß" not in told
