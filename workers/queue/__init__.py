"""The queue: jobs to the workers and reports back, on Redis streams. This page is the layout of its keys.

Jobs of one kind for one place wait in a *lane*, written `{place}:{kind}`. The place of a trace job is its target
(`sm_90:trace`), that of a measure or confirm job its device (`model:sm_90:measure`, `h200:confirm`): a job goes only
where it can run, and a worker's credential need name its lanes only. All keys of a lane name it right after what
they hold; the ids of searches and workers hold no colon.

    reef:lanes                      set     every lane that ever held a job
    reef:jobs:{lane}:{search}       stream  group `workers`; fields `id` and `job` (JSON)
    reef:ids:{lane}:{search}        hash    id of each job queued or leased -> its entry in the stream
    reef:mishaps:{lane}:{search}    hash    id of a job that was given back -> why, the last time
    reef:served:{lane}              zset    search -> jobs served to it / priority; all with a stream are members
    reef:owners:{lane}              zset    owner of searches -> jobs served to them
    reef:shares:{lane}              hash    search -> its priority and its owner
    reef:turns:{lane}               hash    counts at which `owners`, and `of {owner}` a search, last had a turn;
                                            newcomers start there
    reef:wake:{lane}                list    one token a new job, for workers that sleep
    reef:dead:{lane}                stream  jobs that follow no protocol we know; fields `search`, `id`, `job`, `error`

    reef:ask:{host}                 string  what a host asks of the porter (JSON); lapses
    reef:inbox:{host}               list    what the porter answers: number of the ask, and one job (JSON)
    reef:held:{host}                string  id of the job that the host holds
    reef:porter:{host}                hash    id of each job it was handed -> where it is; "" -> last ask answered

    reef:workers                    set     workers that may have reports waiting
    reef:worker:{worker}            string  its status (JSON); expires when it stops renewing
    reef:reports:{worker}           stream  group `service`; field `report` (JSON)

A job is *queued* (`submit.lua`), *leased* to the worker whose turn it is (`lease.lua`), kept by renewing the lease
(`renew.lua`) and settled with its report in one transaction. A lease that is not renewed lapses, and another worker
takes the job with its count of deliveries one higher. Reports stay until the service has committed and acknowledged
them. Everything here can be made again from the archive.

Jobs in lanes whose kind begins with `reserved-`, and confirms, are for trusted workers only. A *host*, which is a
worker that joined with a token, sees no lane: the *porter* (`hand.lua`) leases for it, and its reports are collected
only while the lease is its own (`accept.lua`).
"""

from workers.errors import QueueUnavailable
from workers.queue.broker import BrokerWorker, LeaseBroker
from workers.queue.dispatch import Delivery, Dispatcher
from workers.queue.forwarding import ForwardedReport
from workers.queue.keys import JobQueue, is_host, queues_of
from workers.queue.lease import Lease, LeaseClient
from workers.queue.lease_request import LeaseRequest
from workers.queue.lost_jobs import lost_report, report_instead
from workers.queue.remote_lease import DISMISSED, QueueCredential, RemoteLeaseClient
from workers.queue.status import WorkerStatus

__all__ = [
    "DISMISSED",
    "BrokerWorker",
    "Delivery",
    "Dispatcher",
    "ForwardedReport",
    "JobQueue",
    "Lease",
    "LeaseBroker",
    "LeaseClient",
    "LeaseRequest",
    "QueueCredential",
    "QueueUnavailable",
    "RemoteLeaseClient",
    "WorkerStatus",
    "is_host",
    "lost_report",
    "queues_of",
    "report_instead",
]
