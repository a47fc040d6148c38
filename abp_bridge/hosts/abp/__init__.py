"""ABP agents as hosts: who launched us speaks ABP, and we are the app."""
