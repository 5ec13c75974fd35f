import pytest

from tests.workers.paper_driver import on_paper
from workers.devices.cuda import CudaDevice, require_packages
from workers.errors import ToolMissing, WorkerError
from workers.protocol import CardShare, Device, Provenance

NO_CARD = 63


def test_figures_of_a_card_are_measured_and_confirmed():
    assert (CudaDevice.kind, CudaDevice.provenance, CudaDevice.confirms) == ("cuda", Provenance.MEASURED, True)


def test_torch_without_cuda_is_named():
    with on_paper():
        require_packages("13.0")
        with pytest.raises(ToolMissing, match=r"torch \S+ is a build without CUDA: install one from"):
            require_packages(None)


def test_without_its_card_there_is_no_device():
    with pytest.raises(WorkerError) as caught:
        CudaDevice(Device.parse("h200"), "worker", CardShare(NO_CARD))
    assert str(caught.value)
