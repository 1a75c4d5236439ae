#!/bin/bash
# One worker for each GPU of this machine, for the scheduler with this address:
#
#     bash experiments/clusters/gpus.sh tls://10.0.0.1:8786
#     airfl sweep demo scheme.ratio=0.1,0.3 --cluster tls://10.0.0.1:8786 --device cuda --out runs/far
#
# With dask-cuda (pip install dask-cuda) it is `dask cuda worker`, else a `dask worker` for each GPU that nvidia-smi lists.
# Workers of the same machine see one GPU each, so with `--device cuda:1` none would have it: use `--device cuda`.
set -euo pipefail
address=${1:?give the address of the scheduler}
trap 'trap - TERM EXIT; kill $(jobs -p) 2>/dev/null || true; wait' TERM EXIT
if python -c 'import dask_cuda' 2>/dev/null; then
    # Points hold their data in their own processes, so neither a memory pool nor spilling is of use.
    dask cuda worker "$address" --nthreads 1 --dashboard-address 127.0.0.1:0 --resources GPU=1 &
else
    for gpu in $(nvidia-smi --query-gpu=index --format=csv,noheader); do
        CUDA_VISIBLE_DEVICES=$gpu dask worker "$address" --nthreads 1 --dashboard-address 127.0.0.1:0 \
            --name "$(hostname)-gpu-$gpu" --resources GPU=1 &
    done
fi
wait
