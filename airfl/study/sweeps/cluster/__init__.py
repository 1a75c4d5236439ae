"""Points on a cluster, through a Dask scheduler. Needs `pip install "airfl[cluster]"`.

The workers need airfl, but neither the data nor the sweep's folder: a data set is sent to each worker once, and the
files of a finished point are sent back. Each file here has one job:

connection.py   reaches the scheduler, waits for it and for workers, and reaches it again
workers.py      says which workers may be given points: their version, and the GPU of each
client.py       gives out the points, decides what is tried again, and yields outcomes
lease.py        the client's lease, without which nothing that it has begun goes on
received.py     checks what workers send back, and writes it
orders.py       what a client tells a worker, and the worker its process
on_worker.py    runs a point on a worker, in a process of its own
child.py        that process: one point after another, with a checkpoint when it is asked to stop
folder.py       its temporary folder, which does not outlive it
shared.py       checkpoints in a folder that all workers share
reply.py        what the process sends back when its worker is being stopped
"""
