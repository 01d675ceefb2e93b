"""``python -m graphsched``: the command line."""

import sys

from graphsched.cli import main

if __name__ == "__main__":
    sys.exit(main())
