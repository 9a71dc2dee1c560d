"""Networks that have to be real: without IPv4, with names that move, and with a proxy that Git goes through as we do."""

from pathlib import Path

from tests.daemon.networks.namespaces import run_inside


def test_works_without_any_ipv4(tmp_path: Path) -> None:
    """Case 26: a literal and a name of AAAA alone, a proxy in brackets, NO_PROXY as address and network, probes on `::`."""
    run_inside("ipv6_only", tmp_path)


def test_follows_the_managers_name_to_another_address(tmp_path: Path) -> None:
    """Case 30: an old address that answers 503, is silent, or goes on working is left; one dead address of several costs nothing."""
    run_inside("moving", tmp_path)


def test_a_way_that_is_gone_without_a_word_is_given_up(tmp_path: Path) -> None:
    """Case 02: open calls end by their own limits, and the next ones work as soon as the way is there again."""
    run_inside("gone_without_a_word", tmp_path)


def test_git_goes_through_proxies_by_the_same_rule(tmp_path: Path) -> None:
    """One NO_PROXY with networks for us and for children, and one set of authorities."""
    run_inside("git_by_the_same_rule", tmp_path)
