// SPDX-License-Identifier: Apache-2.0
#include "api/templates/build_files.h"

#include "api/frame/find.h"
#include "api/frame/reply.h"
#include "api/handlers.h"

struct arrival {
	struct parcel_in *in; /* NULL: it has ended */
	void (*answer)(struct http_req *req, const char *hash);
};

static void on_body(struct http_req *req, const char *data, size_t len, void *arg)
{
	struct arrival *a = arg;
	char hash[PARCEL_HASH_LEN + 1];
	struct err err;
	int r;

	if (!a->in)
		return;
	r = data ? parcel_write(a->in, data, len, &err)
	         : parcel_finish(take_ptr(a->in), hash, &err);
	if (r < 0) {
		parcel_drop(take_ptr(a->in));
		http_reply_err(req, &err);
	} else if (!data) {
		a->answer(req, hash);
	}
}

static void on_done(void *arg)
{
	struct arrival *a = arg;

	parcel_drop(a->in);
	free(a);
}

void receive_parcel(struct http_req *req, struct parcel_in *in,
                    void (*answer)(struct http_req *req, const char *hash))
{
	struct arrival *a = xnew0(struct arrival);

	*a = (struct arrival){.in = in, .answer = answer};
	http_on_done(req, on_done, a);
	http_on_body(req, on_body, a);
}

static void answer_hash(struct http_req *req, const char *hash)
{
	struct reply reply;

	json_put_str(reply_begin(&reply), "files", hash);
	reply_send_late(&reply, req, 201);
}

int upload_build_files(struct http_req *req, struct err *err)
{
	const struct api *api = http_app_arg(req);
	struct parcel_in *in;
	int r = parcel_begin_own(api->builds, caller_project(req), &in, err);

	if (r == 0)
		receive_parcel(req, in, answer_hash);
	return r;
}
