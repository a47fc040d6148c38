"""`parrot.py HEARD SAYS`: keeps what it hears in the file HEARD, and says what is in the file SAYS,
byte for byte. For tests of the proxy.
"""

import shutil
import sys
import threading

heard, says = sys.argv[1:]


def listen() -> None:
    with open(heard, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)


listener = threading.Thread(target=listen)
listener.start()
with open(says, "rb") as file:
    shutil.copyfileobj(file, sys.stdout.buffer)
sys.stdout.flush()
listener.join()
