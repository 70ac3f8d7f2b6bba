// SPDX-License-Identifier: Apache-2.0
/*
 * Runs guest/build/pull.py in a sandbox, with a lent policy.
 *
 *	policy lent, in force --> the program --> policy taken back, in force --> on_end
 *
 * What the program prints is a guest's text: lines of bounded size, of which only known forms are
 * taken. What it says about the image is checked again where the image is unpacked.
 */
#include "base/log.h"
#include "base/parse.h"
#include "build/build_private.h"
#include "build/recipe/script.h"
#include "build/registry/pull_private.h"
#include "sandbox/network/network.h"

#include <string.h>

#define TIMEOUT_MS (UINT64_C(60) * 60 * 1000)

struct pull_fetch {
	struct fleet *fleet;
	struct loop *loop;
	char sandbox_id[ID_SIZE];
	struct pull *pull;
	const struct pull_ops *ops;
	void *arg;
	struct exec_watch watch;
	uint64_t read_seq, bytes, total;
	struct report report;
	char image[IMAGE_DIGEST_LEN + 1];  /* what is pulled */
	char digest[IMAGE_DIGEST_LEN + 1]; /* likewise, when all of it has come */
	struct digest *chains;             /* PULL_LAYERS_MAX of them, or NULL */
	size_t n_chains;
	bool asks;        /* the program waits for an answer */
	struct err error; /* code ERR_NONE: it has not failed */
	bool is_waiting;  /* for the network: a call with this as its argument will come */
	bool is_dead;
};

static const struct {
	const char *word; /* of guest/build/pull.py */
	enum err_code code;
	const char *hint;
} failures[] = {
	{"unknown", ERR_NOT_FOUND, "look at its name and tag"},
	{"unauthorized", ERR_SOURCE,
         "give credentials, or name some for the registry in registries.credentials"},
	{"untrusted", ERR_SOURCE,
         "an authority of your own goes into network.ca_file of the daemon's settings"},
	{"denied", ERR_SOURCE,
         "a registry with a private address has to be in [registries] or templates.names of the "
         "daemon's settings, one of this host in network.may_open"},
	{"unreachable", ERR_SOURCE, "try again; what was fetched before is not kept"},
	{"refused", ERR_SOURCE, NULL},
	{"digest", ERR_FILE_INVALID,
         "the registry or somebody before it gives something else than what was asked for"},
	{"invalid", ERR_FILE_INVALID, NULL},
	{"large", ERR_TOO_LARGE, NULL},
	{"full", ERR_DISK_FULL, "the ceiling `disk` of the daemon's settings bounds it"},
};

static struct sandbox *find_sandbox(const struct pull_fetch *f)
{
	return sandbox_find(f->fleet, BUILD_PROJECT, f->sandbox_id);
}

static void release(struct loop *loop, void *arg)
{
	(void)loop;
	free(arg);
}

/* Nothing is told any more; whoever still calls finds it dead. */
static void leave(struct pull_fetch *f)
{
	exec_watch_remove(&f->watch);
	report_done(&f->report);
	free(take_ptr(f->chains));
	f->is_dead = true;
	if (!f->is_waiting)
		loop_defer(f->loop, release, f);
}

static void end(struct pull_fetch *f)
{
	const struct err error = f->error;

	leave(f);
	f->ops->on_end(error.code == ERR_NONE ? f->digest : NULL,
	               error.code == ERR_NONE ? NULL : &error, f->arg);
}

/* A call of the network has come. Whether anybody still waits for it. */
static bool takes_call(struct pull_fetch *f)
{
	f->is_waiting = false;
	if (f->is_dead)
		loop_defer(f->loop, release, f);
	return !f->is_dead;
}

static void set_network(struct pull_fetch *f, struct sandbox *s, struct policy *lent, network_fn fn)
{
	f->is_waiting = true;
	network_lend(s, lent);
	network_apply(s, fn, f);
}

static void on_closed(struct sandbox *s, const struct err *err, void *arg)
{
	struct pull_fetch *f = arg;

	if (!takes_call(f))
		return;
	if (!s)
		f->error = *err;
	end(f);
}

/* Whatever came, what comes next has no network. */
static void close_network(struct pull_fetch *f)
{
	struct sandbox *s = find_sandbox(f);

	exec_watch_remove(&f->watch);
	if (!s || f->error.code != ERR_NONE) { /* it is deleted next */
		end(f);
		return;
	}
	set_network(f, s, NULL, on_closed);
}

static void take_failure(struct pull_fetch *f, const char *text)
{
	const char *message = strchr(text, ' ');
	size_t len = message ? (size_t)(message - text) : 0;

	for (size_t i = 0; i < ARRAY_SIZE(failures) && message; i++) {
		if (strlen(failures[i].word) != len || strncmp(failures[i].word, text, len) != 0)
			continue;
		(void)err_set(&f->error, failures[i].code, 0, "%.120s: %s", f->pull->ref,
		              message + 1);
		if (failures[i].hint)
			(void)err_hint(&f->error, "%s", failures[i].hint);
		if (strncmp(text, "unauthorized", len) == 0 && f->pull->locked[0])
			(void)err_hint(&f->error, "%s", f->pull->locked);
		return;
	}
	(void)err_set(&f->error, ERR_GUEST, 0, "%.120s: %s", f->pull->ref,
	              message ? message + 1 : text);
}

static void take_progress(struct pull_fetch *f, const char *text)
{
	char done[24] = "";
	const char *space = strchr(text, ' ');
	uint64_t bytes, total;

	if (!space || (size_t)(space - text) >= sizeof(done))
		return;
	memcpy(done, text, (size_t)(space - text));
	if (parse_u64(done, INT64_MAX, &bytes) < 0 || parse_u64(space + 1, INT64_MAX, &total) < 0)
		return;
	f->bytes = bytes;
	f->total = total;
}

static const char *behind(const char *line, const char *prefix)
{
	return strncmp(line, prefix, strlen(prefix)) == 0 ? line + strlen(prefix) : NULL;
}

/* "sha256:" and 64 digits. */
static bool is_digest(const char *text)
{
	return strncmp(text, "sha256:", 7) == 0 && strlen(text) == 71 &&
	       strspn(text + 7, "0123456789abcdef") == 64;
}

static void take_chain(struct pull_fetch *f, const char *text)
{
	if (!f->chains || !is_digest(text) || f->n_chains == PULL_LAYERS_MAX)
		return;
	if (digest_parse(text + 7, &f->chains[f->n_chains]) == 0)
		f->n_chains++;
}

static void on_line(const char *line, size_t len, void *arg)
{
	struct pull_fetch *f = arg;
	const char *text;

	if ((text = behind(line, "cloche:pull ")))
		take_progress(f, text);
	else if ((text = behind(line, "cloche:failed ")))
		take_failure(f, text);
	else if ((text = behind(line, "cloche:pulled ")) && is_digest(text))
		(void)snprintf(f->digest, sizeof(f->digest), "%s", text);
	else if ((text = behind(line, "cloche:image ")) && is_digest(text))
		(void)snprintf(f->image, sizeof(f->image), "%s", text);
	else if ((text = behind(line, "cloche:chain ")))
		take_chain(f, text);
	else if (strcmp(line, "cloche:chains") == 0)
		f->asks = f->chains != NULL;
	else if (len > 0)
		log_debug("pull.said", "ref='%s' line='%s'", f->pull->ref, line);
}

static void read_output(struct pull_fetch *f, struct exec *e)
{
	struct spool_event ev;
	struct err err;

	while (spool_next(exec_spool(e), f->read_seq, &ev, &err) > 0) {
		f->read_seq = ev.seq;
		if (ev.kind == SPOOL_STDOUT || ev.kind == SPOOL_STDERR)
			report_feed(&f->report, ev.data, ev.len);
	}
	f->ops->on_progress(f->bytes, f->total, f->arg);
}

static void conclude(struct pull_fetch *f, struct exec *e)
{
	report_end(&f->report);
	if (f->error.code != ERR_NONE)
		return;
	if (exec_state(e) == EXEC_FAILED) {
		(void)err_set(&f->error, ERR_UNAVAILABLE, 0, "this host cannot fetch images: %s",
		              exec_failure(e)->message);
		(void)err_hint(&f->error, "it needs /usr/bin/python3: apt install python3");
	} else if (exec_exit_code(e) != 0 || !f->digest[0]) {
		const char *why = exec_why(e);

		(void)err_set(&f->error, ERR_SOURCE, 0, "%.120s: the fetch ended: %s", f->pull->ref,
		              why ? why : f->report.last);
	}
}

/* Tells the program how many layers it need not fetch. */
static void answer(struct pull_fetch *f, struct exec *e)
{
	auto_free struct digest *chains = take_ptr(f->chains);
	size_t n = f->ops->on_layers(chains, f->n_chains, f->arg);
	char text[24];
	int len;

	f->asks = false;
	if (n == PULL_ELSEWHERE) {
		memcpy(f->digest, f->image, sizeof(f->digest));
		end(f);
		return;
	}
	len = snprintf(text, sizeof(text), "%zu\n", MIN(n, f->n_chains));
	if (exec_write_stdin(e, text, (size_t)len, &f->error) == len)
		return;
	if (f->error.code == ERR_NONE)
		(void)err_set(&f->error, ERR_GUEST, 0, "the sandbox of the pull takes no input");
	end(f);
}

static void on_exec(struct exec *e, void *arg)
{
	struct pull_fetch *f = arg;

	if (!e) {
		(void)err_set(&f->error, ERR_GONE, 0, "the sandbox of the pull has ended");
		end(f);
		return;
	}
	read_output(f, e);
	if (!exec_is_over(e)) {
		if (f->asks)
			answer(f, e);
		return;
	}
	conclude(f, e);
	close_network(f);
}

static json_t *make_argv(const struct pull_fetch *f)
{
	auto_free char *text = json_dumps(f->pull->wish, JSON_COMPACT);

	return json_pack("[ssssss]", "/usr/bin/python3", "-I", "-S", "-c", script_pull, text);
}

static void on_open(struct sandbox *s, const struct err *err, void *arg)
{
	struct pull_fetch *f = arg;
	auto_json json_t *argv = NULL;
	struct exec *e;

	if (!takes_call(f))
		return;
	if (!s) {
		f->error = *err;
		end(f);
		return;
	}
	argv = make_argv(f);
	if (exec_start(s,
	               &(struct exec_spec){.argv = argv,
	                                   .has_stdin = f->chains != NULL,
	                                   .user = "root",
	                                   .cwd = "/",
	                                   .timeout_ms = TIMEOUT_MS},
	               &e, &f->error) < 0) {
		end(f);
		return;
	}
	exec_watch_add(e, &f->watch);
	on_exec(e, f);
}

struct pull_fetch *pull_fetch_begin(struct sandbox *s, struct pull *p,
                                    const struct pull_fetch_spec *rest, const struct pull_ops *ops,
                                    void *arg)
{
	struct pull_fetch *f = xnew0(struct pull_fetch);
	const bool asks = !rest && ops->on_layers;

	(void)json_object_set_new(p->wish, "asks", json_boolean(asks));
	(void)json_object_set_new(p->wish, "skip",
	                          json_integer(rest ? (json_int_t)rest->n_skipped : 0));
	if (rest)
		(void)json_object_set_new(p->wish, "digest", json_string(rest->digest));
	if (asks)
		f->chains = xcalloc(PULL_LAYERS_MAX, sizeof(*f->chains));

	f->fleet = sandbox_fleet(s);
	f->loop = fleet_config(f->fleet)->loop;
	f->pull = p;
	f->ops = ops;
	f->arg = arg;
	f->watch = (struct exec_watch){.fn = on_exec, .arg = f};
	list_init(&f->watch.link);
	report_init(&f->report, on_line, f);
	(void)snprintf(f->sandbox_id, sizeof(f->sandbox_id), "%s", sandbox_id(s));
	set_network(f, s, take_ptr(p->policies[rest ? 1 : 0]), on_open);
	return f;
}

void pull_fetch_cancel(struct pull_fetch *f)
{
	leave(f);
}
