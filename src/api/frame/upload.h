// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * A request's body on its way into something that takes it at its own pace: what does not fit is
 * held, one stretch of it, and the client waits meanwhile.
 */
#include "base/buf.h"
#include "http/server.h"

struct upload_ops {
	size_t (*write)(void *into, const void *data, size_t len); /* what fits */
	void (*finish)(void *into);                                /* that was all */
	void (*leave)(void *into);                                 /* no more will come */
};

struct upload {
	struct http_req *req;
	const struct upload_ops *ops;
	void *into; /* NULL: it has ended; whoever ends it says so */
	struct buf held;
	bool is_whole, is_reading;
};

#define UPLOAD_BYTES_MAX (1024 * 1024) /* more than the server hands over at once */
#define UPLOAD_INIT(req, ops)                                                                      \
	{                                                                                          \
		(req), (ops), NULL, BUF_INIT(UPLOAD_BYTES_MAX), false, false                       \
	}

/* There is room again, or for the first time. */
void upload_go_on(struct upload *in);
/* The client is gone: leaves what has not ended. */
void upload_done(struct upload *in);
