"""The command line: thin commands over the library, each in a module with those of its kind."""

from graphsched.cli.app import main

__all__ = ["main"]
