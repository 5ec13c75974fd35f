import os
import resource
from pathlib import Path

import pytest

from workers.sandbox import SandboxLimits
from workers.sandbox.isolation import LAYERS, Isolation
from workers.sandbox.supervisor import execute
from workers.sandbox.survey import strongest_isolation

LIMITS = SandboxLimits(wall_s=20.0, cpu_s=3.0, memory_bytes=2**28, reply_bytes=2**16)


def need(layer):
    if layer not in strongest_isolation().layers:
        pytest.skip(f"this machine has no layer '{layer}'")


def inside(function, **limits):
    return execute(strongest_isolation(), function, b"", SandboxLimits(**{**LIMITS.__dict__, **limits}))


def test_labels_name_the_layers_in_order():
    assert Isolation(frozenset(LAYERS)).label == "user+mount+pid+net+ipc+readonly+tmpfs+dev+proc+nobody+seccomp"
    assert Isolation(frozenset({"seccomp", "pid"})).label == "pid+seccomp"
    assert Isolation(frozenset()).label == "none"


def test_without_mounts_there_is_nothing_that_stands_on_them():
    assert Isolation(frozenset(LAYERS)).without("mount").layers == {"user", "pid", "net", "ipc", "nobody", "seccomp"}
    assert Isolation(frozenset(LAYERS)).without("net").layers == set(LAYERS) - {"net"}


def test_a_sandbox_keeps_a_place_to_write_to():
    assert "readonly" not in Isolation(frozenset(LAYERS)).without("tmpfs").layers


def test_processes_outside_are_out_of_sight():
    need("proc")
    reply = inside(lambda _: " ".join(path.name for path in Path("/proc").glob("[0-9]*")).encode()).reply
    assert reply == b"1"


def test_there_is_no_device_but_the_harmless_ones():
    need("dev")
    names = inside(lambda _: " ".join(sorted(path.name for path in Path("/dev").iterdir())).encode()).reply
    assert names == b"fd full null random urandom zero"
    assert inside(lambda _: os.read(os.open("/dev/zero", os.O_RDONLY), 4)).reply == bytes(4)


def test_there_is_no_network_interface_but_a_dead_loopback():
    need("net")
    routes = inside(lambda _: Path("/proc/net/dev").read_bytes()).reply
    assert [line.split(b":")[0].strip() for line in routes.splitlines()[2:]] == [b"lo"]


def test_the_temporary_directory_has_a_size():
    need("tmpfs")
    vfs = inside(lambda _: str(os.statvfs(".").f_blocks * os.statvfs(".").f_frsize).encode())
    assert int(vfs.reply) == LIMITS.memory_bytes


def test_privileges_are_gone():
    status = inside(lambda _: Path("/proc/self/status").read_bytes()).reply.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert fields["NoNewPrivs"] == "1"


def test_limits_are_those_of_the_run():
    def read(_):
        kinds = (resource.RLIMIT_CPU, resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK)
        return repr([resource.getrlimit(kind) for kind in kinds]).encode()

    assert inside(read).reply == b"[(3, 4), (0, 0), (0, 0)]"


def test_the_machine_s_mounts_cannot_be_made_writable_again():
    need("readonly")

    def escape(_):
        os.system("mount -o remount,rw / 2>/dev/null")
        Path("/reef-was-here").write_text("x")

    assert "Read-only file system" in inside(escape, processes=8).detail
    assert not Path("/reef-was-here").exists()
