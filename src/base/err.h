// SPDX-License-Identifier: Apache-2.0
#pragma once
/*
 * What went wrong, for a person and for a program: a code of the API's closed list, an errno, a
 * sentence, the field to blame and what to do. Plain data on the caller's stack: nothing to free,
 * and a forked child can write() it to its parent.
 *
 * Functions return 0 or more, or a negative errno; those whose failure reaches a person also take
 * `struct err *err` last, which may be NULL.
 */
#include "base/auto.h"

#include <stdbool.h>
#include <stdint.h>

enum err_code {
	ERR_NONE,
	ERR_BAD_REQUEST,   /* 400 the bytes are not a request of ours */
	ERR_INVALID_FIELD, /* 400 a field is missing, unknown, of the wrong type or out of range */
	ERR_UNAUTHENTICATED,    /* 401 */
	ERR_FORBIDDEN,          /* 403 the key's scope does not cover it */
	ERR_NOT_FOUND,          /* 404 */
	ERR_METHOD_NOT_ALLOWED, /* 405 */
	ERR_NOT_ACCEPTABLE,     /* 406 */
	ERR_CONFLICT,           /* 409 the object's state does not allow it */
	ERR_GONE,               /* 410 the sandbox or exec has ended */
	ERR_TOO_LARGE,          /* 413 */
	ERR_URI_TOO_LONG,       /* 414 */
	ERR_UNSUPPORTED_MEDIA,  /* 415 */
	ERR_HEADERS_TOO_LARGE,  /* 431 */
	ERR_LIMIT,              /* 429 a queue or table is full */
	ERR_CAPACITY,           /* 503 the host has no room */
	ERR_UNAVAILABLE,        /* 503 a needed part is not there right now */
	ERR_UNSUPPORTED,        /* 501 this engine or host cannot do it */
	ERR_TIMEOUT,            /* 504 */
	ERR_REQUEST_TIMEOUT,    /* 408 the client was too slow */
	ERR_FILE_NOT_FOUND,     /* 404 a path inside the sandbox */
	ERR_FILE_EXISTS,        /* 409 */
	ERR_FILE_DENIED,        /* 403 the sandbox's user may not */
	ERR_FILE_INVALID,       /* 400 wrong kind of file, bad path, loop */
	ERR_DISK_FULL,          /* 507 inside the sandbox */
	ERR_GUEST,              /* 502 the agent broke the protocol or died */
	ERR_INTERNAL,           /* 500 */
	ERR_QUOTA,              /* 429 a quota of the project or key is used up; with figures */
	ERR_BUDGET,             /* 402 its budget of this month is used up; with figures */
	ERR_SOURCE,             /* 422 a sandbox's source could not be fetched */
	ERR_FILE_CHANGED,       /* 409 the file is not the one that the client meant */
	ERR_HOST_DISK_FULL,     /* 507 the host's disk: nothing new starts, running work goes on */
	ERR_NODE_UNREACHABLE,   /* 503 another node of the cluster has it, and does not answer */
	ERR_CLUSTER,            /* 503 nodes cannot agree now: their database is not reached */
	ERR_FENCED, /* 503 another node may run the sandbox by now: it stands still here */
	ERR_CODE_COUNT,
};

struct err {
	enum err_code code;
	int errnum;     /* 0 or a positive errno */
	char field[64]; /* the input field to blame, or "" */
	char message[360];
	char hint[240]; /* what to do about it, or "" */
	/* cloche-vmm of an older release fills one, without what follows: the size stays. */
	struct {                             /* of ERR_QUOTA and ERR_BUDGET */
		char what[19];               /* as long as the longest name */
		bool is_of_key : 1;          /* of the key, and not of its project */
		bool is_final : 1;           /* no end of others makes room for it */
		bool is_asked : 1;           /* the cluster was asked for more: try again soon */
		char limit[24], current[24]; /* decimal numbers */
		/* Of a create that has waited for room in vain (tenant/create_queue.h), among the
		 * project's; 0 = it has not waited. */
		uint16_t queue_position, queue_waiting;
		uint64_t retry_after_ms; /* 0 = not known */
	} quota;
};

const char *err_code_name(enum err_code code); /* "not_found": the word on the wire */
int err_code_status(enum err_code code);       /* its HTTP status */

/*
 * Fills *err and returns -errnum, or -EINVAL where errnum is 0, so that a failing path is one
 * statement. With an errnum the sentence ends in ": strerror".
 */
int err_set(struct err *err, enum err_code code, int errnum, const char *fmt, ...)
	printf_like(4, 5);
/* The same for an input field, code ERR_INVALID_FIELD: the message begins with "FIELD: ". */
int err_field(struct err *err, const char *field, const char *fmt, ...) printf_like(3, 4);
int err_hint(struct err *err, const char *fmt, ...)
	printf_like(2, 3); /* returns as err_set() did */
int err_prefix(struct err *err, const char *fmt, ...) printf_like(2, 3); /* "PREFIX: old message" */
