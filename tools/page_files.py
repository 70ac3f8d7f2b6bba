# SPDX-License-Identifier: Apache-2.0
"""Files for browsers as C: what build-web, build-docs and build-notices have in common."""

import gzip


def c_source(files, table):
    """A struct page_file (src/pages/pages.h) in the table for each (path, type, bytes), compressed. The same files give the same text."""
    rows, arrays = [], []
    for i, (path, kind, data) in enumerate(files):
        packed = gzip.compress(data, 9, mtime=0)
        lines = [",".join(map(str, packed[at : at + 32])) for at in range(0, len(packed), 32)]
        arrays.append(f"static const unsigned char file_{i}[] = {{\n" + ",\n".join(lines) + "\n};\n")
        rows.append(f'\t{{"{path}", "{kind}", file_{i}, sizeof(file_{i}), {len(data)}}},\n')
    array = f"const struct page_file {table}[] = {{\n" + "".join(rows) + "};\n"
    return '#include "pages/pages.h"\n' + "".join(arrays) + array + f"const size_t n_{table} = {len(rows)};\n"
