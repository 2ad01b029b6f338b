"""python -m onkel: the same as the command onkel."""

import sys

from onkel.cli import main

sys.exit(main())
