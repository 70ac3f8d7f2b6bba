// SPDX-License-Identifier: Apache-2.0
/* The archive that carry.sh has made inside becomes a parcel of the build's project. It is a
 * guest's, so it is only copied here: the sandbox that gets it unpacks it. */
#include "build/carry.h"

#include "build/build_private.h"
#include "build/parcel.h"
#include "build/part.h"
#include "sandbox/fileops/file_call.h"

#define PACKED "/carried.tar.gz"

struct carry {
	struct build *b;
	carry_done_fn done;
	struct parcel_in *in;
	struct file_call *call;
};

static void carry_free(struct carry *c)
{
	if (c->call)
		file_call_cancel(c->call);
	parcel_drop(c->in);
	free(c);
}

void carry_cancel(struct carry **c)
{
	if (*c)
		carry_free(take_ptr(*c));
}

static void end(struct carry *c, const struct err *err)
{
	struct build *b = c->b;
	carry_done_fn done = c->done;

	b->carry = NULL;
	carry_free(c);
	done(b, err);
}

static void on_data(const char *data, size_t len, void *arg)
{
	struct carry *c = arg;
	struct err err;

	if (parcel_write(c->in, data, len, &err) < 0) {
		(void)err_prefix(&err, "what is copied from another stage");
		end(c, &err);
	}
}

static void on_record(const struct record *r, void *arg)
{
	(void)r;
	(void)arg;
}

static void on_end(const struct err *err, void *arg)
{
	struct carry *c = arg;
	char hash[PARCEL_HASH_LEN + 1];
	struct err why;

	c->call = NULL;
	if (!err && parcel_finish(take_ptr(c->in), hash, &why) < 0)
		err = &why;
	end(c, err);
}

static int start(struct carry *c, struct err *err)
{
	static const struct file_call_ops ops = {
		.on_data = on_data, .on_record = on_record, .on_end = on_end};
	const struct start op = {.kind = START_FILE,
	                         .op = FILE_READ,
	                         .user = unconst("root"),
	                         .path = unconst(PACKED)};
	struct builds *bs = c->b->owner;
	struct sandbox *s = sandbox_find(bs->config.fleet, BUILD_PROJECT, c->b->sandbox_id);
	struct part_carry one;
	int r;

	if (!s || !part_carry(c->b, c->b->carried, &one))
		return err_set(err, ERR_GONE, 0, "the build's sandbox has ended");
	r = parcel_begin_named(bs, c->b->project_id, one.name, &c->in, err);
	return r < 0 ? r : file_call_start(s, &op, &ops, c, &c->call, err);
}

void carry_begin(struct build *b, carry_done_fn done)
{
	struct carry *c = xnew0(struct carry);
	struct err err;

	c->b = b;
	c->done = done;
	b->carry = c;
	if (start(c, &err) < 0)
		end(c, &err);
}
