# SPDX-License-Identifier: Apache-2.0
"""Random bytes as libraries since glibc 2.41 get them: from a function that the kernel maps into each process (vDSO), whose state is in memory that the kernel
may empty at any time. It is called here without any such library.
"""

# draw() gives 16 bytes in hex. `droppable` is a state as a library has it, `ordinary` one in memory that is saved and restored as it is, for comparison,
# `wiped` memory that a child finds empty. A kernel before 6.11 has no such function: then HAS_VDSO is False.
SETUP = r"""
import ctypes, os, struct

libc = ctypes.CDLL(None, use_errno=True)
libc.getauxval.restype = libc.mmap.restype = ctypes.c_void_p
libc.getauxval.argtypes = [ctypes.c_ulong]
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]

def find_function(names):
    base = libc.getauxval(33)  # AT_SYSINFO_EHDR
    at = lambda where, form: struct.unpack(form, ctypes.string_at(base + where, struct.calcsize(form)))
    table, size, n = at(40, "<Q")[0], *at(58, "<HH")
    for i in range(n):
        kind, start, length, link = *at(table + i * size + 4, "<I"), *at(table + i * size + 24, "<QQI")
        if kind != 11:  # SHT_DYNSYM
            continue
        text = at(table + link * size + 24, "<Q")[0]
        for symbol in range(start, start + length, 24):
            name, value = *at(symbol, "<I"), *at(symbol + 8, "<Q")
            if ctypes.string_at(base + text + name) in names:
                return base + value

def map_state(own_flags=None):
    params = (ctypes.c_uint32 * 16)()
    assert draw_bytes(None, 0, 0, params, ctypes.c_size_t(-1).value) == 0
    prot, flags = params[1:3]
    return libc.mmap(None, 4096, prot, own_flags or flags, -1, 0), params[0]

def draw(state):
    room = ctypes.create_string_buffer(16)
    assert draw_bytes(room, 16, 0, *state) == 16
    return room.raw.hex()

def draw_in_child(state):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, draw(state).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(writer)
    with os.fdopen(reader) as f:
        return f.read()

def generation():
    "Of the kernel's generator: it changes once a minute, and then every state is renewed."
    return struct.unpack("<Q", ctypes.string_at(ordinary[0] + 128, 8))[0]

def flags_of(address):
    lines, now = open("/proc/self/smaps").read().split("\n"), False
    for line in lines:
        word = line.split(" ")[0]
        if "-" in word:
            now = int(word.split("-")[0], 16) <= address < int(word.split("-")[1], 16)
        elif now and word == "VmFlags:":
            return sorted(line.split()[1:])

function = find_function((b"__vdso_getrandom", b"__kernel_getrandom"))
HAS_VDSO = function is not None
if HAS_VDSO:
    draw_bytes = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_void_p, ctypes.c_size_t)(function)
    droppable, ordinary = map_state(), map_state(0x22)  # MAP_PRIVATE | MAP_ANONYMOUS
    draw(droppable), draw(ordinary)
    wiped = libc.mmap(None, 4096, 3, 0x22, -1, 0)
    assert libc.madvise(ctypes.c_void_p(wiped), ctypes.c_size_t(4096), 18) == 0  # MADV_WIPEONFORK
"""
