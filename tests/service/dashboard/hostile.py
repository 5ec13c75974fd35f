"""Texts that try to run something in a browser that shows them, and a search that is full of them."""

from dataclasses import dataclass

from uuid6 import uuid7

from archive.records import (
    AxisRecord,
    LlmReply,
    NewCandidate,
    NewHint,
    NewPin,
    NewSearch,
    NewToken,
    SearchRecord,
    SearchState,
)
from archive.store import Store
from tests.archive.samples import new_exchange
from tests.service import records

CORPUS = (
    "<script>window.broken=1</script>",
    "<img src=x onerror=window.broken=2>",
    '"><svg onload=window.broken=3>',
    "'><iframe srcdoc='<script>parent.broken=4</script>'></iframe>",
    "</title></textarea></pre></style></script><script>window.broken=5</script>",
    "javascript:window.broken=6",
    "{{ 7 * 7 }}{% raw %}<b>bold</b>",
    "<a href=javascript:window.broken=8>press</a>",
    "<math><mtext><table><mglyph><style><img src=x onerror=window.broken=9>",
    "<!--<img src=x onerror=window.broken=10>-->",
    "<base href=//elsewhere.example/><form action=//elsewhere.example/><button>go",
    "\u202egnp.live\u2066 ' onmouseover='window.broken=11' x='",
)


@dataclass(frozen=True)
class Hostile:
    """A search whose texts all try to run something, with ids of a candidate and a prompt of it."""

    search: SearchRecord
    candidates: tuple[str, ...]
    prompt: str


async def store_hostile(store: Store, *, token: bool = True) -> Hostile:
    """Keep a search that is hostile throughout, and a token; where there is one, people have to log in."""
    await store.operators.put(records.OPERATOR.digest, records.OPERATOR.name, records.OPERATOR.model_dump_json())
    evil = " ".join(CORPUS)
    search = await store.searches.create(
        NewSearch(
            id=str(uuid7()),
            operator=records.OPERATOR.digest,
            operator_name=evil,
            devices=(records.DEVICE,),
            emitters=("tune", evil),
            axes=(AxisRecord("num_warps", 6), AxisRecord("registers", 5)),
            axes_version=1,
            evaluations=100,
            seed=0,
            shapes=tuple(shape.model_dump(mode="json") for shape in records.SHAPES),
            llm={"backends": [evil]},
        )
    )
    ids = []
    for ordinal, text in enumerate(CORPUS):
        id = str(uuid7())
        ids.append(id)
        await store.candidates.add(
            NewCandidate(
                id=id,
                search=search.id,
                ordinal=ordinal,
                emitter=text,
                source=f"# {text}\n'''{evil}'''\n",
                digest=f"{ordinal}",
                trace_key=f"hostile {ordinal}",
                parents=tuple(ids[-2:-1]),
                note=text,
            )
        )
        await store.candidates.judge(id, "wrong_result", f"{text} {evil}", 1, None)
    await store.hints.put(NewHint(str(uuid7()), search.id, evil, evil), most=9)
    await store.pins.put(NewPin(str(uuid7()), search.id, records.DEVICE, 3, None, evil), most=9)
    prompt = await _prompt(store, search.id, evil)
    if token:
        await store.tokens.create(NewToken(str(uuid7()), evil, "d" * 64, ("read",), None, None))
    await store.searches.set_state(search.id, SearchState.PAUSED, reason=evil)
    return Hostile(await store.searches.get(search.id), tuple(ids), prompt)


async def _prompt(store: Store, search: str, evil: str) -> str:
    new = new_exchange(search, backend=evil, strategy=evil, template=evil, system=evil, user=evil)
    await store.exchanges.open(new)
    await store.exchanges.answer(new.id, LlmReply(evil, evil, 1, 1, None))
    await store.exchanges.conclude(new.id, "unusable", evil)
    return new.id
