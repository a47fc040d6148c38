"""Who answers what is asked of a model: agents on this machine, each an `AgentProtocol`."""
