// SPDX-License-Identifier: Apache-2.0
#include "member/objects/store_worker.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "daemon/confine/confine.h"
#include "member/papers/node_file.h"
#include "member/socket_child.h"
#include "object/object_collect.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#define TRIES 5
#define PAUSE_MS                                                                                   \
	100U /* before the second try; doubled for each further one, with as much jitter           \
	      */
#define PROBE_LEN  32
#define LIST_CALLS 16                 /* of one listing, so that who waits behind it is served */
#define LIST_MAX   ((size_t)16 << 20) /* of its rows; what is beyond is for another day */
#define SWEEP_MAX  1000
#define STORED_MAX MAX(OBJECT_STORED_MAX, OBJECT_MANIFEST_MAX + (size_t)OBJECT_NONCE + OBJECT_TAG)

struct worker {
	struct object_location location;
	struct object_credentials credentials;
	const struct store_kind *kind;
	struct store_backend *backend;
	struct store_fault broken; /* in the settings: the answer to every job */
	struct buf stored; /* room for one job: given back behind it, so that who rests is small */
	uint8_t *plain;
	bool lists_manifests;
};

int store_fail(struct store_fault *fault, enum trouble trouble, bool may_pass, const char *fmt, ...)
{
	va_list args;

	fault->trouble = trouble;
	fault->may_pass = may_pass;
	va_start(args, fmt);
	(void)vsnprintf(fault->message, sizeof(fault->message), fmt, args);
	va_end(args);
	return -1;
}

static void pause_before(unsigned n_try)
{
	uint32_t random;
	uint64_t ms = (uint64_t)PAUSE_MS << n_try;
	struct timespec ts;

	random_bytes(&random, sizeof(random));
	ms += random % ms;
	ts = (struct timespec){.tv_sec = (time_t)(ms / 1000),
	                       .tv_nsec = (long)(ms % 1000) * 1000000};
	(void)nanosleep(&ts, NULL);
}

/* What is there already is counted on only while it is fresh (object_collect.h). */
static int put(struct worker *w, const char *name, const void *data, size_t len,
               bool *ret_was_there, struct store_fault *fault)
{
	uint64_t written_us = 0;
	int r = w->kind->put(w->backend, name, data, len, /* is_new= */ true, &written_us, fault);

	*ret_was_there = r == -EEXIST && object_is_fresh(written_us, clock_wall_us());
	if (r != -EEXIST || *ret_was_there)
		return r == -EEXIST ? 0 : r;
	return w->kind->put(w->backend, name, data, len, /* is_new= */ false, &written_us, fault);
}

static int put_chunk(struct worker *w, const struct store_job *job, int fd,
                     struct store_result *ret, struct store_fault *fault)
{
	char name[OBJECT_NAME_SIZE];
	bool was_there = false;
	char *room = NULL;
	ssize_t n = pread(fd, w->plain, job->len, (off_t)job->offset);
	int r;

	if (n != (ssize_t)job->len)
		return store_fail(fault, TROUBLE_STORE_SETTING, false,
		                  "the file ends before its chunk does");
	object_chunk_name(&job->keys, w->plain, job->len, &ret->name);
	if (digest_is_zero(&ret->name))
		return 0;
	r = buf_reserve(&w->stored, job->len + OBJECT_TAG, &room);
	if (r == 0)
		r = object_chunk_seal(&job->keys, &ret->name, w->plain, job->len, room);
	if (r < 0)
		return store_fail(fault, TROUBLE_STORE_UNREACHABLE, true, "no memory to encrypt");
	object_name(/* is_manifest= */ false, &ret->name, name);
	r = put(w, name, room, job->len + OBJECT_TAG, &was_there, fault);
	ret->was_there = was_there;
	return r;
}

static int get_chunk(struct worker *w, const struct store_job *job, int fd,
                     struct store_fault *fault)
{
	char name[OBJECT_NAME_SIZE];
	int r;

	object_name(/* is_manifest= */ false, &job->name, name);
	r = w->kind->get(w->backend, name, &w->stored, fault);
	if (r < 0)
		return r;
	if (w->stored.len != job->len + OBJECT_TAG ||
	    object_chunk_open(&job->keys, &job->name, w->stored.data, w->stored.len, w->plain) < 0)
		return store_fail(fault, TROUBLE_STORE_DAMAGED, true,
		                  "the store has other bytes than were put there as %s", name);
	if (pwrite(fd, w->plain, job->len, (off_t)job->offset) != (ssize_t)job->len)
		return store_fail(fault, TROUBLE_STORE_SETTING, false, "this node has no room: %s",
		                  strerror(errno));
	return 0;
}

static int put_manifest(struct worker *w, const struct store_job *job, int fd,
                        struct store_fault *fault)
{
	char name[OBJECT_NAME_SIZE];
	uint64_t written_us;

	if (pread(fd, w->plain, job->len, 0) != (ssize_t)job->len ||
	    object_manifest_seal(&job->keys, &job->name, w->plain, job->len, &w->stored) < 0)
		return store_fail(fault, TROUBLE_STORE_SETTING, false, "no such manifest");
	object_name(/* is_manifest= */ true, &job->name, name);
	return w->kind->put(w->backend, name, w->stored.data, w->stored.len, /* is_new= */ false,
	                    &written_us, fault);
}

static int get_manifest(struct worker *w, const struct store_job *job, int fd,
                        struct store_result *ret, struct store_fault *fault)
{
	struct buf text = BUF_INIT(OBJECT_MANIFEST_MAX);
	char name[OBJECT_NAME_SIZE];
	int r;

	object_name(/* is_manifest= */ true, &job->name, name);
	r = w->kind->get(w->backend, name, &w->stored, fault);
	if (r == 0 &&
	    object_manifest_open(&job->keys, &job->name, w->stored.data, w->stored.len, &text) < 0)
		r = store_fail(fault, TROUBLE_STORE_DAMAGED, true,
		               "the store has other bytes than were put there as %s", name);
	if (r == 0 && pwrite(fd, text.data, text.len, 0) != (ssize_t)text.len)
		r = store_fail(fault, TROUBLE_STORE_SETTING, false, "this node has no room");
	ret->len = (uint32_t)text.len;
	buf_done(&text);
	return r;
}

static int on_row(const struct object_entry *one, void *arg)
{
	struct worker *w = arg;
	struct object_row row = {.written_us = one->written_us, .bytes = one->bytes};

	if (object_name_parse(w->lists_manifests, one->key, &row.name) == 0)
		(void)!buf_append(&w->stored, (const char *)&row, sizeof(row));
	return 0;
}

static int list(struct worker *w, const struct store_job *job, int fd, struct store_result *ret,
                struct store_fault *fault)
{
	int r = 0;

	memcpy(ret->at, job->at, sizeof(ret->at));
	ret->at[sizeof(ret->at) - 1] = '\0';
	buf_done(&w->stored);
	buf_init(&w->stored, LIST_MAX);
	w->lists_manifests = job->is_manifest;
	for (size_t i = 0; r == 0 && i < LIST_CALLS && (i == 0 || ret->at[0]); i++)
		r = w->kind->list(w->backend, object_folder(job->is_manifest), ret->at, on_row, w,
		                  fault);
	if (r == 0 && pwrite(fd, w->stored.data, w->stored.len, 0) != (ssize_t)w->stored.len)
		r = store_fail(fault, TROUBLE_STORE_SETTING, false, "this node has no room");
	ret->len = (uint32_t)(w->stored.len / sizeof(struct object_row));
	return r;
}

/* It is looked at right before it goes: who finds an old chunk writes it once more, and counts on
 * it then (object_collect.h). */
static int remove_old(struct worker *w, const struct store_job *job, struct store_result *ret,
                      struct store_fault *fault)
{
	char name[OBJECT_NAME_SIZE];
	uint64_t written_us = 0;
	int r;

	object_name(job->is_manifest, &job->name, name);
	r = w->kind->stat(w->backend, name, &written_us, fault);
	if (r < 0)
		return fault->trouble == TROUBLE_STORE_ABSENT ? 0 : r;
	ret->was_there = written_us == 0 || written_us >= job->before_us;
	return ret->was_there ? 0 : w->kind->remove(w->backend, name, fault);
}

struct sweep {
	uint64_t before_us;
	struct buf names; /* each with its NUL */
	uint32_t n;
};

static int on_leftover(const struct object_entry *one, void *arg)
{
	struct sweep *s = arg;

	if (one->written_us < s->before_us && s->n < SWEEP_MAX &&
	    buf_append(&s->names, one->key, strlen(one->key) + 1) == 0)
		s->n++;
	return 0;
}

/* Drafts and probes: their names are nobody's but who made them, and that one is gone. */
static int sweep(struct worker *w, const struct store_job *job, struct store_result *ret,
                 struct store_fault *fault)
{
	static const char *const folders[] = {"v1/tmp/", "v1/probe/"};
	struct sweep s = {.before_us = job->before_us, .names = BUF_INIT(LIST_MAX)};
	const char *name;
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders); i++) {
		char at[STORE_AT_SIZE] = "";

		r = w->kind->list(w->backend, folders[i], at, on_leftover, &s, fault);
	}
	name = buf_str(&s.names);
	for (uint32_t i = 0; r == 0 && i < s.n; i++, name += strlen(name) + 1)
		r = w->kind->remove(w->backend, name, fault);
	ret->len = s.n;
	buf_done(&s.names);
	return r;
}

static int check(struct worker *w, struct store_result *ret, struct store_fault *fault)
{
	char id[ID_SIZE], name[sizeof("v1/probe/") + ID_SIZE], bytes[PROBE_LEN];
	uint64_t written_us;
	int r;

	random_bytes(bytes, sizeof(bytes));
	id_make(id, "probe");
	(void)snprintf(name, sizeof(name), "v1/probe/%s", id);
	r = w->kind->put(w->backend, name, bytes, sizeof(bytes), /* is_new= */ true, &written_us,
	                 fault);
	if (r == 0)
		r = w->kind->get(w->backend, name, &w->stored, fault);
	if (r == 0 &&
	    (w->stored.len != sizeof(bytes) || memcmp(w->stored.data, bytes, sizeof(bytes)) != 0))
		r = store_fail(fault, TROUBLE_STORE_DAMAGED, true,
		               "what was put there came back as other bytes");
	if (r == 0)
		r = w->kind->stat(w->backend, name, &ret->written_us, fault);
	return r == 0 ? w->kind->remove(w->backend, name, fault) : MIN(r, -1);
}

static int run_op(struct worker *w, const struct store_job *job, int fd, struct store_result *ret,
                  struct store_fault *fault)
{
	switch ((enum store_op)job->op) {
	case STORE_CHECK:
		return check(w, ret, fault);
	case STORE_PUT_CHUNK:
		return put_chunk(w, job, fd, ret, fault);
	case STORE_GET_CHUNK:
		return get_chunk(w, job, fd, fault);
	case STORE_PUT_MANIFEST:
		return put_manifest(w, job, fd, fault);
	case STORE_GET_MANIFEST:
		return get_manifest(w, job, fd, ret, fault);
	case STORE_LIST:
		return list(w, job, fd, ret, fault);
	case STORE_REMOVE:
		return remove_old(w, job, ret, fault);
	case STORE_SWEEP:
		return sweep(w, job, ret, fault);
	}
	return store_fail(fault, TROUBLE_STORE_SETTING, false, "no such job");
}

static int run_once(struct worker *w, const struct store_job *job, int fd, struct store_result *ret,
                    struct store_fault *fault)
{
	int r;

	buf_init(&w->stored, STORED_MAX);
	w->plain = xcalloc(MAX(job->len, 1U), 1);
	r = run_op(w, job, fd, ret, fault);
	free(take_ptr(w->plain));
	buf_done(&w->stored);
	return r;
}

static bool has_file(const struct store_job *job)
{
	return job->op != STORE_CHECK && job->op != STORE_REMOVE && job->op != STORE_SWEEP;
}

static bool is_sound(const struct store_job *job)
{
	const bool is_manifest = job->op == STORE_PUT_MANIFEST;

	return !has_file(job) || job->op == STORE_GET_MANIFEST || job->op == STORE_LIST ||
	       (job->len > 0 && job->len <= (is_manifest ? OBJECT_MANIFEST_MAX : OBJECT_CHUNK));
}

/* Wrong bytes are rarely right the next time. */
static unsigned tries_of(const struct store_fault *fault)
{
	return fault->trouble == TROUBLE_STORE_DAMAGED ? 2 : TRIES;
}

static void run_job(struct worker *w, const struct store_job *job, int fd, struct store_result *ret)
{
	struct store_fault fault = w->broken;
	int r = -1;

	*ret = (struct store_result){.op = job->op, .name = job->name};
	if (!fault.trouble && (!is_sound(job) || (fd < 0 && has_file(job))))
		(void)store_fail(&fault, TROUBLE_STORE_SETTING, false, "no such job");
	for (unsigned n = 0; !fault.trouble || (fault.may_pass && n < tries_of(&fault)); n++) {
		if (n > 0)
			pause_before(n - 1);
		fault = (struct store_fault){0};
		r = run_once(w, job, fd, ret, &fault);
		if (r == 0)
			return;
	}
	ret->trouble = fault.trouble;
	memcpy(ret->message, fault.message, sizeof(ret->message));
}

static void serve(struct worker *w, int sock)
{
	for (;;) {
		struct store_job job;
		struct store_result result;
		int fds[FD_PASS_MAX];
		size_t n_fds = ARRAY_SIZE(fds);
		ssize_t n = fd_recv(sock, &job, sizeof(job), fds, &n_fds);
		int fd = n_fds > 0 ? fds[0] : -1;

		for (size_t i = 1; i < n_fds; i++)
			(void)close(fds[i]);
		if (n != (ssize_t)sizeof(job))
			_exit(0);
		run_job(w, &job, fd, &result);
		explicit_bzero(&job.keys, sizeof(job.keys));
		close_fd(&fd);
		if (send(sock, &result, sizeof(result), MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

static void prepare(struct worker *w, const struct store_config *c)
{
	struct err err = {0};
	int r = object_location_parse(c->objects, c->endpoint, c->region, &w->location, &err);

	if (r == 0 && w->location.backend == OBJECT_S3 && !c->credentials)
		r = err_field(&err, "cluster.objects_credentials", "is needed for a bucket");
	if (r == 0 && w->location.backend == OBJECT_S3)
		r = object_credentials_read(c->credentials, "cluster.objects_credentials",
		                            &w->credentials, &err);
	if (r < 0) {
		(void)store_fail(&w->broken, TROUBLE_STORE_SETTING, false, "%s", err.message);
		return;
	}
	if (c->ca)
		(void)setenv("SSL_CERT_FILE", c->ca, 1);
	w->kind = w->location.backend == OBJECT_S3 ? &store_s3 : &store_directory;
	if (w->kind->open(&w->location, &w->credentials, &w->backend) < 0)
		abort();
}

static void run_child(const struct store_config *config, int sock)
{
	struct confine_plan plan = {.part = CONFINE_MEMBER};
	struct worker w = {0};
	struct err err;

	(void)prctl(PR_SET_NAME, "cloche-objects");
	(void)signal(SIGTERM, SIG_IGN); /* it goes with its member */
	(void)signal(SIGINT, SIG_IGN);
	prepare(&w, config);
	node_file_user(&plan.uid, &plan.gid);
	if (confine(&plan, &err) < 0)
		_exit(1);
	serve(&w, sock);
}

int store_worker_start(const struct store_config *config, int *ret_fd, struct err *err)
{
	int r = socket_child_fork("a worker of the store", ret_fd, err);

	if (r == 1) {
		run_child(config, STDIN_FILENO);
		_exit(0);
	}
	return r;
}
