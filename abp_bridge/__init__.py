"""abp-bridge: the questions of web apps that speak the Agentic Browser Protocol, carried to the
person and back.
"""

VERSION = "0.1.0"
