"""`python -m sliceport` is the console script `sliceport`."""

import sys

from sliceport.cli.main import main

sys.exit(main())
