"""`delegate config show` tells every setting, its value, and where it came from; secrets stay hidden."""

from pathlib import Path

from tests.cli.programs import run

TOKEN = "a-very-secret-token"


def test_every_value_has_its_source(tmp_path: Path) -> None:
    """Flag, variable, file with line, default; as a table."""
    file = tmp_path / "delegate.yaml"
    file.write_text("log_level: debug\n\ndrain_timeout: 5m\n")

    ended = run("config", "show", "--config", str(file), "--task-capacity", "3", env={"DELEGATE_HTTP_PORT": "0", "DELEGATE_TOKEN": TOKEN})

    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines()}
    assert ended.code == 0
    assert rows["task_capacity"] == ["3", "flag", "--task-capacity", "DELEGATE_TASK_CAPACITY"]
    assert rows["http_port"] == ["0", "environment", "DELEGATE_HTTP_PORT", "DELEGATE_HTTP_PORT"]
    assert rows["drain_timeout"] == ["5m", "file", f"{file}:3", "DELEGATE_DRAIN_TIMEOUT"]
    assert rows["retry_base_ms"] == ["250", "default", "DELEGATE_RETRY_BASE_MS"]
    assert rows["token"] == ["(hidden)", "environment", "DELEGATE_TOKEN", "DELEGATE_TOKEN"]
    assert TOKEN not in ended.stdout + ended.stderr


def test_json_is_one_document(tmp_path: Path) -> None:
    """Values with their types; warnings inside it."""
    ended = run("config", "show", "-o", "json", "--delegate-token", TOKEN, "--labels", "env=dev", env={"DELEGATE_NAEM": "x"})

    settings = {each["name"]: each for each in ended.document["settings"]}
    assert ended.code == 0
    assert settings["labels"]["value"] == {"env": "dev"}
    assert settings["task_capacity"] == {
        "name": "task_capacity",
        "value": 16,
        "source": "default",
        "variable": "DELEGATE_TASK_CAPACITY",
        "flag": "--task-capacity",
        "about": settings["task_capacity"]["about"],
    }
    assert settings["manager_url"]["value"] is None
    assert {each["event"] for each in ended.document["warnings"]} == {"settings.unknown_variable", "settings.secret_on_command_line"}
    assert TOKEN not in ended.stdout
    assert ended.stderr == ""


def test_the_other_programs_settings_are_told_too(tmp_path: Path) -> None:
    """The manager's, an operator's, those of commands without a manager; a database's password stays hidden."""
    env = {"DELEGATE_MANAGER_DATABASE_URL": "postgresql://me:hunter22@db/delegate", "DELEGATE_API_TOKEN": TOKEN, "HOME": str(tmp_path)}

    told = {program: run("config", "show", "--program", program, env=env) for program in ("manager", "operator", "local")}

    assert "postgresql://(hidden)@db/delegate" in told["manager"].stdout
    assert "api_token" in told["operator"].stdout
    assert f"{tmp_path}/.local/state/delegate" in told["local"].stdout
    assert all(ended.code == 0 and "hunter22" not in ended.stdout and TOKEN not in ended.stdout for ended in told.values())


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    """Each with its place and, where there is one, its remedy."""
    file = tmp_path / "delegate.yaml"
    file.write_text("task_capcity: 3\n")

    ended = run("config", "show", "--config", str(file), env={"DELEGATE_HTTP_PORT": "tcp://10.0.0.1:80", "DELEGATE_TOKEN_FILE": "/nowhere"})

    assert ended.code == 2
    assert f"error: {file}:1: unknown key `task_capcity`\nhint: did you mean `task_capacity`?\n" in ended.stderr
    assert "enableServiceLinks" in ended.stderr
    assert "error: DELEGATE_TOKEN_FILE: /nowhere can't be read: No such file or directory" in ended.stderr
    assert ended.stdout == ""


def test_all_faults_are_in_the_document(tmp_path: Path) -> None:
    """The first as `error`, all of them as `errors`."""
    ended = run("config", "show", "-o", "json", env={"DELEGATE_HTTP_PORT": "x", "DELEGATE_LOG_LEVEL": "y"})

    assert ended.code == 2
    assert ended.document["error"] == ended.document["errors"][0]
    assert [each["code"] for each in ended.document["errors"]] == ["input.settings"] * 2
