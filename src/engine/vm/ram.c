// SPDX-License-Identifier: Apache-2.0
#include "engine/vm/ram.h"

#include "base/fd.h"
#include "vmm/orders.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE        4096U
#define CHUNK       (256 * PAGE)
#define PM_PRESENT  (UINT64_C(1) << 63)
#define PM_SWAPPED  (UINT64_C(1) << 62)
#define PM_FILE     (UINT64_C(1) << 61) /* as it is in the file: not changed */
#define PATH_LENGTH 64

DEFINE_FREEP(FILE, fclose)

struct sink {
	int fds[2]; /* -1: none */
	uint64_t written;
};

static int write_at(int fd, const char *data, size_t len, off_t at)
{
	while (fd >= 0 && len > 0) {
		ssize_t n = pwrite(fd, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

static int put(struct sink *s, const char *data, size_t len, off_t at)
{
	int r = write_at(s->fds[0], data, len, at);

	s->written += len;
	return r < 0 ? r : write_at(s->fds[1], data, len, at);
}

static bool is_zero(const char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

static int read_at(int fd, char *data, size_t len, off_t at)
{
	while (len > 0) {
		ssize_t n = pread(fd, data, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		data += n;
		len -= (size_t)n;
		at += n;
	}
	return 0;
}

/* Calls fn for each run of pages that are not zero. */
static int each_stretch(int fd, int (*fn)(void *arg, const char *data, size_t len, off_t at),
                        void *arg)
{
	auto_free char *chunk = malloc(CHUNK);
	off_t at = 0, end;
	int r = chunk ? 0 : -ENOMEM;

	while (r == 0 && (at = lseek(fd, at & ~(off_t)(PAGE - 1), SEEK_DATA)) >= 0) {
		at &= ~(off_t)(PAGE - 1);
		end = (lseek(fd, at, SEEK_HOLE) + PAGE - 1) & ~(off_t)(PAGE - 1);
		for (; r == 0 && at < end; at += CHUNK) {
			const size_t len = MIN((size_t)(end - at), (size_t)CHUNK);
			size_t from = 0, to;

			r = read_at(fd, chunk, len, at);
			for (; r == 0 && from < len; from = to + PAGE) {
				for (to = from; to < len && !is_zero(chunk + to); to += PAGE)
					continue;
				if (to > from)
					r = fn(arg, chunk + from, to - from, at + (off_t)from);
			}
		}
		at = end;
	}
	return r < 0 || errno == ENXIO ? r : -errno;
}

static int put_stretch(void *arg, const char *data, size_t len, off_t at)
{
	return put(arg, data, len, at);
}

static int find_qemu(pid_t vmm, pid_t *ret)
{
	char path[PATH_LENGTH], text[PATH_LENGTH];
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)vmm, (int)vmm);
	r = fd_read_file(AT_FDCWD, path, text, sizeof(text));
	if (r < 0)
		return r;
	*ret = (pid_t)strtol(text, NULL, 10);
	return *ret > 0 ? 0 : -ESRCH;
}

static int open_of(pid_t pid, const char *name)
{
	char path[PATH_LENGTH];

	(void)snprintf(path, sizeof(path), "/proc/%d/%.16s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int copy_run(struct sink *s, int mem_fd, char *chunk, uint64_t from, size_t len, off_t at)
{
	int r = 0;

	for (size_t done = 0; r == 0 && done < len; done += CHUNK) {
		const size_t n = MIN(len - done, (size_t)CHUNK);

		r = read_at(mem_fd, chunk, n, (off_t)(from + done));
		if (r == 0)
			r = put(s, chunk, n, at + (off_t)done);
	}
	return r;
}

struct mapping {
	uint64_t from, to, offset;
};

static int copy_mapping(struct sink *s, int mem_fd, int pagemap_fd, const struct mapping *m)
{
	const size_t n = (size_t)((m->to - m->from) / PAGE);
	auto_free uint64_t *pages = calloc(n, sizeof(*pages));
	auto_free char *chunk = malloc(CHUNK);
	int r = pages && chunk ? read_at(pagemap_fd, (char *)pages, n * sizeof(*pages),
	                                 (off_t)(m->from / PAGE * sizeof(*pages)))
	                       : -ENOMEM;

	for (size_t i = 0, end; r == 0 && i < n; i = end + 1) {
		for (end = i; end < n && (pages[end] & (PM_PRESENT | PM_SWAPPED)) != 0 &&
		              (pages[end] & PM_FILE) == 0;
		     end++)
			continue;
		if (end > i)
			r = copy_run(s, mem_fd, chunk, m->from + i * PAGE, (end - i) * PAGE,
			             (off_t)(m->offset + i * PAGE));
	}
	return r;
}

/* "FROM-TO PERMISSIONS OFFSET DEVICE INODE /memfd:NAME (deleted)" */
static bool read_line(const char *line, uint64_t bytes, struct mapping *ret)
{
	return strstr(line, "/memfd:" RAM_NAME) &&
	       sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64, &ret->from, &ret->to,
	              &ret->offset) == 3 &&
	       ret->from < ret->to && ret->offset < bytes &&
	       ret->to - ret->from <= bytes - ret->offset;
}

static int copy_changes(const struct ram *ram, pid_t qemu, struct sink *s)
{
	auto_fd int mem_fd = open_of(qemu, "mem"), pagemap_fd = open_of(qemu, "pagemap");
	auto_fd int maps_fd = open_of(qemu, "maps");
	auto_call(fclosep) FILE *maps = maps_fd < 0 ? NULL : fdopen(maps_fd, "re");
	struct mapping m;
	char line[256];
	size_t n = 0;
	int r = 0;

	if (mem_fd < 0 || pagemap_fd < 0 || !maps)
		return -errno;
	(void)take_fd(&maps_fd);
	while (r == 0 && fgets(line, sizeof(line), maps)) {
		if (!read_line(line, ram->bytes, &m))
			continue;
		r = copy_mapping(s, mem_fd, pagemap_fd, &m);
		n++;
	}
	return r < 0 ? r : n > 0 ? 0 : -ENODATA;
}

/* Copies what it has from the file that it was started from. */
static int copy_base(const struct ram *ram, int ram_fd, struct sink *s)
{
	struct sink rest = *s;
	int r;

	if (ram->base_fd >= 0 && ioctl(s->fds[0], FICLONE, ram->base_fd) == 0)
		rest.fds[0] = -1;
	if (rest.fds[0] < 0 && rest.fds[1] < 0)
		return 0;
	r = each_stretch(ram_fd, put_stretch, &rest);
	if (rest.fds[0] >= 0)
		s->written = rest.written;
	return r;
}

int ram_save(const struct ram *ram, int file_fd, int memory_fd, uint64_t *ret_bytes,
             struct err *err)
{
	struct sink sink = {.fds = {file_fd, memory_fd}};
	auto_fd int ram_fd = -1;
	char name[16];
	pid_t qemu = 0;
	int r = find_qemu(ram->vmm, &qemu);

	(void)snprintf(name, sizeof(name), "fd/%d", VMM_FD_RAM);
	if (r == 0) {
		ram_fd = open_of(qemu, name);
		r = ram_fd < 0 || ftruncate(file_fd, (off_t)ram->bytes) < 0 ? -errno : 0;
	}
	if (r == 0)
		r = ram->is_copy ? copy_base(ram, ram_fd, &sink)
		                 : each_stretch(ram_fd, put_stretch, &sink);
	if (r == 0 && ram->is_copy)
		r = copy_changes(ram, qemu, &sink);
	*ret_bytes = sink.written;
	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot save the machine's memory")
	             : 0;
}

struct reading {
	EVP_MD_CTX *hash;
	int memory_fd;
};

/* Hashed page by page, so that the hash does not depend on how the filesystem stores the file. */
static int read_stretch(void *arg, const char *data, size_t len, off_t at)
{
	const struct reading *r = arg;

	for (size_t i = 0; i < len; i += PAGE) {
		const uint64_t place = (uint64_t)at + i;

		if (EVP_DigestUpdate(r->hash, &place, sizeof(place)) != 1 ||
		    EVP_DigestUpdate(r->hash, data + i, PAGE) != 1)
			return -EIO;
	}
	return write_at(r->memory_fd, data, len, at);
}

int ram_read(int file_fd, int memory_fd, struct digest *ret, struct err *err)
{
	struct reading reading = {.hash = EVP_MD_CTX_new(), .memory_fd = memory_fd};
	int r = reading.hash && EVP_DigestInit_ex(reading.hash, EVP_sha256(), NULL) == 1 ? 0
	                                                                                 : -ENOMEM;

	if (r == 0)
		r = each_stretch(file_fd, read_stretch, &reading);
	if (r == 0 && EVP_DigestFinal_ex(reading.hash, ret->bytes, NULL) != 1)
		r = -EIO;
	EVP_MD_CTX_free(reading.hash);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot read the machine's memory") : 0;
}

int ram_make(uint64_t bytes, int *ret_fd, struct err *err)
{
	auto_fd int fd = memfd_create(RAM_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return err_set(err, ERR_CAPACITY, errno, "cannot make the machine's memory");
	*ret_fd = take_fd(&fd);
	return 0;
}
