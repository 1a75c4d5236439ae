#!/bin/bash
# A sweep as an array of jobs of Slurm: every job is a shard, and all share the output folder. No scheduler, no ports, no
# certificates. What is given goes to `airfl sweep`, or to `airfl compare` if that is the first word:
#
#     sbatch --array=1-64 experiments/clusters/slurm-array.sh demo scheme.ratio=0.1,0.3 --seeds 5 --out runs/far
#     sbatch --array=1-8 experiments/clusters/slurm-array.sh compare demo --schemes pfels,fedavg --seeds 4 --out runs/two
#     airfl results runs/far        # at any time
#
# The folder from which it is submitted is shared by all nodes. Jobs may start and end at any time: each takes the points
# that no other has claimed. A job that reaches its time limit puts itself back into the queue, as Slurm does with one
# that is pre-empted (PreemptMode=REQUEUE), and goes on from the checkpoints of its points. A job that is cancelled
# (scancel) is not put back; the others run its points.
#SBATCH --job-name=airfl
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=08:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=airfl-%A_%a.out
#SBATCH --signal=B:USR1@60
set -euo pipefail
cd "${SLURM_SUBMIT_DIR:-.}"
export OMP_NUM_THREADS=1
command=sweep
case ${1:?give what goes to airfl sweep, or compare and what goes to airfl compare} in
    sweep | compare)
        command=$1
        shift
        ;;
esac

finish() { # asks airfl to stop: it gives up its claims, so that others can go on at once
    trap '' TERM USR1
    kill -TERM $(jobs -p) 2>/dev/null || true
    wait
}
again() { # shortly before the time limit
    finish
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
    exit 0
}
trap again USR1
trap 'finish; exit 143' TERM # scancel or pre-emption

# Where a shard begins is a matter of speed alone, so an array of any numbers will do (--array=3,7 after a failure).
count=$SLURM_ARRAY_TASK_COUNT
airfl $command "$@" --shard $(((SLURM_ARRAY_TASK_ID - SLURM_ARRAY_TASK_MIN) % count + 1))/"$count" &
wait $!
