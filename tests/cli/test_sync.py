"""`delegate sync`, `diff` and `exec` as a person meets them: real processes against a simulated cluster."""

import json
import subprocess
from pathlib import Path

from tests.cli.clusters import Bench
from tests.cli.manifests import EXTRA, WEB, write_shop

RESULT_KEYS = {
    *("task", "attempt", "kind", "application", "outcome", "revision", "sync", "health", "message", "planHash", "error", "errors"),
    *("summary", "resources", "requests", "seconds", "notices", "cluster", "release"),
}


async def test_a_directory_is_brought_into_a_cluster(bench: Bench, tmp_path: Path) -> None:
    """The result is shown, and on standard error which cluster it was and how far it got."""
    shop = write_shop(tmp_path)

    ended = await bench.run("sync", str(shop))

    assert ended.code == 0, ended.stderr
    assert {line.split()[0] for line in ended.stdout.splitlines()[:-1]} == {"created"}
    assert "created  Healthy  apps/Deployment default/web" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("succeeded: 4 resources, 4 changed; Synced, Healthy; ")
    lines = ended.stderr.splitlines()
    assert lines[0] == f"sync shop: context 'simulator' of {bench.kubeconfig} ({bench.simulator.url}), namespace default"
    assert "4 objects, 4 to write" in lines
    assert "created ConfigMap default/extra" in lines
    deployment = await bench.read("/apis/apps/v1/namespaces/default/deployments/web")
    assert deployment["status"]["readyReplicas"] == 2
    assert "hunter22" not in ended.stdout + ended.stderr


async def test_the_same_again_writes_nothing_and_json_is_the_result_alone(bench: Bench, tmp_path: Path) -> None:
    """Standard output is one document with what the result schema has; nothing changed, nothing was sent."""
    shop = write_shop(tmp_path)
    assert (await bench.run("sync", str(shop))).code == 0
    writes = bench.simulator.requests.writes()

    ended = await bench.run("sync", str(shop), "-o", "json")

    assert ended.code == 0
    assert ended.document.keys() == RESULT_KEYS
    assert (ended.document["kind"], ended.document["application"], ended.document["outcome"]) == ("sync", "shop", "succeeded")
    assert ended.document["error"] is None
    assert ended.document["summary"]["unchanged"] == 4
    assert (ended.document["requests"]["writes"], ended.document["requests"]["dryRuns"]) == (0, 0)
    assert bench.simulator.requests.writes() == writes
    assert len(ended.stderr.splitlines()) == 1  # which cluster it was


async def test_a_diff_shows_each_leaf_and_touches_nothing(bench: Bench, tmp_path: Path) -> None:
    """1 where something differs, 0 where nothing does; a secret's values are never shown."""
    shop = write_shop(tmp_path)

    before = await bench.run("diff", str(shop))
    assert before.code == 1
    assert "+ apps/Deployment default/web would be created  (shop/web.yaml:15)" in before.stdout.replace("(web.yaml", "(shop/web.yaml")
    assert bench.simulator.requests.writes() == 0

    assert (await bench.run("sync", str(shop))).code == 0
    assert (await bench.run("diff", str(shop))).code == 0

    (shop / "web.yaml").write_text(WEB.replace("Good morning", "Good evening").replace("hunter22", "hunter23"))
    writes = bench.simulator.requests.writes()
    ended = await bench.run("diff", str(shop))

    assert ended.code == 1
    assert "    /data/greeting\n      - Good morning\n      + Good evening\n" in ended.stdout
    assert "      - (hidden)\n      + (hidden)\n" in ended.stdout
    assert "hunter2" not in ended.stdout + ended.stderr
    assert ended.stdout.splitlines()[-1].startswith("differences: 4 resources, 2 changed")
    assert bench.simulator.requests.writes() == writes


async def test_prune_wants_the_application_named_and_deletes_what_it_owned(bench: Bench, tmp_path: Path) -> None:
    """And nothing else; without --prune what is no longer wanted stays, and is told."""
    shop = write_shop(tmp_path)
    assert (await bench.run("sync", str(shop), "--app", "store")).code == 0
    (shop / "extra.yaml").unlink()

    unnamed = await bench.run("sync", str(shop), "--prune")
    assert unnamed.code == 2
    assert "--prune wants --app" in unnamed.stderr

    kept = await bench.run("sync", str(shop), "--app", "store")
    assert kept.code == 0
    assert "OutOfSync" in kept.stdout
    assert await bench.read("/api/v1/namespaces/default/configmaps/extra") is not None

    shown = await bench.run("diff", str(shop), "--app", "store", "--prune")
    assert shown.code == 1
    assert "- ConfigMap default/extra would be pruned" in shown.stdout

    pruned = await bench.run("sync", str(shop), "--app", "store", "--prune")
    assert pruned.code == 0
    assert "pruned" in pruned.stdout
    assert await bench.read("/api/v1/namespaces/default/configmaps/extra") is None
    assert await bench.read("/api/v1/namespaces/default/configmaps/web") is not None


async def test_a_namespace_is_created_only_if_asked_for(bench: Bench, tmp_path: Path) -> None:
    """The remedy is named by the option that does it."""
    shop = write_shop(tmp_path)

    refused = await bench.run("sync", str(shop), "-n", "shop")
    assert refused.code == 2
    assert "the namespace 'shop' doesn't exist in cluster 'simulator'" in refused.stderr
    assert "--create-namespace" in refused.stderr
    assert bench.simulator.requests.writes() == 0

    created = await bench.run("sync", str(shop), "-n", "shop", "--create-namespace", "--no-wait")
    assert created.code == 0
    assert await bench.read("/apis/apps/v1/namespaces/shop/deployments/web") is not None


async def test_a_revision_of_a_repository_is_synced(bench: Bench, tmp_path: Path) -> None:
    """A directory inside a work tree is taken as it stands; with --revision its repository is meant."""
    work_tree = tmp_path / "config"
    work_tree.mkdir()
    shop = write_shop(work_tree, extra=False)
    _git(work_tree, "init", "--quiet", "--initial-branch", "main")
    _git(work_tree, "add", "--all")
    _git(work_tree, "commit", "--quiet", "--message", "first")
    commit = _git(work_tree, "rev-parse", "HEAD").strip()
    (shop / "extra.yaml").write_text(EXTRA)

    at_revision = await bench.run("sync", str(shop), "--revision", "main", "-o", "json")
    assert at_revision.code == 0, at_revision.stderr
    assert at_revision.document["revision"] == commit
    assert at_revision.document["summary"]["created"] == 3
    assert at_revision.document["resources"][0]["origin"].startswith("shop/web.yaml:")

    absent = await bench.run("sync", str(shop), "--revision", "absent")
    assert absent.code == 2
    assert "has no branch or tag 'absent'" in absent.stderr

    as_it_stands = await bench.run("sync", str(shop), "-o", "json")
    assert as_it_stands.document["summary"] == at_revision.document["summary"] | {"created": 1, "unchanged": 3}


async def test_a_task_document_runs_here_and_now(bench: Bench, tmp_path: Path) -> None:
    """And only by the plan that was approved, where one was."""
    task = tmp_path / "task.yaml"
    shop = write_shop(tmp_path)
    text = f"kind: diff\napplication: shop\ndestination: {{name: in-cluster, namespace: default}}\nspec: {{source: {{path: {shop}}}}}\n"
    task.write_text(text)

    shown = await bench.run("exec", str(task), "-o", "json")
    assert shown.code == 1
    plan = shown.document["planHash"]
    assert len(plan) == 64

    task.write_text(text.replace("kind: diff", "kind: sync"))
    refused = await bench.run("exec", str(task), "--approved-plan", "0" * 64)
    assert refused.code == 1
    assert f"the plan {plan} is not the approved one" in refused.stderr
    assert bench.simulator.requests.writes() == 0

    done = await bench.run("exec", str(task), "--approved-plan", plan)
    assert done.code == 0
    assert await bench.read("/api/v1/namespaces/default/configmaps/extra") is not None


async def test_an_argo_cd_application_runs_here_and_now(bench: Bench, tmp_path: Path) -> None:
    """With its own source and destination; by file:// here, which only local commands take."""
    work_tree = tmp_path / "config"
    work_tree.mkdir()
    write_shop(work_tree)
    _git(work_tree, "init", "--quiet", "--initial-branch", "main")
    _git(work_tree, "add", "--all")
    _git(work_tree, "commit", "--quiet", "--message", "first")
    application = tmp_path / "application.yaml"
    application.write_text(f"""\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {{name: shop}}
spec:
  destination: {{server: https://kubernetes.default.svc, namespace: shop}}
  source: {{repoURL: "file://{work_tree}", targetRevision: main, path: shop}}
  syncPolicy: {{syncOptions: [CreateNamespace=true]}}
""")

    ended = await bench.run("exec", str(application), "-o", "json")

    assert ended.code == 0, ended.stdout
    assert ended.document["summary"]["created"] == 4
    assert await bench.read("/api/v1/namespaces/shop/configmaps/web") is not None


async def test_a_faulty_task_document_is_refused_with_its_line(bench: Bench, tmp_path: Path) -> None:
    """As an error document where JSON was asked for."""
    task = tmp_path / "task.yaml"
    task.write_text("kind: sync\napplication: shop\noptions:\n  prnue: true\n")

    told = await bench.run("exec", str(task))
    assert told.code == 2
    assert told.stderr.splitlines() == [f"error: {task}:4: unknown field `prnue` in options", "hint: did you mean `prune`?"]

    document = (await bench.run("exec", str(task), "-o", "json")).document
    assert (document["error"]["file"], document["error"]["line"]) == (str(task), 4)


async def test_a_set_like_real_ones_works_unchanged(bench: Bench, tmp_path: Path) -> None:
    """Its own namespace, a definition with its objects and a bare `=` in an enum, a List, an object over 256 KiB."""
    target = tmp_path / "operator"
    target.mkdir()
    (target / "0-definition.yaml").write_text("""\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rules.monitoring.example}
spec:
  group: monitoring.example
  names: {kind: Rule, plural: rules, singular: rule}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties:
                matchType: {type: string, enum: ["!=", =, =~]}
""")
    (target / "namespace.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: monitoring}\n")
    (target / "rule.yaml").write_text(
        "apiVersion: monitoring.example/v1\nkind: Rule\nmetadata: {name: first, namespace: monitoring}\nspec: {matchType: =}\n"
    )
    (target / "roles.yaml").write_text("""\
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleList
items:
- metadata: {name: a, namespace: monitoring}
  rules: []
- metadata: {name: b, namespace: monitoring}
  rules: []
""")
    dashboard = "x" * 400_000
    board = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "board", "namespace": "monitoring"}, "data": {"d": dashboard}}
    (target / "dashboard.json").write_text(json.dumps(board))

    first = await bench.run("sync", str(target), "-o", "json")
    assert first.code == 0, first.stdout
    assert first.document["summary"]["created"] == 6
    assert (await bench.read("/apis/monitoring.example/v1/namespaces/monitoring/rules/first"))["spec"] == {"matchType": "="}

    again = await bench.run("sync", str(target), "-o", "json")
    assert (again.document["summary"]["unchanged"], again.document["requests"]["writes"]) == (6, 0)


def _git(directory: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
    return subprocess.run(["git", *identity, *arguments], cwd=directory, capture_output=True, text=True, check=True).stdout
