"""Platforms: devices, links and what they cost."""

from graphsched.platform.capacity import CapacityTable
from graphsched.platform.checks import check_number
from graphsched.platform.dispatch import Dispatch
from graphsched.platform.host import Platform
from graphsched.platform.pace import Pace
from graphsched.platform.parts import Device, Link

__all__ = ["CapacityTable", "Device", "Dispatch", "Link", "Pace", "Platform", "check_number"]
