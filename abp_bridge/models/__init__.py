"""The user's own models and agents, which answer sampling: each is an `AgentProtocol`."""
