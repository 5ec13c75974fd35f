"""Workers: local processes and remote workers, and the devices that they serve."""
