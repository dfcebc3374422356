"""The console script `sliceport` as `python -m sliceport`."""

import sys

from sliceport.cli.start import main

sys.exit(main())
