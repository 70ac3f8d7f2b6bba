// SPDX-License-Identifier: Apache-2.0
/* The lines of earlier prompts. */
#include "base/buf.h"
#include "cli/prompt/prompt_history.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct told {
	struct buf lines; /* each with a newline */
	size_t n;
};

static void tell(void *arg, const char *line)
{
	struct told *t = arg;

	t->n++;
	CHECK_INT(buf_printf(&t->lines, "%s\n", line), 0);
}

/* A state directory of its own, gone at the end with the one file in it. */
struct home {
	char dir[32];
	char path[64];
};

static struct home home_new(void)
{
	struct home h = {.dir = "/tmp/test-prompt_history.XXXXXX"};

	CHECK(mkdtemp(h.dir));
	(void)snprintf(h.path, sizeof(h.path), "%s/cloche/history", h.dir);
	CHECK_INT(setenv("XDG_STATE_HOME", h.dir, 1), 0);
	return h;
}

static void home_done(const struct home *h)
{
	char path[64];

	(void)unlink(h->path);
	(void)snprintf(path, sizeof(path), "%s/cloche", h->dir);
	(void)rmdir(path);
	(void)rmdir(h->dir);
}

TEST(lines_come_back_in_their_order_and_are_the_owners_only)
{
	struct home h = home_new();
	struct told t = {.lines = BUF_INIT(1024)};
	struct prompt_history one, two;
	struct stat st;

	prompt_history_open(&one, tell, &t);
	prompt_history_open(&two, tell, &t);
	CHECK_INT(t.n, 0);
	prompt_history_add(&one, "a = 1");
	prompt_history_add(&two, "from another prompt");
	prompt_history_add(&one, "b");
	prompt_history_close(&one);
	prompt_history_close(&two);
	prompt_history_open(&one, tell, &t);
	prompt_history_close(&one);
	CHECK_STR(buf_str(&t.lines), "a = 1\nfrom another prompt\nb\n");
	CHECK_INT(stat(h.path, &st), 0);
	CHECK_INT(st.st_mode & 07777, 0600);
	buf_done(&t.lines);
	home_done(&h);
}

TEST(a_file_that_grew_long_is_cut_to_its_last_lines)
{
	struct home h = home_new();
	struct told t = {.lines = BUF_INIT(4 * 1024 * 1024)};
	struct prompt_history r;
	struct stat st;
	char line[1100];

	prompt_history_open(&r, tell, &t);
	memset(line, 'x', sizeof(line));
	for (int i = 0; i < 2500; i++) {
		(void)snprintf(line + 1000, 16, "%d", i);
		prompt_history_add(&r, line);
	}
	prompt_history_close(&r);
	prompt_history_open(&r, tell, &t);
	prompt_history_add(&r, "after the cut");
	prompt_history_close(&r);
	CHECK_INT(t.n, PROMPT_HISTORY_LINES);
	CHECK(strstr(buf_str(&t.lines), "x1500\n") && !strstr(buf_str(&t.lines), "x1499\n"));
	CHECK_INT(stat(h.path, &st), 0);
	CHECK(st.st_size < 1100 * (PROMPT_HISTORY_LINES + 1));
	buf_truncate(&t.lines, 0);
	prompt_history_open(&r, tell, &t);
	prompt_history_close(&r);
	CHECK(strstr(buf_str(&t.lines), "after the cut\n"));
	buf_done(&t.lines);
	home_done(&h);
}

TEST(a_history_that_is_a_link_is_left_alone)
{
	struct home h = home_new();
	struct told t = {.lines = BUF_INIT(1024)};
	struct prompt_history r;
	struct stat st;

	prompt_history_open(&r, tell, &t);
	prompt_history_close(&r);
	CHECK_INT(unlink(h.path), 0);
	CHECK_INT(symlink("/dev/null", h.path), 0);
	prompt_history_open(&r, tell, &t);
	CHECK_INT(r.fd, -1);
	prompt_history_add(&r, "goes nowhere");
	prompt_history_close(&r);
	CHECK_INT(lstat(h.path, &st), 0);
	CHECK(S_ISLNK(st.st_mode));
	buf_done(&t.lines);
	home_done(&h);
}

TEST(without_a_home_nothing_is_kept)
{
	struct told t = {.lines = BUF_INIT(1024)};
	struct prompt_history r;

	CHECK_INT(unsetenv("XDG_STATE_HOME"), 0);
	CHECK_INT(unsetenv("HOME"), 0);
	prompt_history_open(&r, tell, &t);
	CHECK_INT(r.fd, -1);
	prompt_history_add(&r, "x");
	prompt_history_close(&r);
	buf_done(&t.lines);
}
