import pytest

from workers.devices.cuda import CudaDevice
from workers.errors import WorkerError
from workers.protocol import CardShare, Device, Provenance

NO_CARD = 63


def test_figures_of_a_card_are_measured_and_confirmed():
    assert (CudaDevice.kind, CudaDevice.provenance, CudaDevice.confirms) == ("cuda", Provenance.MEASURED, True)


def test_without_its_card_there_is_no_device():
    with pytest.raises(WorkerError) as caught:
        CudaDevice(Device.parse("h200"), "worker", CardShare(NO_CARD))
    assert str(caught.value)
