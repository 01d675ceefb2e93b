"""Plans run by several processes: one list of parts a rank, messages by torch.distributed."""

from graphsched.executors.distributed.program import RankProgram
from graphsched.executors.distributed.world import World, join

__all__ = ["RankProgram", "World", "join"]
