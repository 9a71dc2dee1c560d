"""Settings of every program: what can be set, how it is read, and where each value came from.

`load(DelegateSettings, flags=...)` gives a frozen set of sections; each part of the program takes its own section.
"""

from delegate.foundation.secrets import HIDDEN, Secret, SecretUrl
from delegate.foundation.settings.errors import SettingsError
from delegate.foundation.settings.loading import Loaded, SettingsWarning, SettingView, load
from delegate.foundation.settings.manager import Leasing, Retention, Serving, Storage
from delegate.foundation.settings.programs import DelegateSettings, LocalSettings, ManagerSettings, OperatorSettings
from delegate.foundation.settings.sections import (
    Cluster,
    DeadLetters,
    Identity,
    LocalLogging,
    LogFormat,
    Logging,
    LogLevel,
    ManagerLink,
    Network,
    OperatorLink,
    Pool,
    Probes,
    Retry,
    Sources,
    Workspace,
)
from delegate.foundation.settings.urls import ListenAddress, is_loopback, join_url

__all__ = [
    "HIDDEN",
    "Cluster",
    "DeadLetters",
    "DelegateSettings",
    "Identity",
    "Leasing",
    "ListenAddress",
    "Loaded",
    "LocalLogging",
    "LocalSettings",
    "LogFormat",
    "LogLevel",
    "Logging",
    "ManagerLink",
    "ManagerSettings",
    "Network",
    "OperatorLink",
    "OperatorSettings",
    "Pool",
    "Probes",
    "Retention",
    "Retry",
    "Secret",
    "SecretUrl",
    "Serving",
    "SettingView",
    "SettingsError",
    "SettingsWarning",
    "Sources",
    "Storage",
    "Workspace",
    "is_loopback",
    "join_url",
    "load",
]
