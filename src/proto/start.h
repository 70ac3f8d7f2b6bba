// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What can be started on a channel, and how it ended: the payloads of FRAME_START and FRAME_EXIT,
 * and the records that file operations send on STREAM_RECORD. Encoded and decoded here for both
 * ends; decoders do not trust their input.
 */
#include "proto/pack.h"

#define START_ARGS_MAX  4096         /* words in argv, and in env */
#define START_BYTES_MAX (200 * 1024) /* argv and env together */
#define START_PATH_MAX  4096
#define START_NAME_MAX  256          /* user, owner */
#define START_TAG_MAX   64           /* letters, digits, '_' and '-' */
#define RECORD_PATH_MAX (64 * 1024)  /* a tree may be deeper than PATH_MAX */
#define RECORD_MAX      (192 * 1024) /* bytes of one record, length included */

enum start_kind {
	START_EXEC = 1,
	START_FILE = 2,
	START_KERNEL = 3, /* an exec whose INPUT and STREAM_RECORD are a socket at its fd 3 */
	START_FORKED = 4, /* a kernel that a zygote forks and sends to the agent */
	START_COPIED = 5, /* likewise; it goes on with the imprint whose fd came with this frame */
};

enum file_op {
	FILE_READ = 1, /* data on STREAM_STDOUT; one record (the file's stat) first */
	FILE_WRITE,    /* data from INPUT; writes a temporary name beside it and renames, unless
	                  append; one record at the end */
	FILE_STAT,     /* one record; a symlink is seen as such */
	FILE_LIST, /* a record an entry; `limit` entries at most, then FILE_FLAG_TRUNCATED in the
	              exit */
	FILE_MKDIR,
	FILE_MOVE, /* path to path2 */
	FILE_COPY, /* likewise, directories with FILE_RECURSIVE */
	FILE_REMOVE,
	FILE_CHMOD,   /* mode */
	FILE_CHOWN,   /* owner "user[:group]", names or numbers */
	FILE_SYMLINK, /* path2 is the target, path the new link */
	FILE_TAR_OUT, /* tar of path on STREAM_STDOUT, compressed as asked */
	FILE_TAR_IN,  /* tar from INPUT into path; one record: entries and bytes (as size) */
	FILE_WATCH, /* records as files change under path, until FORGET; a byte of INPUT is answered
	               with WATCH_READY, after the records of everything so far */
	FILE_TRUST, /* a certificate from INPUT, added to the bundle path and kept as path2 */
	FILE_ROOT_IN,  /* unpacks an image or the tar of a root from INPUT into path, which is new;
	                  path2 says which image; counts meanwhile, then JSON that describes it */
	FILE_ROOT_OUT, /* the root path as an OCI image layout of one layer; JSON from INPUT
	                  describes it; one record with the length, then the archive; path2 is a
	                  temporary file for the layer */
	FILE_DIAL,     /* a TCP connection to the port `offset` of the address path: INPUT and
	                  STREAM_STDOUT are its bytes; one record when it is connected, one with the
	                  count of bytes when the other side has ended */
	FILE_COMPARE,  /* the snapshots shown in path: a RECORD_CHANGE for each path in which they
	                  differ; `limit` at most */
	FILE_BUNDLE_OUT, /* the same changes as a bundle (bundle.h); text from INPUT goes in front
	                  */
	FILE_BUNDLE_IN,  /* applies a bundle from INPUT to the root path: all of it is received
	                    before the first file changes; one RECORD_COUNT */
	FILE_USER,       /* the default user gets a further name, owner, with the home path2, in the
	                    passwd and group below path: the first that its number is given */
	FILE_SIGNER, /* the way to the signer (signer.h): a relay listens on the socket path, and
	                lines from INPUT go into path2; without any, both are removed */
	FILE_OP_COUNT,
};

enum {
	FILE_RECURSIVE = 1U << 0,
	FILE_PARENTS = 1U << 1, /* make missing parents */
	FILE_APPEND = 1U << 2,
	FILE_EXCLUSIVE = 1U << 3,  /* refuse what exists */
	FILE_MISSING_OK = 1U << 4, /* remove: absent is fine */
	FILE_GZIP = 1U << 5,
	FILE_ZSTD = 1U << 6,
	FILE_FOLLOW = 1U << 7,   /* stat: what the link points to */
	FILE_RANGE = 1U << 8,    /* read: offset and size are given */
	FILE_MODE = 1U << 9,     /* mkdir, write: mode is given */
	FILE_PATCH = 1U << 10,   /* compare: with what changed in texts */
	FILE_THEIRS = 1U << 11,  /* bundle out: with what the third has changed, too */
	FILE_CHECKED = 1U << 12, /* bundle out: each path must be as it was in the third */
	/* entries have absolute paths, and for a link its target and what is there; attributes
	 * whose names begin with `owner` come before their entry; mkdir and move give an entry
	 * too; a watch must be of a directory */
	FILE_WHOLE = 1U << 13,
	FILE_IN_PLACE = 1U << 14,   /* write: under its own name from the first byte on */
	FILE_ATTRIBUTES = 1U << 15, /* write: path2 has lines NAME=VALUE, which replace all
	                               attributes that begin with `owner` */
	FILE_ENTRIES = 1U << 16,    /* watch: the entry at a path comes before its event */
	FILE_FOR_USER = 1U << 17,   /* root does it for the user: relative paths start at the user's
	                               home, and new files belong to the user */
	FILE_UNCHANGED = 1U << 18,  /* write: offset is when it was last changed, in microseconds */
	FILE_BARE = 1U << 19, /* root out: only its tar, streamed, or that of the directory path2 in
	                         it; root in: such a tar, with any contents */
	FILE_FETCHED = 1U << 20, /* root in: an image layout is at path.in already; nothing comes */
};
#define FILE_FLAGS_ALL ((1U << 21) - 1)

struct start {
	enum start_kind kind;
	char *tag; /* the host's id of it ("ex_…"), repeated in WELCOME; only a file operation may
	              have none */
	char *user; /* "root", a name of /etc/passwd inside, or a number; "" = the sandbox's default
	               user */
	/* all but START_FILE */
	char **argv; /* NULL-terminated */
	size_t argc;
	char **env; /* "NAME=value", NULL-terminated, on top of the agent's defaults (PATH, HOME,
	               USER, …) */
	size_t envc;
	char *cwd;      /* "" = the user's home; of START_FILE it is not sent */
	bool has_stdin; /* else /dev/null; never of a kernel */
	bool has_pty;   /* likewise */
	uint16_t rows, cols;
	uint64_t timeout_us; /* 0 = none: TERM to the tree, then KILL after grace_us */
	uint64_t grace_us;
	/* START_FILE */
	enum file_op op;
	uint32_t flags;
	char *path, *path2, *owner;
	uint32_t mode;
	uint64_t offset, size; /* with FILE_RANGE; FILE_WRITE: size is the most that may come */
	uint32_t limit;        /* list: entries; tar in: entries */
	/* list, with FILE_RECURSIVE: 0 = no bound; root in, with FILE_FETCHED: how many of the
	 * lowest layers need not be there, because path has what they are */
	uint32_t depth;
};

bool start_is_program(enum start_kind kind); /* it runs words: all but a file operation */
void start_done(struct start *s);            /* frees what it holds */
/* -EINVAL if start_decode() would refuse it, -E2BIG past START_BYTES_MAX or the buf's cap; the buf
 * is then unchanged. NULL strings count as "". */
must_check int start_encode(const struct start *s, struct buf *out);
/* Strict. On success the caller owns what *ret holds. */
must_check int start_decode(const void *data, size_t len, struct start *ret);

enum exit_how {
	EXIT_CODE = 1,   /* value: exit code 0..255 */
	EXIT_SIGNAL = 2, /* value: signal 1..64 */
	EXIT_FAILED = 3, /* it never ran, or a file operation failed: value is an errno, message
	                    says what */
};
enum exit_cause {
	EXIT_CAUSE_NONE = 0,
	EXIT_CAUSE_TIMEOUT = 1,
	EXIT_CAUSE_KILLED = 2 /* by SIGNAL or FORGET */
};
enum { EXIT_TRUNCATED = 1U << 0 /* list: there was more than limit */ };

struct channel_exit {
	enum exit_how how;
	uint32_t value;
	enum exit_cause cause;
	uint32_t flags;
	uint64_t wall_us, user_us, system_us, max_rss_kib;
	uint64_t output_end; /* offset behind the last output byte sent before this */
	char message[256];
};
must_check int channel_exit_encode(const struct channel_exit *e, struct buf *out);
must_check int channel_exit_decode(const void *data, size_t len, struct channel_exit *ret);

enum record_kind {
	RECORD_ENTRY = 1,
	RECORD_EVENT = 2,
	RECORD_COUNT = 3,
	RECORD_CHANGE = 4,
	RECORD_ATTRIBUTE = 5
};
enum { /* what a RECORD_CHANGE is about */
       CHANGE_ADDED = 1U << 0,
       CHANGE_DELETED = 1U << 1,
       CHANGE_TYPE = 1U << 2,
       CHANGE_CONTENT = 1U << 3,
       CHANGE_MODE = 1U << 4,
       CHANGE_OWNER = 1U << 5,
       CHANGE_ATTRIBUTES = 1U << 6,
       CHANGE_CONFLICT = 1U << 7,  /* the third snapshot has changed it, too */
       CHANGE_BINARY = 1U << 8,    /* no text: no patch */
       CHANGE_TOO_LARGE = 1U << 9, /* likewise */
};
#define CHANGE_ALL       ((1U << 10) - 1)
#define RECORD_PATCH_MAX (64 * 1024)
enum watch_event {
	WATCH_CREATED = 1,
	WATCH_MODIFIED,
	WATCH_REMOVED,
	WATCH_MOVED /* path to path2 */,
	WATCH_ATTRIB,
	WATCH_OVERFLOW,
	WATCH_READY
};
struct record {
	enum record_kind kind;
	enum watch_event event;
	char *path;    /* list and watch: relative to the path asked for; stat: as asked; the name
	                  of an attribute */
	char *path2;   /* a link's target, or where it moved to; an attribute's value */
	uint32_t mode; /* st_mode: kind and bits */
	uint32_t uid, gid;
	char *user, *group; /* names inside, or "" */
	uint64_t size, mtime_us, inode, links;
	uint64_t count, bytes; /* RECORD_COUNT */
	/* RECORD_CHANGE: the fields above are of what it is now, or 0 */
	uint32_t changes; /* CHANGE_… */
	struct {
		uint32_t mode, uid, gid;
		uint64_t size;
	} old;
	char *patch; /* "" = none */
};
void record_done(struct record *r);
must_check int record_encode(const struct record *r,
                             struct buf *out); /* u32 length, then the record */
/* 1 with *ret, which the caller owns, and *ret_used bytes to drop; 0 if more bytes are needed;
 * -EPROTO. */
must_check int record_decode(const void *data, size_t len, struct record *ret, size_t *ret_used);
