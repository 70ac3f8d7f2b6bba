// SPDX-License-Identifier: Apache-2.0
/* The agent as its host sees it: file operations. */
#include "agent-host.h"
#include "tar-maker.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static char dir[] = "/tmp/cloche-files-XXXXXX";

/* A path in the test's directory; a few may be in use at once. */
static char *at(const char *name)
{
	static char paths[8][300];
	static size_t next;
	char *path = paths[next++ % ARRAY_SIZE(paths)];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void begin(void)
{
	CHECK(mkdtemp(dir) != NULL);
	host_start();
}

static void end(void)
{
	struct start s = {.kind = START_FILE,
	                  .op = FILE_REMOVE,
	                  .user = unconst(host_user()),
	                  .path = dir,
	                  .flags = FILE_RECURSIVE};
	struct told t;

	host_call(&t, &s, NULL, 0);
	CHECK_STR(t.exit.message, "");
	CHECK_INT(t.exit.how, EXIT_CODE);
	told_done(&t);
}

static struct start an_op(enum file_op op, const char *path, uint32_t flags)
{
	return (struct start){.kind = START_FILE,
	                      .op = op,
	                      .user = unconst(host_user()),
	                      .path = unconst(path),
	                      .flags = flags};
}

/* Does it; on success the records and data are in *t, which the caller frees. */
static void do_start(struct told *t, const struct start *s)
{
	host_call(t, s, NULL, 0);
	CHECK_STR(t->exit.message, "");
	CHECK_INT(t->exit.how, EXIT_CODE);
}

static void do_op(enum file_op op, const char *path, const char *path2, uint32_t flags)
{
	struct start s = an_op(op, path, flags);
	struct told t;

	s.path2 = unconst(path2);
	do_start(&t, &s);
	told_done(&t);
}

static void fail_start(const struct start *s, const char *input, int errnum, const char *says)
{
	struct told t;

	host_call(&t, s, input, input ? strlen(input) : 0);
	CHECK_INT(t.exit.how, EXIT_FAILED);
	CHECK_INT(t.exit.value, errnum);
	if (!strstr(t.exit.message, says))
		CHECK_STR(t.exit.message, says);
	told_done(&t);
}

static void write_file(const char *path, const char *text, uint32_t flags)
{
	struct start s = an_op(FILE_WRITE, path, flags);
	struct told t;

	host_call(&t, &s, text, strlen(text));
	CHECK_STR(t.exit.message, "");
	CHECK_INT(t.exit.how, EXIT_CODE);
	told_done(&t);
}

static void check_file(const char *path, const char *wanted)
{
	struct start s = an_op(FILE_READ, path, 0);
	struct told t;

	do_start(&t, &s);
	CHECK_STR(buf_str(&t.out), wanted);
	told_done(&t);
}

/* The paths of all records, each with its kind's letter, in order. */
static char *list(const char *path, uint32_t flags)
{
	auto_call(buf_done) struct buf text = BUF_INIT(1 << 20);
	struct start s = an_op(FILE_LIST, path, flags);
	struct record r;
	struct told t;
	size_t used;

	do_start(&t, &s);
	while (record_decode(t.records.data, t.records.len, &r, &used) == 1) {
		CHECK_INT(buf_printf(&text, "%s%s%s%s ", r.path, S_ISDIR(r.mode) ? "/" : "",
		                     S_ISLNK(r.mode) ? "@" : "", r.path2),
		          0);
		record_done(&r);
		buf_consume(&t.records, used);
	}
	CHECK_INT(t.records.len, 0);
	told_done(&t);
	return xstrdup(buf_str(&text));
}

static void check_list(const char *path, uint32_t flags, const char *wanted)
{
	auto_free char *got = list(path, flags);

	CHECK_STR(got, wanted);
}

TEST_FORKED(a_file_is_written_read_and_described, 60)
{
	struct start s = an_op(FILE_STAT, "", 0);
	struct record r;
	struct told t;
	size_t used;

	begin();
	write_file(at("new/dir/file"), "content", FILE_PARENTS);
	check_file(at("new/dir/file"), "content");
	s.path = at("new/dir/file");
	do_start(&t, &s);
	CHECK_INT(record_decode(t.records.data, t.records.len, &r, &used), 1);
	CHECK_INT(r.size, 7);
	CHECK_INT(r.mode, S_IFREG | 0644);
	CHECK_INT(r.uid, geteuid());
	CHECK(r.mtime_us > 0 && r.inode > 0);
	record_done(&r);
	told_done(&t);
	end();
}

TEST_FORKED(a_large_file_goes_in_and_out_byte_for_byte, 60)
{
	size_t len = 5 * 1024 * 1024 + 3;
	auto_free char *data = xcalloc(1, len);
	struct start s = an_op(FILE_WRITE, "", 0);
	struct told t;

	for (size_t i = 0; i < len; i++)
		data[i] = (char)(i * 7 + i / 251);
	begin();
	s.path = at("big");
	host_call(&t, &s, data, len);
	CHECK_STR(t.exit.message, "");
	told_done(&t);
	s = an_op(FILE_READ, at("big"), 0);
	do_start(&t, &s);
	CHECK_MEM(t.out.data, t.out.len, data, len);
	told_done(&t);
	s = an_op(FILE_READ, at("big"), FILE_RANGE);
	s.offset = 1000000;
	s.size = 12345;
	do_start(&t, &s);
	CHECK_MEM(t.out.data, t.out.len, data + 1000000, 12345);
	told_done(&t);
	s.offset = len + 5;
	do_start(&t, &s);
	CHECK_INT(t.out.len, 0);
	told_done(&t);
	end();
}

TEST_FORKED(a_write_keeps_the_mode_and_goes_through_a_link, 60)
{
	struct stat st;

	begin();
	write_file(at("target"), "old", 0);
	CHECK_INT(chmod(at("target"), 0751), 0);
	CHECK_INT(symlink("target", at("link")), 0);
	write_file(at("link"), "new", 0);
	CHECK_INT(lstat(at("link"), &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	check_file(at("target"), "new");
	CHECK_INT(stat(at("target"), &st), 0);
	CHECK_INT(st.st_mode & 07777, 0751);
	write_file(at("target"), "+more", FILE_APPEND);
	check_file(at("target"), "new+more");
	check_list(dir, 0, "link@target target ");
	end();
}

TEST_FORKED(an_exclusive_write_refuses_what_exists, 60)
{
	struct start s;

	begin();
	write_file(at("file"), "old", FILE_EXCLUSIVE);
	s = an_op(FILE_WRITE, at("file"), FILE_EXCLUSIVE);
	fail_start(&s, "new", EEXIST, "cannot write");
	check_file(at("file"), "old");
	end();
}

TEST_FORKED(more_data_than_announced_leaves_the_old_file, 60)
{
	struct start s;

	begin();
	write_file(at("file"), "old", 0);
	s = an_op(FILE_WRITE, at("file"), 0);
	s.size = 3;
	fail_start(&s, "four", EFBIG, "more data");
	check_file(at("file"), "old");
	check_list(dir, 0, "file ");
	end();
}

TEST_FORKED(a_write_that_is_given_up_leaves_nothing, 60)
{
	struct start s;
	struct told t = {0};

	begin();
	s = an_op(FILE_WRITE, at("file"), 0);
	host_run(1, &s);
	host_send(FRAME_INPUT, 1, "half", 4);
	host_gather(1, &t, told_started);
	host_send(FRAME_FORGET, 1, NULL, 0);
	host_await_death((pid_t)t.pid);
	check_list(dir, 0, "");
	end();
}

TEST_FORKED(what_is_no_regular_file_is_refused_and_never_waited_for, 60)
{
	struct start s;

	begin();
	CHECK_INT(mkfifo(at("fifo"), 0600), 0);
	s = an_op(FILE_READ, at("fifo"), 0);
	fail_start(&s, NULL, EINVAL, "is not a regular file");
	s = an_op(FILE_WRITE, at("fifo"), 0);
	fail_start(&s, "x", EINVAL, "is not a regular file");
	s = an_op(FILE_READ, dir, 0);
	fail_start(&s, NULL, EISDIR, "cannot open");
	s = an_op(FILE_READ, "/dev/zero", 0);
	fail_start(&s, NULL, EINVAL, "is not a regular file");
	s = an_op(FILE_READ, at("missing"), 0);
	fail_start(&s, NULL, ENOENT, "cannot open");
	s = an_op(FILE_LIST, at("fifo"), 0);
	fail_start(&s, NULL, ENOTDIR, "cannot list");
	s = an_op(FILE_READ, "", 0);
	fail_start(&s, NULL, EINVAL, "path: is empty");
	end();
}

TEST_FORKED(another_user_is_held_to_its_permissions, 60)
{
	struct start s;

	if (geteuid() != 0)
		SKIP("needs root to become another");
	begin();
	CHECK_INT(chmod(dir, 0755), 0);
	write_file(at("secret"), "x", 0);
	CHECK_INT(chmod(at("secret"), 0600), 0);
	s = an_op(FILE_READ, at("secret"), 0);
	s.user = unconst("12345");
	fail_start(&s, NULL, EACCES, "cannot open");
	s = an_op(FILE_WRITE, at("other"), 0);
	s.user = unconst("12345");
	fail_start(&s, "x", EACCES, "cannot write");
	end();
}

TEST_FORKED(lists_stop_at_depth_and_limit, 60)
{
	struct start s;
	struct told t;

	begin();
	write_file(at("a/b/c/file"), "x", FILE_PARENTS);
	write_file(at("z"), "x", 0);
	check_list(dir, 0, "a/ z ");
	check_list(dir, FILE_RECURSIVE, "a/ a/b/ a/b/c/ a/b/c/file z ");
	s = an_op(FILE_LIST, dir, FILE_RECURSIVE);
	s.limit = 2;
	do_start(&t, &s);
	CHECK_INT(t.exit.flags, EXIT_TRUNCATED);
	told_done(&t);
	s.limit = 5;
	do_start(&t, &s);
	CHECK_INT(t.exit.flags, 0);
	told_done(&t);
	end();
}

TEST_FORKED(directories_links_modes_and_moves_do_what_they_say, 60)
{
	struct start s;
	struct told t;
	struct stat st;

	begin();
	do_op(FILE_MKDIR, at("one/two"), NULL, FILE_PARENTS);
	do_op(FILE_MKDIR, at("one/two"), NULL, FILE_PARENTS);
	s = an_op(FILE_MKDIR, at("one"), 0);
	fail_start(&s, NULL, EEXIST, "cannot make the directory");
	do_op(FILE_SYMLINK, at("link"), "one/two", 0);
	write_file(at("one/two/file"), "x", 0);
	do_op(FILE_MOVE, at("one"), at("moved"), 0);
	check_list(dir, FILE_RECURSIVE, "link@one/two moved/ moved/two/ moved/two/file ");
	do_op(FILE_SYMLINK, at("other"), "nowhere", 0);
	s = an_op(FILE_MOVE, at("link"), FILE_EXCLUSIVE);
	s.path2 = at("other");
	fail_start(&s, NULL, EEXIST, "cannot move");
	s = an_op(FILE_CHMOD, at("moved/two/file"), 0);
	s.mode = 0600;
	do_start(&t, &s);
	told_done(&t);
	CHECK_INT(stat(at("moved/two/file"), &st), 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	s = an_op(FILE_CHOWN, at("moved/two/file"), 0);
	s.owner = unconst("no-such-user");
	fail_start(&s, NULL, ENOENT, "no user 'no-such-user'");
	end();
}

TEST_FORKED(a_tree_is_copied_with_modes_and_links_as_such, 60)
{
	struct start s;
	struct stat st;

	begin();
	write_file(at("from/sub/file"), "x", FILE_PARENTS);
	CHECK_INT(chmod(at("from/sub/file"), 0750), 0);
	CHECK_INT(chmod(at("from/sub"), 0500), 0);
	CHECK_INT(symlink("/etc/passwd", at("from/link")), 0);
	s = an_op(FILE_COPY, at("from"), 0);
	s.path2 = at("to");
	fail_start(&s, NULL, EISDIR, "without 'recursive'");
	do_op(FILE_COPY, at("from"), at("to"), FILE_RECURSIVE);
	check_list(at("to"), FILE_RECURSIVE, "link@/etc/passwd sub/ sub/file ");
	CHECK_INT(stat(at("to/sub/file"), &st), 0);
	CHECK_INT(st.st_mode & 07777, 0750);
	CHECK_INT(stat(at("to/sub"), &st), 0);
	CHECK_INT(st.st_mode & 07777, 0500);
	s = an_op(FILE_COPY, at("from"), FILE_RECURSIVE);
	s.path2 = at("from/inside");
	fail_start(&s, NULL, EINVAL, "cannot copy");
	s = an_op(FILE_COPY, at("to/sub/file"), 0);
	s.path2 = at("to/sub/file");
	fail_start(&s, NULL, EINVAL, "cannot copy");
	CHECK_INT(chmod(at("from/sub"), 0700), 0);
	CHECK_INT(chmod(at("to/sub"), 0700), 0);
	end();
}

TEST_FORKED(removing_follows_no_link_and_misses_nothing, 60)
{
	struct start s;

	begin();
	write_file(at("keep/file"), "x", FILE_PARENTS);
	do_op(FILE_MKDIR, at("gone"), NULL, 0);
	CHECK_INT(symlink("../keep", at("gone/link")), 0);
	s = an_op(FILE_REMOVE, at("gone"), 0);
	fail_start(&s, NULL, ENOTEMPTY, "cannot remove");
	do_op(FILE_REMOVE, at("gone"), NULL, FILE_RECURSIVE);
	do_op(FILE_REMOVE, at("gone"), NULL, FILE_MISSING_OK);
	s = an_op(FILE_REMOVE, at("gone"), 0);
	fail_start(&s, NULL, ENOENT, "cannot remove");
	check_list(dir, FILE_RECURSIVE, "keep/ keep/file ");
	end();
}

static void make_deep(const char *path, const char *name, int levels)
{
	int fd;

	CHECK_INT(mkdir(path, 0700), 0);
	fd = open(path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < levels; i++) {
		int next;

		CHECK_INT(mkdirat(fd, name, 0700), 0);
		next = openat(fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		CHECK(next >= 0);
		(void)close(fd);
		fd = next;
	}
	(void)close(openat(fd, "leaf", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	(void)close(fd);
}

TEST_FORKED(a_tree_deeper_than_any_path_is_listed_copied_and_removed, 120)
{
	auto_free char *got = NULL;
	char name[201];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	begin();
	make_deep(at("deep"), name, 30);
	got = list(at("deep"), FILE_RECURSIVE);
	CHECK(strlen(got) > 30 * 30 * 100);
	CHECK(strstr(got, "/leaf "));
	do_op(FILE_COPY, at("deep"), at("copy"), FILE_RECURSIVE);
	do_op(FILE_REMOVE, at("deep"), NULL, FILE_RECURSIVE);
	check_list(dir, 0, "copy/ ");
	end();
}

TEST_FORKED(a_tree_with_more_levels_than_fds_is_copied_and_removed, 120)
{
	struct told t;

	begin();
	make_deep(at("d"), "d", 700);
	host_exec(&t, "ulimit -n");
	CHECK_STR(buf_str(&t.out), "512\n");
	told_done(&t);
	do_op(FILE_COPY, at("d"), at("e"), FILE_RECURSIVE);
	do_op(FILE_REMOVE, at("d"), NULL, FILE_RECURSIVE);
	end();
}

TEST_FORKED(a_directory_goes_out_as_tar_and_in_again, 60)
{
	static const uint32_t kinds[] = {0, FILE_GZIP, FILE_ZSTD};
	char long_name[240];

	begin();
	memset(long_name, 'l', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	write_file(at("from/sub/file"), "content", FILE_PARENTS);
	write_file(at("from/empty"), "", 0);
	CHECK_INT(chmod(at("from/sub/file"), 04755), 0);
	CHECK_INT(chmod(at("from/sub"), 0555), 0);
	CHECK_INT(symlink("sub/file", at("from/link")), 0);
	CHECK_INT(mkfifo(at("from/fifo"), 0600), 0);
	{
		auto_free char *name = xasprintf("from/%s", long_name);

		write_file(at(name), "long", 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		auto_free char *to = xasprintf("%s/to%zu", dir, i);
		auto_free char *file = xasprintf("%s/sub/file", to);
		auto_free char *sub = xasprintf("%s/sub", to);
		auto_free char *wanted =
			xasprintf("empty link@sub/file %s sub/ sub/file ", long_name);
		struct start s = an_op(FILE_TAR_OUT, at("from"), kinds[i]);
		struct record r;
		struct told t, in;
		struct stat st;
		size_t used;

		do_start(&t, &s);
		s = an_op(FILE_TAR_IN, to, kinds[i] | FILE_PARENTS);
		host_call(&in, &s, t.out.data, t.out.len);
		CHECK_STR(in.exit.message, "");
		CHECK_INT(record_decode(in.records.data, in.records.len, &r, &used), 1);
		CHECK_INT(r.kind, RECORD_COUNT);
		CHECK_INT(r.count, 6);
		CHECK_INT(r.bytes, 11);
		record_done(&r);
		told_done(&in);
		told_done(&t);
		check_list(to, FILE_RECURSIVE, wanted);
		check_file(file, "content");
		CHECK_INT(stat(file, &st), 0);
		CHECK_INT(st.st_mode & 07777, 0755); /* the set-uid bit is gone */
		CHECK_INT(stat(sub, &st), 0);
		CHECK_INT(st.st_mode & 07777, 0555);
		CHECK_INT(chmod(sub, 0755), 0);
	}
	CHECK_INT(chmod(at("from/sub"), 0755), 0);
	end();
}

static void unpack(const struct buf *archive, int errnum, const char *says)
{
	struct start s = an_op(FILE_TAR_IN, at("in"), FILE_PARENTS);
	struct told t;

	host_call(&t, &s, archive->data, archive->len);
	if (!strstr(t.exit.message, says))
		CHECK_STR(t.exit.message, says);
	CHECK_INT(t.exit.how == EXIT_FAILED ? (int)t.exit.value : 0, errnum);
	told_done(&t);
}

TEST_FORKED(hostile_archives_write_nothing_outside_their_directory, 60)
{
	static const struct {
		struct made entries[3];
		int errnum;
		const char *says;
	} cases[] = {
		{{{"../out", '0', .data = "x"}}, EINVAL, "'../out'"},
		{{{"/tmp/out", '0', .data = "x"}}, EINVAL, "'/tmp/out'"},
		{{{"s", '2', .target = ".."}, {"s/out", '0', .data = "x"}},
	         ELOOP,
	         "'s/out': leads through"},
		{{{"s", '2', .target = "/"}, {"s/out", '5'}}, ELOOP, "'s/out': leads through"},
		{{{"t", '2', .target = "../victim"}, {"t", '0', .data = "new"}},
	         0,
	         ""}, /* replaced */
		{{{"s2", '2', .target = ".."}, {"s2", '5'}}, ENOTDIR, "'s2': leads through"},
		{{{"h", '1', .target = "../victim"}}, EINVAL, "'h': links to"},
		{{{"s3", '2', .target = ".."}, {"h", '1', .target = "s3/victim"}},
	         ELOOP,
	         "'h': leads through"},
		{{{"s4", '2', .target = "../victim"},
	          {"h4", '1', .target = "s4"},
	          {"h4", '0', .data = "new"}},
	         0,
	         ""},
		{{{"f", '0', .data = "x"}, {"f/g", '0'}}, ENOTDIR, "'f/g': leads through"},
		{{{"dev", '3'}}, EINVAL, "is a device"},
		{{{"file", '0', .size = "77777777777"}}, EINVAL, "ends in the middle"},
		{{{"x", 'x', .data = "19 path=../../evil\n"}, {"y", '0'}}, EINVAL, "'../../evil'"},
		{{{"self", '1', .target = "self"}}, EEXIST, "'self'"},
	};

	begin();
	write_file(at("victim"), "safe", 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);

		for (size_t j = 0; j < 3 && cases[i].entries[j].name; j++)
			made_add(&a, &cases[i].entries[j]);
		if (cases[i].errnum != EINVAL || !strstr(cases[i].says, "middle"))
			made_end(&a);
		unpack(&a, cases[i].errnum, cases[i].says);
		check_file(at("victim"), "safe");
		check_list(dir, 0, "in/ victim ");
	}
	end();
}

TEST_FORKED(what_is_no_archive_is_said_to_be_none, 60)
{
	auto_call(buf_done) struct buf a = BUF_INIT(1 << 20);

	begin();
	CHECK_INT(buf_append_str(&a, "hello"), 0);
	unpack(&a, EINVAL, "archive: is no tar archive");
	buf_truncate(&a, 0);
	for (int i = 0; i < 200; i++)
		CHECK_INT(buf_append_str(&a, "hello"), 0);
	unpack(&a, EINVAL, "archive: is no tar archive");
	end();
}

static bool told_a_record(const struct told *t)
{
	struct record r;
	size_t used;

	if (record_decode(t->records.data, t->records.len, &r, &used) != 1)
		return t->has_exit;
	record_done(&r);
	return true;
}

static void check_event(struct told *t, enum watch_event event, const char *path, const char *path2)
{
	struct record r;
	size_t used;

	host_gather(1, t, told_a_record);
	CHECK_INT(record_decode(t->records.data, t->records.len, &r, &used), 1);
	CHECK_STR(r.path, path);
	CHECK_INT(r.event, event);
	CHECK_STR(r.path2, path2);
	buf_consume(&t->records, used);
	record_done(&r);
}

#define MARK   "# The issuer of cloche's network wall, for this sandbox\n"
#define PEM(x) "-----BEGIN CERTIFICATE-----\n" x "\n-----END CERTIFICATE-----\n"

static struct start a_trust(const char *bundle, const char *own)
{
	struct start s = an_op(FILE_TRUST, bundle, FILE_PARENTS | FILE_MODE);

	s.path2 = unconst(own);
	s.mode = 0644;
	return s;
}

static void trust(const char *certificate)
{
	struct start s = a_trust(at("etc/bundle"), at("own/it"));
	struct told t;

	host_call(&t, &s, certificate, strlen(certificate));
	CHECK_STR(t.exit.message, "");
	CHECK_INT(t.exit.how, EXIT_CODE);
	told_done(&t);
}

TEST_FORKED(a_certificate_is_added_to_what_is_trusted_once, 60)
{
	begin();
	write_file(at("etc/bundle"), "before\n" PEM("theirs"), FILE_PARENTS);
	trust(PEM("first"));
	check_file(at("etc/bundle"), "before\n" PEM("theirs") MARK PEM("first"));
	check_file(at("own/it"), PEM("first"));
	trust(PEM("second"));
	check_file(at("etc/bundle"), "before\n" PEM("theirs") MARK PEM("second"));
	check_file(at("own/it"), PEM("second"));
	/* What was added behind it by others stays. */
	write_file(at("etc/bundle"), PEM("a") MARK PEM("old") PEM("b"), 0);
	trust(PEM("new"));
	check_file(at("etc/bundle"), PEM("a") PEM("b") MARK PEM("new"));
	/* What is cut or ends without a line's end is added to all the same. */
	write_file(at("etc/bundle"), MARK "-----BEGIN CERT", 0);
	trust(PEM("new"));
	check_file(at("etc/bundle"), MARK "-----BEGIN CERT\n" MARK PEM("new"));
	end();
}

static struct start a_user(const char *name, const char *home)
{
	struct start s = an_op(FILE_USER, dir, 0);

	s.owner = unconst(name);
	s.path2 = unconst(home);
	return s;
}

TEST_FORKED(the_default_user_gets_a_further_name_once, 60)
{
	struct start s;
	struct told t;

	begin();
	write_file(at("passwd"),
	           "root:x:0:0::/root:/bin/sh\nno line\nfirst:x:1000:1000::/:/bin/no\n"
	           "user:x:1000:1000:u:/home/user:/bin/bash\nlast:x:7:7::/:/bin/sh",
	           0);
	write_file(at("group"), "root:x:0:\nsudo:x:27:other,user\nuser:x:1000:\nmine:x:5:users\n",
	           0);
	for (size_t i = 0; i < 2; i++) {
		s = a_user("ubuntu", "/vercel");
		do_start(&t, &s);
		told_done(&t);
		check_file(at("passwd"), "root:x:0:0::/root:/bin/sh\nno line\n"
		                         "ubuntu:*:1000:1000:ubuntu:/vercel:/bin/bash\n"
		                         "first:x:1000:1000::/:/bin/no\n"
		                         "user:x:1000:1000:u:/home/user:/bin/bash\n"
		                         "last:x:7:7::/:/bin/sh");
		check_file(at("group"), "root:x:0:\nsudo:x:27:other,user,ubuntu\n"
		                        "ubuntu:*:1000:\nuser:x:1000:\nmine:x:5:users\n");
	}
	s = a_user("last", "/vercel");
	fail_start(&s, NULL, EEXIST, "cannot name the default user");
	s = a_user("a:b", "/vercel");
	fail_start(&s, NULL, EINVAL, "must be fields");
	s = a_user("name", "/vercel\nroot2:x:0:0::/:/bin/sh");
	fail_start(&s, NULL, EINVAL, "must be fields");
	write_file(at("passwd"), "root:x:0:0::/root:/bin/sh\n", 0);
	s = a_user("ubuntu", "/vercel");
	fail_start(&s, NULL, ENOENT, "cannot name the default user");
	do_op(FILE_REMOVE, at("passwd"), NULL, 0);
	fail_start(&s, NULL, ENOENT, "cannot name the default user");
	CHECK_INT(mkfifo(at("passwd"), 0600), 0);
	fail_start(&s, NULL, EINVAL, "is not a regular file");
	end();
}

TEST_FORKED(what_is_no_bundle_is_not_added_to, 60)
{
	auto_free char *large = xcalloc(1, (3 << 20) + 1);
	struct start s;

	begin();
	do_op(FILE_MKDIR, at("directory"), NULL, 0);
	CHECK_INT(mkfifo(at("pipe"), 0600), 0);
	memset(large, 'x', 3 << 20);
	write_file(at("large"), large, 0);
	s = a_trust(at("directory"), at("own"));
	fail_start(&s, PEM("x"), EISDIR, "cannot open");
	s = a_trust(at("pipe"), at("own"));
	fail_start(&s, PEM("x"), EINVAL, "is not a regular file");
	s = a_trust(at("large"), at("own"));
	fail_start(&s, PEM("x"), EFBIG, "cannot read");
	CHECK_INT(access(at("own"), F_OK), -1);
	end();
}

TEST_FORKED(a_watch_tells_what_changes_below, 60)
{
	struct start s;
	struct told t = {0};
	int fd;

	begin();
	do_op(FILE_MKDIR, at("sub"), NULL, 0);
	s = an_op(FILE_WATCH, dir, FILE_RECURSIVE);
	host_run(1, &s);
	check_event(&t, WATCH_READY, "", "");
	fd = open(at("sub/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	CHECK(fd >= 0);
	check_event(&t, WATCH_CREATED, "sub/file", "");
	CHECK_INT(write(fd, "x", 1), 1);
	check_event(&t, WATCH_MODIFIED, "sub/file", "");
	(void)close(fd);
	CHECK_INT(rename(at("sub/file"), at("file")), 0);
	check_event(&t, WATCH_MOVED, "sub/file", "file");
	CHECK_INT(chmod(at("file"), 0400), 0);
	check_event(&t, WATCH_ATTRIB, "file", "");
	CHECK_INT(mkdir(at("new"), 0700), 0);
	check_event(&t, WATCH_CREATED, "new", "");
	CHECK_INT(rename(at("new"), at("newer")), 0);
	check_event(&t, WATCH_MOVED, "new", "newer");
	CHECK_INT(rename(at("file"), at("newer/file")), 0);
	check_event(&t, WATCH_MOVED, "file", "newer/file");
	CHECK_INT(unlink(at("newer/file")), 0);
	check_event(&t, WATCH_REMOVED, "newer/file", "");
	host_send(FRAME_FORGET, 1, NULL, 0);
	end();
}

static int listen_somewhere(uint16_t *ret_port)
{
	struct sockaddr_in addr = {.sin_family = AF_INET,
	                           .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	CHECK_INT(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_INT(listen(fd, 1), 0);
	CHECK_INT(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	*ret_port = ntohs(addr.sin_port);
	return fd;
}

static bool told_word(const struct told *t)
{
	return t->out.len >= 4;
}

TEST_FORKED(a_dialled_port_is_a_line_whose_ways_end_one_by_one, 60)
{
	struct start s = an_op(FILE_DIAL, "127.0.0.1", 0);
	struct told t = {0};
	char bytes[8] = "";
	struct record count;
	size_t used;
	uint16_t port;
	int server, fd;

	begin();
	server = listen_somewhere(&port);
	s.offset = port;
	host_run(1, &s);
	check_event(&t, WATCH_READY, "", "");
	fd = accept4(server, NULL, NULL, SOCK_CLOEXEC);
	host_send(FRAME_INPUT, 1, "ping", 4);
	CHECK_INT(recv(fd, bytes, sizeof(bytes), 0), 4);
	CHECK_STR(bytes, "ping");
	host_send(FRAME_INPUT_END, 1, NULL, 0);
	CHECK_INT(recv(fd, bytes, sizeof(bytes), 0), 0); /* that way is over, the other is not */
	CHECK_INT(send(fd, "pong", 4, MSG_NOSIGNAL), 4);
	host_gather(1, &t, told_word);
	CHECK_INT(memcmp(t.out.data, "pong", 4), 0);
	(void)close(fd);
	host_gather(1, &t, told_closed);
	CHECK_INT(t.exit.how, EXIT_CODE);
	CHECK_INT(record_decode(t.records.data, t.records.len, &count, &used), 1);
	CHECK_INT(count.kind, RECORD_COUNT);
	CHECK_INT(count.count, 4);
	record_done(&count);
	host_send(FRAME_FORGET, 1, NULL, 0);
	(void)close(server);
	fail_start(&s, NULL, ECONNREFUSED, "does not answer");
	s.path = unconst("93.184.216.34"); /* loopback, and nothing through it */
	fail_start(&s, NULL, EINVAL, "not a port of this machine");
	told_done(&t);
	end();
}
