"""The bridge under real hosts: `make hosts` installs them, gives them a scripted model, and plays
the person.

`make test` leaves this folder out: the hosts are several hundred megabytes and come from npm.
"""
