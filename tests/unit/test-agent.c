// SPDX-License-Identifier: Apache-2.0
/* The agent as its host sees it: execs. */
#include "agent-host.h"
#include "base/id.h"
#include "base/process/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

TEST_FORKED(an_exec_tells_its_output_and_its_exit_code, 60)
{
	struct told t;

	host_start();
	host_exec(&t, "echo out; echo err >&2; exit 7");
	CHECK(t.has_started && t.pid > 0);
	CHECK_STR(buf_str(&t.out), "out\n");
	CHECK_STR(buf_str(&t.err), "err\n");
	CHECK_INT(t.exit.how, EXIT_CODE);
	CHECK_INT(t.exit.value, 7);
	CHECK_INT(t.exit.cause, EXIT_CAUSE_NONE);
	CHECK(t.exit.wall_us > 0 && t.exit.max_rss_kib > 0);
}

TEST_FORKED(a_program_that_is_not_there_is_named, 60)
{
	static char name[] = "no-such-program", *argv[] = {name, NULL};
	struct start s = host_script("");
	struct told t;

	host_start();
	s.argv = argv;
	s.argc = 1;
	host_call(&t, &s, NULL, 0);
	CHECK(!t.has_started);
	CHECK_INT(t.exit.how, EXIT_FAILED);
	CHECK_INT(t.exit.value, ENOENT);
	CHECK_STR(t.exit.message, "argv[0]: no such program 'no-such-program'");
}

TEST_FORKED(a_program_is_found_through_the_path_it_is_given, 60)
{
	static char name[] = "true", path[] = "PATH=/nowhere:/usr/bin:/bin";
	static char *argv[] = {name, NULL}, *env[] = {path, NULL};
	struct start s = host_script("");
	struct told t;

	host_start();
	s.argv = argv;
	s.argc = 1;
	s.env = env;
	s.envc = 1;
	host_call(&t, &s, NULL, 0);
	CHECK_INT(t.exit.how, EXIT_CODE);
	CHECK_INT(t.exit.value, 0);
}

TEST_FORKED(a_working_directory_must_exist_and_be_no_magic_link, 60)
{
	static const struct {
		const char *cwd;
		int errnum;
	} cases[] = {{"/no/such/place", ENOENT},
	             {"/etc/passwd", ENOTDIR},
	             {"/proc/self/cwd", ELOOP},
	             {"/proc/self/fd/0", ELOOP},
	             {"/proc/self/root/tmp", ELOOP}};

	host_start();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct start s = host_script("true");
		struct told t;

		s.cwd = unconst(cases[i].cwd);
		host_call(&t, &s, NULL, 0);
		CHECK_INT(t.exit.how, EXIT_FAILED);
		CHECK_INT(t.exit.value, cases[i].errnum);
		CHECK_MEM(t.exit.message, 5, "cwd: ", 5);
		told_done(&t);
	}
}

TEST_FORKED(an_exec_has_its_environment_and_nothing_of_the_agents, 60)
{
	static char a[] = "A=first", b[] = "A=second", lang[] = "LANG=xx",
		    mark[] = "CLOCHE_EXEC=forged";
	static char *env[] = {a, b, lang, mark, NULL};
	struct start s = host_script("env");
	struct told t;

	host_start();
	s.env = env;
	s.envc = 4;
	host_call(&t, &s, NULL, 0);
	CHECK(strstr(buf_str(&t.out), "\nA=second\n"));
	CHECK(strstr(buf_str(&t.out), "LANG=xx\n"));
	CHECK(strstr(buf_str(&t.out), "CLOCHE_EXEC=ex_test-"));
	CHECK(strstr(buf_str(&t.out), "\nPATH=/usr/local/sbin:"));
	CHECK(!strstr(buf_str(&t.out), "CLOCHE_LISTEN_FD"));
}

TEST_FORKED(an_exec_has_no_fds_but_its_own_three_and_its_limits, 60)
{
	struct told t;

	host_start();
	host_exec(&t, "ls /proc/$$/fd; ulimit -n; ulimit -c; umask");
	CHECK_STR(buf_str(&t.out),
	          "0\n1\n2\n512\n0\n0022\n"); /* ulimit counts cores in blocks: 1 byte is 0 */
}

TEST_FORKED(another_user_has_no_capabilities_and_cannot_touch_the_agent, 60)
{
	struct start s =
		host_script("id -u; grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | "
	                    "cut -f2 | sort -u; kill -9 $PPID 2>/dev/null || echo refused");
	struct told t;

	if (geteuid() != 0)
		SKIP("needs root to become another");
	host_start();
	s.user = unconst("12345");
	host_call(&t, &s, NULL, 0);
	CHECK_STR(buf_str(&t.out), "12345\n0000000000000000\nrefused\n");
}

TEST_FORKED(root_keeps_only_the_capabilities_that_the_engine_names, 60)
{
	struct told t;

	if (geteuid() != 0)
		SKIP("needs root");
	(void)setenv("CLOCHE_CAPS_ROOT", "3", 1);
	host_start();
	host_exec(&t, "grep -E 'Cap(Inh|Prm|Eff|Bnd|Amb)' /proc/self/status | cut -f2");
	CHECK_STR(buf_str(&t.out), "0000000000000000\n0000000000000003\n0000000000000003\n"
	                           "0000000000000003\n0000000000000000\n");
}

TEST_FORKED(an_unknown_user_is_refused_by_name, 60)
{
	struct start s = host_script("true");
	struct told t;

	host_start();
	s.user = unconst("nobody-here");
	host_call(&t, &s, NULL, 0);
	CHECK_INT(t.exit.how, EXIT_FAILED);
	CHECK_STR(t.exit.message, "user: no user 'nobody-here' in the sandbox");
}

TEST_FORKED(a_signal_from_the_host_is_told_as_the_cause, 60)
{
	struct start s = host_script("echo up; exec sleep 1000");
	struct told t = {0};

	host_start();
	host_run(1, &s);
	host_gather(1, &t, told_started);
	host_signal(1, SIGTERM, SCOPE_PROCESS);
	host_gather(1, &t, told_closed);
	CHECK_INT(t.exit.how, EXIT_SIGNAL);
	CHECK_INT(t.exit.value, SIGTERM);
	CHECK_INT(t.exit.cause, EXIT_CAUSE_KILLED);
}

static bool told_two_lines(const struct told *t)
{
	const char *first = strchr(buf_str(&t->out), '\n');

	return first && strchr(first + 1, '\n');
}

/* The second line of output is a pid. */
static pid_t told_pid(const struct told *t)
{
	const char *newline = strchr(buf_str(&t->out), '\n');
	int pid = 0;

	CHECK(newline);
	CHECK_INT(sscanf(newline, "\n%d", &pid), 1);
	return pid;
}

#define LONER                                                                                      \
	"(setsid sh -c 'trap \"\" TERM; printf \"up\\n%d\\n\" $$; while :; do sleep 1; done' &); "

/* Runs what says `up` first, when it is ready for its end, on a timeout that left it the time. */
static void run_to_its_timeout(struct start *s, struct told *t, bool (*until)(const struct told *t))
{
	uint32_t channel = 1;

	host_start();
	for (s->timeout_us = 200000; s->timeout_us < 100000000; s->timeout_us *= 2) {
		host_run(channel, s);
		host_gather(channel, t, until);
		if (strncmp(buf_str(&t->out), "up\n", 3) == 0)
			return;
		host_send(FRAME_FORGET, channel++, NULL, 0);
		told_done(t);
		*t = (struct told){0};
	}
	CHECK_STR("", "up\n");
}

TEST_FORKED(a_timeout_takes_the_whole_tree_even_what_left_its_session, 60)
{
	struct start s = host_script("trap '' TERM; " LONER "while :; do sleep 1; done");
	struct told t = {0};
	pid_t loner;

	s.grace_us = 200000;
	run_to_its_timeout(&s, &t, told_closed);
	CHECK_INT(t.exit.how, EXIT_SIGNAL);
	CHECK_INT(t.exit.value, SIGKILL);
	CHECK_INT(t.exit.cause, EXIT_CAUSE_TIMEOUT);
	loner = told_pid(&t);
	host_await_death(loner);
}

TEST_FORKED(a_timeout_gives_time_to_end_well, 60)
{
	struct start s =
		host_script("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done");
	struct told t = {0};

	s.grace_us = 30000000;
	run_to_its_timeout(&s, &t, told_exit);
	CHECK_STR(buf_str(&t.out), "up\nbye\n");
	CHECK_INT(t.exit.how, EXIT_CODE);
	CHECK_INT(t.exit.value, 3);
	CHECK_INT(t.exit.cause, EXIT_CAUSE_TIMEOUT);
}

TEST_FORKED(forgetting_an_exec_kills_its_tree, 60)
{
	struct start s = host_script(LONER "sleep 1000");
	struct told t = {0};

	host_start();
	host_run(1, &s);
	host_gather(1, &t, told_two_lines);
	host_send(FRAME_FORGET, 1, NULL, 0);
	host_await_death(told_pid(&t));
	host_await_death((pid_t)t.pid);
}

TEST_FORKED(what_let_go_of_its_output_outlives_the_exec, 60)
{
	struct told t;
	pid_t pid;

	host_start();
	host_exec(&t, "echo pid; sleep 1000 >/dev/null 2>&1 & echo $!"); /* FORGET is sent too */
	pid = told_pid(&t);
	told_done(&t);
	host_exec(&t, "true"); /* the agent has seen the FORGET */
	CHECK_INT(kill(pid, 0), 0);
	(void)kill(pid, SIGKILL);
}

TEST_FORKED(output_of_background_children_goes_on_until_they_close_it, 60)
{
	char path[] = "/tmp/cloche-test-XXXXXX";
	auto_fd int gate = mkstemp(path);
	auto_free char *script =
		xasprintf("(while [ -e %s ]; do sleep 0.02; done; echo late) & echo now", path);
	struct start s = host_script(script);
	struct told t = {0};

	CHECK(gate >= 0);
	host_start();
	host_run(1, &s);
	host_gather(1, &t, told_exit);
	CHECK_STR(buf_str(&t.out), "now\n");
	CHECK(!t.is_closed);
	(void)unlink(path);
	host_gather(1, &t, told_closed);
	CHECK_STR(buf_str(&t.out), "now\nlate\n");
}

TEST_FORKED(a_terminal_has_its_size_and_ends_with_its_input, 60)
{
	struct start s =
		host_script("tty; stty size; echo $TERM; read x; stty size; cat; echo end");
	unsigned char size[4] = {50, 0, 120, 0};
	struct told t = {0};

	if (access("/dev/ptmx", R_OK | W_OK) < 0)
		SKIP("no /dev/ptmx");
	host_start();
	s.has_pty = true;
	host_run(1, &s);
	host_gather(1, &t, told_started);
	host_send(FRAME_RESIZE, 1, size, 4);
	host_send(FRAME_INPUT, 1, "go\n", 3);
	host_send(FRAME_INPUT, 1, "text", 4);
	host_send(FRAME_INPUT_END, 1, NULL, 0);
	host_gather(1, &t, told_closed);
	CHECK(strstr(buf_str(&t.out), "/dev/pts/"));
	CHECK(strstr(buf_str(&t.out), "xterm-256color\r\n"));
	CHECK(strstr(buf_str(&t.out), "50 120\r\n"));
	CHECK(strstr(buf_str(&t.out), "textend\r\n")); /* by cat, which then came to its end */
	CHECK_INT(t.exit.how, EXIT_CODE);
}

static char *numbers(size_t len)
{
	char *text = xcalloc(1, len + 16);
	size_t at = 0;

	for (unsigned n = 1; at < len; n++)
		at += (size_t)snprintf(text + at, 16, "%u\n", n);
	text[len] = '\0';
	return text;
}

TEST_FORKED(stdin_flows_through_byte_by_byte_exact, 60)
{
	size_t len = 3 * 1024 * 1024 + 17;
	auto_free char *text = numbers(len);
	struct start s = host_script("cat");
	struct told t;

	host_start();
	s.has_stdin = true;
	host_call(&t, &s, text, len);
	CHECK_MEM(t.out.data, t.out.len, text, len);
	CHECK_INT(t.input_acked, len);
}

static bool told_pipe_full(const struct told *t)
{
	return t->input_acked > 0;
}

TEST_FORKED(a_program_that_never_reads_holds_up_nobody, 60)
{
	auto_free char *junk = xcalloc(1, FRAME_DATA_MAX);
	struct start s = host_script("exec sleep 1000");
	struct told t = {0}, other;

	host_start();
	s.has_stdin = true;
	host_run(1, &s);
	host_gather(1, &t, told_started);
	for (int i = 0; i < FRAME_WINDOW / FRAME_DATA_MAX; i++)
		host_send(FRAME_INPUT, 1, junk, FRAME_DATA_MAX);
	host_gather(1, &t, told_pipe_full);
	host_exec(&other, "echo alive");
	CHECK_STR(buf_str(&other.out), "alive\n");
	host_signal(1, SIGKILL, SCOPE_TREE);
	host_gather(1, &t, told_closed);
	CHECK_INT(t.exit.value, SIGKILL);
}

TEST_FORKED(input_past_the_window_ends_the_connection, 60)
{
	auto_free char *junk = xcalloc(1, FRAME_DATA_MAX);
	struct start s = host_script("exec sleep 1000");
	struct told t = {0};

	host_start();
	s.has_stdin = true;
	host_run(1, &s);
	host_gather(1, &t, told_started);
	for (int i = 0; i < 2 + 2 * FRAME_WINDOW / FRAME_DATA_MAX; i++)
		host_send(FRAME_INPUT, 1, junk, FRAME_DATA_MAX);
	CHECK(host_is_hung_up());
	host_connect(2);
	host_hello();
	host_send(FRAME_FORGET, 1, NULL, 0);
	host_await_death((pid_t)t.pid);
}

static bool told_a_window(const struct told *t)
{
	return t->end >= FRAME_WINDOW;
}

TEST_FORKED(a_flood_waits_for_acks_and_keeps_every_byte_in_order, 60)
{
	size_t len = 2 * 1024 * 1024;
	auto_free char *text = numbers(len);
	struct start s = host_script("seq 1 400000 | head -c 2097152; exit 4");
	struct told t = {0};
	struct frame f;

	host_start();
	host_acks = false;
	host_run(1, &s);
	host_gather(1, &t, told_a_window);
	host_send_u64(FRAME_PING, 0, 1);
	CHECK(host_next(&f)); /* nothing comes past the window */
	CHECK_INT(f.type, FRAME_PONG);
	CHECK_INT(t.end, FRAME_WINDOW);
	host_acks = true;
	host_send_u64(FRAME_ACK, 1, t.end);
	host_gather(1, &t, told_closed);
	CHECK_MEM(t.out.data, t.out.len, text, len);
	CHECK_INT(t.exit.value, 4);
	CHECK_INT(t.exit.output_end, len);
}

static bool told_some(const struct told *t)
{
	return t->end >= 100000;
}

TEST_FORKED(a_host_that_comes_back_resumes_at_its_byte, 60)
{
	size_t len = 2 * 1024 * 1024;
	auto_free char *text = numbers(len);
	struct start s = host_script("seq 1 400000 | head -c 2097152; echo x >&2; exit 5");
	struct told t = {0};
	uint32_t epoch = 1;

	host_start();
	host_run(1, &s);
	host_gather(1, &t, told_some);
	for (; epoch < 5; epoch++) {
		struct frame f;

		host_connect(epoch + 1);
		host_hello();
		/* Silent until it is resumed. */
		host_send_u64(FRAME_PING, 0, 42);
		CHECK(host_next(&f));
		CHECK_INT(f.type, FRAME_PONG);
		host_send_u64(FRAME_RESUME, 1, t.end);
		t.has_started = false;
		host_gather(1, &t, told_started);
	}
	host_gather(1, &t, told_closed);
	CHECK_MEM(t.out.data, t.out.len, text, len);
	CHECK_STR(buf_str(&t.err), "x\n");
	CHECK_INT(t.exit.value, 5);
	/* And once more: the end is told again. */
	host_connect(9);
	host_hello();
	t.has_exit = t.is_closed = false;
	host_send_u64(FRAME_RESUME, 1, t.end);
	host_gather(1, &t, told_closed);
	CHECK_INT(t.exit.value, 5);
}

TEST_FORKED(a_welcome_lists_the_channels_that_live, 60)
{
	struct start s = host_script("echo hello; exec sleep 1000");
	auto_free char *tag = NULL;
	struct told t = {0};
	struct unpack u;
	struct frame f;

	host_start();
	host_acks = false;
	s.tag = unconst("ex_listed");
	host_run(77, &s);
	host_gather(77, &t, told_started);
	while (t.end < 6) {
		CHECK(host_next(&f));
		t.end += f.len - 9;
	}
	host_connect(2);
	{
		auto_call(buf_done) struct buf hello = BUF_INIT(64);
		struct pack p = {.out = &hello};

		pack_u32(&p, FRAME_VERSION);
		for (int i = 0; i < 44; i++)
			pack_u8(&p, 0);
		host_send(FRAME_HELLO, 0, hello.data, hello.len);
	}
	CHECK(host_next(&f));
	CHECK_INT(f.type, FRAME_WELCOME);
	u = (struct unpack){.data = f.payload, .len = f.len};
	CHECK_INT(unpack_u32(&u), FRAME_VERSION);
	CHECK_INT(unpack_u32(&u), 1);
	CHECK_INT(unpack_u32(&u), 77);
	tag = unpack_str(&u, 64);
	CHECK_STR(tag, "ex_listed");
	CHECK_INT(unpack_u8(&u), CHANNEL_RUNNING);
	CHECK_INT(unpack_u64(&u), 0);
	CHECK_INT(unpack_u64(&u), 6);
	CHECK_INT(unpack_end(&u), 0);
	host_send(FRAME_FORGET, 77, NULL, 0);
	host_await_death((pid_t)t.pid);
}

/* While it writes, which is where it learns that the host is gone. */
TEST_FORKED(what_a_host_has_sent_before_it_went_is_done, 60)
{
	struct start talker = host_script("while :; do echo on and on; done");

	host_start();
	host_run(1, &talker);
	for (uint32_t epoch = 1; epoch < 100; epoch++) {
		struct start s = host_script("exit 7");
		struct told t = {0};

		host_run(epoch + 1, &s);
		host_connect(epoch + 1);
		host_hello();
		host_send_u64(FRAME_RESUME, epoch + 1, 0);
		host_gather(epoch + 1, &t, told_closed);
		CHECK_INT(t.exit.value, 7);
		host_send(FRAME_FORGET, epoch + 1, NULL, 0);
		host_send_u64(FRAME_RESUME, 1, 0);
		told_done(&t);
	}
}

TEST_FORKED(while_nobody_is_connected_programs_wait_and_nothing_is_lost, 60)
{
	size_t len = 1024 * 1024;
	auto_free char *text = numbers(len);
	struct start s = host_script("seq 1 400000 | head -c 1048576");
	struct told t = {0};

	host_start();
	host_run(1, &s);
	host_gather(1, &t, told_started);
	host_drop();
	host_connect(2);
	host_hello();
	host_send_u64(FRAME_RESUME, 1, t.end);
	host_gather(1, &t, told_closed);
	CHECK_MEM(t.out.data, t.out.len, text, len);
}

TEST_FORKED(a_frame_of_another_epoch_ends_the_connection_and_not_the_agent, 60)
{
	auto_call(buf_done) struct buf out = BUF_INIT(64);
	struct told t;

	host_start();
	CHECK_INT(frame_put(&out, FRAME_PING, 0, 99, "12345678", 8), 0);
	host_send_raw(out.data, out.len);
	CHECK(host_is_hung_up());
	host_connect(2);
	host_hello();
	host_exec(&t, "echo alive");
	CHECK_STR(buf_str(&t.out), "alive\n");
}

TEST_FORKED(garbage_ends_the_connection_and_not_the_agent, 60)
{
	static const char *const garbage[] = {
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
		"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"};
	uint32_t epoch = 2;
	struct told t;

	host_start();
	for (size_t i = 0; i < 2 * ARRAY_SIZE(garbage); i++) {
		host_connect(epoch++);
		if (i % 2)
			host_hello();
		host_send_raw(garbage[i / 2], strlen(garbage[i / 2]));
		CHECK(host_is_hung_up());
	}
	host_connect(epoch);
	host_hello();
	host_exec(&t, "echo alive");
	CHECK_STR(buf_str(&t.out), "alive\n");
}

TEST_FORKED(a_first_frame_that_is_no_hello_ends_the_connection, 60)
{
	host_start();
	host_connect(2);
	host_send_u64(FRAME_PING, 0, 1);
	CHECK(host_is_hung_up());
}

TEST_FORKED(a_number_in_use_cannot_be_started_again, 60)
{
	struct start s = host_script("exec sleep 1000");
	struct told t = {0};

	host_start();
	host_run(1, &s);
	host_gather(1, &t, told_started);
	host_run(1, &s);
	CHECK(host_is_hung_up());
	host_connect(2);
	host_hello();
	host_send(FRAME_FORGET, 1, NULL, 0);
	host_await_death((pid_t)t.pid);
}

TEST_FORKED(orphans_are_reaped, 60)
{
	struct told t;

	host_start();
	host_exec(&t, "echo pid; sh -c 'sleep 0.05 >/dev/null 2>&1 & echo $!'");
	host_await_death(told_pid(&t));
	told_done(&t);
	host_exec(&t, "ps -o stat= --ppid $PPID 2>/dev/null | grep -c Z || true");
	CHECK_STR(buf_str(&t.out), "0\n");
}

TEST_FORKED(sudo_inside_runs_words_as_root_with_the_callers_fds, 60)
{
	char dir[] = "/tmp/cloche-sudo-XXXXXX";
	auto_free char *link_path = NULL;
	auto_free char *script = NULL;
	struct start s;
	struct told t;

	if (geteuid() != 0)
		SKIP("needs root");
	CHECK(mkdtemp(dir) != NULL);
	CHECK_INT(chmod(dir, 0755), 0);
	link_path = xasprintf("%s/sudo", dir);
	/* A copy: the user need not be able to pass through the directories above the build. */
	CHECK_INT(spawn_run((const char *const[]){"cp", getenv("CLOCHE_AGENT"), link_path, NULL},
	                    NULL),
	          0);
	host_start_as_init();
	script = xasprintf(
		"cd /tmp; id -u; echo text | %s sh -c 'id -u; cat; pwd; exit 9'; echo $?; "
		"%s -u 54321 A=b sh -c 'id -u; echo $A $SUDO_UID'; "
		"%s no-such-thing 2>&1; echo $?",
		link_path, link_path, link_path);
	s = host_script(script);
	s.user = unconst("1000"); /* the sandbox's own */
	host_call(&t, &s, NULL, 0);
	(void)unlink(link_path);
	(void)rmdir(dir);
	CHECK_STR(buf_str(&t.out), "1000\n0\ntext\n/tmp\n9\n54321\nb 1000\n"
	                           "sudo: argv[0]: no such program 'no-such-thing'\n127\n");
}

TEST_FORKED(many_execs_at_once_all_end_well, 60)
{
	bool is_over[100] = {false};
	size_t left = ARRAY_SIZE(is_over);
	struct start s = host_script("echo x; echo y >&2");
	struct frame f;

	host_start();
	for (uint32_t i = 0; i < ARRAY_SIZE(is_over); i++)
		host_run(i + 1, &s);
	while (left > 0) {
		CHECK(host_next(&f));
		CHECK(f.channel >= 1 && f.channel <= ARRAY_SIZE(is_over));
		if (f.type != FRAME_CLOSED)
			continue;
		CHECK(!is_over[f.channel - 1]);
		is_over[f.channel - 1] = true;
		host_send(FRAME_FORGET, f.channel, NULL, 0);
		left--;
	}
}
