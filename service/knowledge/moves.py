"""What changed between a parent and its child, in words that are the same whenever the same was done."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archive.records import MOVE_CHARS, SENTENCE_CHARS
from service.knowledge.traits import in_words

CHANGE = re.compile(r"([A-Za-z_][\w.:]*) (none|-?\d{1,18}) -> (-?\d{1,18})")
"""One change in a note of the emitter `tune`, such as `num_warps 8 -> 4`."""
JOINT = " + "
"""Between the names of rules in a note of the emitter `rewrite`."""
CANONICAL = ("tune", "rewrite")
"""Emitters whose notes are of a fixed form; others may write what they like."""
SHOWN = (
    *("launches", "programs_per_sm", "num_warps", "registers", "spill_bytes", "shared_bytes", "occupancy"),
    *("load_width_bytes", "memory_path", "tensor_core", "persistent"),
)
"""Readings that tell what a change did, in the order in which they are shown."""
MOVED = 1.1
"""By which factor a number has to differ before it counts as moved: less than that any change of the code may cause."""


def move(emitter: str, note: str, before: Mapping[str, Any], after: Mapping[str, Any] | None) -> str | None:
    """What was done, without its amounts; None where that cannot be told.

    Of `tune` the parameters with the way they went (`num_warps down`), of `rewrite` the rules. Of all others, whose
    notes may say anything, the readings that moved (`launches down; memory_path async`).

    Args:
        emitter: Who made the child.
        note: What it said of it.
        before: Readings of the parent.
        after: Readings of the child; None if it never came to any.
    """
    if emitter in CANONICAL:
        changes = sorted(f"{name} {_way(old, int(new))}" for name, old, new in CHANGE.findall(note))
        found = "; ".join(changes) or JOINT.join(sorted(note.split(JOINT)))
    elif after is None:
        return None
    else:
        found = "; ".join(_moved(_told(before), _told(after)))
    return plain(found)[:MOVE_CHARS] or None


def sentence(emitter: str, what: str, traits: Sequence[str], bottleneck: str, device: str) -> str:
    """A move for a person: on what it was seen to help, and where."""
    means = {"tune": "the parameters", "rewrite": "the rewriting rules"}.get(emitter, "a change with")
    subject = in_words(traits)
    said = f"{subject[0].upper()}{subject[1:]}, bound by {bottleneck} on {device}, gained by {means} {what}."
    return said[:SENTENCE_CHARS]


def plain(text: str) -> str:
    """Text on one line, without what could steer a terminal."""
    return "".join(char for char in text if char.isprintable())


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The readings that differ, before and after."""
    here, there = _told(before), _told(after)
    names = [name for name in here if here[name] != there[name]]
    return {name: here[name] for name in names}, {name: there[name] for name in names}


def _way(old: str, new: int) -> str:
    if old == "none":
        return "set"
    return "up" if new > int(old) else "down"


def _told(readings: Mapping[str, Any]) -> dict[str, Any]:
    """The readings that tell what a change did; of instructions how many there are."""
    told = {name: readings.get(name) for name in SHOWN}
    return {**told, "instructions": sum((readings.get("instructions") or {}).values())}


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name, old in before.items():
        new = after[name]
        if old is None or new is None or old == new:
            continue
        if isinstance(old, str | bool):
            yield f"{name} {new}"
        elif max(old, new) >= MOVED * min(old, new):
            yield f"{name} {'up' if new > old else 'down'}"
