# SPDX-License-Identifier: Apache-2.0
"""The Python interpreter of a sandbox: keeps state between calls, speaks kernels/PROTOCOL.md.

Everything is in one package, so that `import errors` in user code finds the user's module and not the driver's.
Standard library only, Python 3.11 up.

    driver    the life of the process: prepare, serve calls, end
    framing   messages on the host's socket
    runner    compiles a cell, runs it, finds its value
    magics    `!command` and `%magic`, as notebooks have them
    aio       the event loop behind top-level await
    streams   standard output and error, whatever the code did to them
    bundle    a value as text and MIME bundle
    display   `display()` and the figures that a call left
    hooks     what libraries need to show themselves here (`plt.show()`)
    errors    exceptions as name, message and the user's own lines
    zygote    a warm interpreter that is forked into sandboxes
    turn      how a fork gets into a pid namespace without a copy
    imprint   its memory, for copies that go on with it
    reseed    new randomness after a fork or restore
"""
