import ctypes
from collections.abc import Iterator

import pytest

from tests.workers.paper_driver import Paper, Result, bound_to, code, on_paper
from workers import driver
from workers.driver import DriverError, LaunchParameters
from workers.errors import ToolMissing


@pytest.fixture
def paper() -> Iterator[Paper]:
    with on_paper() as found:
        yield found


def test_a_machine_without_the_bindings_has_no_card() -> None:
    with bound_to(None):
        for ask in (driver.open_card, driver.address_of):
            with pytest.raises(ToolMissing, match="cuda-bindings"):
                ask(0)
        assert driver.find_fault() is None


def test_a_machine_without_a_driver_has_no_card(paper: Paper, monkeypatch) -> None:
    def missing(*_: object) -> None:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    monkeypatch.setattr(paper, "cuInit", missing, raising=False)
    monkeypatch.setattr(paper, "cuCtxSynchronize", missing, raising=False)
    with pytest.raises(ToolMissing, match="libcuda"):
        driver.open_card(0)
    assert driver.find_fault() is None


def test_a_card_is_described_by_its_driver(paper: Paper) -> None:
    card = driver.open_card(0)
    assert (card.index, card.name, card.capability, card.l2_bytes) == (0, "Paper H200", (9, 0), 65536)
    assert card.address == driver.address_of(0) == "0000:1B:00.0"
    assert card.grid == (2**31 - 1, 65535, 65535)
    assert card.versions["cuda"] == "12.9"


def test_there_is_no_second_card(paper: Paper) -> None:
    for ask in (driver.open_card, driver.address_of):
        with pytest.raises(ToolMissing, match="no card 1"):
            ask(1)


def test_whoever_asks_for_an_address_leaves_the_card_alone(paper: Paper) -> None:
    paper.failing["cuDevicePrimaryCtxRetain"] = Result.CUDA_ERROR_OUT_OF_MEMORY
    assert driver.address_of(0) == paper.address
    with pytest.raises(DriverError):
        driver.open_card(0)


def test_errors_have_the_drivers_name(paper: Paper) -> None:
    paper.failing["cuMemAlloc"] = Result.CUDA_ERROR_OUT_OF_MEMORY
    with pytest.raises(DriverError) as caught:
        driver.allocate(10)
    assert caught.value.name == "CUDA_ERROR_OUT_OF_MEMORY"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (Result.CUDA_SUCCESS, None),
        (Result.CUDA_ERROR_OUT_OF_MEMORY, None),
        (Result.CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)
def test_faults_are_errors_that_a_kernel_brings_about(paper: Paper, said: Result, fault: str | None) -> None:
    paper.failing["cuCtxSynchronize"] = said
    assert driver.find_fault() == fault


def test_memory_is_written_set_and_read(paper: Paper) -> None:
    pointer = driver.allocate(300)
    source = (ctypes.c_uint8 * 4)(1, 2, 3, 4)
    driver.set_bytes(5, pointer, 9, 300)
    driver.write(5, pointer + 1, ctypes.addressof(source), 4)
    assert driver.read(pointer, 6) == bytes([9, 1, 2, 3, 4, 9])
    driver.free(pointer)
    assert not paper.memory


def test_memory_is_handed_to_another_process(paper: Paper) -> None:
    pointer = driver.allocate(300)
    handle = driver.export_memory(pointer)
    assert len(handle) == 64
    assert driver.import_memory(handle) == pointer


def test_parameters_point_to_their_bits() -> None:
    parameters = LaunchParameters([1, -1, 2**63])
    addresses = (ctypes.c_uint64 * 3).from_address(parameters.address)
    assert [ctypes.c_uint64.from_address(each).value for each in addresses] == [1, 2**64 - 1, 2**63]
    assert ctypes.c_int32.from_address(addresses[1]).value == -1


def test_a_launch_passes_grid_threads_and_parameters(paper: Paper) -> None:
    function = driver.load_function(code(2, "work"), "kernel", 100)
    parameters = LaunchParameters([7, 8])
    driver.make_launcher(function, (3, 2, 1), 128, 100)(5, parameters.address)
    (launched,) = paper.launched
    assert (launched.entry, launched.grid, launched.threads, launched.shared) == ("kernel", (3, 2, 1), 128, 100)
    assert launched.parameters == (7, 8)


@pytest.mark.parametrize(("shared", "asked"), [(0, {}), (48 * 1024, {}), (48 * 1024 + 1, {0: 48 * 1024 + 1})])
def test_more_shared_memory_than_usual_is_asked_for(paper: Paper, shared: int, asked: dict[int, int]) -> None:
    driver.load_function(code(0), "kernel", shared)
    assert paper.allowed_shared == asked


def test_what_a_function_says_of_itself_is_kept(paper: Paper) -> None:
    function = driver.load_function(code(0, shared=64, threads=256), "kernel", 0)
    assert (function.shared_bytes, function.threads) == (64, 256)
    driver.unload(function)
    assert paper.unloaded == 1


def test_clusters_are_launched_by_their_number(paper: Paper) -> None:
    function = driver.load_function(code(1, "work"), "kernel", 0)
    launch = driver.make_cluster_launcher(function, (3, 2, 1), 128, 0, 4)
    assert launch is not None
    parameters = LaunchParameters([9])
    launch(5, parameters.address)
    (launched,) = paper.launched
    assert (launched.grid, launched.ctas, launched.parameters) == ((12, 2, 1), 4, (9,))


def test_clusters_that_fit_nowhere_are_not_launched(paper: Paper) -> None:
    paper.clusters = 0
    function = driver.load_function(code(1), "kernel", 0)
    assert driver.make_cluster_launcher(function, (3, 2, 1), 128, 0, 16) is None


def test_what_is_captured_runs_with_the_graph(paper: Paper) -> None:
    function = driver.load_function(code(0, "work"), "kernel", 0)
    launch = driver.make_launcher(function, (1, 1, 1), 32, 0)
    graph = driver.capture(5, lambda stream: launch(stream, LaunchParameters([]).address))
    assert not paper.launched
    driver.launch_graph(graph, 5)
    driver.launch_graph(graph, 5)
    assert [each.does for each in paper.launched] == ["work", "work"]
    driver.destroy_graph(graph)
    assert paper.destroyed == 1


def test_a_capture_ends_even_if_enqueueing_fails(paper: Paper) -> None:
    def failing(_: int) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        driver.capture(5, failing)
    driver.synchronise(5)
    assert paper.log == ["synchronise"]


def test_events_take_the_time_between_them(paper: Paper) -> None:
    function = driver.load_function(code(0, "work", us=12.5), "kernel", 0)
    start, stop = driver.make_event(), driver.make_event()
    stream = driver.make_stream()
    driver.record(start, stream)
    driver.make_launcher(function, (1, 1, 1), 32, 0)(stream, LaunchParameters([]).address)
    driver.record(stop, stream)
    driver.synchronise(stream)
    assert driver.elapsed_us(start, stop) == pytest.approx(12.5)
