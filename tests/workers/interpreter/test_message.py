"""Framing: what goes in comes out, and a forged frame is refused."""

import struct

import pytest
from pydantic import ValidationError

from workers.interpreter.message import InterpretReply, MeteredTraffic, pack, unpack

REPLY = InterpretReply(reason="ünïcode", finished=(MeteredTraffic(moved_bytes=3),), sampled=(None,))


def test_round_trip():
    header, parts = unpack(pack(REPLY, [b"", b"\0\1", b"x" * 1000]), InterpretReply)
    assert header == REPLY
    assert [bytes(part) for part in parts] == [b"", b"\0\1", b"x" * 1000]


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        struct.pack("<I", 0),
        struct.pack("<I", 2**31) + b"x" * 64,
        struct.pack("<IQ", 1, 2**63) + b"{}",
        struct.pack("<IQ", 1, 1) + b"{}",
        pack(REPLY, [b"abc"])[:-1],
        pack(REPLY, [b"abc"]) + b"d",
    ],
)
def test_a_forged_frame_is_refused(message):
    with pytest.raises(ValueError, match="message"):
        unpack(message, InterpretReply)


def test_a_forged_header_is_refused():
    for header in (b'{"outcome": "correct"}', b'{"finished": [{"moved_bytes": -1}]}', b"[]"):
        with pytest.raises(ValidationError):
            unpack(struct.pack("<IQ", 1, len(header)) + header, InterpretReply)


def test_a_message_holds_the_draws_of_a_whole_model():
    parts = [b"x"] * (20 * 704)
    _, found = unpack(pack(REPLY, parts), InterpretReply)
    assert len(found) == len(parts)
