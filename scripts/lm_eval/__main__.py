"""lm_eval with the model `mortise`: python3 scripts/lm_eval --model mortise --tasks ... (all of lm_eval's options)."""
import sys

import lm_eval.models  # noqa: F401  the harness's own, which it looks for only while there are none
import mortise_lm  # noqa: F401  registers `mortise`
from lm_eval.__main__ import cli_evaluate

sys.exit(cli_evaluate())
