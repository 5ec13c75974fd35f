"""Messages between the executor and the program that runs under the sanitizer: JSON files."""

from workers.protocol import Bundle, Operator, WireModel


class ReplayRequest(WireModel):
    """Replay these plans once each, on inputs drawn from a secret.

    Attributes:
        card: Index of the card.
        operator: The contract.
        bundle: The bundle with the plans.
        machine_code: Machine code of every kernel by its digest, base64; the executor assembles it.
        plans: Positions of the plans.
        seed: The secret, hexadecimal.
    """

    card: int
    operator: Operator
    bundle: Bundle
    machine_code: dict[str, str]
    plans: tuple[int, ...]
    seed: str


class BufferAllocation(WireModel):
    """One allocation of a plan's run.

    Attributes:
        shape: Key of the plan's shape.
        name: Name of the buffer for people, such as `output 'y'`.
        address: Its address on the card.
        bytes: Its size.
        functions: Kernels that receive it.
    """

    shape: str
    name: str
    address: int
    bytes: int
    functions: tuple[str, ...] = ()

    def distance(self, address: int) -> int:
        """Return the bytes between an address and the allocation; zero inside it."""
        return max(self.address - address, address - (self.address + self.bytes - 1), 0)


class SanitizerMemoryShort(WireModel):
    """Message that the card had no memory left for a plan after the earlier plans of the same process.

    Attributes:
        plan: Its position.
        shape: Key of its shape.
    """

    plan: int
    shape: str
