"""`abp-bridge check`: what an app does, held against what ABP wants."""
