"""Tuning: selects the configurations of `@triton.autotune` that become variants, and the one that a launch gets."""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from triton.runtime.autotuner import Autotuner, Config

from workers.tracer.reply import MAX_VARIANTS

Choice = Mapping[int, int]
"""Index of the configuration chosen, by index of the autotuned kernel."""


class Tuning:
    """Replacement for the timing that an autotuned kernel does at its first launch.

    Kernels are found by running the entry once for each shape without compiling.
    """

    def __init__(self) -> None:
        self._tuners: list[Autotuner] = []
        self._surviving: list[set[int]] = []
        self._choice: Choice = {}

    def install(self) -> None:
        """Replace the timing of all further autotuned launches."""
        tuning = self

        def run(tuner: Autotuner, *args: object, **kwargs: object) -> object:
            return tuning._run(tuner, args, kwargs)

        Autotuner.run = run

    @property
    def is_needed(self) -> bool:
        """True if an autotuned kernel was launched so far."""
        return bool(self._tuners)

    def choose(self, choice: Choice) -> None:
        """Set the configurations of all further launches."""
        self._choice = choice

    def choices(self, seed: int) -> list[Choice]:
        """Return all combinations of configurations, or a random sample of `MAX_VARIANTS`."""
        menus = [sorted(surviving) for surviving in self._surviving]
        total = math.prod(len(menu) for menu in menus)
        numbers: Sequence[int] = range(total)
        if total > MAX_VARIANTS:
            numbers = sorted(random.Random(seed).sample(range(total), MAX_VARIANTS))
        return [dict(enumerate(_combination(menus, number))) for number in numbers]

    def choice_of(self, configuration: Mapping[str, object]) -> Choice:
        """Return the choice that is described as a configuration; kernels that it does not name keep their first."""
        return {
            index: position
            for index, tuner in enumerate(self._tuners)
            for position in range(len(tuner.configs))
            if self.describe({index: position}).items() <= configuration.items()
        }

    def describe(self, choice: Choice) -> dict[str, bool | int | float | str | None]:
        """Return a choice as bundles store it: option to value, with the kernel's name if there are several."""
        described: dict[str, bool | int | float | str | None] = {}
        for index, chosen in choice.items():
            tuner = self._tuners[index]
            prefix = f"{tuner.base_fn.__name__}." if len(self._tuners) > 1 else ""
            for name, value in tuner.configs[chosen].all_kwargs().items():
                described[prefix + name] = value if isinstance(value, bool | int | float | str | None) else str(value)
        return described

    def _run(self, tuner: Autotuner, args: Sequence[object], kwargs: Mapping[str, Any]) -> object:
        config = self._pick(tuner, args, kwargs)
        arguments = config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook({**dict(zip(tuner.arg_names, args, strict=False)), **kwargs, **arguments})
        return tuner.fn.run(*args, **kwargs, **arguments)

    def _pick(self, tuner: Autotuner, args: Sequence[object], kwargs: Mapping[str, Any]) -> Config:
        """Return the chosen configuration, or the first one left if the candidate's pruning removed it."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        kept = tuner.prune_configs(kwargs) if len(tuner.configs) > 1 else tuner.configs
        left = [_position(config, tuner.configs) for config in kept]
        index = self._index(tuner)
        self._surviving[index].update(left)
        chosen = self._choice.get(index)
        return tuner.configs[chosen if chosen in left else left[0]]

    def _index(self, tuner: Autotuner) -> int:
        for index, known in enumerate(self._tuners):
            if known is tuner:
                return index
        self._tuners.append(tuner)
        self._surviving.append(set())
        return len(self._tuners) - 1


def _position(config: Config, configs: list[Config]) -> int:
    """Return the index of a configuration; one that the candidate's pruning created is appended."""
    if config not in configs:
        configs.append(config)
    return configs.index(config)


def _combination(menus: Sequence[Sequence[int]], number: int) -> list[int]:
    """Return an element of the product of the menus by its number; the last menu varies fastest."""
    chosen: list[int] = []
    for menu in reversed(menus):
        number, index = divmod(number, len(menu))
        chosen.append(menu[index])
    return chosen[::-1]
