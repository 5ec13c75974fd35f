"""Analysis of searches from the archive: kernels as files, lineage, trajectories and KernelBench's measures."""
