"""Settings come from the environment, refuse what cannot be right, and default to everything embedded."""

import os
from pathlib import Path

import pytest
from pydantic import ValidationError
from redis import ConnectionPool

from service import settings
from service.settings import WORKER_BYTES, Settings, data_home, usable_cores, usable_memory_bytes


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("REEF_", "XDG_"))]:
        monkeypatch.delenv(name)


def test_without_settings_all_is_embedded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings()
    assert settings.data_dir == tmp_path / ".local/share/kernelreef"
    assert settings.database == f"sqlite+aiosqlite:///{tmp_path}/.local/share/kernelreef/reef.db"
    assert settings.redis_url is None
    assert settings.host == "127.0.0.1"


def test_the_data_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_home() == tmp_path / "kernelreef"


def test_a_relative_xdg_path_is_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    assert data_home() == tmp_path / ".local/share/kernelreef"


def test_the_environment_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_DATABASE_URL", "postgresql+psycopg://reef:secret@db/reef")
    monkeypatch.setenv("REEF_REDIS_URL", "redis://redis:6379/0")
    monkeypatch.setenv("REEF_LOCAL_WORKERS", "0")
    monkeypatch.setenv("REEF_LOG_JSON", "true")
    settings = Settings()
    assert settings.database == "postgresql+psycopg://reef:secret@db/reef"
    assert settings.redis_url == "redis://redis:6379/0"
    assert settings.local_workers == 0
    assert settings.log_json


def test_workers_follow_cores_and_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit, none = tmp_path / "memory.max", tmp_path / "missing"
    monkeypatch.setattr(settings, "MEMORY_LIMITS", (limit, none))
    limit.write_text("max\n")
    whole = usable_memory_bytes()
    assert whole == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit.write_text(f"{2**30}\n")
    assert (usable_memory_bytes(), Settings().local_workers) == (2**30, 1)
    limit.write_text(f"{whole // 2}\n")
    assert Settings().local_workers == max(1, min(usable_cores(), whole // 2 // WORKER_BYTES))
    assert Settings().in_flight_per_search is Settings().benches_per_card is None


def test_names_stand_with_commas_between(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().allowed_hosts is None
    monkeypatch.setenv("REEF_ALLOWED_HOSTS", "reef.example, reef.internal,")
    assert Settings().allowed_hosts == ("reef.example", "reef.internal")


def test_the_queues_address_says_whom_to_trust(tmp_path: Path) -> None:
    assert Settings().queue is None
    assert Settings(redis_url="rediss://queue:6379/0").queue == "rediss://queue:6379/0"
    with pytest.raises(ValidationError, match="rediss"):
        Settings(redis_url="redis://queue/0", redis_ca=tmp_path / "ca.pem")
    for url, address in (("rediss://queue/0", "rediss://queue/0?"), ("rediss://queue?db=1", "rediss://queue?db=1&")):
        settings = Settings(redis_url=url, redis_ca=tmp_path / "a b.pem")
        assert settings.queue == f"{address}ssl_ca_certs={tmp_path}/a%20b.pem"
        told = ConnectionPool.from_url(settings.queue).connection_kwargs
        assert told["ssl_ca_certs"] == str(tmp_path / "a b.pem")


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_DATABASE_URL", "")
    assert Settings().database_url is None


def test_relative_and_home_folders_become_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Settings(data_dir=Path("~/reef")).data_dir == tmp_path / "reef"
    assert Settings(data_dir=Path("reef")).data_dir == Path.cwd() / "reef"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("REEF_DATABASE_URL", "mysql://db", "must start with one of: sqlite+aiosqlite:///, postgresql+psycopg://"),
        ("REEF_REDIS_URL", "localhost:6379", "must start with one of: redis://, rediss://, unix://"),
        ("REEF_PORT", "70000", "less than or equal to 65535"),
        ("REEF_IN_FLIGHT_PER_SEARCH", "0", "greater than or equal to 1"),
        ("REEF_LOG_LEVEL", "loud", "'debug', 'info', 'warning' or 'error'"),
    ],
)
def test_what_cannot_be_right_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError, match="1 validation error") as caught:
        Settings()
    assert said in str(caught.value)


def test_addresses_never_show_in_text_or_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "hunter2" not in repr(Settings(database_url="postgresql+psycopg://reef:hunter2@db/reef"))
    monkeypatch.setenv("REEF_REDIS_URL", "http://:hunter2@redis")
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert "hunter2" not in str(caught.value)


def test_a_queue_is_closed_unless_others_can_reach_it() -> None:
    assert Settings().closed
    assert not Settings(redis_url="redis://queue:6379").closed
    assert not Settings(worker_redis_url="rediss://reef.example:6379").closed


def test_usable_cores_are_those_of_this_process() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
