"""The cache: what it keeps it finds again, and whatever is old, other or broken is a miss."""

import threading

import pytest

from tests.workers.baselines.test_messages import baseline
from workers.baselines import cache as module
from workers.baselines.cache import MAX_AGE_S, BaselineKey, CopyKey, FigureCache
from workers.baselines.messages import Baseline, CopySize, CopyTime
from workers.protocol import Device

KEY = BaselineKey(
    operator="a" * 64,
    shape="M=4,N=8",
    device=Device.parse("h200"),
    pacer="b" * 64,
    versions={"torch": "2.11", "driver": "570.1"},
)
OTHERS = [
    {"operator": "c" * 64},
    {"shape": "M=4,N=16"},
    {"device": Device.parse("h100")},
    {"pacer": "c" * 64},
    {"versions": {"torch": "2.12", "driver": "570.1"}},
    {"versions": {"torch": "2.11"}},
    {"protocol_version": 0},
]
KEPT = baseline(eager=11.0, liger=0.9)


def test_a_figure_is_found_again(tmp_path):
    assert FigureCache(tmp_path / "new").find(KEY, Baseline) is None
    FigureCache(tmp_path / "new").keep(KEY, KEPT)
    assert FigureCache(tmp_path / "new").find(KEY, Baseline) == KEPT
    assert len(list((tmp_path / "new").iterdir())) == 1


def test_the_order_of_versions_means_nothing(tmp_path):
    FigureCache(tmp_path).keep(KEY, KEPT)
    assert (
        FigureCache(tmp_path).find(KEY.model_copy(update={"versions": dict(reversed(KEY.versions.items()))}), Baseline)
        == KEPT
    )


@pytest.mark.parametrize("changes", OTHERS, ids=lambda changes: "-".join(changes))
def test_another_key_is_a_miss(tmp_path, changes):
    FigureCache(tmp_path).keep(KEY, KEPT)
    assert FigureCache(tmp_path).find(KEY.model_copy(update=changes), Baseline) is None


def test_a_figure_is_replaced(tmp_path):
    FigureCache(tmp_path).keep(KEY, KEPT)
    FigureCache(tmp_path).keep(KEY, baseline(eager=12.0))
    assert FigureCache(tmp_path).find(KEY, Baseline) == baseline(eager=12.0)


@pytest.mark.parametrize("age_s", [MAX_AGE_S + 1, -60.0])
def test_a_figure_of_another_time_is_a_miss(tmp_path, monkeypatch, age_s):
    FigureCache(tmp_path).keep(KEY, KEPT)
    now = module.time.time()
    monkeypatch.setattr("time.time", lambda: now + age_s)
    assert FigureCache(tmp_path).find(KEY, Baseline) is None


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b"\xff\xfe", b"null"])
def test_a_broken_file_is_a_miss_and_is_replaced(tmp_path, damage):
    FigureCache(tmp_path).keep(KEY, KEPT)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100] if damage == b"{" else damage)
    assert FigureCache(tmp_path).find(KEY, Baseline) is None
    FigureCache(tmp_path).keep(KEY, KEPT)
    assert FigureCache(tmp_path).find(KEY, Baseline) == KEPT


def test_a_file_under_the_name_of_another_is_a_miss(tmp_path):
    FigureCache(tmp_path).keep(KEY, KEPT)
    (file,) = tmp_path.iterdir()
    other = KEY.model_copy(update={"shape": "M=1,N=1"})
    file.rename(tmp_path / f"{other.digest}.json")
    assert FigureCache(tmp_path).find(other, Baseline) is None


def test_whoever_reads_while_others_write_sees_one_figure_whole(tmp_path):
    written = [baseline(eager=float(number + 1), **{f"other_{number}": 1.0}) for number in range(4)]
    seen = []

    def write(figure):
        for _ in range(50):
            FigureCache(tmp_path).keep(KEY, figure)

    threads = [threading.Thread(target=write, args=(figure,)) for figure in written]
    FigureCache(tmp_path).keep(KEY, written[0])
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        seen.append(FigureCache(tmp_path).find(KEY, Baseline))
    for thread in threads:
        thread.join()
    assert seen
    assert all(figure in written for figure in seen)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        FigureCache(tmp_path / "file").keep(KEY, KEPT)


def test_copies_of_one_size_are_one_figure_whatever_the_operator(tmp_path):
    copies = FigureCache(tmp_path)
    size, other = (CopySize(read_bytes=read, written_bytes=4096) for read in (4096, 8192))
    keys = [CopyKey(size=each, device=KEY.device, versions=KEY.versions) for each in (size, other)]
    copies.keep(keys[0], CopyTime(size=size, time_us=4.5))
    FigureCache(tmp_path).keep(KEY, KEPT)
    assert copies.find(keys[0], CopyTime) == CopyTime(size=size, time_us=4.5)
    assert copies.find(keys[1], CopyTime) is None
    assert FigureCache(tmp_path).find(KEY, Baseline) == KEPT
