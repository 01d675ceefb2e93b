"""Splits of a traced network over devices: graphs made out of graphs."""

from graphsched.partition.batches import split
from graphsched.partition.bucketing import BucketChoice, bucket_sizes, choose_buckets
from graphsched.partition.data_parallel import data_parallel
from graphsched.partition.pipeline import pipeline
from graphsched.partition.tensor import gathered, tensor

__all__ = [
    "BucketChoice",
    "bucket_sizes",
    "choose_buckets",
    "data_parallel",
    "gathered",
    "pipeline",
    "split",
    "tensor",
]
