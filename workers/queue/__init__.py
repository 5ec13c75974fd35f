"""The queue: jobs to the workers and reports back, on Redis streams. This page is the layout of its keys.

All jobs of one kind for one place are in one queue, named `{place}:{kind}`. The place of a trace job is its target
(`sm_90:trace`). The place of a measure or confirm job is its device (`model:sm_90:measure`, `h200:confirm`). So a job
goes only where it can run. The ids of searches and workers hold no colon.

    reef:lanes                      set     every queue that ever held a job
    reef:jobs:{queue}:{search}      stream  group `workers`; fields `id` and `job` (JSON)
    reef:ids:{queue}:{search}       hash    id of each queued or leased job -> its entry in the stream
    reef:mishaps:{queue}:{search}   hash    id of a job that was released -> its last error
    reef:served:{queue}             zset    search -> jobs served to it / priority; all with a stream are members
    reef:owners:{queue}             zset    owner of searches -> jobs served to them
    reef:shares:{queue}             hash    search -> its priority and its owner
    reef:turns:{queue}              hash    counts at which `owners`, and `of {owner}` a search, last had a turn;
                                            new ones start there
    reef:wake:{queue}               list    one token per new job, for workers that wait
    reef:dead:{queue}               stream  jobs of an unknown protocol; fields `search`, `id`, `job`, `error`

    reef:ask:{remote worker}        string  its request to the broker (JSON); expires
    reef:inbox:{remote worker}      list    the broker's answer: number of the request, and one job (JSON)
    reef:held:{remote worker}       string  id of the job that it holds
    reef:porter:{remote worker}     hash    id of each job handed to it -> its entry; "" -> last request answered

    reef:workers                    set     workers that may have reports waiting
    reef:worker:{worker}            string  its status (JSON); expires when it stops renewing
    reef:reports:{worker}           stream  group `service`; field `report` (JSON)

A job is *queued* (`submit.lua`), *leased* to a worker (`lease.lua`), kept by renewing the lease (`renew.lua`) and
settled with its report in one transaction. A lease that is not renewed lapses. Another worker then takes the job, and
its delivery count rises by one. Reports stay until the service has committed and acknowledged them. The archive holds
all that is needed to rebuild these keys.

Jobs in queues whose kind begins with `reserved-`, and confirms, are for trusted workers only. A *remote worker* joined
with a token and reaches no queue: the *broker* leases for it (`hand.lua`). Its reports are collected only while it
holds the lease (`accept.lua`). The code also calls it a *host*.
"""

from workers.errors import QueueUnavailable
from workers.queue.broker import BrokerWorker, LeaseBroker
from workers.queue.dispatch import Delivery, Dispatcher
from workers.queue.forwarding import ForwardedReport
from workers.queue.keys import JobQueue, is_host, places_of, queues_of
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
    "places_of",
    "queues_of",
    "report_instead",
]
