"""What tests stand on: peers, processes, terminals, pages, and the apps that they start."""
