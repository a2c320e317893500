"""Reading a platform's database without being felt: one short read-only transaction at a time, on a connection of ours.

- Limits are set with ``SET LOCAL``, in the same message that begins the transaction: PgBouncer in transaction mode
  gives another server session the next time, and refuses options at startup. No statement is prepared by name, no
  advisory lock taken, no setting left behind.
- Nothing is read in parallel: the cores are the platform's, and starting workers took longer than they saved.
- A plain SELECT waits for nobody but for DDL; ``lock_timeout`` ends that wait.
- The server's limits do not help against a server that hangs. A deadline of our own cuts the connection.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, Self

import psycopg
from psycopg import errors

Reason = Literal["connection", "deadline", "statement_timeout", "lock_timeout", "permission", "schema", "refused"]
REASONS: Final[tuple[Reason, ...]] = (
    "connection",
    "deadline",
    "statement_timeout",
    "lock_timeout",
    "permission",
    "schema",
    "refused",
)
"""Why a read failed: a closed list. ``refused`` is whatever else the database, or what it answered, objected to."""

_BEGIN: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED {mode}; SET LOCAL statement_timeout = {statement:d}; "
    "SET LOCAL lock_timeout = {lock:d}; SET LOCAL idle_in_transaction_session_timeout = {idle:d}; "
    "SET LOCAL TimeZone = 'UTC'; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0"
)


class SchemaError(Exception):
    """The live schema is not what the profile says; ``problems`` holds a sentence for each difference."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def reason(error: BaseException) -> Reason:
    """Which of ``REASONS`` an error is."""
    if isinstance(error, TimeoutError):
        return "deadline"
    if isinstance(error, errors.QueryCanceled):
        return "statement_timeout"
    if isinstance(error, errors.LockNotAvailable):
        return "lock_timeout"
    if isinstance(error, errors.InsufficientPrivilege):
        return "permission"
    if isinstance(error, (SchemaError, errors.UndefinedTable, errors.UndefinedColumn, errors.InvalidSchemaName)):
        return "schema"
    return "connection" if isinstance(error, (psycopg.OperationalError, OSError)) else "refused"


def address(url: str) -> str:
    """``url`` as libpq takes it: SQLAlchemy's ``postgresql+asyncpg://`` names a driver, which is not ours."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme.partition('+')[0]}{mark}{rest}" if mark else url


class Session:
    """A connection that is made when it is needed, and again after it was lost. For one thread.

    Times count seconds: ``statement_timeout`` and ``lock_timeout`` are the server's, ``deadline`` is ours, for one
    whole transaction, connecting apart.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        statement_timeout: float = 2.0,
        lock_timeout: float = 0.2,
        deadline: float = 5.0,
        connect_timeout: float = 5.0,
        application_name: str = "fleetglass-observer",
    ) -> None:
        self._conninfo = address(conninfo)
        self._statement, self._lock_timeout = statement_timeout, lock_timeout
        self._deadline, self._connect_timeout = deadline, connect_timeout
        self._application_name = application_name
        self._connection: psycopg.Connection[Any] | None = None

    @contextmanager
    def read(self, *, statement_timeout: float | None = None) -> Iterator[psycopg.Connection[Any]]:
        """A read-only transaction. Raises psycopg.Error, or TimeoutError past the deadline; then all is undone."""
        with self._transaction("READ ONLY", statement_timeout) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that may write, for the one row that elects."""
        with self._transaction("READ WRITE", None) as connection:
            yield connection

    def close(self) -> None:
        """Hang up; the next transaction connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.close()

    @contextmanager
    def _transaction(self, mode: str, statement_timeout: float | None) -> Iterator[psycopg.Connection[Any]]:
        statement = statement_timeout or self._statement
        begin = _BEGIN.format(
            mode=mode,
            statement=int(statement * 1000),
            lock=int(self._lock_timeout * 1000),
            idle=int(self._deadline * 1000),
        ).encode()
        connection = self._connected()
        if not self._begins(connection, begin):
            # Whoever is in between closes what has idled for long, and says so when we speak again.
            connection = self._connected()
            self._begins(connection, begin, again=True)
        with _Watch(connection, self._deadline) as watch:
            try:
                yield connection
                connection.execute(b"COMMIT")
            except BaseException as error:
                if watch.cut or connection.closed:
                    self.close()
                else:
                    self._roll_back(connection)
                if watch.cut:
                    raise TimeoutError(self._late) from error
                raise
        if watch.cut:
            self.close()

    @property
    def _late(self) -> str:
        return f"the database did not answer within {self._deadline:g} s"

    def _begins(self, connection: psycopg.Connection[Any], begin: bytes, *, again: bool = False) -> bool:
        """Begin; False when the connection turned out to be a dead one that may be made again."""
        with _Watch(connection, self._deadline) as watch:
            try:
                connection.execute(begin)
            except psycopg.Error as error:
                self.close()
                if watch.cut:
                    raise TimeoutError(self._late) from error
                if again or not isinstance(error, psycopg.OperationalError):
                    raise
                return False
        return True

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        try:
            connection.execute(b"ROLLBACK")
        except psycopg.Error:
            self.close()

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._conninfo,
                autocommit=True,  # BEGIN is ours, with the limits in the same message
                prepare_threshold=None,
                connect_timeout=max(2, int(self._connect_timeout)),
                application_name=self._application_name,
            )
        return self._connection


class _Watch:
    """Cuts the connection when its time is over: whoever waits in it wakes with an error."""

    def __init__(self, connection: psycopg.Connection[Any], seconds: float) -> None:
        self.cut = False
        self._lock = threading.Lock()
        # A descriptor of our own: that of a connection which has been closed meanwhile may be another's by now.
        self._socket = socket.socket(fileno=os.dup(connection.fileno()))
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._socket.close()

    def _cut(self) -> None:
        with self._lock:
            if self._socket.fileno() != -1:
                self.cut = True
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
