"""What every process of a run relies on: random numbers by address, the state of devices, threads and memory,
which import nothing of airfl; and text output, which imports the errors."""
