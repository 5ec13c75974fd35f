"""Thread blocks of a cluster."""

from archive.descriptors.base import Descriptor


class ClusterSize(Descriptor):
    """Thread blocks that share memory as a cluster.

    Edges: powers of two up to 8, the largest portable size (CUDA programming guide, thread block clusters).
    """

    name = "cluster_size"
    unit = "thread blocks"
    meaning = "how many thread blocks share memory as a cluster"
    edges = (2, 4, 8)
    labels = ("1", "2-3", "4-7", "8 or more")
