"""A network of one's own: addresses, names and routes that a scenario sets, in a child process that nobody else shares them with.

`run_inside(scenario, directory)` runs a coroutine function of the module `inside` in new network and mount namespaces. Where this machine
may not make any (a container without privileges), the test is skipped by that name.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.daemon.networks.servers import program

_SECONDS = 55


def run_inside(scenario: str, directory: Path) -> None:
    for name, package in (("ip", "iproute2"), ("dnsmasq", "dnsmasq-base"), ("squid", "squid-openssl")):
        program(name, package)
    unshare = [program("unshare", "util-linux"), "--net", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user", "--user"])]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("namespaces can't be made here (unshare --net --mount)")
    command = [*unshare, sys.executable, "-W", "error", "-m", "tests.daemon.networks.inside", scenario, str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    assert done.returncode == 0, f"{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
