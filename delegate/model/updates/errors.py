"""Why a change of a configuration repository can't be meant.

DelegateError
 └── UpdateError                  input; nothing was written
      ├── UpdateSpecError             the request itself
      ├── EditedFileError             a file that isn't there, is no text, or lies outside of the repository
      ├── UnreadableYamlError         a file that is no YAML (a chart's template, for one)
      ├── EditNotFoundError           a path or image that leads nowhere
      ├── AmbiguousEditError          one that leads to several places
      ├── NotScalarError              one that leads to a mapping, a list, an alias or a block of text
      ├── MutableTagError             policy: a tag that may mean something else tomorrow
      └── UnfaithfulEditError         the changed text wouldn't say what was wanted, and nothing else
"""

from delegate.foundation.errors import Category, DelegateError


class UpdateError(DelegateError):
    """The root of this package's errors."""

    default_code = "input.git_update"
    category = Category.INPUT


class UpdateSpecError(UpdateError):
    pass


class EditedFileError(UpdateError):
    default_code = "input.edit_file"


class UnreadableYamlError(UpdateError):
    default_code = "input.edit_yaml"


class EditNotFoundError(UpdateError):
    default_code = "input.edit_not_found"


class AmbiguousEditError(UpdateError):
    default_code = "input.edit_ambiguous"


class NotScalarError(UpdateError):
    default_code = "input.edit_not_scalar"


class MutableTagError(UpdateError):
    default_code = "policy.mutable_tag"
    category = Category.POLICY


class UnfaithfulEditError(UpdateError):
    default_code = "input.edit_unfaithful"
