"""Platforms: devices, links and what they cost."""

from graphsched.platform.capacity import CapacityTable
from graphsched.platform.host import Platform
from graphsched.platform.parts import Device, Dispatch, Link, check_number

__all__ = ["CapacityTable", "Device", "Dispatch", "Link", "Platform", "check_number"]
