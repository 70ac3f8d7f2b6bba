// SPDX-License-Identifier: Apache-2.0
#include "sandbox/snapshot/snapshot_file.h"

#include "sandbox/model/sandbox_private.h"

struct snapshot_file {
	struct fleet *fleet;
	uint64_t number, ask;
	bool is_closing;
	snapshot_file_fn fn;
	void *arg;
};

static void on_dropped(const struct msg_reply *reply, void *arg)
{
	(void)reply;
	(void)arg;
}

static void on_open(const struct msg_reply *reply, int *fds, void *arg)
{
	struct snapshot_file *f = arg;
	const struct snapshot_file was = *f;
	const struct err err = reply->err;

	f->ask = 0;
	if (err.code != ERR_NONE)
		free(f);
	was.fn(&fds[0], NULL, err.code != ERR_NONE ? &err : NULL, was.arg);
}

static void on_closed(const struct msg_reply *reply, int *fds, void *arg)
{
	const struct snapshot_file was = *(struct snapshot_file *)arg;
	const struct err err = reply->err;

	free(arg);
	if (err.code != ERR_NONE)
		was.fn(&fds[0], NULL, &err, was.arg);
	else
		was.fn(&fds[0], &reply->sealed, NULL, was.arg);
}

int snapshot_file_open(struct fleet *fleet, const struct sealed_file_spec *spec,
                       snapshot_file_fn fn, void *arg, struct snapshot_file **ret, struct err *err)
{
	struct msg_request req = {.op = MSG_SEALED_OPEN, .sealed = *spec};
	struct snapshot_file *f = xnew0(struct snapshot_file);
	int r;

	*f = (struct snapshot_file){
		.fleet = fleet, .number = ++fleet->n_snapshot_files, .fn = fn, .arg = arg};
	req.sealed.number = f->number;
	r = broker_client_ask_fds(fleet->broker, NULL, &req, on_open, f, &f->ask, err);
	if (r < 0)
		free(f);
	else
		*ret = f;
	return r;
}

int snapshot_file_close(struct snapshot_file *f, snapshot_file_fn fn, void *arg, struct err *err)
{
	const struct msg_request req = {.op = MSG_SEALED_CLOSE, .sealed = {.number = f->number}};
	int r;

	f->fn = fn;
	f->arg = arg;
	f->is_closing = true;
	r = broker_client_ask_fds(f->fleet->broker, NULL, &req, on_closed, f, &f->ask, err);
	if (r < 0) {
		f->is_closing = false;
		snapshot_file_drop(f);
	}
	return r;
}

void snapshot_file_drop(struct snapshot_file *f)
{
	struct msg_request req = {.op = MSG_SEALED_DROP};

	if (!f)
		return;
	if (f->ask)
		broker_client_cancel(f->fleet->broker, f->ask);
	req.sealed.number = f->number;
	if (!f->is_closing) /* else it ends by itself */
		(void)!broker_client_ask(f->fleet->broker, &req, on_dropped, NULL, NULL, NULL);
	free(f);
}
