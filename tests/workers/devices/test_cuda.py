import pytest

from tests.workers.tracer.jobs import operator
from workers.devices.cuda import CudaDevice, fresh_seed
from workers.errors import WorkerError
from workers.protocol import Device, Provenance, Seat

NO_CARD = 63


def test_figures_of_a_card_are_measured_and_confirmed():
    assert (CudaDevice.kind, CudaDevice.provenance, CudaDevice.confirms) == ("cuda", Provenance.MEASURED, True)


def test_without_its_card_there_is_no_device():
    with pytest.raises(WorkerError) as caught:
        CudaDevice(Device.parse("h200"), "worker", Seat(NO_CARD))
    assert str(caught.value)


def test_content_of_a_confirm_is_used_once():
    of = operator()
    seeds = {fresh_seed(of, shape) for shape in ("M=64,N=128", "M=64,N=128", "M=1,N=1")}
    assert len(seeds) == 3
    assert all(len(bytes.fromhex(seed)) == 16 for seed in seeds)
