"""Key-value stores: workers push gradients under a key, a server adds them up, workers pull the result.

::

    store = gs.kvstore.Builder(work, servers=["cuda:0", "cuda:1"], workers=2)   # tasks and copies of a workload
    store.push("W1", gradient, worker=0, priority=1)
    total = store.pull("W1", "cuda:1")                                          # a Value

    with gs.kvstore.Store(servers=["cuda:0"], workers=2, update=sgd) as store:  # a service for training loops
        store.init("W1", weight)
        new = store.push_pull("W1", gradient, worker=0)                         # a tensor

A round of a key is one push by every worker; what is pulled is the sum (mean, …) of its values, added in the order of
workers whatever the order of pushes, or what `update` makes of it and the stored tensor. Both give the same bits.

Source: d2l.ai 12.7.4; Li et al., Scaling Distributed Machine Learning with the Parameter Server, OSDI 2014. The names,
and higher priorities first, are those of MXNet's KVStore.

Not modelled: servers on other hosts; pulls that take what is there without waiting (asynchronous training); further
state of an optimiser, as momenta.
"""

from graphsched.kvstore.builder import Builder
from graphsched.kvstore.service import Store

__all__ = ["Builder", "Store"]
