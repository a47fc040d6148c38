"""ABP agents as hosts: an agent that speaks ABP launched us, and we are the app."""
