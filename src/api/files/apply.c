// SPDX-License-Identifier: Apache-2.0
/* A fork's changes, brought to another sandbox. Conflicts are told by path, the first of them. */
#include "build/transfer/apply.h"
#include "api/files/diff.h"
#include "api/frame/body.h"
#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/frame/wake.h"
#include "api/handlers.h"

#include <string.h>

#define CONFLICTS_TOLD 1000
#define CONFLICTS_MAX  ((size_t)1 << 20) /* bytes */

struct applying {
	struct http_req *req;
	struct apply *apply; /* NULL: it has ended */
	struct buf conflicts;
	size_t n;
};

static void on_client_done(void *arg)
{
	struct applying *a = arg;

	if (a->apply)
		apply_leave(a->apply);
	buf_done(&a->conflicts);
	free(a);
}

static void on_conflict(const struct record *r, void *arg)
{
	struct applying *a = arg;
	const size_t before = a->conflicts.len;
	struct json_writer w;

	if (a->n == CONFLICTS_TOLD)
		return;
	json_writer_init(&w, &a->conflicts);
	w.comma[0] = a->n > 0;
	change_to_json(r, &w, NULL);
	if (json_writer_end(&w) == 0)
		a->n++;
	else
		buf_truncate(&a->conflicts, before);
}

static void on_end(const struct apply_result *result, const struct err *err, void *arg)
{
	struct applying *a = arg;
	auto_call(buf_done) struct buf out = BUF_INIT(2 * CONFLICTS_MAX);

	a->apply = NULL;
	if (err) {
		http_reply_err(a->req, err);
		return;
	}
	if (buf_printf(&out,
	               "{\"applied\":%s,\"changes\":%llu,\"conflict_count\":%llu,\"conflicts\":[",
	               result->is_applied ? "true" : "false", (unsigned long long)result->changes,
	               (unsigned long long)result->conflicts) == 0 &&
	    buf_append(&out, buf_str(&a->conflicts), a->conflicts.len) == 0 &&
	    buf_append_str(&out, "]}") == 0)
		http_reply_json(a->req, 200, &out);
}

static int read_policy(const char *word, enum apply_policy *ret, struct err *err)
{
	*ret = APPLY_FAIL;
	if (!word)
		return 0;
	for (int i = 0; i < APPLY_POLICY_COUNT; i++)
		if (strcmp(apply_policy_name((enum apply_policy)i), word) == 0) {
			*ret = (enum apply_policy)i;
			return 0;
		}
	return err_field(err, "on_conflict", "must be 'fail', 'skip' or 'theirs'");
}

static int read_body(const json_t *body, struct apply_spec *ret, struct err *err)
{
	const char *policy = NULL;
	/* clang-format off */
	const struct json_field fields[] = {
		{"from",        JSON_FIELD_STRING, &ret->from, /* required= */ true, .min = 1, .max = 64},
		{"base",        JSON_FIELD_STRING, &ret->base, .min = 1, .max = 64},
		{"on_conflict", JSON_FIELD_STRING, &policy},
	};
	/* clang-format on */
	int r = body ? json_read(body, "", fields, ARRAY_SIZE(fields), err)
	             : err_field(err, "from", "is missing");

	return r < 0 ? r : read_policy(policy, &ret->policy, err);
}

int apply_changes(struct http_req *req, struct err *err)
{
	static const struct apply_ops ops = {on_conflict, on_end};
	const struct api *api = http_app_arg(req);
	struct apply_spec spec = {0};
	struct applying *a;
	int r = read_body(http_json(req), &spec, err);

	if (r == 0)
		r = lead_elsewhere(req, err);
	if (r == 0)
		r = find_awake(req, &spec.to, err);
	if (r != 0)
		return r;
	if (strcmp(spec.from, sandbox_id(spec.to)) == 0)
		return err_field(err, "from", "is the same sandbox");
	a = xnew0(struct applying);
	*a = (struct applying){.req = req, .conflicts = BUF_INIT(CONFLICTS_MAX)};
	r = apply_start(api->builds, &spec, &ops, a, &a->apply, err);
	if (r < 0) {
		free(a);
		return r;
	}
	http_on_done(req, on_client_done, a);
	return 0;
}
