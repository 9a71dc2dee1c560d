"""`--policies` and `--health-rules`: files of rules reach the engine of a command, and a broken one is wrong usage."""

from pathlib import Path

from tests.cli.clusters import Bench

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata: {level: info}\n"


async def test_a_policy_refuses_a_sync_with_file_and_line(bench: Bench, tmp_path: Path) -> None:
    """1 for a refusal, with object, rule and advice; where it is let pass, the health rule of the other file is asked."""
    source = tmp_path / "shop"
    source.mkdir()
    (source / "set.yaml").write_text(CONFIG)
    policies, health = tmp_path / "policies.yaml", tmp_path / "health.yaml"
    policies.write_text("rules: [{name: no-maps, match: {kinds: [ConfigMap]}, expression: 'false', message: not here, hint: use files}]\n")
    health.write_text("rules: [{kinds: [ConfigMap], degraded: object.data.level == 'info', message: \"'too quiet'\"}]\n")

    refused = await bench.run("sync", str(source), "--policies", str(policies))
    unhealthy = await bench.run("sync", str(source), "--health-rules", str(health), "--timeout", "1s")

    assert refused.code == 1, refused.stderr
    said = refused.stdout + refused.stderr
    assert "set.yaml:1" in said
    assert "no-maps" in said
    assert "use files" in said
    assert unhealthy.code == 1, unhealthy.stderr
    assert "too quiet" in unhealthy.stdout + unhealthy.stderr


async def test_a_file_of_rules_that_can_not_be_meant_is_wrong_usage(bench: Bench, tmp_path: Path) -> None:
    """2, with file and line, before anything is asked of a cluster."""
    (tmp_path / "set.yaml").write_text(CONFIG)
    (tmp_path / "rules.yaml").write_text("rules:\n- name: a\n  expression: object.x ||\n")

    ended = await bench.run("sync", str(tmp_path / "set.yaml"), "--app", "shop", "--policies", str(tmp_path / "rules.yaml"))

    assert ended.code == 2, ended.stderr
    assert "rules.yaml:3" in ended.stderr
