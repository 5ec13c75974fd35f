"""Meaning of failures: by status, by words, and inside successful responses."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from service.llm import BackendError, LlmRefused, PermanentFailure, TransientFailure
from service.llm.options import ApiKey
from service.llm.vendor_failures import failure_inside, failure_of, quote, retry_after

KEY = ApiKey("sk-1")


@pytest.mark.parametrize(
    "status, text, kind, said",
    [
        (
            403,
            '{"error": {"message": "Country, region, or territory not supported"}}',
            PermanentFailure,
            "status 403: C",
        ),
        (403, '{"error": {"message": "Your input was flagged by moderation"}}', LlmRefused, "status 403: Your input"),
        (403, "", PermanentFailure, "does not accept the key (status 403)"),
        (
            401,
            '{"error": {"message": "Incorrect API key sk-1"}}',
            PermanentFailure,
            "key (status 401: Incorrect API key [",
        ),
        (403, '{"error": {"message": "Insufficient credits"}}', PermanentFailure, "status 403: Insufficient credits"),
        (400, '{"message": "The response was filtered: ResponsibleAIPolicyViolation"}', LlmRefused, "status 400: The"),
        (400, '{"error": "the request exceeds the available context size (4096)"}', LlmRefused, "status 400: the"),
        (400, '{"detail": [{"msg": "Extra inputs are not permitted"}]}', PermanentFailure, "status 400: Extra inputs"),
        (
            404,
            '[{"error": {"message": "models/x is not found"}}]',
            PermanentFailure,
            "status 404: models/x is not found",
        ),
        (
            502,
            '{"error": {"message": "Provider returned error", "metadata": {"raw": "{\\"msg\\": \\"queue full\\"}"}}}',
            TransientFailure,
            "status 502: Provider returned error: queue full",
        ),
        (451, '{"error": "blocked by policy"}', LlmRefused, "status 451: blocked by policy"),
        (302, "", PermanentFailure, "redirect"),
        (418, "<html>\x1b[31m", PermanentFailure, "status 418: <html> [31m"),
    ],
)
def test_statuses_with_words(status: int, text: str, kind: type[BackendError], said: str) -> None:
    failure = failure_of(status, {}, text, KEY)
    assert type(failure) is kind
    assert said in failure.detail
    assert "sk-1" not in failure.detail


@pytest.mark.parametrize(
    "error, kind, paid",
    [
        ({"code": 502, "message": "Provider returned error"}, TransientFailure, False),
        ({"code": "429", "message": "slow down"}, TransientFailure, False),
        ({"code": 402, "message": "Payment required"}, PermanentFailure, False),
        ({"code": 403, "message": "flagged"}, LlmRefused, None),
        ({"type": "overloaded_error", "message": "Overloaded"}, TransientFailure, True),
        ({"code": "insufficient_quota"}, PermanentFailure, True),
        ({"code": "context_length_exceeded", "message": "context window"}, LlmRefused, None),
        ("something", TransientFailure, True),
    ],
)
def test_errors_inside_a_success(error: object, kind: type[BackendError], paid: bool | None) -> None:
    failure = failure_inside(error, KEY)
    assert type(failure) is kind
    assert getattr(failure, "paid", None) is paid


def test_the_wait_inside_an_error_is_passed_on() -> None:
    failure = failure_inside({"code": 429, "metadata": {"headers": {"Retry-After": "7"}}}, None)
    assert isinstance(failure, TransientFailure)
    assert failure.retry_after_s == 7.0


def test_a_quote_is_one_short_line_without_keys() -> None:
    assert quote("a\nb\x1b sk-1 " + "x" * 1000, KEY) == ("a b  [key] " + "x" * 1000)[:300]


@pytest.mark.parametrize(
    "said, wait_s", [("", None), ("12", 12.0), ("0", 0.0), ("1e9", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)]
)
def test_a_wait_as_vendors_state_it(said: str, wait_s: float | None) -> None:
    assert retry_after({"retry-after": said}) == wait_s


def test_a_wait_until_a_date_is_bounded() -> None:
    until = datetime.now(UTC) + timedelta(days=400)
    assert retry_after({"retry-after": format_datetime(until, usegmt=True)}) == 3600.0
    assert retry_after({"retry-after": until.strftime("%a, %d %b %Y %H:%M:%S -0000")}) == 3600.0


@pytest.mark.parametrize(
    "headers, text, wait_s",
    [
        ({"retry-after-ms": "250"}, "", 0.25),
        ({}, "Please try again in 1m2.5s. Visit", 62.5),
        ({}, "Please try again in 120ms.", 0.12),
        ({}, "Please retry after 26 seconds.", 26.0),
        ({}, '{"retryDelay": "37s"}', 37.0),
        ({}, '{"retry_after": 12}', 12.0),
        ({}, "try again in 9h", 3600.0),
        ({"retry-after": "7"}, "try again in 9s", 7.0),
        ({}, "try again in a moment", None),
    ],
)
def test_a_wait_in_other_places(headers: dict[str, str], text: str, wait_s: float | None) -> None:
    assert retry_after(headers, text) == wait_s


@pytest.mark.parametrize(
    "status, text, kind",
    [
        (429, "You exceeded your current quota, check billing. Please retry in 3s", TransientFailure),
        (429, '{"code": "insufficient_quota", "message": "try again in 3s"}', PermanentFailure),
        (429, "Request too large for m on tokens per min", LlmRefused),
        (429, "Tokens limit exceeded", TransientFailure),
        (400, "Arrearage: your account is not in good standing", PermanentFailure),
        (599, "", TransientFailure),
        (501, "", PermanentFailure),
    ],
)
def test_statuses_whose_words_decide(status: int, text: str, kind: type[BackendError]) -> None:
    assert type(failure_of(status, {}, text, None)) is kind


def test_what_the_words_do_not_explain_is_a_rejection() -> None:
    assert [getattr(failure_of(status, {}, "?", None), "rejection", False) for status in (400, 422, 404)] == [
        True,
        True,
        False,
    ]
