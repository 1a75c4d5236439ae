#!/bin/bash
# A sweep as one job of Slurm: scheduler, workers and the sweep itself. What is given goes to `airfl sweep`:
#
#     sbatch --ntasks=64 experiments/clusters/slurm.sh demo scheme.ratio=0.1,0.3 --seeds 5 --out runs/far
#
# The folder from which it is submitted is shared by all nodes. Certificates are in ./certificates (certificates.sh),
# or in $CERTIFICATES; checkpoints of points in ./checkpoints, or in $CHECKPOINTS. A job that reaches its time limit puts
# itself back into the queue, as Slurm does with one that is pre-empted (PreemptMode=REQUEUE), and then goes on. A job that
# is cancelled (scancel) is not put back; what it has finished is kept.
#SBATCH --job-name=airfl
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:USR1@60
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
source "${CERTIFICATES:-certificates}/use.sh"
checkpoints=${CHECKPOINTS:-$PWD/checkpoints}
place=$PWD/.scheduler-${SLURM_JOB_ID:-$$}.json
mkdir -p "$checkpoints"

finish() { # ends what this script has started
    trap - EXIT
    trap '' TERM USR1
    kill $(jobs -p) 2>/dev/null || true
    wait
    rm -f "$place"
}
again() { # shortly before the time limit
    finish
    scontrol requeue "$SLURM_JOB_ID"
    exit 0
}
trap finish EXIT
trap again USR1
trap 'exit 143' TERM # scancel or pre-emption

rm -f "$place"
dask scheduler --protocol tls --port 0 --scheduler-file "$place" --dashboard-address 127.0.0.1:0 &
until [ -s "$place" ]; do sleep 1; done
export place
# A worker ends with its scheduler, or by itself, and is started again. It is asked to stop by SIGTERM.
srun --kill-on-bad-exit=0 bash -c '
    trap "kill -TERM \$worker; wait \$worker; exit 0" TERM
    while true; do
        dask worker --scheduler-file "$place" --protocol tls --nthreads 1 --dashboard-address 127.0.0.1:0 &
        worker=$!
        wait $worker || true
        sleep 1
    done' &
address=$(python -c 'import json, os; print(json.load(open(os.environ["place"]))["address"])')
airfl sweep "$@" --cluster "$address" --shared-dir "$checkpoints" &
wait $!
