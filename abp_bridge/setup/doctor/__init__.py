"""The checks of `abp-bridge doctor`. Gathering facts and judging them are separate."""
