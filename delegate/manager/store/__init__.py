"""Everything durable: tables, migrations, and the operations on them. The one place that knows SQLAlchemy.

An operation is a function of a `Transaction`; `database` runs many of them in one commit. Before an operation changes the state
of a task it holds the lock of the task's application, so that it is the same on SQLite, which has one writer anyway, and on
PostgreSQL, which several managers may share.
"""
