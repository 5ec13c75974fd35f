"""Liveness, readiness, version and metrics."""

from typing import Any, Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from pydantic import BaseModel

from kernelreef.states import OPEN
from service.api import SOFTWARE_VERSION, VERSION_PREFIX
from service.api.dependencies import Running, needs
from service.api.problems import PROBLEMS
from service.coordinator import Coordinator
from service.metrics import METRICS
from service.security.scopes import Scope
from workers.protocol import PROTOCOL_VERSION

router = APIRouter(tags=["health"], responses=PROBLEMS)

MOST_OPEN = 1000
"""Maximum number of open searches read for a scrape."""

EXPOSITION: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}


class Health(BaseModel):
    """Answer to a probe."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def alive() -> Health:
    """Answer if the process is alive, without checking archive or queue."""
    return Health()


@router.get("/readyz")
async def ready(running: Running) -> Health:
    """Answer if archive and queue answer; 503 otherwise."""
    await running.store.ping()
    await running.workers()
    return Health()


class ServiceVersion(BaseModel):
    """Versions of the software, of the interface (the prefix of its paths), and of the jobs that workers exchange."""

    version: str = SOFTWARE_VERSION
    api: str = VERSION_PREFIX.rpartition("/")[2]
    protocol_version: int = PROTOCOL_VERSION


@router.get("/version", dependencies=[needs(Scope.READ)])
async def version() -> ServiceVersion:
    """Return the versions of software, interface and worker protocol."""
    return ServiceVersion()


@router.get("/metrics", response_class=Response, responses=EXPOSITION, dependencies=[needs(Scope.READ)])
async def metrics(running: Running) -> Response:
    """Return present gauges, and counters since the start, in the Prometheus text format."""
    scraped = generate_latest(await _gauges(running)) + generate_latest(METRICS.registry)
    return Response(scraped, media_type=CONTENT_TYPE_LATEST)


async def _gauges(running: Coordinator) -> CollectorRegistry:
    registry = CollectorRegistry()
    searches = Gauge("reef_searches", "Searches that have not ended.", ["state"], registry=registry)
    in_flight = Gauge("reef_candidates_in_flight", "Candidates without a verdict.", registry=registry)
    for state in OPEN:
        searches.labels(state.value)
    left = Gauge("reef_evaluations_left", "Evaluations that open searches may still make.", registry=registry)
    usd = Gauge(
        "reef_models_usd",
        "Cost of LLM calls of open searches, US dollars, including reservations.",
        registry=registry,
    )
    for search in await running.store.searches.list(states=OPEN, limit=MOST_OPEN):
        searches.labels(search.state.value).inc()
        counts = await running.store.candidates.count(search.id)
        in_flight.inc(counts.in_flight)
        left.inc(max(0, search.evaluations - counts.candidates))
        budgets = await running.store.spending.of_search(search.id) if search.llm else []
        usd.inc(sum(budget.usd for budget in budgets if not budget.backend))
    jobs = Gauge("reef_jobs", "Jobs queued or leased.", ["lane"], registry=registry)
    for stream, depth in (await running.queue_depth()).items():
        # Without the search: one series per search would grow without bound.
        jobs.labels(stream.rpartition(":")[0]).inc(depth)
    ages = Gauge("reef_job_age_seconds", "Age of the oldest job queued or leased.", ["lane"], registry=registry)
    for queue, age_s in (await running.queue_ages_s()).items():
        ages.labels(queue).set(age_s)
    workers = await running.workers()
    Gauge("reef_workers", "Workers with a recent heartbeat.", registry=registry).set(len(workers))
    leases = Gauge("reef_leases", "Jobs that these workers hold.", registry=registry)
    leases.set(sum(worker.busy is not None for worker in workers))
    Gauge("reef_events", "Events published since the start.", registry=registry).set(running.events.published)
    Gauge("reef_watchers", "Open event streams.", registry=registry).set(running.events.watchers)
    return registry
