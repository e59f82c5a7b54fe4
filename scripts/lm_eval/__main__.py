"""lm_eval with the model `mortise`: python3 scripts/lm_eval --model mortise --tasks ... (all of lm_eval's options)."""
import sys

import mortise_lm  # noqa: F401  registers the model

from lm_eval.__main__ import cli_evaluate

sys.exit(cli_evaluate())
