"""Prompts that wait: claimed by one, answered once, withdrawn when nobody needs them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from archive.errors import RecordConflict as ArchiveConflict
from archive.records import LlmReply, SearchState
from service.errors import Conflict
from service.llm import LlmAnswer, LlmRefused, TransientFailure
from service.llm_gateway.gateway import LlmGateway
from tests.service.inquiry import PROMPT, Inquiry, configure, inquiry, purpose, until

REPLY = LlmReply("```python\n```", "a person", 0, 0, None)


@pytest.fixture
async def asked(tmp_path: Any) -> AsyncIterator[Inquiry]:
    async with inquiry(tmp_path, backends=("manual",), calls=3) as found:
        yield found


async def waiting(asked: Inquiry, ordinal: int = 0) -> tuple["asyncio.Task[LlmAnswer]", str]:
    """A question under way, and the id of its prompt."""
    call = asyncio.create_task(asked.ask(ordinal))
    await until(lambda: _waits(asked, ordinal))
    found = await asked.store.exchanges.list(search=asked.search.id)
    return call, found[0].id


async def _waits(asked: Inquiry, ordinal: int) -> bool:
    found = await asked.store.exchanges.list(search=asked.search.id)
    charges = await asked.store.spending.outstanding(asked.search.id)
    return any(each.ordinal == ordinal and any(each.id == charge.exchange for charge in charges) for each in found)


@asynccontextmanager
async def narrow(asked: Inquiry) -> AsyncIterator[Inquiry]:
    """Another process of the same search, in which one prompt waits at a time."""
    configure(asked.folder, "[backends.manual]\nkind = 'manual'\nmax_concurrency = 1\n")
    asking = LlmGateway(asked.store, asked.folder)
    try:
        yield replace(asked, llm_gateway=asking)
    finally:
        await asking.close()


async def _stands_in_line(asked: Inquiry) -> bool:
    limiter = asked.llm_gateway.backends.get("manual")
    return limiter is not None and limiter.load == 2


async def test_an_answer_reaches_who_asked(asked: Inquiry) -> None:
    call, id = await waiting(asked)
    manual = asked.llm_gateway.manual
    assert (await manual.claim(id, "ada", 60)).user == PROMPT.user
    await manual.renew(id, "ada", 60)
    await manual.answer(id, "ada", REPLY)
    answer = await call
    assert (answer.exchange, answer.backend, answer.completion.text) == (id, "manual", REPLY.text)
    assert (await asked.spent())[:2] == (1, 0)


async def test_an_answer_through_another_process_is_found(asked: Inquiry) -> None:
    call, id = await waiting(asked)
    other = LlmGateway(asked.store, asked.folder)
    await other.manual.answer(id, "ada", REPLY)
    assert (await call).completion.text == REPLY.text
    await other.close()


async def test_a_prompt_outlives_the_process_that_asked(asked: Inquiry) -> None:
    call, id = await waiting(asked)
    await asked.llm_gateway.close()
    with pytest.raises(TransientFailure):
        await call
    assert await asked.states() == ["waiting"]
    again = LlmGateway(asked.store, asked.folder)
    call = asyncio.create_task(again(PROMPT, purpose(asked.search.id)))
    await asyncio.sleep(0.1)
    assert (await asked.spent())[0] == 1, "one reservation, not two"
    await again.manual.answer(id, "ada", REPLY)
    assert (await call).exchange == id
    assert (await asked.spent())[:2] == (1, 0)
    await again.close()


async def test_an_answer_before_its_prompt_is_listened_for_costs_one_call(asked: Inquiry) -> None:
    call, id = await waiting(asked)
    async with narrow(asked) as again:
        first, other = await waiting(again, 1)
        second = asyncio.create_task(again.ask())
        await until(lambda: _stands_in_line(again))
        await again.llm_gateway.manual.answer(id, "ada", REPLY)
        assert not second.done(), "it has no place yet"
        await again.llm_gateway.manual.answer(other, "ada", REPLY)
        assert [(await each).exchange for each in (first, second)] == [other, id]
    assert (await asked.spent())[:2] == (2, 0), "a call for each prompt"
    assert (await call).exchange == id


async def test_a_prompt_that_is_withdrawn_before_it_is_listened_for_costs_nothing(asked: Inquiry) -> None:
    async with narrow(asked) as again:
        first, _ = await waiting(again)
        second = asyncio.create_task(again.ask(1))
        await until(lambda: _stands_in_line(again))
        assert await again.llm_gateway.manual.withdraw(asked.search.id) == 2
        results = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(result) for result in results] == [TransientFailure] * 2
    assert await asked.spent() == (0, 0, 0.0)


async def test_an_answer_while_nobody_listens_is_kept(asked: Inquiry) -> None:
    call, id = await waiting(asked)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await asked.llm_gateway.manual.answer(id, "ada", REPLY)
    assert (await asked.ask()).completion.text == REPLY.text
    assert (await asked.spent())[:2] == (1, 0)


async def test_who_claims_may_refuse(asked: Inquiry) -> None:
    call, id = await waiting(asked)
    refusal = LlmReply("", "", 0, 0, None, refused=True, reason="not my field")
    await asked.llm_gateway.manual.answer(id, "ada", refusal)
    with pytest.raises(LlmRefused, match="not my field"):
        await call


async def test_a_released_prompt_is_for_others(asked: Inquiry) -> None:
    call, id = await waiting(asked)
    manual = asked.llm_gateway.manual
    await manual.claim(id, "ada", 60)
    with pytest.raises(ArchiveConflict, match="claimed by 'ada'"):
        await manual.answer(id, "bob", REPLY)
    await manual.release(id, "ada")
    await manual.answer(id, "bob", REPLY)
    assert (await call).completion.text == REPLY.text


async def test_what_waits_is_withdrawn_with_its_search(asked: Inquiry) -> None:
    calls = [(await waiting(asked, ordinal))[0] for ordinal in range(2)]
    assert await asked.llm_gateway.manual.withdraw(asked.search.id) == 2
    for result in await asyncio.gather(*calls, return_exceptions=True):
        assert isinstance(result, TransientFailure)
    assert await asked.states() == ["failed", "failed"]
    assert await asked.spent() == (0, 0, 0.0)
    assert await asked.llm_gateway.manual.withdraw(asked.search.id) == 0


@pytest.mark.parametrize("act", ["claim", "answer"])
async def test_a_search_that_has_ended_needs_no_answer(asked: Inquiry, act: str) -> None:
    call, id = await waiting(asked)
    await asked.store.searches.set_state(asked.search.id, SearchState.STOPPED)
    manual = asked.llm_gateway.manual
    with pytest.raises(Conflict, match="is stopped; it needs no answer"):
        await (manual.claim(id, "ada", 60) if act == "claim" else manual.answer(id, "ada", REPLY))
    assert isinstance((await asyncio.gather(call, return_exceptions=True))[0], TransientFailure)
    assert await asked.spent() == (0, 0, 0.0)
