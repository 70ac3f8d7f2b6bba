// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * Tar, both ways, without I/O. Reads ustar, pax and GNU's long names; writes ustar, with a pax
 * header where ustar's fields are too small.
 *
 * The reader does not trust the archive. It guarantees to the callbacks: a path is relative, not
 * empty, and has no ".." and no NUL; modes are permission bits only (no set-uid, set-gid, sticky),
 * unless the reader is for whole roots; kinds are the four below; entries and bytes are within the
 * limits. Everything else ends the reading with an error that names the entry; on_pipe and
 * on_device can make exceptions. The callbacks must make sure that a path stays in its place on
 * disk.
 */
#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>

#define TAR_BLOCK    512
#define TAR_HEAD_MAX (256 * 1024) /* the most that tar_put_head() appends */

enum tar_kind { TAR_FILE, TAR_DIR, TAR_SYMLINK, TAR_HARDLINK };

struct tar_entry {
	enum tar_kind kind;
	const char *path;
	const char *target; /* a symbolic link's is any text, a hard link's is like a path */
	uint32_t mode;
	uint32_t uid, gid; /* reading: as in the archive; UINT32_MAX if not a number */
	uint64_t size;
	uint64_t mtime_s;
	uint32_t mtime_ns;
};

struct tar_ops {
	int (*on_entry)(const struct tar_entry *e, void *arg, struct err *err);
	int (*on_data)(const void *data, size_t len, void *arg, struct err *err);
	int (*on_entry_end)(void *arg, struct err *err); /* after a file's data */
	/* Called for a named pipe, which is then skipped; NULL: pipes are refused. */
	void (*on_pipe)(const char *path, void *arg);
	/* Called for a device, which is skipped if this returns 0; NULL: devices are refused. */
	int (*on_device)(const char *path, void *arg, struct err *err);
};

struct tar_limits {
	uint64_t entries, bytes; /* 0 = none */
	bool is_root;            /* set-id and sticky bits are kept too */
};

struct tar_reader;
struct tar_reader *tar_reader_new(const struct tar_ops *ops, void *arg,
                                  const struct tar_limits *limits);
void tar_reader_free(struct tar_reader *r);
DEFINE_FREEP(struct tar_reader, tar_reader_free)
must_check int tar_reader_feed(struct tar_reader *r, const void *data, size_t len, struct err *err);
must_check int tar_reader_finish(struct tar_reader *r, struct err *err); /* the input has ended */
/* The blocks that close an archive were seen. Some writers leave them out; then an archive that was
 * cut between two entries looks whole. */
bool tar_reader_is_closed(const struct tar_reader *r);
uint64_t tar_reader_entries(const struct tar_reader *r);
uint64_t tar_reader_bytes(const struct tar_reader *r);

/* Appends the blocks before an entry's data. The caller then writes size bytes and tar_padding()
 * zeros. */
must_check int tar_put_head(struct buf *out, const struct tar_entry *e);
size_t tar_padding(uint64_t size);
must_check int tar_put_end(struct buf *out);
