// SPDX-License-Identifier: Apache-2.0
/* The CLI's own parts: options, text for people, and both directions of tar. */
#include "base/fd.h"
#include "base/process/spawn.h"
#include "cli/copy/mktar.h"
#include "cli/copy/untar.h"
#include "cli/frame/commands.h"
#include "cli/remote/remote.h"
#include "cli/session/script_language.h"
#include "cli/session/session.h"
#include "cli/term/moment.h"
#include "cli/term/opts.h"
#include "cli/term/text.h"
#include "test.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct parsed {
	bool flag;
	const char *text;
	struct opt_list list;
	uint64_t number, mib, ms;
	double decimal;
	struct opts_common common;
	char **words;
	size_t n_words;
	struct err err;
};

static int parse(struct parsed *p, bool words_end_options, char **argv)
{
	const struct opt rows[] = {
		{'f', "flag", OPT_FLAG, &p->flag, NULL, ""},
		{'t', "text", OPT_TEXT, &p->text, "TEXT", ""},
		{'e', "env", OPT_LIST, &p->list, "K=V", ""},
		{0, "number", OPT_NUMBER, &p->number, "N", ""},
		{0, "cpus", OPT_DECIMAL, &p->decimal, "N", ""},
		{'m', "memory", OPT_MIB, &p->mib, "SIZE", ""},
		{0, "timeout", OPT_MS, &p->ms, "TIME", ""},
	};
	const struct manual manual = {.name = "try",
	                              .synopsis = "",
	                              .about = "",
	                              .opts = rows,
	                              .n_opts = ARRAY_SIZE(rows),
	                              .words_end_options = words_end_options,
	                              .max_words = WORDS_MAX};
	int argc = 0;

	while (argv[argc])
		argc++;
	return opts_parse(&manual, &p->common, argc, argv, &p->words, &p->n_words, &p->err);
}

#define PARSE(p, words_end_options, ...)                                                           \
	parse(p, words_end_options, (char *[]){unconst("try"), __VA_ARGS__, NULL})
#define W(text) unconst(text)

TEST(options_are_taken_in_every_usual_spelling)
{
	struct parsed p = {0};

	CHECK_INT(PARSE(&p, false, W("-ft"), W("x"), W("--env=A=1"), W("-eB=2"), W("one"),
	                W("--memory"), W("2g"), W("--json"), W("two"), W("--cpus=0.25")),
	          0);
	CHECK(p.flag && p.common.json);
	CHECK_STR(p.text, "x");
	CHECK_INT(p.list.n, 2);
	CHECK_STR(p.list.items[0], "A=1");
	CHECK_STR(p.list.items[1], "B=2");
	CHECK_INT(p.mib, 2048);
	CHECK(p.decimal == 0.25);
	CHECK_INT(p.n_words, 2);
	CHECK_STR(p.words[1], "two");
	opt_list_done(&p.list);
}

TEST(what_follows_the_first_word_or_two_dashes_is_left_alone)
{
	struct parsed p = {0};

	CHECK_INT(PARSE(&p, true, W("-f"), W("ls"), W("-t"), W("--what")), 0);
	CHECK_INT(p.n_words, 3);
	CHECK_STR(p.words[1], "-t");
	CHECK_INT(PARSE(&p, false, W("--"), W("-f"), W("--")), 0);
	CHECK_INT(p.n_words, 2);
	CHECK_STR(p.words[1], "--");
}

TEST(a_mistaken_option_is_named)
{
	struct parsed p = {0};

	CHECK(PARSE(&p, false, W("--colour")) < 0);
	CHECK_STR(p.err.message, "unknown option '--colour'");
	CHECK_STR(p.err.hint, "cloche try --help explains each option");
	CHECK(PARSE(&p, false, W("-fz")) < 0);
	CHECK_STR(p.err.message, "unknown option '-z'");
	CHECK(PARSE(&p, false, W("--memory=lots")) < 0);
	CHECK_STR(p.err.message, "--memory: 'lots' is not a size such as 512m or 2g");
	CHECK(PARSE(&p, false, W("--text")) < 0);
	CHECK_STR(p.err.message, "--text needs a value: TEXT");
	CHECK(PARSE(&p, false, W("--flag=yes")) < 0);
	CHECK_STR(p.err.message, "--flag takes no value");
}

TEST(sizes_and_times_carry_units_or_are_refused)
{
	static const struct {
		const char *text;
		uint64_t mib;
	} sizes[] = {{"64", 64}, {"512m", 512}, {"1G", 1024}, {"2GiB", 2048}, {"2048k", 2}};
	static const struct {
		const char *text;
		uint64_t ms;
	} times[] = {{"5", 5000}, {"250ms", 250}, {"2m", 120000}, {"1h", 3600000}};
	static const char *const bad[] = {"",    "m",  "1.5",         "-1",
	                                  "1 g", "1q", "99999999999", "1000k"};
	uint64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		CHECK_INT(opts_parse_mib(sizes[i].text, &v), 0);
		CHECK_INT(v, sizes[i].mib);
	}
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		CHECK_INT(opts_parse_ms(times[i].text, &v), 0);
		CHECK_INT(v, times[i].ms);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(opts_parse_mib(bad[i], &v) < 0);
	CHECK(opts_parse_ms("5d", &v) < 0);
}

TEST(what_could_drive_a_terminal_is_shown_as_an_escape)
{
	static const struct {
		const char *raw, *shown;
	} cases[] = {
		{"plain \xc3\xa9", "plain \xc3\xa9"},
		{"\x1b]52;c;AAAA\x07", "\\x1b]52;c;AAAA\\x07"},
		{"a\r\nb\tc", "a\\r\\nb\\tc"},
		{"\x7f", "\\x7f"},
		{"\xc2\x9b"
	         "31m",
	         "\\u{9b}31m"}, /* CSI in one character */
		{"\xe2\x80\xae"
	         "cod.exe",
	         "\\u{202e}cod.exe"}, /* right to left override */
		{"\xff\xc3", "\\xff\\xc3"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free char *shown = text_escaped(cases[i].raw);

		CHECK_STR(shown, cases[i].shown);
	}
}

TEST(sizes_and_ages_read_well)
{
	char text[16];

	text_bytes(1023, text);
	CHECK_STR(text, "1023 B");
	text_bytes(1536 * 1024, text);
	CHECK_STR(text, "1.5 MiB");
	text_age(59 * 1000000ULL, text);
	CHECK_STR(text, "59 s");
	text_age(3 * 3600 * 1000000ULL, text);
	CHECK_STR(text, "3 h");
}

/* A directory that is gone when the test is over. */
struct scratch {
	char path[64];
	int fd;
};

static struct scratch scratch_new(void)
{
	struct scratch s = {.path = "/tmp/cloche-test-cli.XXXXXX"};

	CHECK(mkdtemp(s.path) != NULL);
	s.fd = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(s.fd >= 0);
	return s;
}

static void scratch_done(struct scratch *s)
{
	const char *const argv[] = {"rm", "-rf", s->path, NULL};

	(void)close(s->fd);
	CHECK_INT(spawn_run(argv, NULL), 0);
}

static void put_number(char *field, size_t size, uint64_t value)
{
	field[--size] = '\0';
	for (; size > 0; value >>= 3)
		field[--size] = (char)('0' + (value & 7));
}

/* One header as anybody could write it, with any name, type and link. */
static void put_entry(struct buf *tar, char type, const char *name, const char *target,
                      const char *body, size_t len)
{
	static const char zeros[512];
	char h[512] = {0};
	unsigned sum = 0;

	memcpy(h, name, strnlen(name, 100));
	put_number(h + 100, 8, 0755);
	put_number(h + 124, 12, len);
	put_number(h + 136, 12, 1700000000);
	memset(h + 148, ' ', 8);
	h[156] = type;
	memcpy(h + 157, target, strnlen(target, 100));
	memcpy(h + 257, "ustar", 6);
	memcpy(h + 263, "00", 2);
	for (size_t i = 0; i < sizeof(h); i++)
		sum += (unsigned char)h[i];
	put_number(h + 148, 7, sum);
	CHECK_INT(buf_append(tar, h, sizeof(h)), 0);
	CHECK_INT(buf_append(tar, body, len), 0);
	CHECK_INT(buf_append(tar, zeros, -len & 511), 0);
}

static void put_end(struct buf *tar)
{
	static const char zeros[1024];

	CHECK_INT(buf_append(tar, zeros, sizeof(zeros)), 0);
}

static void count_skip(const char *name, const char *why, void *arg)
{
	(void)name;
	(void)why;
	++*(unsigned *)arg;
}

/* Unpacks in pieces of step bytes. */
static int unpack(int dir_fd, const struct buf *tar, size_t step, unsigned *ret_skipped,
                  struct err *err)
{
	struct untar *u = untar_new(dir_fd, count_skip, ret_skipped);
	int r = 0;

	*ret_skipped = 0;
	for (size_t at = 0; at < tar->len && r == 0; at += step)
		r = untar_feed(u, tar->data + at, MIN(step, tar->len - at), err);
	if (r == 0)
		r = untar_finish(u, err);
	untar_free(u);
	return r;
}

TEST(a_plain_archive_comes_out_as_it_was_however_it_is_cut)
{
	for (size_t step = 1; step < 2000; step = step * 3 + 1) {
		struct scratch s = scratch_new();
		struct buf tar = BUF_INIT(1 << 20);
		char text[32];
		unsigned skipped;
		struct stat st;

		put_entry(&tar, '5', "./", "", "", 0);
		put_entry(&tar, '5', "d/", "", "", 0);
		put_entry(&tar, '0', "d/file", "", "hello", 5);
		put_entry(&tar, '2', "d/link", "file", "", 0);
		put_entry(&tar, '2', "d/up", "../d/file", "", 0);
		put_entry(&tar, '1', "hard", "d/file", "", 0);
		put_entry(&tar, '0', "made/on/the/way", "", "x", 1);
		put_end(&tar);
		CHECK_INT(unpack(s.fd, &tar, step, &skipped, NULL), 0);
		CHECK_INT(skipped, 0);
		CHECK_INT(fd_read_file(s.fd, "d/up", text, sizeof(text)), 5);
		CHECK_STR(text, "hello");
		CHECK_INT(fstatat(s.fd, "hard", &st, AT_SYMLINK_NOFOLLOW), 0);
		CHECK_INT(st.st_nlink, 2);
		CHECK_INT(st.st_mtime, 1700000000);
		CHECK_INT(fd_read_file(s.fd, "made/on/the/way", text, sizeof(text)), 1);
		buf_done(&tar);
		scratch_done(&s);
	}
}

TEST(an_archive_that_reaches_out_is_refused_and_leaves_nothing_outside)
{
	static const struct {
		const char *what;
		char type;
		const char *name, *target;
		char type2;
		const char *name2, *target2;
	} cases[] = {
		{"an absolute name", '0', "/tmp/cloche-test-cli-escape", ""},
		{"dots at the front", '0', "../escape", ""},
		{"dots in the middle", '0', "a/../../escape", ""},
		{"a directory of dots", '5', "..", ""},
		{"a character device", '3', "null", ""},
		{"a block device", '4', "sda", ""},
		{"a hard link to an absolute name", '1', "shadow", "/etc/shadow"},
		{"a hard link up", '1', "shadow", "../../etc/shadow"},
		{"a file through a link inside", '2', "l", "d", '0', "l/file", ""},
		{"a directory over a link", '2', "l", "d", '5', "l", ""},
		{"a hard link to a link", '2', "l", "d", '1', "h", "l"},
		{"a hard link to nothing", '1', "h", "missing"},
		{"an unknown type", 'S', "sparse", ""},
		{"a file for the destination", '0', ".", ""},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scratch s = scratch_new();
		struct buf tar = BUF_INIT(1 << 20);
		unsigned skipped;
		struct err err = {0};

		put_entry(&tar, '5', "d", "", "", 0);
		put_entry(&tar, cases[i].type, cases[i].name, cases[i].target, "", 0);
		if (cases[i].name2)
			put_entry(&tar, cases[i].type2, cases[i].name2, cases[i].target2, "", 0);
		put_end(&tar);
		if (unpack(s.fd, &tar, 512, &skipped, &err) >= 0)
			CHECK_STR("taken", cases[i].what);
		CHECK(access("/tmp/cloche-test-cli-escape", F_OK) < 0);
		CHECK(access("/tmp/escape", F_OK) < 0);
		CHECK(faccessat(s.fd, "d/file", F_OK, 0) < 0);
		buf_done(&tar);
		scratch_done(&s);
	}
}

TEST(a_link_that_points_out_is_left_out_and_told_of)
{
	static const struct {
		const char *name, *target;
	} cases[] = {
		{"l", "/etc/passwd"}, {"l", ".."},
		{"d/l", "../../x"},   {"l", "d/../../x"}, /* which is inside only if d is no link */
		{"l", "d/.."},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scratch s = scratch_new();
		struct buf tar = BUF_INIT(1 << 20);
		unsigned skipped;
		struct stat st;

		put_entry(&tar, '5', "d", "", "", 0);
		put_entry(&tar, '2', cases[i].name, cases[i].target, "", 0);
		put_entry(&tar, '6', "fifo", "", "", 0);
		put_end(&tar);
		CHECK_INT(unpack(s.fd, &tar, 512, &skipped, NULL), 0);
		CHECK_INT(skipped, 2);
		CHECK(fstatat(s.fd, cases[i].name, &st, AT_SYMLINK_NOFOLLOW) < 0);
		buf_done(&tar);
		scratch_done(&s);
	}
}

TEST(a_link_that_lay_in_the_destination_is_replaced_not_followed)
{
	struct scratch s = scratch_new(), outside = scratch_new();
	auto_free char *victim = xasprintf("%s/victim", outside.path);
	struct buf tar = BUF_INIT(1 << 20);
	char text[32];
	unsigned skipped;

	CHECK_INT(fd_replace_file(outside.fd, "victim", "safe", 4, 0600, false), 0);
	CHECK_INT(symlinkat(victim, s.fd, "f"), 0);
	CHECK_INT(symlinkat(outside.path, s.fd, "d"), 0);
	put_entry(&tar, '0', "f", "", "new", 3);
	put_end(&tar);
	CHECK_INT(unpack(s.fd, &tar, 512, &skipped, NULL), 0);
	CHECK_INT(fd_read_file(outside.fd, "victim", text, sizeof(text)), 4);
	CHECK_INT(fd_read_file(s.fd, "f", text, sizeof(text)), 3);

	buf_truncate(&tar, 0);
	put_entry(&tar, '0', "d/victim", "", "new", 3);
	put_end(&tar);
	CHECK(unpack(s.fd, &tar, 512, &skipped, NULL) < 0);
	CHECK_INT(fd_read_file(outside.fd, "victim", text, sizeof(text)), 4);
	buf_done(&tar);
	scratch_done(&s);
	scratch_done(&outside);
}

TEST(a_broken_archive_is_refused_and_its_half_file_removed)
{
	struct scratch s = scratch_new();
	struct buf tar = BUF_INIT(1 << 20);
	struct stat st;
	unsigned skipped;

	put_entry(&tar, '0', "f", "", "0123456789", 10);
	buf_truncate(&tar, 515);
	CHECK(unpack(s.fd, &tar, 512, &skipped, NULL) < 0);
	CHECK(fstatat(s.fd, "f", &st, 0) < 0);

	buf_truncate(&tar, 0);
	put_entry(&tar, '0', "f", "", "", 0);
	tar.data[1] ^= 1; /* the checksum is wrong now */
	put_end(&tar);
	CHECK(unpack(s.fd, &tar, 512, &skipped, NULL) < 0);

	buf_truncate(&tar, 0);
	put_entry(&tar, 'x', "pax", "", "99 path=x\n", 10);
	CHECK(unpack(s.fd, &tar, 512, &skipped, NULL) < 0);

	buf_truncate(&tar, 0);
	put_entry(&tar, 'x', "pax", "", "24 path=/tmp/cloche-esc\n", 24);
	put_entry(&tar, '0', "honest", "", "", 0);
	CHECK(unpack(s.fd, &tar, 512, &skipped, NULL) < 0);
	CHECK(access("/tmp/cloche-esc", F_OK) < 0);
	buf_done(&tar);
	scratch_done(&s);
}

TEST(set_id_bits_are_not_taken_over)
{
	struct scratch s = scratch_new();
	struct buf tar = BUF_INIT(1 << 20);
	unsigned skipped;
	struct stat st;
	unsigned sum = 0;

	put_entry(&tar, '0', "f", "", "", 0);
	put_number(tar.data + 100, 8, 06755);
	memset(tar.data + 148, ' ', 8);
	for (size_t i = 0; i < 512; i++)
		sum += (unsigned char)tar.data[i];
	put_number(tar.data + 148, 7, sum);
	put_end(&tar);
	CHECK_INT(unpack(s.fd, &tar, 512, &skipped, NULL), 0);
	CHECK_INT(fstatat(s.fd, "f", &st, 0), 0);
	CHECK_INT(st.st_mode & 07000, 0);
	buf_done(&tar);
	scratch_done(&s);
}

static void pack(int dir_fd, struct buf *tar, size_t step, unsigned *ret_skipped)
{
	struct mktar *m;
	char data[4096];
	ssize_t n;

	*ret_skipped = 0;
	CHECK_INT(mktar_new(dup(dir_fd), count_skip, ret_skipped, &m, NULL), 0);
	while ((n = mktar_read(m, data, MIN(step, sizeof(data)), NULL)) > 0)
		CHECK_INT(buf_append(tar, data, (size_t)n), 0);
	CHECK_INT(n, 0);
	mktar_free(m);
}

TEST(a_packed_directory_is_the_same_when_it_is_unpacked)
{
	struct scratch from = scratch_new(), to = scratch_new();
	struct buf tar = BUF_INIT(1 << 20);
	char long_name[220], long_target[200], text[4096];
	unsigned skipped;
	struct stat st;

	memset(long_name, 'n', sizeof(long_name));
	memset(long_target, 't', sizeof(long_target));
	long_name[sizeof(long_name) - 1] = long_target[sizeof(long_target) - 1] = '\0';
	CHECK_INT(mkdirat(from.fd, "d", 0750), 0);
	CHECK_INT(mkdirat(from.fd, "empty", 0700), 0);
	CHECK_INT(fd_replace_file(from.fd, "d/script", "#!/bin/sh\n", 10, 0755, false), 0);
	CHECK_INT(fd_replace_file(from.fd, long_name, "long", 4, 0644, false), 0);
	CHECK_INT(symlinkat(long_target, from.fd, "d/link"), 0);
	CHECK_INT(mkfifoat(from.fd, "fifo", 0600), 0);
	pack(from.fd, &tar, 100, &skipped);
	CHECK_INT(skipped, 1);
	CHECK_INT(tar.len % 512, 0);

	CHECK_INT(unpack(to.fd, &tar, 333, &skipped, NULL), 0);
	CHECK_INT(skipped, 0);
	CHECK_INT(fstatat(to.fd, "d/script", &st, 0), 0);
	CHECK_INT(st.st_mode & 0777, 0755);
	CHECK_INT(fd_read_file(to.fd, long_name, text, sizeof(text)), 4);
	CHECK_INT(readlinkat(to.fd, "d/link", text, sizeof(text)), 199);
	CHECK_INT(fstatat(to.fd, "empty", &st, 0), 0);
	buf_done(&tar);
	scratch_done(&from);
	scratch_done(&to);
}

TEST(the_records_of_pax_headers_count_themselves)
{
	/* Names whose record's length has a digit more than the same without its own digits. */
	for (size_t len = 90; len <= 255; len++) {
		struct scratch from = scratch_new(), to = scratch_new();
		struct buf tar = BUF_INIT(1 << 20);
		char name[256];
		struct stat st;
		unsigned skipped;

		memset(name, 'n', len);
		name[len] = '\0';
		CHECK_INT(mkdirat(from.fd, name, 0700), 0);
		pack(from.fd, &tar, 4096, &skipped);
		CHECK_INT(unpack(to.fd, &tar, 4096, &skipped, NULL), 0);
		CHECK_INT(fstatat(to.fd, name, &st, 0), 0);
		buf_done(&tar);
		scratch_done(&from);
		scratch_done(&to);
	}
}

TEST(a_language_is_known_by_extension_or_first_line)
{
	static const struct {
		const char *text, *language; /* NULL: none of ours */
	} paths[] = {{"a.py", "python"}, {"d.x/a.mjs", "javascript"},
	             {"a.sh", "bash"},   {"a.p", NULL},
	             {"a.pyc", NULL},    {"d.py/a", NULL},
	             {"a.", NULL},       {"py", NULL}},
	  lines[] = {{"#!/usr/bin/env python3\nx", "python"},
	             {"#!/usr/bin/env -S node --x\n", "javascript"},
	             {"#! /bin/sh", "bash"},
	             {"#!/usr/bin/perl\n", NULL},
	             {"#!", NULL},
	             {"print(1)", NULL},
	             {"", NULL}};

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const struct language *l = language_by_path(paths[i].text);

		CHECK_STR(l ? l->name : "none", paths[i].language ? paths[i].language : "none");
	}
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		const struct language *l = language_by_shebang(lines[i].text);

		CHECK_STR(l ? l->name : "none", lines[i].language ? lines[i].language : "none");
	}
}

TEST(an_exec_ends_with_the_status_that_tells_how)
{
	static const struct {
		const char *exec;
		int status;
	} cases[] = {
		{"{\"exit_code\": 3, \"signal\": null, \"cause\": \"exited\"}", 3},
		{"{\"exit_code\": null, \"signal\": 9, \"cause\": \"oom\"}", 137},
		{"{\"exit_code\": null, \"signal\": 15, \"cause\": \"timeout\"}", EXIT_TIMEOUT},
		{"{\"state\": \"failed\", \"error\": {\"code\": \"file_not_found\", \"message\": "
	         "\"argv[0]: x\"}}",
	         EXIT_NOT_FOUND},
		{"{\"exit_code\": null, \"signal\": null, \"cause\": \"guest_crash\"}",
	         EXIT_CLOCHE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_json json_t *exec = json_loads(cases[i].exec, 0, NULL);

		CHECK_INT(session_tell_end(exec), cases[i].status);
	}
}

TEST(only_a_missing_program_gives_127)
{
	struct err err;

	(void)err_set(&err, ERR_FILE_NOT_FOUND, 0, "argv[0]: no such program 'x'");
	CHECK_INT(session_start_status(&err), EXIT_NOT_FOUND);
	(void)err_set(&err, ERR_FILE_DENIED, 0, "argv[0]: cannot run '/etc/passwd'");
	CHECK_INT(session_start_status(&err), EXIT_NOT_EXECUTABLE);
	(void)err_set(&err, ERR_FILE_NOT_FOUND, 0, "cwd: cannot enter '/x'");
	CHECK_INT(session_start_status(&err), EXIT_CLOCHE);
}

TEST(paths_of_the_api_are_escaped)
{
	char *path = remote_path("sandboxes", "a/../b c", "files");

	path = remote_query(path, "path", "/tmp/x&y=z");
	path = remote_query(path, "user", "root");
	CHECK_STR(path, "/v1/sandboxes/a%2F..%2Fb%20c/files?path=%2Ftmp%2Fx%26y%3Dz&user=root");
	free(path);
}

TEST(a_key_file_holds_one_key_and_nothing_else)
{
	static const struct {
		const char *text, *key; /* NULL: refused */
	} cases[] = {{"clo_abc\n", "clo_abc"},
	             {"clo_abc", "clo_abc"},
	             {"clo_abc \n\n", "clo_abc"},
	             {"", NULL},
	             {"\n", NULL},
	             {"one two\n", NULL}};
	struct scratch s = scratch_new();
	auto_free char *path = xasprintf("%s/key", s.path);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_free char *key = NULL;

		CHECK_INT(fd_replace_file(s.fd, "key", cases[i].text, strlen(cases[i].text), 0600,
		                          false),
		          0);
		CHECK_INT(remote_read_key(path, &key, NULL) == 0, cases[i].key != NULL);
		CHECK_STR(key ? key : "none", cases[i].key ? cases[i].key : "none");
	}
	scratch_done(&s);
}

TEST(a_moment_is_a_day_and_a_time_or_how_long_ago)
{
	const uint64_t now_us = UINT64_C(1794924000000000); /* 2026-11-17T14:00:00Z */
	static const struct {
		const char *text;
		int64_t ago_s;
	} rows[] = {
		{"2026-11-17T14:00Z", 0},
		{"2026-11-17T13:59:30Z", 30},
		{"2026-11-16 14:00Z", 86400},
		{"2026-11-17T13:00", 3600},
		{"13:58", 120},
		{"13:59:58Z", 2},
		{"90s", 90},
		{"2h", 7200},
		{"0", 0},
	};
	static const char *const wrong[] = {
		"",        "now", "2026-11-17", "2026-11-17T14", "25:00", "2026-11-17T14:00x",
		"14:00Zz", "-1h"};
	uint64_t us;

	(void)setenv("TZ", "UTC", 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		CHECK_INT(moment_parse(rows[i].text, now_us, &us), 0);
		CHECK_INT((int64_t)((now_us - us) / 1000000), rows[i].ago_s);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		CHECK_INT(moment_parse(wrong[i], now_us, &us), -EINVAL);
}
