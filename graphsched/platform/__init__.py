"""Platforms: devices, links and what they cost."""

from graphsched.platform.host import Platform
from graphsched.platform.parts import Device, Dispatch, Link, check_number

__all__ = ["Device", "Dispatch", "Link", "Platform", "check_number"]
