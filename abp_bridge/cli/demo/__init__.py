"""`abp-bridge demo`: the built-in app, and its story."""
