"""What crosses between the bench and the program that runs under the sanitizer: files of JSON."""

from workers.protocol import Bundle, Operator, WireModel


class ReplayRequest(WireModel):
    """Replay these plans once each, on inputs drawn from a secret.

    Attributes:
        card: Index of the card.
        operator: The contract.
        bundle: Holds the plans.
        machine_code: Of every kernel by its digest, base64; assembled by the bench.
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
        name: What the buffer is to a person, such as `output 'y'`.
        address: Where it begins on the card.
        bytes: How many bytes it has.
        functions: Kernels that are given it.
    """

    shape: str
    name: str
    address: int
    bytes: int
    functions: tuple[str, ...] = ()

    def distance(self, address: int) -> int:
        """Bytes between an address and the allocation; zero inside it."""
        return max(self.address - address, address - (self.address + self.bytes - 1), 0)


class SanitizerMemoryShort(WireModel):
    """The card had no memory left for a plan beside those that ran before it in the same process.

    Attributes:
        plan: Its position.
        shape: Key of its shape.
    """

    plan: int
    shape: str
