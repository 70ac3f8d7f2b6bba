// SPDX-License-Identifier: Apache-2.0
/*
 * The manifest: a head, then a row for each other file, with its SHA-256; pages, which are copied
 * and never parsed, have a checksum that is read off ten times as fast. It names what a memory
 * needs to go on: the same kernel, for its structures and vDSO; the same processor, since programs
 * chose their instructions by it; and the agent, whose program every copy must have
 * (memory_agent.h).
 */
#include "engine/jail/memory/memory_image.h"

#include "base/buf.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fs/dir_reader.h"
#include "engine/jail/memory/checksum.h"
#include "engine/jail/memory/memory_agent.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#define MAGIC        0x636c6d6dU /* "clmm" */
#define VERSION      3
#define VERSION_SLOW 2 /* pages have a SHA-256, too */
#define FILES_MAX    65536
#define CHUNK        (256 << 10) /* stays in a processor's cache */

struct head {
	struct digest self; /* over all behind it */
	uint32_t magic, version, n_files, reserved;
	char kernel[65], machine[65];
	struct digest processor, agent;
};

struct row {
	char name[64];
	uint64_t size;
	struct digest digest; /* of pages: their checksum as a u64, then zeros */
};

static int hash_bytes(const void *data, size_t len, struct digest *ret)
{
	return EVP_Digest(data, len, ret->bytes, NULL, EVP_sha256(), NULL) == 1 ? 0 : -EIO;
}

/* What nothing parses, and is nearly all of a memory: what is looked for is damage. */
static bool is_pages(const char *name)
{
	return strncmp(name, "pages-", 6) == 0;
}

static int sum_fd(int fd, struct digest *ret)
{
	auto_free char *chunk = xcalloc(1, CHUNK);
	struct checksum sum;
	uint64_t end;
	ssize_t n;

	checksum_init(&sum);
	while ((n = read(fd, chunk, CHUNK)) > 0)
		checksum_add(&sum, chunk, (size_t)n);
	if (n < 0)
		return -errno;
	end = checksum_end(&sum);
	*ret = (struct digest){0};
	memcpy(ret->bytes, &end, sizeof(end));
	return 0;
}

static int hash_fd(int fd, struct digest *ret)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	auto_free char *chunk = xcalloc(1, CHUNK);
	ssize_t n = 0;
	int r = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;

	while (r == 0 && (n = read(fd, chunk, CHUNK)) > 0)
		r = EVP_DigestUpdate(ctx, chunk, (size_t)n) == 1 ? 0 : -EIO;
	if (r == 0 && n < 0)
		r = -errno;
	if (r == 0)
		r = EVP_DigestFinal_ex(ctx, ret->bytes, NULL) == 1 ? 0 : -EIO;
	EVP_MD_CTX_free(ctx);
	return r;
}

/* Hashes cpuinfo's entry for the first processor, without the values that change by themselves. */
static int hash_processor(struct digest *ret)
{
	static const char *const names[] = {"vendor_id",       "model name", "flags",
	                                    "CPU implementer", "CPU part",   "Features"};
	auto_call(buf_done) struct buf text = BUF_INIT(64 * 1024);
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[16 * 1024];
	int r = f ? 0 : -errno;

	while (r >= 0 && fgets(line, sizeof(line), f) && line[0] != '\n')
		for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(names); i++)
			if (strncmp(line, names[i], strlen(names[i])) == 0)
				r = buf_append_str(&text, line);
	if (f)
		(void)fclose(f);
	return r < 0 ? r : hash_bytes(text.data, text.len, ret);
}

static int make_head(struct head *ret)
{
	struct utsname name;

	*ret = (struct head){.magic = MAGIC, .version = VERSION};
	if (uname(&name) < 0)
		return -errno;
	(void)snprintf(ret->kernel, sizeof(ret->kernel), "%s", name.release);
	(void)snprintf(ret->machine, sizeof(ret->machine), "%s", name.machine);
	return hash_processor(&ret->processor);
}

static int make_row(int dir_fd, const char *name, uint32_t version, struct row *ret)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	*ret = (struct row){0};
	if (strlen(name) >= sizeof(ret->name))
		return -ENAMETOOLONG;
	memcpy(ret->name, name, strlen(name));
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	ret->size = (uint64_t)st.st_size;
	return version != VERSION_SLOW && is_pages(name) ? sum_fd(fd, &ret->digest)
	                                                 : hash_fd(fd, &ret->digest);
}

static int write_manifest(int dir_fd, uint64_t *ret_bytes)
{
	auto_call(buf_done) struct buf out =
		BUF_INIT(sizeof(struct head) + FILES_MAX * sizeof(struct row));
	auto_dir struct dir_reader names = {.fd = -1};
	const char *name;
	struct head head;
	int r = make_head(&head);

	if (r == 0 && memory_agent_read(dir_fd, &head.agent) < 0)
		head.agent = memory_agent_own();
	if (r == 0)
		r = buf_append(&out, &head, sizeof(head));
	if (r >= 0)
		r = dir_open(&names, dir_fd, ".");
	*ret_bytes = 0;
	while (r >= 0 && (name = dir_next(&names))) {
		struct row row;

		r = make_row(dir_fd, name, VERSION, &row);
		if (r == 0)
			r = buf_append(&out, &row, sizeof(row));
		*ret_bytes += row.size;
		head.n_files++;
	}
	if (r >= 0)
		r = names.error;
	if (r < 0)
		return r;
	memcpy(out.data, &head, sizeof(head));
	r = hash_bytes(out.data + DIGEST_LEN, out.len - DIGEST_LEN, &head.self);
	if (r < 0)
		return r;
	memcpy(out.data, &head, sizeof(head));
	return fd_replace_file(dir_fd, MEMORY_MANIFEST, out.data, out.len, 0600, /* sync= */ true);
}

int memory_image_prepare(int dir_fd, uint64_t *ret_bytes, struct err *err)
{
	auto_dir struct dir_reader names = {.fd = -1};
	const char *name;
	struct stat st;
	int r = memory_image_repair(dir_fd, err);

	if (r < 0)
		return r;
	*ret_bytes = 0;
	r = dir_open(&names, dir_fd, ".");
	while (r >= 0 && (name = dir_next(&names)))
		if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			*ret_bytes += (uint64_t)st.st_size;
	if (r >= 0)
		r = names.error;
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "the images cannot be read") : 0;
}

int memory_image_describe(int dir_fd, uint64_t *ret_bytes, struct err *err)
{
	int r = write_manifest(dir_fd, ret_bytes);

	return r < 0 ? err_set(err, r == -ENOSPC ? ERR_HOST_DISK_FULL : ERR_INTERNAL, -r,
	                       "cannot write the memory's manifest")
	             : 0;
}

/* Whoever waits for the disk later waits for less: it writes while all is being hashed. */
static void begin_to_write(int dir_fd)
{
	auto_dir struct dir_reader names = {.fd = -1};
	const char *name;
	int r = dir_open(&names, dir_fd, ".");

	while (r == 0 && (name = dir_next(&names))) {
		auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

		if (fd >= 0)
			(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	}
}

int memory_image_finish(int dir_fd, uint64_t *ret_bytes, struct err *err)
{
	int r = memory_image_repair(dir_fd, err);

	if (r < 0)
		return r;
	begin_to_write(dir_fd);
	return memory_image_describe(dir_fd, ret_bytes, err);
}

int memory_image_read_agent(int dir_fd, struct digest *ret)
{
	auto_fd int fd = openat(dir_fd, MEMORY_MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct head head;
	int r = fd < 0 ? -errno : fd_read_all(fd, &head, sizeof(head));

	if (r == 0)
		*ret = head.agent;
	return r;
}

static int damaged(struct err *err, const char *what)
{
	(void)err_set(err, ERR_CONFLICT, EBADMSG, "the saved memory is damaged: '%s'", what);
	return err_hint(err, "its files may still be good: start from it with memory: false");
}

static int check_head(const struct buf *text, struct head *ret, struct err *err)
{
	struct head here;
	struct digest self;
	int r = make_head(&here);

	if (r < 0)
		return err_set(err, ERR_INTERNAL, -r, "cannot tell what this host is");
	if (text->len < sizeof(*ret))
		return damaged(err, MEMORY_MANIFEST);
	memcpy(ret, text->data, sizeof(*ret));
	if (hash_bytes(text->data + DIGEST_LEN, text->len - DIGEST_LEN, &self) < 0 ||
	    !digest_equal(&self, &ret->self) || ret->magic != MAGIC ||
	    text->len != sizeof(*ret) + ret->n_files * sizeof(struct row))
		return damaged(err, MEMORY_MANIFEST);
	ret->kernel[sizeof(ret->kernel) - 1] = '\0';
	if (ret->version != VERSION && ret->version != VERSION_SLOW)
		(void)err_set(err, ERR_CONFLICT, ENOEXEC,
		              "the memory has version %u, this cloche knows %d", ret->version,
		              VERSION);
	else if (strcmp(ret->kernel, here.kernel) == 0 && strcmp(ret->machine, here.machine) == 0 &&
	         digest_equal(&ret->processor, &here.processor))
		return 0;
	else
		(void)err_set(err, ERR_CONFLICT, ENOEXEC,
		              "the memory was saved on another kernel or processor ('%s')",
		              ret->kernel);
	return err_hint(err, "start from it with memory: false: its files go on anywhere");
}

static int check_agent(int dir_fd, const struct digest *agent, struct err *err)
{
	const struct digest own = memory_agent_own();
	auto_fd int fd = -1;
	int r = digest_equal(agent, &own) ? 0 : memory_agent_extract(dir_fd, agent, &fd);

	if (r == 0)
		return 0;
	(void)err_set(err, ERR_CONFLICT, ENOEXEC,
	              "the memory was saved with the agent of another version of cloche, whose "
	              "program is not in it");
	return err_hint(err, "start from it with memory: false: its files go on anywhere");
}

/* Reads the manifest and its head, and checks that it fits this host. */
static int read_manifest(int dir_fd, struct buf *text, struct head *ret, struct err *err)
{
	auto_fd int fd = openat(dir_fd, MEMORY_MANIFEST, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	char *room;
	int r = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	if (r == 0)
		r = buf_reserve(text, (size_t)st.st_size, &room);
	if (r >= 0)
		r = fd_read_all(fd, room, (size_t)st.st_size);
	if (r < 0)
		return damaged(err, MEMORY_MANIFEST);
	buf_commit(text, (size_t)st.st_size);
	return check_head(text, ret, err);
}

static int check_size(int dir_fd, const struct row *want, struct err *err)
{
	struct stat st;

	return fstatat(dir_fd, want->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	                       (uint64_t)st.st_size == want->size
	               ? 0
	               : damaged(err, want->name);
}

int memory_image_check(int dir_fd, enum memory_part part, struct err *err)
{
	auto_call(buf_done) struct buf text =
		BUF_INIT(sizeof(struct head) + FILES_MAX * sizeof(struct row));
	struct head head;
	int r = read_manifest(dir_fd, &text, &head, err);

	for (size_t i = 0; r == 0 && i < head.n_files; i++) {
		struct row want, is;

		memcpy(&want, text.data + sizeof(head) + i * sizeof(want), sizeof(want));
		want.name[sizeof(want.name) - 1] = '\0';
		if (part == MEMORY_PARSED && is_pages(want.name))
			r = check_size(dir_fd, &want, err);
		else if (is_pages(want.name) == (part == MEMORY_PAGES) &&
		         (make_row(dir_fd, want.name, head.version, &is) < 0 ||
		          is.size != want.size || !digest_equal(&is.digest, &want.digest)))
			r = damaged(err, want.name);
	}
	return r < 0 ? r : check_agent(dir_fd, &head.agent, err);
}

int memory_image_fits(int dir_fd, struct err *err)
{
	auto_call(buf_done) struct buf text =
		BUF_INIT(sizeof(struct head) + FILES_MAX * sizeof(struct row));
	struct head head;
	int r = read_manifest(dir_fd, &text, &head, err);

	return r < 0 ? r : check_agent(dir_fd, &head.agent, err);
}
