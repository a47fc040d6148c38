"""What thinks and never waits: questions, capabilities, notices, and the tables that route them."""
