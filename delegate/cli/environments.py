"""What child processes of commands (git, credential plugins) see of our environment."""

import os
from collections.abc import Mapping

from delegate.foundation.settings.proxies import ProxyRules
from delegate.foundation.settings.sections import Network


def child_environment(network: Network, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Ours without the settings of this program, which may hold its tokens, and with the proxies that hold for it."""
    kept = {name: value for name, value in environment.items() if not name.startswith("DELEGATE_")}
    trust = {"SSL_CERT_FILE": str(network.ssl_cert_file)} if network.ssl_cert_file else {}
    return kept | ProxyRules.from_settings(network).environment() | trust
