"""Health and metrics: is the process alive, can it work, and how much is there to do."""

from typing import Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest
from pydantic import BaseModel

from archive.records import SearchState
from service.api.dependencies import Running, needs
from service.api.problems import PROBLEMS
from service.coordinator import Coordinator
from service.metrics import METRICS
from service.security.scopes import Scope

router = APIRouter(tags=["health"], responses=PROBLEMS)

OPEN = (SearchState.PREPARING, SearchState.RUNNING, SearchState.PAUSED)
"""States whose searches are counted; there are only ever a few of them, ended ones grow without bound."""
MOST_OPEN = 1000
"""Open searches looked at for a scrape."""


class Health(BaseModel):
    """What a probe wants to hear."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def alive() -> Health:
    """The process answers. Says nothing of what it stands on."""
    return Health()


@router.get("/readyz")
async def ready(running: Running) -> Health:
    """The archive and the queue answer; 503 if one does not."""
    await running.store.ping()
    await running.workers()
    return Health()


@router.get("/metrics", response_class=Response, dependencies=[needs(Scope.READ)])
async def metrics(running: Running) -> Response:
    """Gauges read at the moment of the scrape, and what was counted since the start, in the Prometheus text format."""
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
        "Spent on models by open searches, US dollars, what is set aside included.",
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
        # Without the search: a series for each search ever run would never end.
        jobs.labels(stream.rpartition(":")[0]).inc(depth)
    ages = Gauge("reef_job_age_seconds", "Since the oldest job queued or leased was sent.", ["lane"], registry=registry)
    for queue, age_s in (await running.queue_ages_s()).items():
        ages.labels(queue).set(age_s)
    workers = await running.workers()
    Gauge("reef_workers", "Workers seen lately.", registry=registry).set(len(workers))
    leases = Gauge("reef_leases", "Jobs that these workers hold.", registry=registry)
    leases.set(sum(worker.busy is not None for worker in workers))
    Gauge("reef_events", "Events published since the start.", registry=registry).set(running.events.published)
    Gauge("reef_watchers", "Event streams open, one of them our own.", registry=registry).set(running.events.watchers)
    return registry
