// SPDX-License-Identifier: Apache-2.0
/* Telemetry while no collector answers: bounds of queues and of traces, and what is passed on. */
#include "base/fd.h"
#include "telemetry/telemetry.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PARENT "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define MUTE   "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

static struct {
	struct loop *loop;
	struct dialer *dialer;
	struct telemetry *telemetry;
	int peer_fd; /* nobody answers there */
} rig;

static bool put_nothing(size_t group, struct metrics *m, void *arg)
{
	(void)group;
	(void)m;
	(void)arg;
	return false;
}

static void set_up(const char *url, uint32_t percent, uint32_t rate)
{
	struct telemetry_config config = {.url = url,
	                                  .sends = {true, true, true},
	                                  .interval_us = UINT64_C(3600000000),
	                                  .traces_percent = percent,
	                                  .traces_rate = rate,
	                                  .put_metrics = put_nothing};
	int pair[2];

	log_init("test", LOG_ERROR);
	CHECK_INT(loop_new(&rig.loop, NULL), 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	rig.peer_fd = pair[0];
	rig.dialer = dialer_new(rig.loop);
	dialer_attach(rig.dialer, pair[1]);
	config.outgoing = (struct outgoing){.loop = rig.loop, .dialer = rig.dialer};
	rig.telemetry = telemetry_new(&config);
}

static void tear_down(void)
{
	telemetry_free(rig.telemetry);
	dialer_free(rig.dialer);
	loop_free(rig.loop);
	(void)close(rig.peer_fd);
}

static struct trace *begin(const char *parent, const char *state, const char *project)
{
	return trace_begin(rig.telemetry, &(struct trace_wish){.traceparent = parent,
	                                                       .tracestate = state,
	                                                       .project_id = project,
	                                                       .method = "POST",
	                                                       .route = "/v1/sandboxes"});
}

static struct telemetry_counts counts(void)
{
	struct telemetry_counts c;

	telemetry_count(rig.telemetry, &c);
	return c;
}

/* How many of 1000 requests are recorded. */
static int recorded(const char *parent, const char *project)
{
	int n = 0;

	for (int i = 0; i < 1000; i++) {
		struct trace *trace = begin(parent, NULL, project);

		n += trace && trace->span;
		trace_drop(trace);
	}
	return n;
}

TEST(a_full_queue_loses_its_oldest_and_counts_them)
{
	set_up("http://127.0.0.1:4318", 100, 100000);
	for (int i = 0; i < 5000; i++)
		trace_end(begin(NULL, NULL, "prj_1"), 1, NULL);
	CHECK_INT(counts().queued[TELEMETRY_TRACES], 2048);
	CHECK_INT(counts().dropped[TELEMETRY_TRACES], 5000 - 2048);
	for (int i = 0; i < 5000; i++)
		log_error("test.line", "number=%d text='%s'", i, "some words");
	CHECK_INT(counts().queued[TELEMETRY_LOGS], 2048);
	CHECK_INT(counts().dropped[TELEMETRY_LOGS], 5000 - 2048);
	tear_down();
}

TEST(long_lines_are_bounded_by_their_bytes)
{
	char text[1000];

	set_up("http://127.0.0.1:4318", 0, 1);
	memset(text, '"', sizeof(text) - 1); /* each is escaped */
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 4000; i++)
		log_error("test.line", "text='%s'", text);
	CHECK(counts().queued[TELEMETRY_LOGS] <= 4 * 1024 * 1024 / 1000);
	CHECK(counts().dropped[TELEMETRY_LOGS] > 0);
	tear_down();
}

TEST(a_tenant_that_marks_every_request_is_traced_up_to_its_rate)
{
	set_up("http://127.0.0.1:4318", 100, 5);
	CHECK_INT(recorded(PARENT, "prj_greedy"), 50); /* ten seconds' worth, at once */
	CHECK_INT(recorded(NULL, "prj_greedy"), 0);
	CHECK_INT(recorded(PARENT, "prj_other"), 50);
	tear_down();
}

TEST(a_client_that_says_no_is_not_recorded_and_the_others_by_chance)
{
	int n;

	set_up("http://127.0.0.1:4318", 50, 100000);
	CHECK_INT(recorded(MUTE, "prj_1"), 0);
	n = recorded(NULL, "prj_1");
	CHECK(n > 300 && n < 700);
	CHECK_INT(recorded(PARENT, "prj_1"), 1000);
	tear_down();
}

TEST(without_a_collector_a_context_is_passed_on_and_nothing_is_recorded)
{
	struct trace_env env;
	struct trace *trace;

	set_up(NULL, 100, 100);
	CHECK(begin(NULL, NULL, "prj_1") == NULL);
	CHECK(begin("00-zz", "a=1", "prj_1") == NULL);
	CHECK(!trace_env_get(rig.telemetry, NULL, &env));
	trace = begin(PARENT, "a=1", "prj_1");
	trace_enter(rig.telemetry, trace);
	CHECK(span_begin(rig.telemetry, "exec") == NULL);
	CHECK(trace_env_get(rig.telemetry, NULL, &env));
	CHECK_STR(env.parent, PARENT);
	CHECK_STR(env.state, "a=1");
	trace_enter(rig.telemetry, NULL);
	CHECK(!trace_env_get(rig.telemetry, NULL, &env));
	trace_end(trace, 1, NULL);
	log_error("test.line", "number=%d", 1);
	CHECK_INT(counts().queued[TELEMETRY_TRACES] + counts().queued[TELEMETRY_LOGS], 0);
	tear_down();
}

TEST(what_runs_inside_is_told_the_span_that_it_works_for)
{
	struct trace_env env;
	struct trace *trace;
	struct span *span;

	set_up("http://127.0.0.1:4318", 0, 100);
	trace = begin(PARENT, "no good state", "prj_1");
	trace_enter(rig.telemetry, trace);
	span = span_begin(rig.telemetry, "exec");
	CHECK(trace_env_get(rig.telemetry, span, &env));
	CHECK(strncmp(env.parent, PARENT, 36) == 0);           /* the client's trace */
	CHECK(strncmp(env.parent + 36, &PARENT[36], 16) != 0); /* another span */
	CHECK_STR(env.parent + 52, "-01");
	CHECK_STR(env.state, "");
	span_end(span, NULL);
	trace_enter(rig.telemetry, NULL);
	trace_end(trace, 1, NULL);
	CHECK_INT(counts().queued[TELEMETRY_TRACES], 2);
	tear_down();
}

static int read_headers(const char *text, struct telemetry_headers *h, struct err *err)
{
	char path[] = "/tmp/cloche-headers-XXXXXX";
	auto_fd int fd = mkstemp(path);
	int r;

	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	r = telemetry_headers_read(h, "telemetry.headers_file", path, err);
	CHECK_INT(unlink(path), 0);
	return r;
}

TEST(header_fields_of_a_file_are_read_and_a_bad_line_is_named_but_not_shown)
{
	struct telemetry_headers h;
	struct err err = {0};

	CHECK_INT(read_headers("# for us\n\nAuthorization: Bearer abc \r\nX-Team:x\n", &h, &err),
	          0);
	CHECK_INT(h.n, 2);
	CHECK_STR(h.of[0].name, "Authorization");
	CHECK_STR(h.of[0].value, "Bearer abc");
	CHECK_STR(h.of[1].value, "x");
	telemetry_headers_done(&h);
	CHECK(read_headers("X-Team: x\nsecret-without-a-colon\n", &h, &err) < 0);
	CHECK(strstr(err.message, "line 2") && !strstr(err.message, "secret"));
	telemetry_headers_done(&h);
	CHECK(read_headers("X Team: x\n", &h, &err) < 0);
	telemetry_headers_done(&h);
	CHECK(telemetry_headers_read(&h, "telemetry.headers_file", "/nowhere", &err) < 0);
	CHECK_STR(err.field, "telemetry.headers_file");
}
