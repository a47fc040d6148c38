"""The bridge on pages of others': what it does with them, and what others do with one of ours."""
