"""`python -m longpole` is the command."""

import sys

from longpole.cli import main

if __name__ == "__main__":
    sys.exit(main())
