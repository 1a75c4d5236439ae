"""What every process of a run relies on: random numbers by address, the state of devices, numerics, threads, memory and
text output. It imports nothing of airfl but the errors."""
