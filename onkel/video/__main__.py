"""python -m onkel.video ...: the same as `onkel video ...`."""

import sys

from .cli import main

sys.exit(main(sys.argv[1:]))
