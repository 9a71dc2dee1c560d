"""The tree: ExpressionError > InvalidExpressionError > UnknownExpressionError; ExpressionError > EvaluationError."""

from typing import ClassVar

from delegate.foundation.errors import Category, DelegateError


class ExpressionError(DelegateError):
    """An expression that can't be used, or that has no answer for a value."""

    default_code: ClassVar[str] = "input.expression"
    category: ClassVar[Category] = Category.INPUT


class InvalidExpressionError(ExpressionError):
    """Found when an expression is compiled; `row` and `column` count from 1 inside its text, 0 where the place isn't known."""

    default_code: ClassVar[str] = "input.expression_invalid"

    def __init__(self, message: str, *, row: int = 0, column: int = 0, hint: str = "") -> None:
        super().__init__(f"line {row}, column {column}: {message}" if row else message, hint=hint)
        self.row = row
        self.column = column


class UnknownExpressionError(InvalidExpressionError):
    """An expression that is CEL, or could be, but uses what isn't known here."""

    default_code: ClassVar[str] = "input.expression_unknown"


class EvaluationError(ExpressionError):
    """No answer for these values: a key that isn't there, operands that don't fit, too much to compute. Names keys, never values."""

    default_code: ClassVar[str] = "input.evaluation"
