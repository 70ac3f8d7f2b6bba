// SPDX-License-Identifier: Apache-2.0
#include "agent/archive/compress.h"
#include "base/buf.h"
#include "tar-maker.h"
#include "tar/tar.h"
#include "test.h"

struct seen {
	struct buf log; /* "kind path mode size;data;" */
	struct err err;
};

static int log_entry(const struct tar_entry *e, void *arg, struct err *err)
{
	struct seen *s = arg;

	(void)err;
	return buf_printf(&s->log, "%c %s%s%s %o %llu;", "fdsh"[e->kind], e -> path,
	                  e -> kind >= TAR_SYMLINK ? "->" : "",
	                  e->kind >= TAR_SYMLINK ? e->target : "", e->mode,
	                  (unsigned long long)e->size);
}

static int log_data(const void *data, size_t len, void *arg, struct err *err)
{
	struct seen *s = arg;

	(void)err;
	return buf_append(&s->log, data, len);
}

static int log_end(void *arg, struct err *err)
{
	struct seen *s = arg;

	(void)err;
	return buf_append(&s->log, "|", 1);
}

static void log_pipe(const char *path, void *arg)
{
	struct seen *s = arg;

	CHECK_INT(buf_printf(&s->log, "p %s;", path), 0);
}

static const struct tar_ops log_ops = {log_entry, log_data, log_end, NULL};

/* Reads it in pieces of `step` bytes. */
static int read_all(const struct buf *archive, size_t step, const struct tar_limits *limits,
                    struct seen *s)
{
	static const struct tar_limits none;
	auto_call(tar_reader_freep) struct tar_reader *r =
		tar_reader_new(&log_ops, s, limits ? limits : &none);
	int status = 0;

	memset(s, 0, sizeof(*s));
	buf_init(&s->log, 4 << 20);
	for (size_t at = 0; status >= 0 && at < archive->len; at += step)
		status = tar_reader_feed(r, archive->data + at, MIN(step, archive->len - at),
		                         &s->err);
	return status < 0 ? status : tar_reader_finish(r, &s->err);
}

TEST(an_archive_is_read_alike_in_pieces_of_any_size)
{
	static const struct made entries[] = {
		{"./", '5', .mode = "0000755"},
		{"dir/", '5', .mode = "0000750"},
		{"dir/file", '0', .data = "content"},
		{"./dir//link", '2', .target = "../anywhere"},
		{"hard", '1', .target = "./dir/file"},
		{"empty", '\0'},
	};
	static const char wanted[] = "d . 755 0;d dir 750 0;f dir/file 644 7;content|"
				     "s dir/link->../anywhere 644 0;h hard->dir/file 644 0;"
				     "f empty 644 0;|";
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		made_add(&a, &entries[i]);
	made_end(&a);
	for (size_t step = 1; step < 2000; step = step * 3 + 1) {
		struct seen s;

		CHECK_INT(read_all(&a, step, NULL, &s), 0);
		CHECK_STR(buf_str(&s.log), wanted);
		buf_done(&s.log);
	}
}

TEST(set_uid_set_gid_and_sticky_bits_are_masked)
{
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s;

	made_add(&a, &(struct made){"su", '0', .mode = "0007755"});
	made_end(&a);
	CHECK_INT(read_all(&a, 512, NULL, &s), 0);
	CHECK_STR(buf_str(&s.log), "f su 755 0;|");
	buf_done(&s.log);
}

TEST(long_names_come_by_pax_and_by_gnu)
{
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s;

	made_add(&a, &(struct made){"pax", 'x', .data = "17 path=long/one\n"});
	made_add(&a, &(struct made){"short", '0', .data = "1"});
	made_add(&a, &(struct made){"././@LongLink", 'L', .data = "long/two"});
	made_add(&a, &(struct made){"././@LongLink", 'K', .data = "far/away"});
	made_add(&a, &(struct made){"short", '2', .target = "x"});
	made_add(&a, &(struct made){"plain", '0'});
	made_end(&a);
	CHECK_INT(read_all(&a, 100, NULL, &s), 0);
	CHECK_STR(buf_str(&s.log), "f long/one 644 1;1|s long/two->far/away 644 0;f plain 644 0;|");
	buf_done(&s.log);
}

TEST(xattrs_owners_and_global_settings_are_dropped)
{
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s;

	made_add(&a, &(struct made){"g", 'g', .data = "18 path=/etc/evil\n"});
	made_add(&a, &(struct made){"x", 'x',
	                            .data = "41 SCHILY.xattr.security.capability=evil\n"
	                                    "9 uid=99\n"});
	made_add(&a, &(struct made){"file", '0'});
	made_end(&a);
	CHECK_INT(read_all(&a, 4096, NULL, &s), 0);
	CHECK_STR(buf_str(&s.log), "f file 644 0;|");
	buf_done(&s.log);
}

TEST(hostile_entries_are_refused_by_name)
{
	static const struct {
		struct made before, entry;
		const char *says;
	} cases[] = {
		{.entry = {"../up", '0'},
	         .says = "archive entry '../up': the path is absolute, empty or leads upwards"},
		{.entry = {"a/../../b", '0'}, .says = "leads upwards"},
		{.entry = {"a/..", '5'}, .says = "leads upwards"},
		{.entry = {"/etc/passwd", '0'}, .says = "'/etc/passwd': the path is absolute"},
		{.entry = {"//x", '0'}, .says = "absolute"},
		{.entry = {"", '0'}, .says = "empty"},
		{.entry = {"h", '1', .target = "/etc/shadow"},
	         .says = "'h': links to a path outside"},
		{.entry = {"h", '1', .target = "../x"}, .says = "links to a path outside"},
		{.entry = {"h", '1', .target = ""}, .says = "links to a path outside"},
		{.entry = {"s", '2', .target = ""}, .says = "is a link to nowhere"},
		{.entry = {"null", '3'}, .says = "'null': is a device"},
		{.entry = {"sda", '4'}, .says = "is a device"},
		{.entry = {"pipe", '6'}, .says = "is a named pipe"},
		{.entry = {"holes", 'S'}, .says = "is a sparse file"},
		{.entry = {"odd", 'Q'}, .says = "is of an unknown kind"},
		{.entry = {"dump", 'D'}, .says = "is of an unknown kind"},
		{.entry = {".", '0', .data = "x"}, .says = "would replace the directory itself"},
		{.entry = {".", '2', .target = "/"}, .says = "would replace the directory itself"},
		{.entry = {"neg", '0', .size = "\377\377\377\377\377\377\377\377\377\377\377\377"},
	         .says = "the size is no number, or negative"},
		{.entry = {"huge", '0', .size = "\200\0\0\0\377\377\377\377\377\377\377\377"},
	         .says = "the size is no number, or negative"},
		{.entry = {"text", '0', .size = "12x45678901"}, .says = "the size is no number"},
		{.entry = {"mode", '0', .mode = "rwxr-x"}, .says = "the mode is no number"},
		{.before = {"p", 'x', .data = "19 path=../../evil\n"},
	         .entry = {"ok", '0'},
	         .says = "'../../evil': the path"},
		{.before = {"p", 'x', .data = "14 path=/evil\n"},
	         .entry = {"ok", '0'},
	         .says = "'/evil': the path"},
		{.before = {"p", 'x', .data = "10 size=-1\n"},
	         .entry = {"ok", '0'},
	         .says = "extended header is malformed"},
		{.before = {"p", 'x', .data = "99 path=x\n"},
	         .entry = {"ok", '0'},
	         .says = "extended header is malformed"},
		{.before = {"p", 'x', .data = "0 path=x\n"},
	         .entry = {"ok", '0'},
	         .says = "extended header is malformed"},
		{.before = {"p", 'x', .data = "9 path=x"},
	         .entry = {"ok", '0'},
	         .says = "extended header is malformed"},
		{.before = {"p", 'x', .data = "5 =x\n"},
	         .entry = {"ok", '0'},
	         .says = "extended header is malformed"},
		{.before = {"p", 'x', .data = "22 GNU.sparse.major=1\n"},
	         .entry = {"ok", '0'},
	         .says = "is a sparse file"},
		{.before = {"L", 'L', .data = "../evil"},
	         .entry = {"ok", '0'},
	         .says = "'../evil': the path"},
		{.before = {"K", 'K', .data = "../evil"},
	         .entry = {"ok", '1'},
	         .says = "links to a path outside"},
		{.before = {"x", 'x'},
	         .entry = {"ok", '0'},
	         .says = "an extended header is empty or too large"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
		struct seen s;
		int r;

		if (cases[i].before.name)
			made_add(&a, &cases[i].before);
		made_add(&a, &cases[i].entry);
		made_end(&a);
		r = read_all(&a, 512, NULL, &s);
		if (r >= 0 || !strstr(s.err.message, cases[i].says))
			CHECK_STR(r < 0 ? s.err.message : buf_str(&s.log), cases[i].says);
		CHECK_INT(s.log.len, 0); /* no callback saw any of it */
		buf_done(&s.log);
	}
}

TEST(a_named_pipe_is_passed_over_where_the_reader_is_told_to)
{
	static const struct tar_ops ops = {log_entry, log_data, log_end, log_pipe};
	static const struct tar_limits none;
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s = {.log = BUF_INIT(1 << 20)};
	auto_call(tar_reader_freep) struct tar_reader *r = tar_reader_new(&ops, &s, &none);

	made_add(&a, &(struct made){"p", 'x', .data = "17 path=long/one\n"});
	made_add(&a, &(struct made){"./a//pipe", '6'});
	made_add(&a, &(struct made){"file", '0', .data = "1"});
	made_add(&a, &(struct made){"../pipe", '6'});
	CHECK_INT(tar_reader_feed(r, a.data, a.len, &s.err), -EINVAL);
	CHECK_STR(buf_str(&s.log), "p long/one;f file 644 1;1|");
	buf_done(&s.log);
}

TEST(only_an_archive_with_its_end_counts_as_closed)
{
	static const struct tar_limits none;
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s = {.log = BUF_INIT(1 << 20)};
	auto_call(tar_reader_freep) struct tar_reader *r = tar_reader_new(&log_ops, &s, &none);

	made_add(&a, &(struct made){"file", '0', .data = "1"});
	CHECK_INT(tar_reader_feed(r, a.data, a.len, &s.err), 0);
	CHECK_INT(tar_reader_finish(r, &s.err), 0);
	CHECK(!tar_reader_is_closed(r));
	made_end(&a);
	CHECK_INT(tar_reader_feed(r, a.data + 1024, a.len - 1024, &s.err), 0);
	CHECK(tar_reader_is_closed(r));
	buf_done(&s.log);
}

TEST(a_nul_inside_a_pax_path_is_refused)
{
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s;

	made_add(&a, &(struct made){"p", 'x', .data = "14 path=a#evil\n"});
	*(char *)memchr(a.data, '#', a.len) = '\0';
	made_add(&a, &(struct made){"ok", '0'});
	CHECK_INT(read_all(&a, 512, NULL, &s), -EINVAL);
	buf_done(&s.log);
}

TEST(damaged_and_cut_archives_are_refused)
{
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s;

	made_add(&a, &(struct made){"file", '0', .data = "content"});
	a.data[0] = 'F';
	CHECK_INT(read_all(&a, 512, NULL, &s), -EINVAL);
	CHECK_STR(s.err.message, "archive: is no tar archive");
	buf_done(&s.log);
	a.data[0] = 'f';
	a.len = 700;
	CHECK_INT(read_all(&a, 512, NULL, &s), -EINVAL);
	CHECK_STR(s.err.message, "archive: ends in the middle");
	buf_done(&s.log);
	a.len = 0;
	CHECK_INT(read_all(&a, 512, NULL, &s), -EINVAL);
	buf_done(&s.log);
}

TEST(entries_and_bytes_stop_at_their_limits)
{
	struct tar_limits two = {.entries = 2}, ten = {.bytes = 10};
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	struct seen s;

	for (int i = 0; i < 3; i++)
		made_add(&a, &(struct made){"same", '0', .data = "12345"});
	made_end(&a);
	CHECK_INT(read_all(&a, 512, &two, &s), -E2BIG);
	CHECK_STR(buf_str(&s.log), "f same 644 5;12345|f same 644 5;12345|");
	buf_done(&s.log);
	CHECK_INT(read_all(&a, 512, &ten, &s), -EFBIG);
	CHECK_STR(s.err.message, "archive entry 'same': the contents are too large");
	buf_done(&s.log);
}

TEST(what_is_written_is_read_back)
{
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);
	auto_call(buf_done) struct buf wanted = BUF_INIT(1 << 20);
	char deep[600], name[180];
	struct tar_entry e = {.kind = TAR_FILE, .path = deep, .mode = 0640, .uid = 3000000};
	struct seen s;

	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	(void)snprintf(deep, sizeof(deep), "d/%s/%s/end", name, name);
	CHECK_INT(tar_put_head(&a, &e), 0);
	e = (struct tar_entry){.kind = TAR_SYMLINK, .path = "l", .target = deep, .mode = 0777};
	CHECK_INT(tar_put_head(&a, &e), 0);
	memset(name + 90, '\0', 1);
	(void)snprintf(deep + 400, 200, "%s/file", name); /* fits prefix and name */
	e = (struct tar_entry){.kind = TAR_DIR, .path = deep + 400, .mode = 0755};
	CHECK_INT(tar_put_head(&a, &e), 0);
	CHECK_INT(tar_put_end(&a), 0);
	memset(name + 90, 'n', 1);
	CHECK_INT(buf_printf(&wanted,
	                     "f d/%s/%s/end 640 0;|s l->d/%s/%s/end 777 0;d %.90s/file 755 0;",
	                     name, name, name, name, name),
	          0);
	CHECK_INT(read_all(&a, 512, NULL, &s), 0);
	CHECK_STR(buf_str(&s.log), buf_str(&wanted));
	buf_done(&s.log);
}

static int collect(const void *data, size_t len, void *arg, struct err *err)
{
	(void)err;
	return buf_append(arg, data, len);
}

static void compress_text(enum compress_kind kind, const char *text, size_t len, struct buf *out)
{
	auto_call(compress_freep) struct compress *z = NULL;
	struct err err;

	CHECK_INT(compress_new(kind, collect, out, &z, &err), 0);
	for (size_t at = 0; at < len; at += 100)
		CHECK_INT(compress_feed(z, text + at, MIN((size_t)100, len - at), &err), 0);
	CHECK_INT(compress_finish(z, &err), 0);
}

TEST(what_is_compressed_comes_back_and_its_kind_is_recognised)
{
	auto_free char *text = xcalloc(1, 100000);

	for (size_t i = 0; i < 100000; i++)
		text[i] = (char)('a' + i * i % 23);
	for (int kind = COMPRESS_NONE; kind <= COMPRESS_ZSTD; kind++) {
		auto_call(buf_done) struct buf small = BUF_INIT(1 << 20);
		auto_call(buf_done) struct buf back = BUF_INIT(1 << 20);
		auto_call(decompress_freep) struct decompress *u =
			decompress_new(COMPRESS_NONE, collect, &back);
		struct err err;

		compress_text((enum compress_kind)kind, text, 100000, &small);
		for (size_t at = 0; at < small.len; at += 3)
			CHECK_INT(decompress_feed(u, small.data + at,
			                          MIN((size_t)3, small.len - at), &err),
			          0);
		CHECK_INT(decompress_finish(u, &err), 0);
		CHECK_MEM(back.data, back.len, text, 100000);
	}
}

TEST(compressed_data_that_is_cut_or_of_another_kind_is_refused)
{
	static const enum compress_kind kinds[] = {COMPRESS_GZIP, COMPRESS_ZSTD};

	for (size_t i = 0; i < 2; i++) {
		auto_call(buf_done) struct buf small = BUF_INIT(1 << 20);
		auto_call(buf_done) struct buf back = BUF_INIT(1 << 20);
		auto_call(decompress_freep) struct decompress *cut =
			decompress_new(kinds[i], collect, &back);
		auto_call(decompress_freep) struct decompress *other =
			decompress_new(kinds[1 - i], collect, &back);
		struct err err;

		compress_text(kinds[i], "some text, some text", 20, &small);
		CHECK_INT(decompress_feed(other, small.data, small.len, &err), -EINVAL);
		CHECK_INT(decompress_feed(cut, small.data, small.len - 3, &err), 0);
		CHECK_INT(decompress_finish(cut, &err), -EINVAL);
		CHECK_STR(err.message, "archive: ends in the middle");
	}
}

static int swallow(const void *data, size_t len, void *arg, struct err *err)
{
	(void)data;
	(void)arg;
	(void)len;
	(void)err;
	return 0;
}

TEST(a_bomb_is_refused_by_its_ratio)
{
	static const enum compress_kind kinds[] = {COMPRESS_GZIP, COMPRESS_ZSTD};
	auto_free char *zeros = xcalloc(1, 1 << 20);

	for (size_t i = 0; i < 2; i++) {
		auto_call(buf_done) struct buf bomb = BUF_INIT(16 << 20);
		auto_call(compress_freep) struct compress *z = NULL;
		auto_call(decompress_freep) struct decompress *u =
			decompress_new(kinds[i], swallow, NULL);
		struct err err;

		CHECK_INT(compress_new(kinds[i], collect, &bomb, &z, &err), 0);
		for (int n = 0; n < 100; n++)
			CHECK_INT(compress_feed(z, zeros, 1 << 20, &err), 0);
		CHECK_INT(compress_finish(z, &err), 0);
		CHECK_INT(decompress_feed(u, bomb.data, bomb.len, &err), -EFBIG);
	}
}

TEST(a_zstd_window_that_needs_too_much_memory_is_refused)
{
	auto_call(buf_done) struct buf out = BUF_INIT(1 << 20);
	auto_call(decompress_freep) struct decompress *u =
		decompress_new(COMPRESS_NONE, collect, &out);
	/* A frame header alone: no single segment, window descriptor for 2 GiB. */
	static const unsigned char head[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00};
	struct err err;

	CHECK_INT(decompress_feed(u, head, sizeof(head), &err), -EINVAL);
}
