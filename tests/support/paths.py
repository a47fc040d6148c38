"""Where things stand in this checkout."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
DOCS = ROOT / "docs"
FIXTURES = ROOT / "fixtures"
APPS = TESTS / "support" / "apps"  # programs that tests start
PYTHON = Path(sys.executable).name  # what runs them, as a question names it
