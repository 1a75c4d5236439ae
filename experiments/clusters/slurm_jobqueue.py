"""A sweep with workers as jobs of Slurm, which dask-jobqueue submits: as many as there is room for, at any time.

Run it where jobs can be submitted from, in a folder that all nodes share (in tmux, or as a job of its own):

    pip install "airfl[cluster]" dask-jobqueue
    bash experiments/clusters/certificates.sh certificates
    source certificates/use.sh
    python experiments/clusters/slurm_jobqueue.py

Workers that are pre-empted are submitted again, and their points go on from their checkpoints.
"""

from pathlib import Path

import distributed
from dask_jobqueue import SLURMCluster

import airfl

WORKERS = 64
HOURS = 24.0
"""How long the first worker may be in the queue."""


def cluster() -> SLURMCluster:
    """Return a scheduler on this machine, and the job of a worker."""
    return SLURMCluster(
        cores=1,
        processes=1,
        memory="4GB",
        walltime="08:00:00",
        job_extra_directives=["--requeue", "--open-mode=append"],
        job_script_prologue=["export OMP_NUM_THREADS=1"],
        worker_extra_args=["--lifetime", "465m", "--lifetime-stagger", "10m"],  # they end before the time limit does it
        protocol="tls://",
        security=distributed.Security(),  # the certificates of Dask's configuration, which the jobs are told
        scheduler_options={"dashboard_address": "127.0.0.1:0"},
    )


if __name__ == "__main__":
    checkpoints = Path("checkpoints")
    checkpoints.mkdir(exist_ok=True)
    with cluster() as workers:
        workers.adapt(minimum=1, maximum=WORKERS)
        results = airfl.sweep(
            "demo",
            {"scheme.ratio": [0.1, 0.3]},
            seeds=5,
            out="runs/far",
            cluster=workers.scheduler_address,
            shared_dir=checkpoints,
            worker_wait_s=HOURS * 3600,
            progress=True,
        )
    print(results.frame()[["scheme.ratio", "seed", "test_accuracy", "energy"]])
