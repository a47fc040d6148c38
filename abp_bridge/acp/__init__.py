"""ACP: clients as hosts, agents behind us, and the proxy between both."""
