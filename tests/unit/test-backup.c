// SPDX-License-Identifier: Apache-2.0
/* Content by digest, where it is cut, and manifests. */
#include "backup/content.h"
#include "backup/cut.h"
#include "backup/manifest.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SB                                                                                         \
	"sb_"                                                                                      \
	"aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define SN                                                                                         \
	"sn_"                                                                                      \
	"aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define UU "00112233-4455-6677-8899-aabbccddeeff"
#define HEAD                                                                                       \
	"{\"format\":1,\"id\":\"bk_x\",\"version\":\"1\",\"arch\":\"a\",\"kernel\":\"k\","         \
	"\"at_us\":1,\"parts\":["
#define SUBVOLUME "\"kind\":\"subvolume\",\"stream_uuid\":\"" UU "\",\"source_uuid\":\"" UU "\","

static unsigned char *noise(size_t len)
{
	unsigned char *data = malloc(len);
	uint64_t x = 88172645463325252U;

	CHECK(data);
	for (size_t i = 0; i < len; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		data[i] = (unsigned char)x;
	}
	return data;
}

TEST(pieces_are_within_their_bounds_and_cover_all)
{
	const size_t len = 32U << 20;
	unsigned char *data = noise(len);
	size_t n = 0;

	for (size_t at = 0; at < len;) {
		size_t piece = cut_find(data + at, len - at);

		CHECK(piece > 0 && piece <= CHUNK_MAX);
		CHECK(piece >= 256U << 10 || at + piece == len);
		at += piece;
		n++;
	}
	CHECK(n > 16 && n < 64);
	free(data);
}

TEST(a_byte_that_is_put_in_moves_no_cut_far_behind_it)
{
	const size_t len = 16U << 20;
	unsigned char *data = noise(len + 1);
	size_t ends[64], n = 0, same = 0, m = 0;

	for (size_t at = 0; at < len; ends[n++] = at)
		at += cut_find(data + at, len - at);
	memmove(data + 1, data, len);
	data[0] = 'x';
	for (size_t at = 0; at < len + 1; m++) {
		at += cut_find(data + at, len + 1 - at);
		for (size_t i = 0; i < n; i++)
			same += ends[i] + 1 == at;
	}
	CHECK(same + 3 >= n);
	free(data);
}

struct place {
	char dir[40], path[64];
};

static struct place place_new(const char *name)
{
	struct place p = {.dir = "/tmp/test-backup.XXXXXX"};

	CHECK(mkdtemp(p.dir));
	(void)snprintf(p.path, sizeof(p.path), "%s/%s", p.dir, name);
	return p;
}

static void place_remove(const struct place *p)
{
	char command[80];
	pid_t pid = fork();

	(void)snprintf(command, sizeof(command), "%s", p->dir);
	if (pid == 0) {
		(void)execlp("rm", "rm", "-rf", command, (char *)NULL);
		_exit(127);
	}
	while (access(p->dir, F_OK) == 0)
		(void)usleep(1000);
}

struct seen {
	char name[128];
	int n;
};

static int see(const char *name, void *arg, struct err *err)
{
	struct seen *s = arg;

	(void)err;
	(void)snprintf(s->name, sizeof(s->name), "%s", name);
	s->n++;
	return 0;
}

static void keep_and_read(const char *name)
{
	struct place p = place_new(name);
	struct buf out = BUF_INIT(CHUNK_MAX), text = BUF_INIT(1 << 20);
	unsigned char *data = noise(3U << 20);
	struct content *c = NULL;
	struct digest one, two;
	struct seen seen = {0};
	uint64_t added;
	struct err err = {0};

	CHECK_INT(content_create(p.path, &c, &err), 0);
	CHECK_INT(content_put(c, data, 3U << 20, &one, &err), 0);
	added = content_added(c);
	CHECK_INT(content_put(c, data, 3U << 20, &two, &err), 0);
	CHECK(digest_equal(&one, &two) && content_added(c) == added);
	CHECK_INT(content_commit(c, 1000000, "{}", 2, &err), 0);
	content_close(c);
	CHECK_INT(content_open(p.path, &c, &err), 0);
	CHECK_INT(content_each(c, see, &seen, &err), 0);
	CHECK_INT(seen.n, 1);
	CHECK(strncmp(seen.name, "19700101T000001Z-", 17) == 0);
	CHECK_INT(content_read(c, seen.name, &text, &err), 0);
	CHECK_STR(buf_str(&text), "{}");
	CHECK_INT(content_get(c, &one, &out, &err), 0);
	CHECK_MEM(out.data, out.len, data, 3U << 20);
	one.bytes[0] ^= 1;
	CHECK(content_get(c, &one, &out, &err) < 0);
	content_close(c);
	buf_done(&out);
	buf_done(&text);
	free(data);
	place_remove(&p);
}

TEST(a_directory_gives_back_what_it_was_given)
{
	keep_and_read("dir");
}

TEST(a_file_gives_back_what_it_was_given)
{
	keep_and_read("all.tar");
}

TEST(what_was_not_committed_is_no_backup_and_is_not_built_on)
{
	struct place p = place_new("dir");
	struct content *c = NULL;
	struct digest digest;
	struct seen seen = {0};
	struct err err = {0};

	CHECK_INT(content_create(p.path, &c, &err), 0);
	CHECK_INT(content_put(c, "half", 4, &digest, &err), 0);
	content_close(c);
	CHECK_INT(content_create(p.path, &c, &err), 0);
	CHECK(!content_has(c, &digest));
	CHECK_INT(content_each(c, see, &seen, &err), 0);
	CHECK_INT(seen.n, 0);
	content_close(c);
	place_remove(&p);
}

TEST(one_at_a_time_writes_to_a_directory)
{
	struct place p = place_new("dir");
	struct content *c = NULL, *other = NULL;
	struct err err = {0};

	CHECK_INT(content_create(p.path, &c, &err), 0);
	CHECK(content_create(p.path, &other, &err) < 0);
	CHECK_INT(err.code, ERR_CONFLICT);
	CHECK(content_open(p.path, &other, &err) < 0);
	content_close(c);
	place_remove(&p);
}

TEST(what_is_not_known_goes_and_the_rest_stays)
{
	struct place p = place_new("dir");
	struct content *c = NULL;
	struct digest kept, gone;
	struct buf out = BUF_INIT(CHUNK_MAX);
	uint64_t freed;
	struct err err = {0};

	CHECK_INT(content_create(p.path, &c, &err), 0);
	CHECK_INT(content_put(c, "kept", 4, &kept, &err), 0);
	CHECK_INT(content_put(c, "gone", 4, &gone, &err), 0);
	content_close(c);
	CHECK_INT(content_create(p.path, &c, &err), 0);
	content_know(c, &kept);
	CHECK_INT(content_prune(c, &freed, &err), 0);
	CHECK(freed > 0);
	CHECK_INT(content_get(c, &kept, &out, &err), 0);
	CHECK(content_get(c, &gone, &out, &err) < 0);
	content_close(c);
	buf_done(&out);
	place_remove(&p);
}

TEST(a_manifest_that_is_written_is_read_as_it_was)
{
	const char *text = HEAD
		"{\"kind\":\"directory\",\"path\":\"gateway\",\"mode\":448,\"owner\":\"gateway\"},"
		"{" SUBVOLUME "\"path\":\"layers/" SB "\"},"
		"{" SUBVOLUME "\"path\":\"layers/" SN "/files\",\"parent\":\"layers/" SB "\"}]}";
	struct buf first = BUF_INIT(1 << 20), second = BUF_INIT(1 << 20);
	struct manifest m, again;
	struct err err = {0};

	CHECK_INT(manifest_parse(text, strlen(text), &m, &err), 0);
	CHECK_INT(m.n_parts, 3);
	CHECK(m.parts[0].is_gateways && m.parts[0].mode == 0700);
	CHECK_STR(m.parts[2].parent, "layers/" SB);
	CHECK_INT(manifest_to_text(&m, &first, &err), 0);
	CHECK_INT(manifest_parse(first.data, first.len, &again, &err), 0);
	CHECK_INT(manifest_to_text(&again, &second, &err), 0);
	CHECK_MEM(second.data, second.len, first.data, first.len);
	manifest_done(&m);
	manifest_done(&again);
	buf_done(&first);
	buf_done(&second);
}

TEST(a_manifest_that_leads_astray_is_refused)
{
	static const char *const texts[] = {
		"[]",
		"{\"format\":2}",
		"{\"format\":\"1\"}",
		HEAD "{\"kind\":\"file\",\"path\":\"../x\"}]}",
		HEAD "{\"kind\":\"file\",\"path\":\"/x\"}]}",
		HEAD "{\"kind\":\"file\",\"path\":\"a//b\"}]}",
		HEAD "{\"kind\":\"file\",\"path\":\"a/./b\"}]}",
		HEAD "{\"kind\":\"file\",\"path\":\"a/\"}]}",
		HEAD "{\"kind\":\"socket\",\"path\":\"a\"}]}",
		HEAD "{\"kind\":\"link\",\"path\":\"a\"}]}",
		HEAD "{\"kind\":\"file\",\"path\":\"a\",\"chunks\":[\"zz\"]}]}",
		HEAD "{" SUBVOLUME "\"path\":\"gateway/x\"}]}",
		HEAD "{" SUBVOLUME "\"path\":\"layers/" SN "\"}]}",
		HEAD "{" SUBVOLUME "\"path\":\"layers/" SB "\",\"parent\":\"layers/" SB "\"}]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct manifest m;
		struct err err = {0};

		CHECK(manifest_parse(texts[i], strlen(texts[i]), &m, &err) < 0);
		CHECK(err.message[0] != '\0' && m.n_parts == 0);
	}
}
