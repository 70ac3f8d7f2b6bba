// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct {
	const char *name;
	int status;
} codes[] = {
	[ERR_NONE]               = {"none", 200},
	[ERR_BAD_REQUEST]        = {"bad_request", 400},
	[ERR_INVALID_FIELD]      = {"invalid_field", 400},
	[ERR_UNAUTHENTICATED]    = {"unauthenticated", 401},
	[ERR_FORBIDDEN]          = {"forbidden", 403},
	[ERR_NOT_FOUND]          = {"not_found", 404},
	[ERR_METHOD_NOT_ALLOWED] = {"method_not_allowed", 405},
	[ERR_NOT_ACCEPTABLE]     = {"not_acceptable", 406},
	[ERR_CONFLICT]           = {"conflict", 409},
	[ERR_GONE]               = {"gone", 410},
	[ERR_TOO_LARGE]          = {"too_large", 413},
	[ERR_URI_TOO_LONG]       = {"uri_too_long", 414},
	[ERR_UNSUPPORTED_MEDIA]  = {"unsupported_media_type", 415},
	[ERR_HEADERS_TOO_LARGE]  = {"headers_too_large", 431},
	[ERR_LIMIT]              = {"limit_exceeded", 429},
	[ERR_CAPACITY]           = {"no_capacity", 503},
	[ERR_UNAVAILABLE]        = {"unavailable", 503},
	[ERR_UNSUPPORTED]        = {"unsupported", 501},
	[ERR_TIMEOUT]            = {"timeout", 504},
	[ERR_REQUEST_TIMEOUT]    = {"request_timeout", 408},
	[ERR_FILE_NOT_FOUND]     = {"file_not_found", 404},
	[ERR_FILE_EXISTS]        = {"file_exists", 409},
	[ERR_FILE_DENIED]        = {"file_denied", 403},
	[ERR_FILE_INVALID]       = {"file_invalid", 400},
	[ERR_DISK_FULL]          = {"disk_full", 507},
	[ERR_GUEST]              = {"guest_error", 502},
	[ERR_INTERNAL]           = {"internal", 500},
	[ERR_QUOTA]              = {"quota_exceeded", 429},
	[ERR_BUDGET]             = {"budget_exceeded", 402},
	[ERR_SOURCE]             = {"source_failed", 422},
	[ERR_FILE_CHANGED]       = {"file_changed", 409},
	[ERR_HOST_DISK_FULL]     = {"host_disk_full", 507},
	[ERR_NODE_UNREACHABLE]   = {"node_unreachable", 503},
	[ERR_CLUSTER]            = {"cluster_unavailable", 503},
	[ERR_FENCED]             = {"fenced", 503},
};
/* clang-format on */
static_assert(ARRAY_SIZE(codes) == ERR_CODE_COUNT, "a code has no row");

const char *err_code_name(enum err_code code)
{
	return (unsigned)code < ERR_CODE_COUNT ? codes[code].name : "internal";
}

int err_code_status(enum err_code code)
{
	return (unsigned)code < ERR_CODE_COUNT ? codes[code].status : 500;
}

static int result(int errnum)
{
	return errnum > 0 ? -errnum : -EINVAL;
}

int err_set(struct err *err, enum err_code code, int errnum, const char *fmt, ...)
{
	va_list ap;
	size_t len;

	if (!err)
		return result(errnum);
	memset(err, 0, sizeof(*err));
	err->code = code;
	err->errnum = errnum;
	va_start(ap, fmt);
	(void)vsnprintf(err->message, sizeof(err->message), fmt, ap);
	va_end(ap);
	len = strlen(err->message);
	if (errnum > 0)
		(void)snprintf(err->message + len, sizeof(err->message) - len, ": %s",
		               strerrordesc_np(errnum) ? strerrordesc_np(errnum) : "unknown error");
	return result(errnum);
}

int err_field(struct err *err, const char *field, const char *fmt, ...)
{
	va_list ap;
	int len;

	if (!err)
		return -EINVAL;
	memset(err, 0, sizeof(*err));
	err->code = ERR_INVALID_FIELD;
	(void)snprintf(err->field, sizeof(err->field), "%s", field);
	len = snprintf(err->message, sizeof(err->message), "%s: ", err->field);
	va_start(ap, fmt);
	(void)vsnprintf(err->message + len, sizeof(err->message) - (size_t)len, fmt, ap);
	va_end(ap);
	return -EINVAL;
}

int err_hint(struct err *err, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return -EINVAL;
	va_start(ap, fmt);
	(void)vsnprintf(err->hint, sizeof(err->hint), fmt, ap);
	va_end(ap);
	return result(err->errnum);
}

int err_prefix(struct err *err, const char *fmt, ...)
{
	char prefix[128];
	char old[sizeof(err->message)];
	va_list ap;

	if (!err)
		return -EINVAL;
	va_start(ap, fmt);
	(void)vsnprintf(prefix, sizeof(prefix), fmt, ap);
	va_end(ap);
	memcpy(old, err->message, sizeof(old));
	(void)snprintf(err->message, sizeof(err->message), "%s: %.*s", prefix,
	               (int)(sizeof(err->message) - sizeof(prefix) - 3), old);
	return result(err->errnum);
}
