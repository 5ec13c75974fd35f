from datetime import UTC, datetime

import pytest

from archive.records import BudgetRecord
from service.dashboard import formatting


@pytest.mark.parametrize(
    "said, expected",
    [
        (formatting.speedup(1.834), "1.83\u00d7"),
        (formatting.speedup(1.834, "predicted"), "\u22481.83\u00d7"),
        (formatting.speedup(123.4, "recorded"), "rec. 123\u00d7"),
        (formatting.speedup(None), "\u2013"),
        (formatting.interval(1.8, 1.86), "1.80\u20131.86\u00d7"),
        (formatting.interval(1.8, 1.8, "predicted"), "\u22481.80\u00d7"),
        (formatting.interval(None, 1.0), "\u2013"),
        (formatting.share(0.0451), "4.5%"),
        (formatting.share(0.5), "50%"),
        (formatting.share(0.0), "0%"),
        (formatting.share(None), "\u2013"),
        (formatting.count(12345), "12,345"),
        (formatting.decimal(12345.6), "12,346"),
        (formatting.decimal(0.31789), "0.3179"),
        (formatting.evaluations(1), "1 evaluation"),
        (formatting.time_us(12.345), "12.35 \u00b5s"),
        (formatting.time_us(1234.5, "predicted"), "\u22481.23 ms"),
        (formatting.time_us(2.5e6), "2.50 s"),
        (formatting.size_bytes(512), "512 B"),
        (formatting.size_bytes(1536), "1.5 KiB"),
        (formatting.duration_s(3.21), "3.2 s"),
        (formatting.duration_s(75), "1 min 15 s"),
        (formatting.duration_s(7260), "2 h 1 min"),
        (formatting.duration_s(180000), "2 d 2 h"),
        (formatting.moment(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)), "2026-01-02 03:04:05 UTC"),
        (formatting.moment(None), "\u2013"),
        (formatting.usd(12.5), "$12.50"),
        (formatting.usd(0.0123), "$0.0123"),
        (formatting.usd(None), "\u2013"),
        (formatting.brief("0199a2b0-7c1e-7d3f-8a45-6b7c8d9e0f12"), "9e0f12"),
        (formatting.title("wrong_result"), "wrong result"),
        (formatting.settings({"BLOCK": 128, "num_warps": 4}), "BLOCK=128, num_warps=4"),
    ],
)
def test_figures_in_words(said: str, expected: str) -> None:
    assert said == expected


@pytest.mark.parametrize(
    "calls, usd, unpriced, expected",
    [(0, 0.0, 0, "$0.00"), (3, 1.5, 0, "$1.50"), (3, 1.5, 1, "at least $1.50"), (3, 0.0, 3, "unknown")],
)
def test_a_cost_without_a_price_is_unknown(calls: int, usd: float, unpriced: int, expected: str) -> None:
    bill = BudgetRecord("search", "", calls, 0, usd, unpriced, None, None, None)
    assert formatting.spending(bill) == expected


def test_every_filter_takes_what_is_unknown_without_failing() -> None:
    unknown = [formatting.FILTERS[name](None) for name in ("speedup", "share", "count", "decimal", "time_us", "usd")]
    assert set(unknown) == {formatting.UNKNOWN}
