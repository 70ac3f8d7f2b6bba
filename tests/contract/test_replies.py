# SPDX-License-Identifier: Apache-2.0
"""Every operation succeeds at least once, and its reply has the described form. Its example is the function of its name in a file of replies/."""

import pytest
from contract.description import OPERATIONS

NAMES = ("account", "execs", "files", "sandboxes")
pytest.register_assert_rewrite(*(f"contract.replies.{name}" for name in NAMES))

from contract.replies import account, execs, files, sandboxes  # noqa: E402

EXAMPLES = {**vars(account), **vars(execs), **vars(files), **vars(sandboxes)}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_answers_as_described(api, sandbox, operation):
    assert operation in EXAMPLES, "an operation without an example in replies/"
    EXAMPLES[operation](api, sandbox)
