"""Documents of workers and of joining."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from archive.records import RemoteWorker, RemoteWorkerState
from service.api.worker_schemas import JoinRequest, Worker
from workers.queue import WorkerStatus

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
HOST = RemoteWorker(
    id="0190a000-0000-7000-8000-000000000000",
    name="rig",
    token="token-1",
    target="sm_90",
    device="h200",
    versions={"triton": "3.7.1"},
    cores=8,
    jail="",
    protocol_version=1,
    password_digest="0" * 64,
    machine="f" * 64,
    state=RemoteWorkerState.ACTIVE,
    reason="",
    trusted=False,
    done=3,
    refused=0,
    checked=2,
    disagreed=1,
    joined_at=MOMENT,
    seen_at=MOMENT,
)


def test_a_host_is_shown_without_its_digest_and_not_as_it_calls_itself() -> None:
    boasting = WorkerStatus(
        id=HOST.id, target="sm_100", device="b200", kinds=("confirm",), jail="pid", busy="job-1", seen=MOMENT
    )
    shown = Worker.of(boasting, HOST)
    assert (shown.target, shown.device, shown.kinds, shown.trusted) == ("sm_90", "h200", ("measure", "trace"), False)
    assert (shown.jail, shown.busy, shown.done, shown.disagreed) == ("pid", "job-1", 3, 1)
    assert HOST.password_digest not in shown.model_dump_json()
    assert Worker.of(None, replace(HOST, trusted=True)).kinds == ("confirm", "measure", "trace")


def test_a_worker_of_the_services_own_is_trusted_and_has_no_counts() -> None:
    shown = Worker.of(WorkerStatus(id="w", target="sm_90", kinds=("trace",), seen=MOMENT), None)
    assert (shown.id, shown.trusted, shown.state, shown.done) == ("w", True, None, None)


def test_a_class_without_passed_controls_is_marked() -> None:
    own = WorkerStatus(id="w", device="a10", kinds=("measure",), seen=MOMENT)
    assert [Worker.of(own, None, classes).unverified for classes in ((), ("a10",))] == [False, True]
    assert [Worker.of(None, HOST, classes).unverified for classes in (("a10",), ("h200",))] == [False, True]


def test_what_a_worker_says_of_itself_is_bounded() -> None:
    said = JoinRequest(name="rig", protocol_versions=(1,), device="h200", versions={"torch": "2.13.0"})
    assert said.application().device == "h200" and said.application().versions == {"torch": "2.13.0"}
    for wrong in (
        {"name": ""},
        {"versions": {str(n): "1" for n in range(65)}},
        {"device": "toaster"},
        {"jail": "x" * 300},
    ):
        with pytest.raises(ValidationError):
            JoinRequest.model_validate({"name": "rig", "protocol_versions": [1], **wrong})
