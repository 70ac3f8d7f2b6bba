// SPDX-License-Identifier: Apache-2.0
/*
 *	read the bundle --> write it with the certificate --> write the certificate by itself -->
 *done
 *
 * All is done by the agent, as root of the sandbox, and again in each life of a sandbox: nothing is
 * assumed of what is there. A block that an earlier time has added is found by the line before it,
 * and replaced. What is read is the guest's, so it is bounded, and written back to the guest alone.
 */
#include "sandbox/trust.h"

#include "sandbox/files.h"
#include "sandbox/inside.h"
#include "sandbox/network.h"

#include <assert.h>
#include <string.h>

#define PATIENCE_US UINT64_C(5000000)
#define BUNDLE_MAX  ((size_t)2 * 1024 * 1024)
#define MARK        "# The issuer of cloche's network wall, for this sandbox\n"
#define BLOCK_END   "-----END CERTIFICATE-----\n"
#define BUNDLE      "/etc/ssl/certs/ca-certificates.crt"
#define OWN         "/usr/local/share/ca-certificates/cloche.crt"

/* Where images keep all certificates in one file: the first that is there is added to. */
static const char *const sources[] = {
	BUNDLE,                             /* Debian, Alpine, Arch */
	"/etc/pki/tls/certs/ca-bundle.crt", /* Fedora */
	"/etc/ssl/ca-bundle.pem",           /* openSUSE */
	"/etc/ssl/cert.pem",
};

static const char *const variables[] = {
	"SSL_CERT_FILE=" BUNDLE, /* OpenSSL, Python, Ruby, Go */
	"REQUESTS_CA_BUNDLE=" BUNDLE,
	"CURL_CA_BUNDLE=" BUNDLE,
	"GIT_SSL_CAINFO=" BUNDLE,
	"PIP_CERT=" BUNDLE,
	"AWS_CA_BUNDLE=" BUNDLE,
	"NODE_EXTRA_CA_CERTS=" OWN, /* these add to their own */
	"DENO_CERT=" OWN,
};
static_assert(ARRAY_SIZE(variables) == TRUST_VARIABLES_MAX, "TRUST_VARIABLES_MAX is another");

struct trust {
	struct sandbox *sandbox;
	struct loop *loop;
	char *certificate;
	trust_fn done;
	void *arg;
	struct loop_timer *timer;
	struct file_call *call;
	struct buf bundle; /* as it was read, then what is being written */
	size_t n_written;
	size_t source; /* that is being read */
	enum { READING, WRITING_BUNDLE, WRITING_OWN } step;
};

static void trust_free(struct trust *t)
{
	if (t->call)
		file_call_cancel(t->call);
	loop_timer_free(t->timer);
	buf_done(&t->bundle);
	free(t->certificate);
	free(t);
}

void trust_cancel(struct trust *t)
{
	if (t)
		trust_free(t);
}

static void finish(struct trust *t, const struct err *err)
{
	trust_fn done = t->done;
	void *arg = t->arg;

	trust_free(t);
	done(err, arg);
}

static void on_too_late(struct loop *loop, void *arg)
{
	struct err err;

	(void)loop;
	(void)err_set(&err, ERR_UNAVAILABLE, 0, "it takes too long inside");
	finish(arg, &err);
}

static void drop_block(struct buf *b)
{
	char *at = b->len > 0 ? memmem(b->data, b->len, MARK, strlen(MARK)) : NULL;
	char *end = at ? memmem(at, b->len - (size_t)(at - b->data), BLOCK_END, strlen(BLOCK_END))
	               : NULL;

	if (!end)
		return;
	end += strlen(BLOCK_END);
	memmove(at, end, b->len - (size_t)(end - b->data));
	buf_truncate(b, b->len - (size_t)(end - at));
}

static int add_block(struct trust *t)
{
	drop_block(&t->bundle);
	if (t->bundle.len > 0 && t->bundle.data[t->bundle.len - 1] != '\n' &&
	    buf_append_str(&t->bundle, "\n") < 0)
		return -E2BIG;
	return buf_printf(&t->bundle, "%s%s", MARK, t->certificate);
}

static int start_step(struct trust *t, struct err *err);

static void send_more(struct trust *t)
{
	size_t left = t->bundle.len - t->n_written;
	ssize_t n = file_call_write(t->call, t->bundle.data + t->n_written, left);

	t->n_written += (size_t)n;
	if (t->n_written == t->bundle.len)
		file_call_finish(t->call);
}

static void on_data(struct file_call *c, const char *data, size_t len, void *arg)
{
	struct trust *t = arg;

	(void)c;
	(void)!buf_append(&t->bundle, data, len); /* one that is too large was asked for in part */
}

static void on_record(struct file_call *c, const struct record *r, void *arg)
{
	(void)c;
	(void)r;
	(void)arg;
}

static void on_room(struct file_call *c, void *arg)
{
	struct trust *t = arg;

	(void)c;
	if (t->step != READING && t->n_written < t->bundle.len)
		send_more(t);
}

static void on_end(struct file_call *c, const struct err *err, bool is_truncated, void *arg)
{
	struct trust *t = arg;
	struct err why;
	bool is_missing;

	(void)c;
	(void)is_truncated;
	t->call = NULL;
	is_missing = err && t->step == READING && err->code == ERR_FILE_NOT_FOUND;
	if ((err && !is_missing) || t->step == WRITING_OWN) {
		finish(t, err);
		return;
	}
	if (is_missing && t->source + 1 < ARRAY_SIZE(sources))
		t->source++;
	else
		t->step++;
	if (start_step(t, &why) < 0)
		finish(t, &why);
}

/* What is to be written, if anything. */
static int fill(struct trust *t, struct err *err)
{
	t->n_written = 0;
	if (t->step == WRITING_BUNDLE && add_block(t) < 0)
		return err_set(err, ERR_TOO_LARGE, 0, "'%s' inside is too large", BUNDLE);
	if (t->step == WRITING_OWN) {
		buf_truncate(&t->bundle, 0);
		(void)!buf_append_str(&t->bundle, t->certificate);
	}
	return 0;
}

static int start_step(struct trust *t, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_data = on_data, .on_record = on_record, .on_room = on_room, .on_end = on_end};
	bool is_read = t->step == READING;
	const struct start op = {
		.kind = START_FILE,
		.op = is_read ? FILE_READ : FILE_WRITE,
		.user = unconst("root"),
		.path = unconst(is_read                  ? sources[t->source]
	                        : t->step == WRITING_OWN ? OWN
	                                                 : BUNDLE),
		.flags = is_read ? FILE_RANGE : FILE_PARENTS | FILE_MODE,
		.mode = is_read ? 0 : 0644,
		.size = is_read ? BUNDLE_MAX : UINT64_MAX,
	};
	int r = fill(t, err);

	if (r == 0)
		r = file_call_begin(t->sandbox, &op, &ops, t, &t->call, err);
	if (r == 0 && !is_read)
		send_more(t);
	return r;
}

static void on_begin(struct loop *loop, void *arg)
{
	struct trust *t = arg;
	struct err err;

	(void)loop;
	loop_timer_free(t->timer);
	t->timer = loop_timer_new(t->loop, on_too_late, t);
	loop_timer_set_in(t->timer, PATIENCE_US);
	if (start_step(t, &err) < 0)
		finish(t, &err);
}

struct trust *trust_install(struct sandbox *s, const char *certificate, trust_fn done, void *arg)
{
	struct trust *t = xnew0(struct trust);

	t->sandbox = s;
	t->loop = s->fleet->config.loop;
	t->certificate = xstrdup(certificate);
	t->done = done;
	t->arg = arg;
	buf_init(&t->bundle, BUNDLE_MAX);
	t->timer = loop_timer_new(t->loop, on_begin, t);
	loop_timer_set_in(t->timer, 0);
	return t;
}

static bool has_name(const json_t *env, const char *word)
{
	auto_free char *name = xstrndup(word, strcspn(word, "="));

	return env && json_object_get(env, name);
}

void trust_add_env(const struct sandbox *s, const json_t *env, const json_t *over, struct start *to)
{
	if (!network_is_trusted(s))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (!has_name(env, variables[i]) && !has_name(over, variables[i]))
			to->env[to->envc++] = xstrdup(variables[i]);
}

bool trust_is_own(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (strcmp(word, variables[i]) == 0)
			return true;
	return false;
}
