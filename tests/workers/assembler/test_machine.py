import hashlib

from workers.assembler import CLASSES
from workers.assembler.machine import InstructionMix, MachineCode


def test_machine_code_is_named_by_its_content() -> None:
    mix = InstructionMix(dict.fromkeys(CLASSES, 0), 0, "plain", "none", False)
    code = MachineCode(b"code", (), 8, 0, 0, mix)
    assert code.digest == hashlib.sha256(b"code").hexdigest()
    assert MachineCode(b"other", (), 8, 0, 0, mix).digest != code.digest
