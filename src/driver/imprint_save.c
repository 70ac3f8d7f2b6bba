// SPDX-License-Identifier: Apache-2.0
/* The source's side: it forks itself, and the writer, its sibling, lists the pages and writes them
 * down. */
#include "driver/imprint.h"

#include <errno.h>
#include <linux/sched.h>
#include <linux/un.h>
#include <sys/socket.h>

#define GAP_PAGES    32  /* fewer pages between others are written, too: a mapping costs more */
#define MAP_BATCH    512 /* words of pagemap that are read at once */
#define MAPS_SIZE    (1UL << 20)
#define DOOR         "\0cloche-sudo"
#define DOOR_IMPRINT 0xfffffffeU /* as in src/agent/sudo/sudo_socket.h */
#define TAG_SIZE     40

/* Of a word of /proc/self/pagemap. */
#define IS_PRESENT (1UL << 63)
#define IS_SWAPPED (1UL << 62)
#define IS_FILE    (1UL << 61)

/* What is done with a mapping; as in imprint.py. */
enum way {
	WAY_WHOLE,   /* all pages are written */
	WAY_TOUCHED, /* those that were ever touched; the others are empty */
	WAY_CHANGED, /* those that differ from the file's; every fork has the others */
	WAY_STACK,   /* as touched, and read into the copy's own stack, which grows */
	WAY_EMPTY,   /* none: it may not be read */
};

struct kept kept;

/* The writer's own. */
static union {
	struct head head;
	char bytes[TABLE_SIZE];
} table;
static uint64_t words[MAP_BATCH];
static int has_untouched; /* a mapping of which this fork has no page: perhaps it was wiped */
static char text[MAPS_SIZE];

static long open_own(const char *path, int flags)
{
	return call5(__NR_openat, AT_FDCWD, (long)path, flags | O_CLOEXEC, 0, 0);
}

void imprint_init(const unsigned char *token)
{
	copy_bytes(kept.token, token, TOKEN_SIZE);
}

/* ---- the writer */

static long add_entry(enum kind kind, uint64_t begin, uint64_t end, uint32_t protection,
                      uint64_t offset)
{
	struct head *h = &table.head;

	if (begin == end)
		return 0;
	if (h->entries >= ENTRIES_MAX)
		return -E2BIG;
	h->table[h->entries++] = (struct entry){.begin = begin,
	                                        .len = end - begin,
	                                        .offset = offset,
	                                        .protection = protection,
	                                        .kind = kind};
	return 0;
}

static long put_pages(const struct mapping *m, uint64_t begin, uint64_t end)
{
	struct head *h = &table.head;
	long r = add_entry(m->way == WAY_STACK ? KIND_STACK : KIND_PAGES, begin, end, m->protection,
	                   h->size);

	if (r == 0)
		h->size += end - begin;
	return r;
}

static int is_wanted(const struct mapping *m, uint64_t word)
{
	if (m->way == WAY_CHANGED)
		return (word & IS_SWAPPED) || ((word & IS_PRESENT) && !(word & IS_FILE));
	return (word & (IS_PRESENT | IS_SWAPPED)) != 0;
}

/* Up to here all pages of the mapping are accounted for; [begin, end) are pages to write. */
struct run {
	uint64_t done, begin, end;
};

static long end_run(const struct mapping *m, struct run *run, uint64_t upto)
{
	long r = 0;

	if (m->way == WAY_TOUCHED)
		r = add_entry(KIND_EMPTY, run->done, run->begin, m->protection, 0);
	if (r == 0 && run->begin < run->end)
		r = put_pages(m, run->begin, run->end);
	if (r == 0 && m->way == WAY_TOUCHED && upto == m->end)
		r = add_entry(KIND_EMPTY, run->end, upto, m->protection, 0);
	run->done = run->end;
	return r;
}

static long list_some(long pagemap, const struct mapping *m)
{
	struct run run = {m->begin, m->begin, m->begin};

	for (uint64_t at = m->begin; at < m->end;) {
		const uint64_t left = (m->end - at) / PAGE, n = left < MAP_BATCH ? left : MAP_BATCH;
		long r = call5(__NR_pread64, pagemap, (long)words, (long)(n * 8),
		               (long)(at / PAGE * 8), 0);

		if (r != (long)(n * 8))
			return r < 0 ? r : -EIO;
		for (uint64_t i = 0; i < n; i++, at += PAGE) {
			if (!is_wanted(m, words[i]))
				continue;
			if (m->way == WAY_EMPTY)
				return -EACCES;
			if (run.begin == run.end) {
				run.begin = at;
			} else if (at - run.end > GAP_PAGES * PAGE ||
			           (m->way == WAY_CHANGED && at != run.end)) {
				r = end_run(m, &run, at);
				if (r < 0)
					return r;
				run.begin = at;
			}
			run.end = at + PAGE;
		}
	}
	has_untouched |= m->way == WAY_TOUCHED && run.end == m->begin;
	return end_run(m, &run, m->end);
}

static long list_mapping(long pagemap, const struct mapping *m)
{
	long r = m->way == WAY_WHOLE ? put_pages(m, m->begin, m->end) : list_some(pagemap, m);

	if (r == 0 && m->way == WAY_EMPTY)
		r = add_entry(KIND_EMPTY, m->begin, m->end, m->protection, 0);
	return r;
}

static const char *read_hex(const char *at, uint64_t *ret)
{
	*ret = 0;
	for (;; at++) {
		if (*at >= '0' && *at <= '9')
			*ret = *ret << 4 | (uint64_t)(*at - '0');
		else if (*at >= 'a' && *at <= 'f')
			*ret = *ret << 4 | (uint64_t)(*at - 'a' + 10);
		else
			return at;
	}
}

static void forget_entries(uint64_t begin, uint64_t end, enum kind kind)
{
	struct head *h = &table.head;

	for (uint64_t i = 0; i < h->entries; i++)
		if (h->table[i].begin >= begin && h->table[i].begin < end)
			h->table[i].kind = kind;
}

/* One line of smaps: what the memory's flags say, such as "wf", is made so in a copy. */
static void take_line(const char *line, uint64_t range[2])
{
	static const char flags[] = "VmFlags:";

	if (is_same(line, flags, sizeof(flags) - 1)) {
		for (const char *at = line + sizeof(flags) - 1; at[0] == ' ' && at[1] && at[2];
		     at += 3) {
			if (at[1] == 'd' && at[2] == 'p') {
				forget_entries(range[0], range[1], KIND_DROPPABLE);
				return;
			}
			if (at[1] == 'w' && at[2] == 'f')
				forget_entries(range[0], range[1], KIND_WIPED);
		}
	} else if ((line[0] >= '0' && line[0] <= '9') || (line[0] >= 'a' && line[0] <= 'f')) {
		const char *at = read_hex(line, &range[0]);

		if (*at == '-')
			(void)read_hex(at + 1, &range[1]);
	}
}

/* Memory that a fork must not share, such as the state of getrandom(): the writer, a fork, has none
 * of it. To read smaps costs a look at each page, so it is read only if there may be such memory.
 */
static long mark_wiped(void)
{
	uint64_t range[2] = {0, 0};
	long fd = open_own("/proc/self/smaps", O_RDONLY), n = 0, have = 0;

	if (fd < 0)
		return fd;
	while ((n = call(__NR_read, fd, (long)(text + have), (long)(MAPS_SIZE - 1) - have)) > 0) {
		long from = 0;

		have += n;
		for (long i = have - n; i < have; i++) {
			if (text[i] != '\n')
				continue;
			text[i] = '\0';
			take_line(text + from, range);
			from = i + 1;
		}
		for (long i = from; i < have; i++)
			text[i - from] = text[i];
		have -= from;
		if (have >= (long)MAPS_SIZE - 1)
			return -E2BIG;
	}
	(void)call(__NR_close, fd, 0, 0);
	return n;
}

static long write_all(int fd, const struct mapping *mappings, long n)
{
	struct head *h = &table.head;
	long pagemap = open_own("/proc/self/pagemap", O_RDONLY), r = pagemap < 0 ? pagemap : 0;

	has_untouched = 0;
	*h = (struct head){
		.magic = MAGIC, .brk = (uint64_t)call(__NR_brk, 0, 0, 0), .size = TABLE_SIZE};
	copy_bytes(h->token, kept.token, TOKEN_SIZE);
	for (long i = 0; r == 0 && i < n; i++)
		r = list_mapping(pagemap, &mappings[i]);
	if (r == 0 && has_untouched)
		r = mark_wiped();
	if (r == 0)
		r = imprint_write_pages(fd, h);
	if (r == 0)
		r = imprint_write_range(fd, (uint64_t)table.bytes,
		                        (uint64_t)table.bytes + TABLE_SIZE, 0);
	if (r == 0)
		r = call(__NR_fcntl, fd, F_ADD_SEALS, SEALS);
	return r;
}

struct message {
	uint32_t kind;
	char tag[TAG_SIZE];
	int32_t errnum;
} __attribute__((packed));

/* With the fd once it is whole, or with what went wrong. */
static long tell(long door, struct message *m, size_t len, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
	                      .cmsg_level = SOL_SOCKET,
	                      .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {.iov_base = m, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		copy_bytes(CMSG_DATA(&control.head), &fd, sizeof(fd));
		msg.msg_control = &control;
		msg.msg_controllen = sizeof(control);
	}
	return call(__NR_sendmsg, door, (long)&msg, MSG_NOSIGNAL);
}

/* The agent knows of it before it begins, and so of its death. */
static void write_and_tell(int fd, const struct mapping *mappings, long n, const char *tag)
{
	static const char most[] = "1000";
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct message m = {.kind = DOOR_IMPRINT};
	long adj = open_own("/proc/self/oom_score_adj", O_WRONLY);
	long door = call(__NR_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long r;

	if (adj >= 0) /* if memory runs out, it is this process that goes */
		(void)call(__NR_write, adj, (long)most, sizeof(most) - 1);
	copy_bytes(address.sun_path, DOOR, sizeof(DOOR) - 1);
	r = call(__NR_connect, door, (long)&address,
	         (long)(offsetof(struct sockaddr_un, sun_path) + sizeof(DOOR) - 1));
	copy_bytes(m.tag, tag, TAG_SIZE);
	if (r == 0)
		r = tell(door, &m, offsetof(struct message, errnum), -1);
	if (r > 0) {
		r = write_all(fd, mappings, n);
		m.errnum = (int32_t)-r;
		(void)tell(door, (struct message *)&m.errnum, sizeof(m.errnum), r == 0 ? fd : -1);
	}
}

/* ---- the source */

static long check_maps(const char *maps, long len)
{
	long fd = open_own("/proc/self/maps", O_RDONLY), have = 0, n;

	if (fd < 0)
		return fd;
	while ((n = call(__NR_read, fd, (long)(text + have), (long)MAPS_SIZE - have)) > 0)
		have += n;
	(void)call(__NR_close, fd, 0, 0);
	if (n < 0)
		return n;
	return have == len && is_same(text, maps, (size_t)len) ? 0 : -EAGAIN;
}

static void keep_signals(void)
{
	for (int i = 0; i < SIGNALS; i++)
		(void)call5(__NR_rt_sigaction, i + 1, 0, (long)&kept.actions[i], 8, 0);
	(void)call(__NR_sigaltstack, 0, (long)&kept.stack, 0);
}

struct wish {
	int fd;
	const struct mapping *mappings;
	long n;
	const char *tag;
};

/* The writer is a child of the source's parent, who reaps it: code that waits for its own children
 * must not see it. */
static __attribute__((noinline)) long start_writer(const struct wish *w)
{
	long r = call5(__NR_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);

	if (r == 0) {
		write_and_tell(w->fd, w->mappings, w->n, w->tag);
		(void)call(__NR_exit_group, 0, 0, 0);
	}
	return r < 0 ? r : 0;
}

static __attribute__((noinline)) long split(const struct wish *w)
{
	return imprint_mark(&kept.place) ? 1 : start_writer(w);
}

/* 0: the source goes on, and a writer is under way; 1: this is a copy. -EAGAIN: a mapping has come
 * or gone since maps was read. */
long imprint_save(int fd, const struct mapping *mappings, long n, const char *maps, long maps_len,
                  const char *tag)
{
	const struct wish w = {fd, mappings, n, tag};
	const uint64_t all = ~0UL;
	long r;

	(void)call5(__NR_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&kept.mask, 8, 0);
	keep_signals();
	r = check_maps(maps, maps_len);
	if (r == 0)
		r = split(&w);
	if (r == 1)
		(void)call(__NR_munmap, SCRATCH, SCRATCH_SIZE, 0);
	(void)call5(__NR_rt_sigprocmask, SIG_SETMASK, (long)&kept.mask, 0, 8, 0);
	return r;
}
