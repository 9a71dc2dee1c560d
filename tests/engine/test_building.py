"""What a built engine does for the process that it is in."""

import subprocess
import sys
import textwrap
from pathlib import Path

_PROGRAM = """
    import asyncio, gc, sys
    from pathlib import Path
    from delegate.engine.clusters.registry import ClusterSettings
    from delegate.engine.tasks.building import build_engine
    from delegate.foundation.lifecycle.retrying import Retrying

    async def main() -> None:
        policy = Retrying(max_attempts=1)
        settings = ClusterSettings(kubeconfig=sys.argv[1], policy=policy)
        engine = build_engine(cache_dir=Path(sys.argv[2]), clusters=settings, retrying=policy, environment={})
        print(gc.get_freeze_count())
        assert await engine.announce_clusters() == ()
        frozen = gc.get_freeze_count()
        print(frozen, "kubernetes_asyncio" in sys.modules)
        await engine.announce_clusters()
        print(gc.get_freeze_count() <= frozen)
        await engine.close()

    asyncio.run(main())
"""
_KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: gone
contexts: [{name: gone, context: {cluster: gone, user: nobody}}]
clusters: [{name: gone, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: none}}]
"""


def test_libraries_are_kept_from_the_collector_once(tmp_path: Path) -> None:
    """After the first announcement of clusters, also where none answers, what is loaded is out of the collector's sight."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG)

    # In a process of its own: what is taken from the collector stays so.
    program = [sys.executable, "-c", textwrap.dedent(_PROGRAM), str(kubeconfig), str(tmp_path / "cache")]
    run = subprocess.run(program, capture_output=True, text=True, timeout=50, check=False)

    assert run.returncode == 0, run.stderr
    before, after, again = [line for line in run.stdout.splitlines() if not line.startswith("20")]
    frozen, loaded = after.split()
    assert before == "0"
    assert int(frozen) > 10_000
    assert loaded == "True"
    assert again == "True"
