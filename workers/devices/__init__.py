"""Devices: judges of variants, one kind per file."""

from pathlib import Path

from workers.devices.base import DeviceBench
from workers.devices.cuda import CudaDevice
from workers.devices.model import ModelDevice
from workers.devices.recorded import RecordedDevice
from workers.protocol import FIRST_CARD, CardShare, Device

DEVICES: dict[str, type[DeviceBench]] = {device.kind: device for device in (ModelDevice, CudaDevice, RecordedDevice)}
"""Devices by `Device.kind`."""

__all__ = ["DEVICES", "CudaDevice", "DeviceBench", "ModelDevice", "open_device"]


def open_device(device: Device, worker: str, seat: CardShare = FIRST_CARD, folder: Path | None = None) -> DeviceBench:
    """Open a device for a worker; `DeviceBench` explains `seat` and `folder`.

    Raises:
        ToolMissing: If this machine has no such device.
    """
    return DEVICES[device.kind](device, worker, seat, folder)
