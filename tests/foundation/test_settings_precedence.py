"""A flag wins over a variable, a variable over the file, the file over the default; every value knows where it came from."""

from pathlib import Path

import pytest

from delegate.foundation.settings import DelegateSettings, LocalSettings, LogFormat, LogLevel, ManagerSettings, OperatorSettings, load
from delegate.foundation.settings import loading as loading_module
from tests.foundation.settings_cases import URL, load_delegate


def test_defaults_are_those_of_the_contract() -> None:
    """With nothing but the manager's address, every setting has its documented default."""
    settings = load_delegate().settings

    assert settings.link.url == URL
    assert settings.pool.capacity == 16
    assert settings.pool.drain_timeout == 600
    assert (settings.retry.max_attempts, settings.retry.base_ms, settings.retry.max_ms, settings.retry.max_duration) == (
        8,
        250,
        30_000,
        900,
    )
    assert settings.identity.state_dir == Path("/var/lib/delegate")
    assert settings.identity.cert_dir == Path("/var/lib/delegate/certs")
    assert settings.identity.rotate_interval == 86_400
    assert settings.identity.name
    assert settings.identity.labels == {}
    assert settings.dead_letters.directory == Path("/var/log/dlq")
    assert settings.dead_letters.max_bytes == 256 * 2**20
    assert settings.dead_letters.bucket is None
    assert settings.probes.port == 9090
    assert (settings.logging.level, settings.logging.format) == (LogLevel.INFO, LogFormat.JSON)


@pytest.mark.parametrize(
    ("levels", "expected", "source"),
    [
        (("flag", "variable", "file"), 1, "flag --task-capacity"),
        (("variable", "file"), 2, "environment DELEGATE_TASK_CAPACITY"),
        (("file",), 3, "file {file}:2"),
        ((), 16, "default"),
    ],
)
def test_the_nearest_source_wins(tmp_path: Path, levels: tuple[str, ...], expected: int, source: str) -> None:
    """The same setting given at every level takes the value of the highest, and says so."""
    file = tmp_path / "delegate.yaml"
    file.write_text("# settings\n" + ("task_capacity: 3\n" if "file" in levels else ""))

    loaded = load_delegate(
        {"DELEGATE_TASK_CAPACITY": "2"} if "variable" in levels else {},
        flags={"task_capacity": "1"} if "flag" in levels else {},
        config=file,
    )

    view = next(each for each in loaded.describe() if each.name == "task_capacity")
    assert loaded.settings.pool.capacity == expected
    assert (view.value, view.source) == (expected, source.format(file=file))


def test_an_empty_variable_counts_as_unset(tmp_path: Path) -> None:
    """A manifest's `value: ""` neither sets a value nor hides the file's."""
    file = tmp_path / "delegate.yaml"
    file.write_text("task_capacity: 3\n")

    assert load_delegate({"DELEGATE_TASK_CAPACITY": ""}, config=file).settings.pool.capacity == 3


def test_a_default_follows_the_setting_it_is_derived_from() -> None:
    """The certificates move with the state directory unless they have a place of their own."""
    moved = load_delegate({"DELEGATE_STATE_DIR": "/srv/d"}).settings.identity
    placed = load_delegate({"DELEGATE_STATE_DIR": "/srv/d", "DELEGATE_CERT_DIR": "/srv/c"}).settings.identity

    assert moved.cert_dir == Path("/srv/d/certs")
    assert placed.cert_dir == Path("/srv/c")


def test_a_file_may_write_lists_and_mappings(tmp_path: Path) -> None:
    """Labels as a mapping and exceptions as a list mean what the variables' text means."""
    file = tmp_path / "delegate.yaml"
    file.write_text("labels: {env: dev, region: eu}\nno_proxy: [.example.com, 10.0.0.0/8]\n")

    loaded = load_delegate(config=file).settings

    assert loaded.identity.labels == load_delegate({"DELEGATE_LABELS": "env=dev, region=eu"}).settings.identity.labels
    assert loaded.network.no_proxy == load_delegate({"no_proxy": ".example.com,10.0.0.0/8"}).settings.network.no_proxy


def test_a_null_in_the_file_counts_as_absent(tmp_path: Path) -> None:
    """A key without a value leaves the default."""
    file = tmp_path / "delegate.yaml"
    file.write_text("task_capacity:\nlog_level: ~\n")

    assert load_delegate(config=file).settings.pool.capacity == 16


def test_the_default_file_is_read_where_present(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --config the system's file counts."""
    file = tmp_path / "delegate.yaml"
    file.write_text("task_capacity: 4\n")
    monkeypatch.setattr(loading_module, "SYSTEM_FILE", file)

    assert load_delegate().settings.pool.capacity == 4


def test_one_file_serves_every_program(tmp_path: Path) -> None:
    """The delegate passes over the manager's keys in the same file, and the other way round."""
    file = tmp_path / "delegate.yaml"
    file.write_text("manager_url: https://m.example\ntask_capacity: 2\nmanager_lease: 60s\napi_token: abcdefgh\n")

    assert load(DelegateSettings, environment={}, config=file).settings.pool.capacity == 2
    assert load(ManagerSettings, environment={}, config=file).settings.leasing.lease_seconds == 60
    assert load(OperatorSettings, environment={}, config=file).settings.link.require_token().reveal() == "abcdefgh"


def test_the_example_file_is_valid() -> None:
    """config/delegate.example.yaml loads for every program as it is."""
    example = Path(__file__).parents[2] / "config" / "delegate.example.yaml"

    for program in (DelegateSettings, ManagerSettings, OperatorSettings, LocalSettings):
        load(program, environment={}, config=example)


def test_the_example_file_shows_every_key(tmp_path: Path) -> None:
    """No setting that a file may hold is missing from the example, and none in it is unknown."""
    from delegate.foundation.settings.declarations import declared_in
    from delegate.foundation.settings.programs import PROGRAMS

    example = Path(__file__).parents[2] / "config" / "delegate.example.yaml"
    shown = {
        line.lstrip("# ").partition(":")[0] for line in example.read_text().splitlines() if ": " in line and line.lstrip("# ")[0].islower()
    }
    keys = {each.key + ("_file" if each.secret else "") for each in declared_in(*PROGRAMS).values() if each.in_file}

    assert keys <= shown


def test_peoples_commands_keep_their_state_under_xdg(tmp_path: Path) -> None:
    """No root needed: XDG directories where set, else under the home directory; the daemon's file has no say."""
    file = tmp_path / "delegate.yaml"
    file.write_text("state_dir: /var/lib/delegate\n")
    home = {"HOME": str(tmp_path)}

    by_home = load(LocalSettings, environment=home, config=file).settings.workspace
    by_xdg = load(LocalSettings, environment={**home, "XDG_STATE_HOME": "/x/state", "XDG_CACHE_HOME": "relative"}).settings.workspace
    given = load(LocalSettings, environment={**home, "DELEGATE_STATE_DIR": "/mine"}).settings.workspace

    assert by_home.state_dir == tmp_path / ".local/state/delegate"
    assert by_home.cache_dir == tmp_path / ".cache/delegate"
    assert by_xdg.state_dir == Path("/x/state/delegate")
    assert by_xdg.cache_dir == tmp_path / ".cache/delegate"
    assert given.state_dir == Path("/mine")


def test_peoples_commands_read_their_own_file(tmp_path: Path) -> None:
    """The file in the person's configuration directory is found without --config."""
    (tmp_path / "delegate").mkdir()
    (tmp_path / "delegate" / "delegate.yaml").write_text("manager_url: https://mine.example\n")

    loaded = load(OperatorSettings, environment={"XDG_CONFIG_HOME": str(tmp_path)})

    assert loaded.settings.link.url == "https://mine.example"


def test_an_operators_manager_is_this_machines_by_default() -> None:
    """Commands against a manager need no address where it runs with its own default."""
    assert load(OperatorSettings, environment={}).settings.link.join("/api/v1/tasks") == "http://127.0.0.1:8080/api/v1/tasks"


def test_the_managers_grace_is_one_lease_unless_set() -> None:
    """After a restart delegates get as long as a lease to come back."""
    derived = load(ManagerSettings, environment={"DELEGATE_MANAGER_LEASE": "90s"}).settings.leasing
    given = load(ManagerSettings, environment={"DELEGATE_MANAGER_LEASE": "90s", "DELEGATE_MANAGER_GRACE": "5s"}).settings.leasing

    assert derived.grace_seconds == 90
    assert given.grace_seconds == 5


def test_the_managers_database_is_sqlite_in_its_state_directory() -> None:
    """Moving the state directory moves the database."""
    settings = load(ManagerSettings, environment={"DELEGATE_MANAGER_STATE_DIR": "/srv/m"}).settings

    assert settings.storage.database_url.reveal() == "sqlite:////srv/m/manager.db"
    assert str(settings.serving.listen) == "127.0.0.1:8080"
    assert settings.leasing.lease_seconds == 45
    assert settings.leasing.heartbeat_seconds == 10
    assert settings.leasing.poll_seconds == 45
    assert settings.leasing.requeues == 5
