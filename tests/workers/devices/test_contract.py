"""The contract of the device table."""

import pytest

from tests.workers.devices.kernels import PLAIN, job_for
from workers.devices import DEVICES, open_device
from workers.devices.base import DeviceBench
from workers.errors import ToolMissing
from workers.protocol import ConfirmJob, Device, Provenance

HERE = {"model": "model:sm_90", "recorded": "recorded:h200"}
"""A device of each kind that this machine has."""


@pytest.fixture(params=HERE)
def device(request):
    bench = open_device(Device.parse(HERE[request.param]), "worker-7")
    yield bench
    bench.close()
    bench.close()


def test_the_table_is_keyed_by_kind():
    for kind, device in DEVICES.items():
        assert issubclass(device, DeviceBench)
        assert device.kind == kind
        assert isinstance(device.provenance, Provenance)


def test_what_is_not_there_is_refused():
    with pytest.raises(ToolMissing, match="sm_1"):
        open_device(Device.parse("model:sm_1"), "w")


def test_a_report_answers_its_job(device):
    job = job_for(PLAIN)
    report = device.measure(job)
    assert (report.job, report.search, report.candidate, report.variant) == (job.id, job.search, job.candidate, 0)
    assert (report.worker, report.device, report.bundle) == ("worker-7", device.device, job.bundle.identity)
    assert report.provenance == device.provenance
    assert report.versions.items() >= device.versions().items()
    assert report.model_validate_json(report.model_dump_json()) == report
    again = device.measure(job)
    assert (again.outcome, again.shapes) == (report.outcome, report.shapes)


def test_a_device_that_does_not_confirm_says_so(device):
    job = job_for(PLAIN)
    order = ConfirmJob(
        id="c", search="s", candidate="c", variant=0, challenger=job.bundle, operator=job.operator, graphs=job.graphs,
        device=job.device,
    )  # fmt: skip
    assert not device.confirms
    with pytest.raises(ToolMissing, match="does not confirm"):
        device.confirm(order)
