"""Early start of what the workers of a search wait for, while its command imports the service."""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from threading import Thread

from service.cli.early_template import template_of
from service.fleet.devices import local_cards, may_measure
from service.fleet.executor_template import ExecutorTemplate
from service.settings import Settings


@contextmanager
def begin_early(settings: Settings, devices: Sequence[str]) -> Iterator[ExecutorTemplate]:
    """Start the template of the executors, and list the cards if a device may be one. The template ends with the block.

    It may run already (`service.cli.early_template`). Without devices nothing is started that does not run.

    Args:
        settings: Settings of the service to come.
        devices: Devices of the search to come.
    """
    with closing(template_of(settings.workers_log)) as template:
        if settings.local_workers and devices:
            with suppress(OSError):  # The service says why the data folder is unusable.
                settings.data_dir.mkdir(parents=True, exist_ok=True)
                template.start()
            if any(map(may_measure, devices)):
                Thread(target=local_cards, daemon=True).start()  # The driver's tool takes seconds; its list is kept.
        yield template
