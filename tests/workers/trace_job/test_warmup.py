import gc
import sys

import torch

from tests.workers.tracer.jobs import candidate, in_jail, job
from workers import trace_job, tracer
from workers.protocol import Outcome
from workers.trace_job.warmup import warm, warm_drafts
from workers.tracer.libdevice import excerpt
from workers.tracer.reply import TraceReply


def test_a_warm_process_computes_on_one_thread_and_shares_what_it_has():
    torch.set_num_threads(2)
    warm.cache_clear()
    warm()
    assert torch.get_num_threads() == 1
    assert gc.get_freeze_count() > 0
    assert excerpt.cache_info().currsize == 1


def test_a_fork_of_it_finds_all_it_needs_though_it_may_start_nothing():
    for target in ("sm_80", "sm_100", "gfx942"):
        reply = TraceReply.model_validate_json(
            in_jail(tracer.trace, job(candidate(), target=target).model_dump_json().encode())
        )
        assert reply.outcome is Outcome.CORRECT, reply.reason


def test_a_fork_of_one_that_drafts_finds_inductor_imported():
    warm_drafts()
    assert in_jail(lambda _: str("torch._inductor.graph" in sys.modules).encode()) == b"True"
    report = trace_job.trace(job(None, drafts=True), "worker")
    assert report.outcome is Outcome.CORRECT, report.reason
