# SPDX-License-Identifier: Apache-2.0
"""A file as a C array: embed.py NAME INPUT OUTPUT."""

import sys
from pathlib import Path

name, source, target = sys.argv[1:]
data = Path(source).read_bytes()
lines = [",".join(map(str, data[i : i + 24])) for i in range(0, len(data), 24)]
Path(target).write_text(
    f"#include <stddef.h>\nextern const unsigned char {name}[];\nextern const size_t {name}_len;\n"
    f"const unsigned char {name}[] = {{\n" + ",\n".join(lines) + f"\n}};\nconst size_t {name}_len = {len(data)};\n"
)
