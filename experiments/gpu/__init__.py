"""The stages of experiments/benchmarks/gpu.py: what is checked and measured on a GPU, one module per kind of stage."""
