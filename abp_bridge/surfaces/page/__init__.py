"""The page on which a person is asked in their browser, and what the inbox has of it."""
