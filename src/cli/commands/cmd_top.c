// SPDX-License-Identifier: Apache-2.0
/*
 * A live table of the project's sandboxes, those that are paused too. Each round lists them, asks
 * for each one's figures and compares with the round before: CPU in percent is what was used in
 * between. On a terminal a round is drawn over the last, on the other screen, so that the one
 * before comes back; elsewhere rounds follow each other as plain text. Signals are taken while it
 * waits for the next round, so that the terminal is always left as it was.
 */
#include "cli/frame/command.h"
#include "cli/term/text.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

#define FIRST_ROUND_MS 500 /* until there is something to compare with */
#define SCREEN_ON      "\x1b[?1049h\x1b[?25l\x1b[?7l"
#define SCREEN_OFF     "\x1b[?7h\x1b[?25h\x1b[?1049l"
#define SCREEN_CLEAR   "\x1b[H\x1b[J"
#define LINES_AROUND   4 /* the summary, an empty line, the heads, and the cursor's */

struct top_opts {
	bool once;
	const char *sort;
	uint64_t interval_ms;
};

struct row {
	const json_t *sandbox; /* borrowed from the list */
	json_t *figures;
	double cpu_percent; /* of one CPU; < 0: not known yet */
};

struct round {
	json_t *sandboxes;
	struct row *rows;
	size_t n;
};

static void round_done(struct round *r)
{
	for (size_t i = 0; i < r->n; i++)
		json_decref(r->rows[i].figures);
	free(r->rows);
	json_decref(r->sandboxes);
	*r = (struct round){0};
}

/* Those that run, then those that are paused: they hold memory or disk, and cost too. */
static int list_living(struct command *c, json_t *ret, struct err *err)
{
	static const char *const states[] = {"running", "paused"};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(states) && r == 0; i++) {
		auto_free char *path = remote_query(remote_path("sandboxes"), "state", states[i]);

		path = remote_query(path, "limit", "100");
		r = remote_list(c->remote, path, "sandboxes", ret, err);
	}
	return r;
}

static bool is_running(const json_t *sandbox)
{
	return strcmp(command_text(sandbox, "state"), "running") == 0;
}

static const struct row *find(const struct round *round, const char *id)
{
	for (size_t i = 0; i < round->n; i++)
		if (strcmp(command_text(round->rows[i].sandbox, "id"), id) == 0)
			return &round->rows[i];
	return NULL;
}

static uint64_t used(const struct row *row, const char *name)
{
	return command_number(json_object_get(row->figures, "usage"), name);
}

static uint64_t held(const struct row *row, const char *name)
{
	return command_number(json_object_get(row->figures, "now"), name);
}

static double percent_since(const struct row *now, const struct row *before)
{
	uint64_t us, ns;

	if (!before)
		return -1;
	us = command_number(now->figures, "at_us") - command_number(before->figures, "at_us");
	ns = used(now, "cpu_ns") - used(before, "cpu_ns");
	return us > 0 ? (double)ns / ((double)us * 10.0) : 0;
}

/* One that ends meanwhile is left out. */
static int read_figures(struct command *c, struct row *row, struct err *err)
{
	auto_free char *path = remote_path("sandboxes", command_text(row->sandbox, "id"), "usage");
	int r = remote_call(c->remote, "GET", path, NULL, &row->figures, err);

	if (r < 0 && err->code == ERR_NOT_FOUND)
		return 0;
	return r;
}

static int take_round(struct command *c, const struct round *before, struct round *ret,
                      struct err *err)
{
	const json_t *sandbox;
	size_t i;
	int r;

	*ret = (struct round){.sandboxes = json_array()};
	r = list_living(c, ret->sandboxes, err);
	ret->rows = xcalloc(json_array_size(ret->sandboxes) + 1, sizeof(*ret->rows));
	json_array_foreach(ret->sandboxes, i, sandbox)
	{
		struct row *row = &ret->rows[ret->n];

		row->sandbox = sandbox;
		if (r == 0)
			r = read_figures(c, row, err);
		if (!row->figures ||
		    (is_running(sandbox) && json_is_null(json_object_get(row->figures, "now")))) {
			json_decref(row->figures);
			*row = (struct row){0};
			continue;
		}
		row->cpu_percent = percent_since(row, find(before, command_text(sandbox, "id")));
		ret->n++;
	}
	return r;
}

static int by_cpu(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return (x->cpu_percent < y->cpu_percent) - (x->cpu_percent > y->cpu_percent);
}

static int by_memory(const void *a, const void *b)
{
	uint64_t x = held(a, "memory_bytes"), y = held(b, "memory_bytes");

	return (x < y) - (x > y);
}

static int by_disk(const void *a, const void *b)
{
	uint64_t x = held(a, "disk_bytes"), y = held(b, "disk_bytes");

	return (x < y) - (x > y);
}

typedef int (*order_fn)(const void *a, const void *b);

static const struct {
	const char *name;
	order_fn compare;
} orders[] = {{"cpu", by_cpu}, {"memory", by_memory}, {"disk", by_disk}};

static order_fn find_order(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++)
		if (strcmp(orders[i].name, name) == 0)
			return orders[i].compare;
	return NULL;
}

static void add_bytes(struct table *t, uint64_t bytes)
{
	char text[16];

	text_bytes(bytes, text);
	table_add(t, text);
}

static void add_row(struct table *t, const struct row *row)
{
	const json_t *limits = json_object_get(row->sandbox, "limits");
	const char *name = command_text(row->sandbox, "name");
	char text[32];

	table_add(t, *name ? name : command_text(row->sandbox, "id"));
	table_add(t, command_text(row->sandbox, "state"));
	(void)snprintf(text, sizeof(text), "%.1f", row->cpu_percent);
	table_add(t, row->cpu_percent < 0 ? NULL : text);
	(void)snprintf(text, sizeof(text), "%g",
	               json_number_value(json_object_get(limits, "vcpus")));
	table_add(t, text);
	add_bytes(t, held(row, "memory_bytes"));
	add_bytes(t, command_number(limits, "memory_mib") << 20);
	add_bytes(t, held(row, "disk_bytes"));
	(void)snprintf(text, sizeof(text), "%u", (unsigned)held(row, "pids"));
	table_add(t, text);
	add_bytes(t, used(row, "network_in_bytes"));
	add_bytes(t, used(row, "network_out_bytes"));
	(void)snprintf(text, sizeof(text), "%.1f s", (double)used(row, "cpu_ns") / 1e9);
	table_add(t, text);
	text_age(used(row, "running_ms") * 1000, text);
	table_add(t, text);
	(void)snprintf(text, sizeof(text), "%.20s %.8s",
	               command_text(json_object_get(row->figures, "usage"), "cost"),
	               command_text(row->figures, "currency"));
	table_add(t, text);
}

static void print_round(const struct round *round, size_t most)
{
	static const char *const heads[] = {"SANDBOX", "STATE",   "CPU %", "VCPUS",  "MEMORY",
	                                    "OF",      "DISK",    "PIDS",  "NET IN", "NET OUT",
	                                    "CPU",     "RUNNING", "COST"};
	struct table t = {.heads = heads, .n_columns = ARRAY_SIZE(heads)};
	double cpu = 0;
	uint64_t memory = 0;
	size_t running = 0;
	char text[16];

	for (size_t i = 0; i < round->n; i++) {
		running += is_running(round->rows[i].sandbox);
		cpu += MAX(round->rows[i].cpu_percent, 0);
		memory += held(&round->rows[i], "memory_bytes");
		if (i < most)
			add_row(&t, &round->rows[i]);
	}
	text_bytes(memory, text);
	if (running < round->n)
		printf("%zu paused, ", round->n - running);
	printf("%zu running, CPU %.1f %%, memory %s\n\n", running, cpu, text);
	table_print(&t);
	table_done(&t);
}

static void print_json(const struct round *round)
{
	auto_json json_t *all = json_array();

	for (size_t i = 0; i < round->n; i++) {
		json_t *one = json_copy(round->rows[i].figures);

		(void)json_object_set_new(one, "cpu_percent",
		                          round->rows[i].cpu_percent < 0
		                                  ? json_null()
		                                  : json_real(round->rows[i].cpu_percent));
		(void)json_array_append_new(all, one);
	}
	command_print_json(all);
}

static void draw(const struct command *c, const struct round *round, bool is_screen)
{
	struct winsize size;
	size_t most = SIZE_MAX;

	if (c->common.json) {
		print_json(round);
	} else if (is_screen) {
		if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > LINES_AROUND)
			most = size.ws_row - LINES_AROUND;
		printf(SCREEN_CLEAR);
		print_round(round, most);
	} else {
		print_round(round, most);
	}
	(void)fflush(stdout);
}

/* The signal that came meanwhile, or 0. */
static int wait_ms(const sigset_t *signals, uint64_t ms)
{
	const struct timespec time = {.tv_sec = (time_t)(ms / 1000),
	                              .tv_nsec = (long)(ms % 1000) * 1000000};
	int signo = sigtimedwait(signals, NULL, &time);

	return MAX(signo, 0);
}

static int rounds(struct command *c, order_fn order, bool is_screen, const sigset_t *signals,
                  struct err *err)
{
	const struct top_opts *opts = c->arg;
	const struct round none = {0};
	auto_call(round_done) struct round before = {0};
	int r = take_round(c, &none, &before, err);
	uint64_t pause_ms = MIN(opts->interval_ms, FIRST_ROUND_MS);

	while (r == 0 && wait_ms(signals, pause_ms) == 0) {
		auto_call(round_done) struct round now = {0}, old = {0};

		r = take_round(c, &before, &now, err);
		if (r < 0)
			break;
		qsort(now.rows, now.n, sizeof(*now.rows), order);
		draw(c, &now, is_screen);
		if (opts->once || ferror(stdout))
			break;
		if (!is_screen && !c->common.json)
			printf("\n");
		old = before;
		before = now;
		now = (struct round){0};
		pause_ms = opts->interval_ms;
	}
	return r;
}

static int top(struct command *c, struct err *err)
{
	const struct top_opts *opts = c->arg;
	bool is_screen = isatty(STDOUT_FILENO) && !opts->once && !c->common.json;
	order_fn order = find_order(opts->sort);
	sigset_t signals;
	int r;

	if (!order)
		return err_field(err, "--sort", "must be cpu, memory or disk");
	remote_note(c->remote, NULL); /* no line but the table's */
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &signals, NULL);
	if (is_screen)
		printf(SCREEN_ON);
	r = rounds(c, order, is_screen, &signals, err);
	if (is_screen)
		printf(SCREEN_OFF);
	return r;
}

int cmd_top(int argc, char **argv)
{
	struct top_opts opts = {.sort = "cpu", .interval_ms = 2000};
	const struct opt rows[] = {
		{0, "once", OPT_FLAG, &opts.once, NULL, "print one table and leave"},
		{'s', "sort", OPT_TEXT, &opts.sort, "BY", "cpu (default), memory or disk"},
		{'d', "interval", OPT_MS, &opts.interval_ms, "TIME",
	         "between two rounds (default 2s)"},
	};
	const struct manual manual = {
		.name = "top",
		.synopsis = "[OPTIONS]",
		.about = "Shows what your sandboxes use, again and again, until Ctrl-C. CPU % is "
			 "of one CPU. If stdout is no\n"
			 "terminal, one plain table follows the other.",
		.examples = "  cloche top\n"
			    "  cloche top -s memory -d 5s\n"
			    "  cloche top --once --json",
		.opts = rows,
		.n_opts = ARRAY_SIZE(rows),
	};

	return command_main(&manual, argc, argv, top, &opts);
}
