"""`abp-bridge` commands and test apps in threads of the test's process, on real pipes.

`hosted`, `RawHost` and the ACP client start a bridge here unless the test is marked `process`: a
thread needs a hundredth of the time that a process needs to start. The apps in `PROGRAMS`, and
Python scripts, run in threads as well: a script has `sys`, `os.environ` and `print` of its own. A
test that starts any other program must be marked.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, TextIO

import anyio
from mcp.client import stdio as mcp_stdio

from abp_bridge import log
from abp_bridge.acp.proxy import relay
from abp_bridge.apps.demo import __main__ as demo
from abp_bridge.cli import acp, ask, compose, mcp, program, refusal, serve
from abp_bridge.cli.main import _run_command as run_words
from abp_bridge.cli.main import make_parser
from abp_bridge.cli.options import configure_log
from abp_bridge.cli.runtime import UsageExit
from abp_bridge.jsonrpc import subprocess as children
from abp_bridge.jsonrpc.streams import StreamReader, StreamWriter, take_over_stdio
from abp_bridge.log import NonBlockingHandler, print_message
from support.apps import scripted
from support.paths import APPS

Main = Callable[[int, int], int]  # of a program: its stdin and stdout as file descriptors
Serve = Callable[[Sequence[str], asyncio.StreamReader, TextIO], Coroutine[Any, Any, None]]
ServeBlocking = Callable[[Sequence[str], BinaryIO, TextIO], None]

# How a program's command begins -> what it does in a thread, with its further words and its pipes.
PROGRAMS: Mapping[tuple[str, ...], Serve] = {
    (sys.executable, "-P", "-m", "abp_bridge.apps.demo"): lambda words, reader, stdout: demo.App(
        reader, stdout, sys.exit
    ).serve(),
    (sys.executable, str(APPS / "scripted.py")): lambda words, *pipes: scripted.serve(
        words[0], *pipes
    ),
}
# Programs of `APPS` whose `serve` reads and writes its pipes as files.
BLOCKING_PROGRAMS = ("mcp_server", "exotic_server", "acp_agent")
BRIDGES = ("broken.py", "buggy.py", "differing.py")  # scripts that change the product, or start it
_stdio: dict[int, tuple[StreamReader, StreamWriter]] = {}  # of bridges, by their threads
_announce: dict[int, Callable[[str], None]] = {}  # of bridges that listen, by their threads
enabled = True  # False in tests that are marked `process`

PATIENCE = 30.0  # seconds until what is waited for will not come
COMMANDS = ("serve", "mcp", "acp")
BRIDGE = (sys.executable, "-m", "abp_bridge")
RELAY = (sys.executable, "-I", "-S", relay.__file__)


class PipeThread(threading.Thread):
    """Run a program's main function on two pipes.

    It has the names that tests use of `subprocess.Popen`, and `wait_exit` for those that are async.
    """

    def __init__(self, main: Main) -> None:
        super().__init__(daemon=True)
        self._main = main
        self._theirs = [0, 0]
        self._theirs[0], stdin = os.pipe()
        stdout, self._theirs[1] = os.pipe()
        exit, self._exited = os.pipe()
        self._exit = os.fdopen(exit, "rb", buffering=0)
        self.stdin = os.fdopen(stdin, "wb", buffering=0)
        self.stdout = os.fdopen(stdout, "rb", buffering=0)
        self.returncode: int | None = None
        self.problem: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Run the program; what it raises is raised again by `wait`."""
        code = 1
        try:
            code = self._main(*self._theirs)
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as problem:
            self.problem = problem
        finally:
            self.returncode = code
            os.close(self._exited)

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        """Close its pipes: it ends as a program does whose host has left."""
        self.stdin.close()
        self.stdout.close()

    def wait(self, timeout: float = PATIENCE) -> int:
        self.join(timeout)
        assert self.returncode is not None, "the program did not end"
        self._exit.close()
        if self.problem is not None:
            raise self.problem
        return self.returncode

    async def wait_exit(self) -> int:
        """`wait` without blocking the event loop."""
        if self.returncode is None:
            with os.fdopen(os.dup(self._exit.fileno())) as own:  # several may wait
                await anyio.wait_readable(own)
        return self.wait()


class AsyncPipeThread:
    """A `PipeThread` with the names that tests use of `anyio.abc.Process`."""

    def __init__(self, thread: PipeThread) -> None:
        self._thread = thread
        self.stdin = _Sender(thread.stdin)
        self.stdout = _Receiver(thread.stdout)
        self.wait = thread.wait_exit
        self.kill = thread.kill

    @property
    def returncode(self) -> int | None:
        return self._thread.returncode

    async def aclose(self) -> None:
        self._thread.kill()

    async def __aenter__(self) -> AsyncPipeThread:
        return self

    async def __aexit__(self, *problem: object) -> None:
        self._thread.kill()
        with anyio.CancelScope(shield=True):
            await self._thread.wait_exit()


class _Sender:
    def __init__(self, file: Any) -> None:
        self._file = file
        self._one = anyio.Lock()
        os.set_blocking(file.fileno(), False)

    async def send(self, data: bytes) -> None:
        async with self._one:
            while data:
                if self._file.closed:
                    raise anyio.ClosedResourceError
                try:
                    data = data[self._file.write(data) or 0 :]
                except BrokenPipeError:
                    raise anyio.BrokenResourceError from None
                if data:
                    await anyio.wait_writable(self._file)

    async def aclose(self) -> None:
        self._file.close()


class _Receiver:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __aiter__(self) -> _Receiver:
        return self

    async def __anext__(self) -> bytes:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def receive(self) -> bytes:
        if self._file.closed:
            raise anyio.ClosedResourceError
        await anyio.wait_readable(self._file)
        if data := os.read(self._file.fileno(), 2**16):
            return data
        raise anyio.EndOfStream

    async def aclose(self) -> None:
        if not self._file.closed:
            anyio.notify_closing(self._file)  # else whoever waits for it waits forever
            self._file.close()


# --- the bridge -----------------------------------------------------------------------------------


async def open_process(command: Sequence[str], *, env: Mapping[str, str]) -> Any:
    """Start a command of a test: a bridge or a Python script in a thread, others in a process."""
    if is_bridge(command):
        return AsyncPipeThread(start_bridge(command, env))
    if enabled and (main := _find_program(command, env)) is not None:
        return AsyncPipeThread(PipeThread(partial(_without_stderr, main)))
    return await anyio.open_process(list(command), stderr=None, env=env)


def is_bridge(command: Sequence[str | Path], **how: Any) -> bool:
    """Return whether this command of a test is a bridge that runs in a thread."""
    is_ours = (*command[:3],) == BRIDGE and command[3] in COMMANDS
    return enabled and is_ours and not any(how.values())


def start(
    command: Sequence[str | Path], environment: Mapping[str, str], **how: Any
) -> PipeThread | None:
    """Start a command of a test in a thread, if that is possible."""
    words = [*map(str, command)]
    if not enabled or any(how.values()):
        return None
    if is_bridge(words):
        return start_bridge(words, environment)
    if (*words[:4],) == RELAY:
        return PipeThread(partial(_run_relay, words[4], environment))
    main = _find_program(words, environment)
    return None if main is None else PipeThread(partial(_without_stderr, main))


def _without_stderr(main: Callable[..., int], stdin: int, stdout: int) -> int:
    return main(stdin, stdout, os.open(os.devnull, os.O_WRONLY))


def _run_relay(path: str, environment: Mapping[str, str], stdin: int, stdout: int) -> int:
    try:
        return relay.carry(path, environment, stdin, stdout)
    finally:
        os.close(stdout)
        while os.read(stdin, 2**16):
            pass
        os.close(stdin)


def start_bridge(
    command: Sequence[str],
    environment: Mapping[str, str | None],
    announce: Callable[[str], None] | None = None,
) -> PipeThread:
    """Start `python -m abp_bridge serve ...` in a thread, as a process with this environment.

    `announce` gets the line that says where it listens.
    """
    words = command[[*command].index("abp_bridge") + 1 :]
    logs = "ABP_LOG_FILE" in environment or any(word.startswith("--log") for word in words)
    restore = _set_environment(environment)

    def run(stdin: int, stdout: int) -> int:
        own = threading.get_ident()
        _stdio[own] = StreamReader(stdin), StreamWriter(stdout)
        if announce is not None:
            _announce[own] = announce
        try:
            options = make_parser(words).parse_args(words)
            with kept_logging() if logs else _logging_to_stderr():
                if logs:
                    configure_log(options)
                return int(options.run(options))
        except UsageExit as end:
            anyio.run(refusal.refuse, *_stdio[own], f"abp-bridge: {end.reason}")
            raise
        finally:
            for stream in _stdio.pop(own):
                stream.close()
            _announce.pop(own, None)
            restore()
            _forget_cached()

    return PipeThread(run)


def _forget_cached() -> None:
    for made_once in (compose.answers, compose.audit_log, compose.terminal):
        made_once.cache_clear()


_stderr_handlers: list[logging.Handler] = []  # one for each bridge that runs


@contextmanager
def _logging_to_stderr() -> Iterator[None]:
    """Write log records to stderr while a bridge runs, each once if several bridges do."""
    handler = NonBlockingHandler(2)
    handler.addFilter(lambda record: _stderr_handlers[0] is handler)
    _stderr_handlers.append(handler)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        _stderr_handlers.remove(handler)


def run_command(
    words: Sequence[str],
    cwd: Path | None = None,
    stdin: str = "",
    environment: Mapping[str, str] = {},
) -> tuple[int, str, str]:
    """Run `abp-bridge WORDS` in a thread to its end: its exit code, stdout and stderr."""
    ended: list[int] = []
    problems: list[BaseException] = []

    def run() -> None:
        try:
            ended.append(run_words([*words], True))
        except SystemExit as end:
            ended.append(int(end.code or 0))
        except BaseException as problem:
            problems.append(problem)

    restore = _set_environment(environment)
    try:
        with (
            kept_logging(),
            _kept_unraisable(),
            contextlib.chdir(cwd or Path.cwd()),
            Caught(0, stdin),
            Caught(1) as out,
            Caught(2) as err,
        ):
            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            thread.join(4 * PATIENCE)
    finally:
        restore()
        _forget_cached()
    if problems:
        raise problems[0]
    assert ended, f"abp-bridge {' '.join(words)} did not end"
    return ended[0], out.text, err.text


class Caught:
    """What is read from a standard stream, or written to it, while the block lasts."""

    def __init__(self, fd: int, text: str = "") -> None:
        self._fd = fd
        self._name = ("stdin", "stdout", "stderr")[fd]
        self.text = text

    def __enter__(self) -> Caught:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8", errors="backslashreplace")
        self._file.write(self.text)
        self._file.seek(0)
        self._kept = os.dup(self._fd), getattr(sys, self._name)
        os.dup2(self._file.fileno(), self._fd)
        setattr(sys, self._name, self._file)
        return self

    def __exit__(self, *problem: object) -> None:
        self._file.flush()
        kept, stream = self._kept
        os.dup2(kept, self._fd)
        os.close(kept)
        setattr(sys, self._name, stream)
        self._file.seek(0)
        self.text = self._file.read()
        self._file.close()


@contextmanager
def _kept_unraisable() -> Iterator[None]:
    """Report what is collected to pytest and not to the log: it may be another test's."""
    ours = log._log_unraisable
    vars(log)["_log_unraisable"] = sys.unraisablehook
    try:
        yield
    finally:
        vars(log)["_log_unraisable"] = ours


@contextmanager
def kept_logging() -> Iterator[None]:
    """Undo what `abp_bridge.log.configure` does."""
    root, ours = logging.getLogger(), logging.getLogger("abp_bridge")
    kept = root.level, ours.level, sys.unraisablehook, threading.excepthook
    try:
        yield
    finally:
        # Another bridge may have begun or ended meanwhile: only the handlers of running ones stay.
        others = [each for each in root.handlers if not isinstance(each, NonBlockingHandler)]
        root.handlers[:] = [*others, *_stderr_handlers]
        root.setLevel(kept[0])
        ours.setLevel(kept[1])
        sys.unraisablehook, threading.excepthook = kept[2:]


def _set_environment(environment: Mapping[str, str | None]) -> Callable[[], None]:
    """Set these variables of this process, or remove them; return a function that undoes it.

    Bridges may end in any order: each variable gets the value of the newest one that set it.
    """
    if not _environments:
        _environments.append(dict(os.environ))
    _environments.append(environment := dict(environment))

    def assign() -> None:
        for name in environment:
            values = [each[name] for each in reversed(_environments) if name in each]
            if values and values[0] is not None:
                os.environ[name] = values[0]
            else:
                os.environ.pop(name, None)

    def restore() -> None:
        _environments[:] = [each for each in _environments if each is not environment]
        assign()
        if len(_environments) == 1:
            _environments.clear()

    assign()
    return restore


# The environment before any bridge, and that of each bridge that runs, the newest last.
_environments: list[dict[str, str | None]] = []


def _take_over_stdio() -> tuple[StreamReader, StreamWriter]:
    stdio = _stdio.get(threading.get_ident())
    return take_over_stdio() if stdio is None else stdio


def _print_message(message: str) -> None:
    _announce.get(threading.get_ident(), print_message)(message)


async def _open_server(
    command: str, args: list[str], env: Mapping[str, str], errlog: TextIO, cwd: Any = None
) -> Any:
    """Start the bridge of `demo` and `try`, as `mcp.client.stdio` starts a server."""
    if not enabled or "abp_bridge" not in args:
        return await _open_server_process(command, args, dict(env), errlog, cwd)
    ours = [name for name in os.environ if name.startswith("ABP_")]
    thread = start_bridge([command, *args], {**dict.fromkeys(ours), **env})
    server = AsyncPipeThread(thread)
    close_stdin = server.stdin.aclose

    async def end() -> None:
        """The client's library waits two seconds, and cannot kill a thread then."""
        await close_stdin()
        await thread.wait_exit()

    server.stdin.aclose = end  # type: ignore[method-assign]
    return server


# --- its apps -------------------------------------------------------------------------------------


class _ChildProcess:
    """What a `Child` needs of `anyio.abc.Process`."""

    pid = 0

    def __init__(self, thread: PipeThread, stderr: BinaryIO) -> None:
        self._thread = thread
        self.stderr = _Receiver(stderr)
        self.wait = thread.wait_exit

    @property
    def returncode(self) -> int | None:
        return self._thread.returncode


def _find_program(
    command: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None
) -> Callable[..., int] | None:
    """Return what a thread does in place of this command, with its three pipes."""
    for start_words, serve_app in PROGRAMS.items():
        if (*command[: len(start_words)],) == start_words:
            return partial(_run_app, serve_app, command[len(start_words) :])
    for name in BLOCKING_PROGRAMS:
        if (*command[:2],) == (sys.executable, str(APPS / f"{name}.py")):
            serve_app = import_module(f"support.apps.{name}").serve
            return partial(_run_blocking, serve_app, command[2:])
    if command[0] == sys.executable and Path(command[1]).suffix == ".py":
        if Path(command[1]).name in BRIDGES:
            return None
        words = command[1:]
    elif _is_script(found := shutil.which(command[0], path=(env or os.environ).get("PATH"))):
        words = [str(found), *command[1:]]
    else:
        return None
    given = children.child_environment() if env is None else dict(env)
    return partial(_run_script, words, given, cwd)


def _is_script(path: str | None) -> bool:
    start = f"#!{sys.executable}\n".encode()
    if path is None or not os.path.isfile(path) or Path(path).parent == Path(sys.executable).parent:
        return False
    with open(path, "rb") as file:
        return file.read(len(start)) == start


def _run_blocking(
    serve_app: ServeBlocking, words: Sequence[str], stdin: int, stdout: int, stderr: int
) -> int:
    os.close(stderr)
    with suppress(BrokenPipeError), open(stdin, "rb") as source, open(stdout, "w") as sink:
        serve_app(words, source, sink)
    return 0


def _run_app(serve_app: Serve, words: Sequence[str], stdin: int, stdout: int, stderr: int) -> int:
    os.close(stderr)

    async def run() -> None:
        reader = asyncio.StreamReader(limit=64 * 2**20)
        with open(stdin, "rb") as source, open(stdout, "w") as sink:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), source
            )
            try:
                await serve_app(words, reader, sink)
            finally:
                transport.close()
                await asyncio.sleep(0)  # the transport closes in the next turn

    asyncio.run(run())
    return 0


_compiling = threading.Lock()
_compile = cache(lambda path, changed: compile(Path(path).read_bytes(), path, "exec"))


def _run_script(words: Sequence[str], env: dict[str, str], cwd: str | None, *pipes: int) -> int:
    """Run a Python script with `sys`, `os` and `print` of its own."""
    stdin, stdout, stderr = map(os.fdopen, pipes, "rww")
    folder = Path(cwd or Path.cwd())
    left: list[int] = []

    def leave(code: int) -> None:
        left.append(code)
        stdout.close()
        raise SystemExit(code)

    their_sys = SimpleNamespace(**vars(sys))
    vars(their_sys).update(argv=[*words], stdin=stdin, stdout=stdout, stderr=stderr)
    their_os = SimpleNamespace(**vars(os))
    vars(their_os).update(environ=env, _exit=leave, getcwd=lambda: str(folder))
    their_os.listdir = lambda path=".": os.listdir(folder / path)
    own = {"sys": their_sys, "os": their_os}

    def find(name: str, *how: Any) -> Any:
        return own.get(name) or __import__(name, *how)

    def write(*what: object, **how: Any) -> None:
        print(*what, **{"file": stdout, **how})

    own_names = {"__import__": find, "print": write, "input": lambda: stdin.readline()[:-1]}
    names = {**vars(builtins), **own_names}
    path = words[0]
    module = {"__name__": "__main__", "__file__": path, "__builtins__": names}
    try:
        with _compiling:
            code = _compile(path, os.stat(path).st_mtime_ns)
        exec(code, module)
    except BrokenPipeError:
        return 1
    finally:
        for file in (stdout, stderr, stdin):
            with suppress(OSError):
                file.close()
    return left[0] if left else 0


END_LIMIT = 5.0  # seconds that a program has from the end of its stdin


@asynccontextmanager
async def _spawn(
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    overhear: Callable[[bytes], None] = lambda data: None,
) -> AsyncIterator[children.Child]:
    """`spawn` of the product: programs in `PROGRAMS` and Python scripts run in a thread."""
    errors, stderr = os.pipe()
    main = _find_program(command, env, cwd) if enabled else None
    if main is None:
        os.close(errors)
        os.close(stderr)
        async with _spawn_process(command, env=env, cwd=cwd, overhear=overhear) as child:
            yield child
        return
    thread = PipeThread(lambda *pipes: main(*pipes, stderr))
    with os.fdopen(errors, "rb", buffering=0) as heard:
        child = children.Child(
            _ChildProcess(thread, heard),  # type: ignore[arg-type]
            StreamReader(os.dup(thread.stdout.fileno())),
            StreamWriter(os.dup(thread.stdin.fileno())),
            overhear,
            command,
        )
        thread.kill()  # the child has its own descriptors of these pipes
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(child.listen)
            try:
                yield child
            finally:
                child.stdin.close()
                with anyio.CancelScope(shield=True), anyio.fail_after(END_LIMIT):
                    await thread.wait_exit()
                child.stdout.close()
                tasks.cancel_scope.cancel()


_spawn_process = children.spawn
for module in (children, program, mcp):
    vars(module)["spawn"] = _spawn
for module in (serve, mcp, acp):
    vars(module)["take_over_stdio"] = _take_over_stdio
vars(serve)["print_message"] = _print_message
vars(ask)["controlling"] = lambda: None  # whatever terminal the tests are run at
_open_server_process = mcp_stdio._create_platform_compatible_process
vars(mcp_stdio)["_create_platform_compatible_process"] = _open_server
