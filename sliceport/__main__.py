"""The console script `sliceport` as `python -m sliceport`."""

import sys

from sliceport.cli.main import main

sys.exit(main())
