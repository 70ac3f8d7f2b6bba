// SPDX-License-Identifier: Apache-2.0
/* Images of a saved memory: put right, adapted, and found out when they are damaged. */
#include "test.h"

#include "base/fd.h"
#include "engine/jail/memory/checksum.h"
#include "engine/jail/memory/criu.h"
#include "engine/jail/memory/memory_agent.h"
#include "engine/jail/memory/memory_image.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "\x19\x43\x56\x54\x11\x22\x33\x44"

/* files.img: a memfd (kind 18) of number 1 and a regular file of number 2. */
static const char files[] = MAGIC "\x04\0\0\0\x08\x12\x10\x01"
				  "\x04\0\0\0\x08\x01\x10\x02";
/* mm: field 1 is 5, the program (field 12) is file 1, or 2. */
static const char of_memfd[] = MAGIC "\x04\0\0\0\x08\x05\x60\x01";
static const char of_file[] = MAGIC "\x04\0\0\0\x08\x05\x60\x02";
static const char userns[] = MAGIC "\x02\0\0\0\x0a\0";

static void put(int dir_fd, const char *name, const char *data, size_t len)
{
	CHECK_INT(fd_replace_file(dir_fd, name, data, len, 0644, false), 0);
}

struct place {
	char path[64];
	int fd;
};

static struct place make_place(void)
{
	struct place p = {.path = "/tmp/cloche-memory-XXXXXX"};

	CHECK(mkdtemp(p.path) != NULL);
	p.fd = open(p.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(p.fd >= 0);
	put(p.fd, "files.img", files, sizeof(files) - 1);
	put(p.fd, "mm-1.img", of_memfd, sizeof(of_memfd) - 1);
	put(p.fd, "mm-2.img", of_file, sizeof(of_file) - 1);
	put(p.fd, "userns-3.img", userns, sizeof(userns) - 1);
	put(p.fd, "utsns-4.img", userns, sizeof(userns) - 1);
	put(p.fd, "pages-1.img", "pages", 5);
	return p;
}

static void remove_place(struct place *p)
{
	static const char *const names[] = {
		"files.img",           "mm-1.img",    "mm-2.img",
		"userns-3.img",        "utsns-4.img", "pages-1.img",
		MEMORY_MANIFEST,       "memfd.img",   "pagemap-shmem-7.img",
		"pagemap-shmem-8.img", "pages-3.img", MEMORY_AGENT_HASH};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlinkat(p->fd, names[i], 0);
	(void)close(p->fd);
	CHECK_INT(rmdir(p->path), 0);
}

static size_t read_whole(int dir_fd, const char *name, char *text, size_t size)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size);

	CHECK(n >= 0);
	return (size_t)n;
}

TEST(the_agents_program_comes_from_outside_and_others_stay_what_they_were)
{
	struct place p = make_place();
	char now[512];
	struct err err;
	size_t n;

	CHECK_INT(memory_image_repair(p.fd, &err), 0);
	n = read_whole(p.fd, "mm-2.img", now, sizeof(now));
	CHECK_MEM(now, n, of_file, sizeof(of_file) - 1);
	n = read_whole(p.fd, "mm-1.img", now, sizeof(now));
	CHECK_MEM(now, n, MAGIC "\x08\0\0\0\x08\x05\x60\xf0\xff\xff\xff\x07", 20);
	n = read_whole(p.fd, "files.img", now, sizeof(now));
	CHECK(n > sizeof(files) + 20);
	CHECK_MEM(now, sizeof(files) - 1, files, sizeof(files) - 1);
	CHECK(memmem(now, n, MEMORY_AGENT, strlen(MEMORY_AGENT)) != NULL);
	remove_place(&p);
}

/* Mappings of mm: field 6 is mmap()'s flags, field 9 the advice, a bit each. The first two are
 * marked as droppable and as wiped on fork (criu/mapping_marks.h), the third is an ordinary one. */
TEST(mappings_are_given_back_what_their_marks_stand_for)
{
	static const char marked[] =
		MAGIC "\x18\0\0\0\x60\x02"
		      "\x72\x06\x30\x22\x48\x86\x80\x07" /* dd, and four marks */
		      "\x72\x04\x30\x22\x48\x06"         /* two marks */
		      "\x72\x04\x30\x22\x48\x04"
		      "\x08\x05";
	static const char expected[] = MAGIC "\x1a\0\0\0\x60\x02"
					     "\x72\x06\x30\x28\x48\x80\x80\x14" /* dd, wf */
					     "\x72\x06\x30\x22\x48\x80\x80\x10" /* wf */
					     "\x72\x04\x30\x22\x48\x04"
					     "\x08\x05";
	struct place p = make_place();
	char now[512];
	struct err err;

	put(p.fd, "mm-2.img", marked, sizeof(marked) - 1);
	for (unsigned times = 1; times <= 2; times++) {
		size_t n;

		CHECK_INT(memory_image_repair(p.fd, &err), 0);
		n = read_whole(p.fd, "mm-2.img", now, sizeof(now));
		CHECK_MEM(now, n, expected, sizeof(expected) - 1);
	}
	for (size_t len = 8; len < sizeof(marked) - 1; len++) {
		put(p.fd, "mm-2.img", marked, len);
		CHECK(memory_image_repair(p.fd, &err) < 0);
	}
	remove_place(&p);
}

TEST(a_program_of_another_memfd_is_refused_by_name)
{
	static const char other[] = MAGIC "\x04\0\0\0\x08\x05\x60\x07";
	struct place p = make_place();
	struct err err;

	put(p.fd, "mm-2.img", other, sizeof(other) - 1);
	CHECK(memory_image_repair(p.fd, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(strstr(err.message, "memfd") != NULL);
	remove_place(&p);
}

TEST(images_that_are_cut_are_an_error_and_not_read_past_their_end)
{
	struct place p = make_place();
	struct err err;

	for (size_t len = 0; len < sizeof(files) - 1; len++) {
		put(p.fd, "files.img", files, len);
		if (len != 8 && len != 16) /* a whole number of messages is a shorter image */
			CHECK(memory_image_repair(p.fd, &err) < 0);
		put(p.fd, "mm-1.img", of_memfd, sizeof(of_memfd) - 1);
	}
	put(p.fd, "files.img", files, sizeof(files) - 1);
	for (size_t len = 0; len < sizeof(of_memfd) - 1; len++) {
		put(p.fd, "mm-1.img", of_memfd, len);
		CHECK(memory_image_repair(p.fd, &err) < 0);
	}
	remove_place(&p);
}

TEST(a_copy_has_its_own_ids_and_host_name)
{
	struct place p = make_place();
	struct place to = make_place();
	char now[256];
	struct err err;
	size_t n;

	CHECK_INT(memory_image_adapt(p.fd, to.fd, 0x30010000, 65536, "copy", &err), 0);
	n = read_whole(to.fd, "userns-3.img", now, sizeof(now));
	CHECK_MEM(now, n,
	          MAGIC "\x1c\0\0\0"
	                "\x0a\x0c\x08\0\x10\x80\x80\x84\x80\x03\x18\x80\x80\x04"
	                "\x12\x0c\x08\0\x10\x80\x80\x84\x80\x03\x18\x80\x80\x04",
	          8 + 4 + 28);
	n = read_whole(to.fd, "utsns-4.img", now, sizeof(now));
	CHECK_MEM(now, n,
	          MAGIC "\x0e\0\0\0\x0a\x04"
	                "copy\x12\x06(none)",
	          8 + 4 + 14);
	remove_place(&p);
	remove_place(&to);
}

static int check(int dir_fd, struct err *err)
{
	int r = memory_image_check(dir_fd, MEMORY_PARSED, err);

	return r < 0 ? r : memory_image_check(dir_fd, MEMORY_PAGES, err);
}

TEST(a_memory_that_is_whole_is_known_to_be)
{
	struct place p = make_place();
	uint64_t bytes;
	struct err err;

	CHECK_INT(memory_image_finish(p.fd, &bytes, &err), 0);
	CHECK(bytes > 50);
	CHECK_INT(check(p.fd, &err), 0);
	remove_place(&p);
}

static void flip(int dir_fd, const char *name, off_t at)
{
	auto_fd int fd = openat(dir_fd, name, O_RDWR | O_CLOEXEC);
	char byte;

	CHECK_INT(pread(fd, &byte, 1, at), 1);
	byte ^= 1;
	CHECK_INT(pwrite(fd, &byte, 1, at), 1);
}

TEST(a_memory_that_is_flipped_cut_or_missing_in_any_file_is_refused)
{
	static const char *const names[] = {"pages-1.img", "mm-2.img", MEMORY_MANIFEST};
	uint64_t bytes;
	struct err err;

	for (size_t i = 0; i < 3 * ARRAY_SIZE(names); i++) {
		struct place p = make_place();
		const char *name = names[i / 3];

		CHECK_INT(memory_image_finish(p.fd, &bytes, &err), 0);
		if (i % 3 == 0)
			flip(p.fd, name, 3);
		else if (i % 3 == 1)
			put(p.fd, name, "", 0);
		else
			CHECK_INT(unlinkat(p.fd, name, 0), 0);
		CHECK(check(p.fd, &err) < 0);
		CHECK_INT(err.code, ERR_CONFLICT);
		CHECK(strstr(err.message, name) != NULL);
		remove_place(&p);
	}
}

TEST(pages_are_looked_at_in_the_second_part_but_for_their_size)
{
	uint64_t bytes;
	struct err err;

	for (int is_cut = 0; is_cut <= 1; is_cut++) {
		struct place p = make_place();

		CHECK_INT(memory_image_finish(p.fd, &bytes, &err), 0);
		if (is_cut)
			put(p.fd, "pages-1.img", "", 0);
		else
			flip(p.fd, "pages-1.img", 3);
		CHECK_INT(memory_image_check(p.fd, MEMORY_PARSED, &err) < 0, is_cut);
		CHECK(memory_image_check(p.fd, MEMORY_PAGES, &err) < 0);
		remove_place(&p);
	}
}

/* The manifest's head; where its version is, where a row's size and digest are. */
#define HEAD_SIZE  244
#define AT_VERSION 36
#define ROW_SIZE   104
#define AT_DIGEST  72

/* As cloche 0.2 wrote it: pages have a SHA-256. */
static void make_older(int dir_fd)
{
	char text[8192];
	size_t len = read_whole(dir_fd, MEMORY_MANIFEST, text, sizeof(text));
	const uint32_t version = 2;
	int n = 0;

	CHECK_INT((len - HEAD_SIZE) % ROW_SIZE, 0);
	memcpy(text + AT_VERSION, &version, sizeof(version));
	for (char *row = text + HEAD_SIZE; row < text + len; row += ROW_SIZE) {
		if (strcmp(row, "pages-1.img") != 0)
			continue;
		CHECK_INT(EVP_Digest("pages", 5, (unsigned char *)row + AT_DIGEST, NULL,
		                     EVP_sha256(), NULL),
		          1);
		n++;
	}
	CHECK_INT(n, 1);
	CHECK_INT(EVP_Digest(text + DIGEST_LEN, len - DIGEST_LEN, (unsigned char *)text, NULL,
	                     EVP_sha256(), NULL),
	          1);
	put(dir_fd, MEMORY_MANIFEST, text, len);
}

TEST(a_memory_of_an_older_cloche_is_whole_until_it_is_flipped)
{
	struct place p = make_place();
	uint64_t bytes;
	struct err err;

	CHECK_INT(memory_image_finish(p.fd, &bytes, &err), 0);
	make_older(p.fd);
	CHECK_INT(check(p.fd, &err), 0);
	flip(p.fd, "pages-1.img", 3);
	CHECK_INT(memory_image_check(p.fd, MEMORY_PARSED, &err), 0);
	CHECK(memory_image_check(p.fd, MEMORY_PAGES, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	remove_place(&p);
}

/* Two memfds of one name, of 4100 and 5000 bytes: the first is a guest's own. The second has its
 * last page alone among the pages, and zeros before it. */
#define PAGE 4096

static struct digest put_memfds(int dir_fd)
{
	static const char memfds[] = MAGIC "\x0c\0\0\0\x0a\x05"
					   "agent\x20\x84\x20\x28\x07"
					   "\x0c\0\0\0\x0a\x05"
					   "agent\x20\x88\x27\x28\x08";
	static const char theirs[] = MAGIC "\x02\0\0\0\x08\x03\x06\0\0\0\x08\0\x10\x02\x20\x04";
	static const char ours[] = MAGIC "\x02\0\0\0\x08\x03\x06\0\0\0\x08\0\x10\x01\x20\0"
					 "\x07\0\0\0\x08\x80\x20\x10\x01\x20\x04";
	char pages[2 * PAGE], program[5000] = {0};
	struct digest ret;

	memset(pages, 'x', sizeof(pages));
	memset(program + PAGE, 'x', sizeof(program) - PAGE);
	put(dir_fd, "memfd.img", memfds, sizeof(memfds) - 1);
	put(dir_fd, "pagemap-shmem-7.img", theirs, sizeof(theirs) - 1);
	put(dir_fd, "pagemap-shmem-8.img", ours, sizeof(ours) - 1);
	put(dir_fd, "pages-3.img", pages, sizeof(pages));
	CHECK_INT(EVP_Digest(program, sizeof(program), ret.bytes, NULL, EVP_sha256(), NULL), 1);
	return ret;
}

TEST(the_program_of_an_agent_is_put_together_from_the_images)
{
	struct place p = make_place();
	const struct digest agent = put_memfds(p.fd);
	auto_fd int fd = -1;
	char program[8192];

	if (sysconf(_SC_PAGESIZE) != PAGE)
		SKIP("pages of another size");
	CHECK_INT(memory_agent_extract(p.fd, &agent, &fd), 0);
	CHECK_INT(pread(fd, program, sizeof(program), 0), 5000);
	CHECK(program[0] == 0 && program[PAGE] == 'x' && program[4999] == 'x');
	remove_place(&p);
}

TEST(a_memory_of_another_agent_is_whole_with_its_program_and_refused_without)
{
	struct place p = make_place();
	struct digest agent = put_memfds(p.fd);
	uint64_t bytes;
	struct err err = {0};

	if (sysconf(_SC_PAGESIZE) != PAGE)
		SKIP("pages of another size");
	put(p.fd, MEMORY_AGENT_HASH, (const char *)agent.bytes, sizeof(agent.bytes));
	CHECK_INT(memory_image_finish(p.fd, &bytes, &err), 0);
	CHECK_INT(check(p.fd, &err), 0);
	agent.bytes[0] ^= 1;
	put(p.fd, MEMORY_AGENT_HASH, (const char *)agent.bytes, sizeof(agent.bytes));
	CHECK_INT(unlinkat(p.fd, MEMORY_MANIFEST, 0), 0);
	CHECK_INT(memory_image_finish(p.fd, &bytes, &err), 0);
	CHECK(check(p.fd, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(strstr(err.message, "agent") != NULL);
	remove_place(&p);
}

static bool explain(const char *words, bool is_restore, struct err *ret)
{
	auto_fd int fd = memfd_create("words", MFD_CLOEXEC);

	CHECK(fd >= 0);
	CHECK_INT(fd_write_all(fd, words, strlen(words)), 0);
	return criu_explain(fd, /* wait_status= */ 1 << 8, is_restore, ret);
}

TEST(a_socket_that_closes_meanwhile_is_of_the_moment)
{
	struct err err = {0};

	CHECK(explain("Error (criu/sk-unix.c:1): unix: Unix socket 7 not found\n", false, &err));
	CHECK_INT(err.code, ERR_UNAVAILABLE);
	CHECK(!explain("Error (criu/files.c:1): Can't open file: No such file\n", true, &err));
	CHECK_INT(err.code, ERR_INTERNAL);
}

TEST(a_checksum_is_xxh64_however_its_bytes_come)
{
	/* As `zstd --check` writes their lower halves. */
	static const struct {
		size_t len;
		uint64_t sum;
	} known[] = {
		{0, 0xef46db3751d8e999},    {1, 0xe934a84adb052768},
		{31, 0x0f187c62b1e722b7},   {32, 0x91b0cb0931a8c629},
		{33, 0x931b043cf8d65b94},   {45, 0x9364e111a6602f43},
		{1000, 0x698399d62f9c1695}, {4096, 0},
	};
	unsigned char data[4096];
	struct checksum whole, parts;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 7 + (i >> 8));
	for (size_t k = 0; k < ARRAY_SIZE(known); k++) {
		const size_t len = known[k].len;

		checksum_init(&whole);
		checksum_add(&whole, data, len);
		checksum_init(&parts);
		for (size_t i = 0, n = 1; i < len; i += n, n = n % 67 + 5)
			checksum_add(&parts, data + i, MIN(n, len - i));
		CHECK_INT(checksum_end(&parts), checksum_end(&whole));
		if (known[k].sum)
			CHECK_INT(checksum_end(&whole), known[k].sum);
	}
	for (size_t bit = 0; bit < 8 * sizeof(data); bit += 101) {
		data[bit / 8] ^= (unsigned char)(1U << bit % 8);
		checksum_init(&parts);
		checksum_add(&parts, data, sizeof(data));
		CHECK(checksum_end(&parts) != checksum_end(&whole));
		data[bit / 8] ^= (unsigned char)(1U << bit % 8);
	}
}
