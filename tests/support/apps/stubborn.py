"""`stubborn.py PIDS`: will not end by itself, and neither will its child; the file PIDS has their
ids. For tests of the proxy.
"""

import os
import signal
import subprocess
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".part", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".part", sys.argv[1])
sys.stdout.write('{"jsonrpc":"2.0","method":"ready"}\n')
sys.stdout.flush()
time.sleep(600)
