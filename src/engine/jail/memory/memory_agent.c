// SPDX-License-Identifier: Apache-2.0
/*
 * The agent runs from a memfd, and CRIU saves the whole contents of a memfd. So the images still
 * have the agent's program of an older cloche when it exists nowhere else; its pages are collected
 * here. A guest can have memfds of any name too; the right one is known by its hash, which was
 * recorded when the memory was saved.
 *
 *	memfd.img			a message for each memfd: its size and NUMBER
 *	pagemap-shmem-NUMBER.img	the file with its pages, then a message for each run
 *	pages-NUMBER.img		the pages, one after the other
 */
#include "engine/jail/memory/memory_agent.h"

#include "base/fd.h"
#include "engine/jail/memory/criu_image.h"
#include "engine/jail/memory/memory_image.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define CHUNK       65536
#define PROGRAM_MAX (64U << 20) /* bytes of an agent */

enum { MEMFD_SIZE = 4, MEMFD_SHMID = 5 };                           /* memfd_inode_entry */
enum { MAP_PAGES_ID = 1 };                                          /* pagemap_head */
enum { RUN_AT = 1, RUN_PAGES = 2, RUN_FLAGS = 4, RUN_PAGES64 = 5 }; /* pagemap_entry */
#define RUN_IS_PRESENT 4                                            /* of its flags */

/* A cache of hashes of programs, by inode: all guests of a broker share one program. */
static struct known {
	dev_t dev;
	ino_t ino;
	struct digest digest;
} known[8];
static size_t n_known;
static struct digest own;

static int hash_fd(int fd, struct digest *ret)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	auto_free char *chunk = xcalloc(1, CHUNK);
	off_t at = 0;
	ssize_t n = 0;
	int r = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;

	while (r == 0 && (n = pread(fd, chunk, CHUNK, at)) > 0) {
		r = EVP_DigestUpdate(ctx, chunk, (size_t)n) == 1 ? 0 : -EIO;
		at += n;
	}
	if (r == 0 && n < 0)
		r = -errno;
	if (r == 0)
		r = EVP_DigestFinal_ex(ctx, ret->bytes, NULL) == 1 ? 0 : -EIO;
	EVP_MD_CTX_free(ctx);
	return r;
}

/* The hash of the file at fd, read at most once. */
static int identify(int fd, struct digest *ret)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return -errno;
	for (size_t i = 0; i < MIN(n_known, ARRAY_SIZE(known)); i++) {
		if (known[i].dev == st.st_dev && known[i].ino == st.st_ino) {
			*ret = known[i].digest;
			return 0;
		}
	}
	if (st.st_size > PROGRAM_MAX)
		return -EFBIG;
	r = hash_fd(fd, ret);
	if (r == 0)
		known[n_known++ % ARRAY_SIZE(known)] = (struct known){st.st_dev, st.st_ino, *ret};
	return r;
}

int memory_agent_set(int program_fd)
{
	return identify(program_fd, &own);
}

struct digest memory_agent_own(void)
{
	return own;
}

int memory_agent_note(int dir_fd, pid_t pid)
{
	auto_fd int fd = -1;
	struct digest agent;
	char path[48];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : identify(fd, &agent);
	return r < 0 ? r
	             : fd_replace_file(dir_fd, MEMORY_AGENT_HASH, agent.bytes, sizeof(agent.bytes),
	                               0600, /* sync= */ false);
}

int memory_agent_read(int dir_fd, struct digest *ret)
{
	auto_fd int fd = openat(dir_fd, MEMORY_AGENT_HASH, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT) /* before 0.2 the manifest alone said so */
		return memory_image_read_agent(dir_fd, ret);
	return fd < 0 ? -errno : fd_read_all(fd, ret->bytes, sizeof(ret->bytes));
}

struct run { /* of pages that lie behind each other */
	uint64_t at, n_pages;
	bool is_present;
};

static int read_run(const unsigned char *message, size_t len, struct run *ret)
{
	struct criu_field f;
	size_t at = 0;
	int r;

	*ret = (struct run){.is_present = true};
	while ((r = criu_image_field(message, len, &at, &f)) > 0) {
		if (f.number == RUN_AT)
			ret->at = f.value;
		else if (f.number == RUN_PAGES64 || (f.number == RUN_PAGES && ret->n_pages == 0))
			ret->n_pages = f.value;
		else if (f.number == RUN_FLAGS)
			ret->is_present = (f.value & RUN_IS_PRESENT) != 0;
	}
	return r;
}

/* Copies from one file to another, up to the end of the program. */
static int copy_bytes(int from_fd, uint64_t from, int to_fd, uint64_t to, uint64_t len)
{
	char chunk[CHUNK];

	while (len > 0) {
		ssize_t n = pread(from_fd, chunk, MIN(len, (uint64_t)sizeof(chunk)), (off_t)from);

		if (n <= 0)
			return n < 0 ? -errno : -EPROTO;
		if (pwrite(to_fd, chunk, (size_t)n, (off_t)to) != n)
			return -EIO;
		from += (uint64_t)n;
		to += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int copy_runs(int dir_fd, const struct buf *map, int to_fd, uint64_t size)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	const unsigned char *message = NULL;
	size_t at = CRIU_HEAD_SIZE, in = 0, len = 0;
	auto_fd int pages_fd = -1;
	struct criu_field f;
	uint64_t from = 0, id = 0;
	char name[40];
	int r = criu_image_message(map, &at, &message, &len);

	while (r > 0 && (r = criu_image_field(message, len, &in, &f)) > 0)
		if (f.number == MAP_PAGES_ID)
			id = f.value;
	if (r < 0)
		return r;
	(void)snprintf(name, sizeof(name), "pages-%u.img", (unsigned)id);
	pages_fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (pages_fd < 0)
		return -errno;
	while ((r = criu_image_message(map, &at, &message, &len)) > 0) {
		struct run run;

		r = read_run(message, len, &run);
		if (r < 0)
			return r;
		if (!run.is_present)
			continue;
		if (run.at >= size || run.n_pages > (size - run.at) / page + 1)
			return -EPROTO;
		r = copy_bytes(pages_fd, from, to_fd, run.at,
		               MIN(run.n_pages * page, size - run.at));
		if (r < 0)
			return r;
		from += run.n_pages * page;
	}
	return r;
}

static int extract(int dir_fd, uint64_t shmid, uint64_t size, int *ret_fd)
{
	auto_call(buf_done) struct buf map = BUF_INIT(CRIU_IMAGE_MAX);
	auto_fd int fd = memfd_create(MEMORY_AGENT, MFD_CLOEXEC);
	char name[40];
	int r;

	/* It is readable by all: a sandbox's root opens it through /proc/1/exe. */
	if (fd < 0 || fchmod(fd, 0555) < 0 || ftruncate(fd, (off_t)size) < 0)
		return -errno;
	(void)snprintf(name, sizeof(name), "pagemap-shmem-%u.img", (unsigned)shmid);
	r = criu_image_read(dir_fd, name, &map);
	if (r == 0)
		r = copy_runs(dir_fd, &map, fd, size);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

int memory_agent_extract(int dir_fd, const struct digest *agent, int *ret_fd)
{
	auto_call(buf_done) struct buf memfds = BUF_INIT(CRIU_IMAGE_MAX);
	const unsigned char *message = NULL;
	size_t at = CRIU_HEAD_SIZE, len = 0;
	int r = criu_image_read(dir_fd, "memfd.img", &memfds);

	while (r >= 0 && (r = criu_image_message(&memfds, &at, &message, &len)) > 0) {
		auto_fd int fd = -1;
		uint64_t size = 0, shmid = 0;
		struct criu_field f;
		struct digest found;
		size_t in = 0;

		while ((r = criu_image_field(message, len, &in, &f)) > 0) {
			if (f.number == MEMFD_SIZE)
				size = f.value;
			else if (f.number == MEMFD_SHMID)
				shmid = f.value;
		}
		if (r < 0 || size == 0 || size > PROGRAM_MAX)
			continue;
		if (extract(dir_fd, shmid, size, &fd) == 0 && hash_fd(fd, &found) == 0 &&
		    digest_equal(&found, agent)) {
			*ret_fd = take_fd(&fd);
			return 0;
		}
	}
	return r < 0 ? r : -ENOENT;
}
