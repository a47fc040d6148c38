"""What `abp-bridge doctor` looks at: this machine, hosts' configurations with their silent traps,
our server as each host starts it, and what can be asked there. Gathering and judging are apart.
"""
