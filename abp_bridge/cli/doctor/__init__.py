"""`abp-bridge doctor`: what works here, and what to do."""
