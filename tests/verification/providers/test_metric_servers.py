"""Real Prometheus and VictoriaMetrics in the loop: a service's metrics scraped, and each kind of answer told apart."""

import asyncio
import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from delegate.engine.verification.answers import Answer, Query, Window
from delegate.engine.verification.errors import ProviderQuestionError, ProviderUnavailableError, UnreadableAnswerError
from delegate.engine.verification.providers.registry import Providers, load_providers
from tests.verification.providers.metric_servers import Exporter, exporting, scraping
from tests.verification.providers.sources import values_of

_DEADLINE_SECONDS = 40.0
_RATIO = 'sum(rate(req_failed{rev="7"}[10s])) / sum(rate(req_total{rev="7"}[10s]))'


async def ask(providers: Providers, url: str, text: str, *, step: float = 0.0, over: float = 10.0, timeout: float = 20.0) -> Answer:
    """One reading at this moment."""
    provider = providers.open(type="prometheus", provider="", url=url)
    now = time.time()
    end = math.floor(now / step) * step if step else now
    try:
        return await provider.read(Query(text, Window(end - over, end, step)), timeout=timeout)
    finally:
        await provider.close()


async def ask_until(providers: Providers, url: str, text: str, wanted: Callable[[Answer], bool], *, step: float = 0.0) -> Answer:
    """Readings until one is as wanted."""
    async with asyncio.timeout(_DEADLINE_SECONDS):
        while True:
            answer = await ask(providers, url, text, step=step)
            if wanted(answer):
                return answer
            await asyncio.sleep(0.2)


def has_number(answer: Answer) -> bool:
    return any(value is not None for value in values_of(answer))


@pytest.mark.parametrize("kind", ["prometheus", "victoriametrics"])
async def test_tells_answers_of_a_real_server_apart(kind: str, tmp_path: Path) -> None:
    """A good release and a bad one, nothing, 0/0, infinity, several series, ranges, a wrong query: each as it is."""
    providers = load_providers(None, {})
    async with exporting() as exporter, scraping(kind, tmp_path, exporter.address) as url:
        await check_releases(providers, url, exporter)
        assert (await ask(providers, url, "nowhere_to_be_found")).series == ()
        assert [value for value in values_of(await ask(providers, url, "idle_total / idle_total")) if value is not None] == []
        assert values_of(await ask(providers, url, "idle_total + 1 > 0")) == [1.0]
        several = await ask(providers, url, "pod_ratio")
        assert {series.labels["pod"]: series.points[0][1] for series in several.series} == {"wren-a": 0.14, "wren-b": 0.002}
        if kind == "prometheus":  # VictoriaMetrics leaves infinities out
            assert values_of(await ask(providers, url, "(idle_total + 1) / idle_total")) == [math.inf]
            with pytest.raises(UnreadableAnswerError):
                await ask(providers, url, '"a text"')
        with pytest.raises(ProviderQuestionError) as raised:
            await ask(providers, url, "sum(rate(")
        assert raised.value.retryable is False
        await check_ranges(providers, url)
    with pytest.raises(ProviderUnavailableError) as unreachable:
        await ask(providers, url, "req_total")
    assert unreachable.value.retryable
    await providers.close()


async def check_releases(providers: Providers, url: str, exporter: Exporter) -> None:
    """The ratio of a good release is 0, and rises to that of a bad one."""
    good = await ask_until(providers, url, _RATIO, has_number)
    assert values_of(good) == [0.0]
    exporter.failing = 0.5
    bad = await ask_until(providers, url, _RATIO, lambda answer: any((value or 0) > 0.1 for value in values_of(answer)))
    assert len(bad.series) == 1


async def check_ranges(providers: Providers, url: str) -> None:
    """Each point of a range has the time at which its bucket begins, inside the window, and a bucket is complete."""
    answer = await ask_until(providers, url, "sum(req_total)", has_number, step=2.0)
    (series,) = answer.series
    ends = [at + 2.0 for at, _ in series.points]
    assert all(end <= time.time() + 1.0 for end in ends)
    assert all(at % 2.0 == 0.0 for at, _ in series.points)
    assert len(series.points) <= 5
