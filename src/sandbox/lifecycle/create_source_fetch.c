// SPDX-License-Identifier: Apache-2.0
/*
 * Fetching a source is a step of the create, after the agent has answered and before the sandbox
 * runs. Nobody can call the sandbox yet, so nothing else runs in it.
 *
 *	git      policy lent --> git ---------------------------------> policy taken back --> runs
 *	tarball  policy lent --> curl == data ==> unpacking (tar in) --> policy taken back --> runs
 *
 * Both programs are the template's own and run inside, as its user, under its limits: a hostile
 * repository or archive is confined like hostile code. tar/read.c checks the archive's names, as
 * for an upload. Data passes through here a window at a time, with back-pressure. Any failure fails
 * the create, which leaves nothing.
 *
 * A channel's callbacks only note what has come. fetch_on_turn_end() acts on it, since that may end
 * everything.
 */
#include "base/clock.h"
#include "base/log.h"
#include "sandbox/agentlink/agent_errno.h"
#include "sandbox/exec/exec_private.h"
#include "sandbox/fileops/file_call.h"
#include "sandbox/lifecycle/create_source.h"
#include "sandbox/lifecycle/lifecycle.h"
#include "sandbox/network/network.h"

#include <inttypes.h>
#include <string.h>

#define WORDS_MAX  4096
#define LINE_MAX   240 /* of what the program said, in an error */
#define CONFIG_MAX 4096

struct fetch {
	struct sandbox *sandbox;
	struct loop *loop;
	struct source *source;
	struct policy *policy; /* until it is lent */
	struct channel channel;
	struct file_call *unpacking;
	struct buf data;  /* of a tarball, not yet taken by unpacking */
	struct buf words; /* the end of what the program said */
	struct channel_exit exit;
	bool is_closed; /* the program is over, and so is its output */
	bool is_ending; /* unpacking was told that no more comes */
	bool is_unpacked;
	bool is_failed; /* err says why */
	bool is_turn_due, is_dead;
	struct err err;
	uint64_t bytes, begun_us;
	char line[LINE_MAX];
};

/* Its arguments: url, directory, revision, depth, and whether the revision is fetched. */
static const char git_script[] =
	"set -e\n"
	"depth=${4:+--depth=$4}\n"
	"export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=http:https GIT_CONFIG_NOSYSTEM=1 "
	"LC_ALL=C\n"
	"git() { command git -c gc.auto=0 -c maintenance.auto=false -c advice.detachedHead=false "
	"-c init.defaultBranch=main \"$@\"; }\n"
	"if [ \"$5\" = 0 ]; then\n"
	"	git clone --progress $depth ${3:+\"--branch=$3\"} -- \"$1\" \"$2\"\n"
	"else\n"
	"	git init -q -- \"$2\"\n"
	"	cd -- \"$2\"\n"
	"	git remote add origin \"$1\"\n"
	"	git fetch --progress $depth origin \"$3\"\n"
	"	git checkout -q --detach FETCH_HEAD\n"
	"fi\n";

static void fetch_on_turn_end(struct loop *loop, void *arg);

static void wake(struct fetch *f)
{
	if (f->is_turn_due)
		return;
	f->is_turn_due = true;
	loop_defer(f->loop, fetch_on_turn_end, f);
}

static void set_failed(struct fetch *f, const struct err *err)
{
	if (!f->is_failed)
		f->err = *err;
	f->is_failed = true;
	wake(f);
}

static struct fetch *fetch_of(struct channel *ch)
{
	return container_of(ch, struct fetch, channel);
}

static void keep_words(struct fetch *f, const char *data, size_t len)
{
	size_t n = MIN(len, (size_t)WORDS_MAX);

	if (f->words.len + n > WORDS_MAX)
		buf_consume(&f->words, f->words.len + n - WORDS_MAX);
	(void)!buf_append(&f->words, data + (len - n), n);
}

static int on_output(struct channel *ch, enum frame_stream stream, const char *data, size_t len)
{
	struct fetch *f = fetch_of(ch);

	if (stream == STREAM_RECORD)
		return -EPROTO;
	if (stream == STREAM_STDERR || !f->unpacking) {
		keep_words(f, data, len);
		channel_kept(ch, len);
		return 0;
	}
	f->bytes += len;
	wake(f);
	return buf_append(&f->data, data, len) < 0 ? -EPROTO : 0;
}

static void on_exit_frame(struct channel *ch, const struct channel_exit *x)
{
	fetch_of(ch)->exit = *x;
}

static void on_closed(struct channel *ch)
{
	fetch_of(ch)->is_closed = true;
	channel_forget(ch);
	wake(fetch_of(ch));
}

static void on_lost(struct channel *ch, const struct err *why)
{
	set_failed(fetch_of(ch), why);
}

static void on_silent(struct channel *ch)
{
	struct err err;

	(void)err_set(&err, ERR_UNAVAILABLE, 0, "the sandbox's agent does not answer");
	set_failed(fetch_of(ch), &err);
}

static const struct channel_ops channel_ops = {
	.on_output = on_output,
	.on_exit = on_exit_frame,
	.on_closed = on_closed,
	.on_lost = on_lost,
	.on_silent = on_silent,
};

static void on_unpack_room(void *arg)
{
	wake(arg);
}

static void on_unpack_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

static void on_unpacked(const struct err *err, void *arg)
{
	struct fetch *f = arg;
	struct err why;

	f->unpacking = NULL;
	f->is_unpacked = !err;
	if (err) {
		why = *err;
		if (err->code != ERR_DISK_FULL && err->code != ERR_HOST_DISK_FULL)
			(void)err_set(&why, ERR_SOURCE, 0, "the source cannot be unpacked: %s",
			              err->message);
		set_failed(f, &why);
	}
	wake(f);
}

static const struct file_call_ops unpack_ops = {
	.on_record = on_unpack_record,
	.on_room = on_unpack_room,
	.on_end = on_unpacked,
};

/* The last lines of the output as one line: git's error comes after its progress. */
static const char *last_words(struct fetch *f, unsigned lines)
{
	const char *text = buf_str(&f->words);
	size_t end = f->words.len, start, len;

	while (end > 0 && strchr("\r\n ", text[end - 1]))
		end--;
	for (start = end; start > 0 && end - start < LINE_MAX - 1; start--)
		if (strchr("\r\n", text[start - 1]) && --lines == 0)
			break;
	len = end - start;
	memcpy(f->line, text + start, len);
	f->line[len] = '\0';
	source_scrub(f->source, f->line);
	for (char *p = f->line; *p; p++)
		if ((unsigned char)*p < ' ' || (unsigned char)*p >= 0x7f)
			*p = strchr("\r\n\t", *p) ? ' ' : '?';
	return f->line;
}

static const char *program_name(const struct fetch *f)
{
	return f->source->type == SOURCE_GIT ? "git" : "curl";
}

/* A shell runs git, and reports in its own way if it is missing. */
static bool is_missing(const struct fetch *f)
{
	return (f->exit.how == EXIT_FAILED &&
	        strncmp(f->exit.message, AGENT_NO_PROGRAM, strlen(AGENT_NO_PROGRAM)) == 0) ||
	       (f->exit.how == EXIT_CODE && f->exit.value == 127);
}

static void fail_program(struct fetch *f)
{
	const char *denied = network_denied(f->sandbox);
	struct err err;

	if (is_missing(f)) {
		(void)err_set(&err, ERR_SOURCE, 0,
		              "the sandbox's template has no '%s' to fetch the source with",
		              program_name(f));
	} else if (f->exit.cause == EXIT_CAUSE_TIMEOUT) {
		(void)err_set(&err, ERR_SOURCE, 0,
		              "the source was not there within %" PRIu64 " ms: %s",
		              f->source->timeout_ms, last_words(f, 1));
		(void)err_hint(&err, "raise source.timeout_ms, or give a depth");
	} else {
		(void)err_set(&err, ERR_SOURCE, 0, "the source could not be fetched: %s",
		              f->exit.how == EXIT_FAILED ? f->exit.message : last_words(f, 2));
		(void)err_hint(&err,
		               "the sandbox's network policy must allow every host that the URL "
		               "leads on to%s%s",
		               denied ? ", and denied " : "", denied ? denied : "");
	}
	set_failed(f, &err);
}

static void pass_data_on(struct fetch *f)
{
	while (f->unpacking && f->data.len > 0) {
		ssize_t n = file_call_write(f->unpacking, f->data.data, f->data.len);

		if (n <= 0)
			return;
		buf_consume(&f->data, (size_t)n);
		channel_kept(&f->channel, (size_t)n);
	}
}

static void succeed(struct fetch *f)
{
	struct sandbox *s = f->sandbox;

	log_info("sandbox.fetched", "id=%s bytes=%" PRIu64 " took_us=%" PRIu64, s->id, f->bytes,
	         clock_steady_us() - f->begun_us);
	fetch_end(s);
	network_lend(s, NULL);
	life_next(s);
}

static bool is_done(const struct fetch *f)
{
	return f->source->type == SOURCE_GIT || f->is_unpacked;
}

/* Takes the next step, if nothing has failed so far. */
static void go_on(struct fetch *f)
{
	pass_data_on(f);
	if (!f->is_closed)
		return;
	if (f->exit.how != EXIT_CODE || f->exit.value != 0) {
		fail_program(f);
	} else if (is_done(f)) {
		succeed(f);
	} else if (f->data.len == 0 && !f->is_ending) {
		f->is_ending = true;
		file_call_finish(f->unpacking);
	}
}

static void release(struct fetch *f)
{
	buf_done(&f->data);
	buf_done(&f->words);
	policy_free(f->policy);
	source_free(f->source);
	free(f);
}

static void fetch_on_turn_end(struct loop *loop, void *arg)
{
	struct fetch *f = arg;

	(void)loop;
	f->is_turn_due = false;
	if (!f->is_dead && !f->is_failed)
		go_on(f);
	if (!f->is_dead && f->is_failed)
		create_fail(f->sandbox, &f->err); /* which calls fetch_end() */
	if (f->is_dead && !f->is_turn_due)
		release(f);
}

void fetch_end(struct sandbox *s)
{
	struct fetch *f = take_ptr(s->fetch);

	if (!f)
		return;
	channel_forget(&f->channel);
	if (f->unpacking)
		file_call_cancel(take_ptr(f->unpacking));
	f->is_dead = true;
	wake(f);
}

static json_t *git_argv(const struct source *src)
{
	char depth[24] = "";

	if (src->depth > 0)
		(void)snprintf(depth, sizeof(depth), "%" PRIu64, src->depth);
	return json_pack("[sssssssss]", "/bin/sh", "-c", git_script, "git", src->url, src->path,
	                 src->revision, depth, src->is_fetched ? "1" : "0");
}

static json_t *curl_argv(void)
{
	return json_pack("[ssssssssssss]", "curl", "-q", "--config", "-", "--fail", "--silent",
	                 "--show-error", "--no-buffer", "--location", "--globoff", "--proto",
	                 "=http,https");
}

static int start_program(struct fetch *f, struct err *err)
{
	bool is_git = f->source->type == SOURCE_GIT;
	auto_json json_t *argv = is_git ? git_argv(f->source) : curl_argv();
	const struct exec_spec spec = {
		.argv = argv, .has_stdin = !is_git, .timeout_ms = f->source->timeout_ms};
	struct start start = {0};
	char tag[ID_SIZE];
	uint32_t number;
	int r = sandbox_take_channel(f->sandbox, &number, err);

	if (r < 0)
		return r;
	id_make(tag, "ex");
	r = exec_command_build(f->sandbox, &spec, tag, &start, err);
	if (r < 0)
		return r;
	r = channel_start(&f->channel, f->sandbox->link, number, &channel_ops, &start);
	start_done(&start);
	return r < 0 ? err_set(err, ERR_UNAVAILABLE, -r,
	                       "the sandbox's agent accepts no more operations")
	             : 0;
}

/* The URL goes to curl's stdin as a config line: its query may be a secret, and argv would show
 * it. */
static int tell_url(struct fetch *f, struct err *err)
{
	auto_call(buf_done) struct buf text = BUF_INIT(CONFIG_MAX);
	int r = buf_printf(&text, "url = \"%s\"\n", f->source->url);

	if (r < 0 || channel_write(&f->channel, text.data, text.len) != (ssize_t)text.len)
		return err_set(err, ERR_UNAVAILABLE, 0,
		               "the sandbox's agent accepts no more operations");
	channel_end_input(&f->channel);
	return 0;
}

static int start_unpacking(struct fetch *f, struct err *err)
{
	const struct start op = {.kind = START_FILE,
	                         .op = FILE_TAR_IN,
	                         .flags = FILE_PARENTS,
	                         .path = f->source->path};

	return file_call_begin(f->sandbox, &op, &unpack_ops, f, &f->unpacking, err);
}

static void on_open(struct sandbox *s, const struct err *err, void *arg)
{
	struct sandbox *self = arg;
	struct fetch *f = self->fetch;
	struct err why;
	int r = 0;

	if (!f || self->state != SANDBOX_CREATING)
		return;
	if (!s) {
		create_fail(self, err);
		return;
	}
	if (f->source->type == SOURCE_TARBALL)
		r = start_unpacking(f, &why);
	if (r == 0)
		r = start_program(f, &why);
	if (r == 0 && f->source->type == SOURCE_TARBALL)
		r = tell_url(f, &why);
	if (r < 0)
		set_failed(f, &why);
}

void fetch_plan(struct sandbox *s, struct source *src, struct policy *policy)
{
	struct fetch *f = s->fetch = xnew0(struct fetch);

	f->sandbox = s;
	f->loop = s->fleet->config.loop;
	f->source = src;
	f->policy = policy;
	buf_init(&f->data, FRAME_WINDOW);
	buf_init(&f->words, WORDS_MAX);
	s->source = source_describe(src);
}

void fetch_begin(struct sandbox *s)
{
	struct fetch *f = s->fetch;

	if (!f) {
		life_next(s);
		return;
	}
	f->begun_us = clock_steady_us();
	create_unawait(s); /* it may take long: others are not kept from what waits for creates */
	network_lend(s, take_ptr(f->policy));
	network_apply(s, on_open, s);
}

const char *fetch_progress(const struct sandbox *s)
{
	struct fetch *f = s->fetch;

	if (!f)
		return NULL;
	if (f->source->type == SOURCE_GIT)
		return last_words(f, 1);
	(void)snprintf(f->line, sizeof(f->line), "%" PRIu64 " bytes", f->bytes);
	return f->line;
}
