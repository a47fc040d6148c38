"""A terminal at which a person is asked."""
