// SPDX-License-Identifier: Apache-2.0
#include "sandbox/agentlink/agent_errno.h"

#include "base/text/missing.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const struct {
	int errnum;
	enum err_code code;
} meanings[] = {
	{ENOENT,       ERR_FILE_NOT_FOUND},
	{EEXIST,       ERR_FILE_EXISTS},
	{ENOTEMPTY,    ERR_FILE_EXISTS},
	{ESTALE,       ERR_FILE_CHANGED},
	{EACCES,       ERR_FILE_DENIED},
	{EPERM,        ERR_FILE_DENIED},
	{EROFS,        ERR_FILE_DENIED},
	{ENOTDIR,      ERR_FILE_INVALID},
	{EISDIR,       ERR_FILE_INVALID},
	{ELOOP,        ERR_FILE_INVALID},
	{EINVAL,       ERR_FILE_INVALID},
	{ENAMETOOLONG, ERR_FILE_INVALID},
	{EXDEV,        ERR_FILE_INVALID},
	{EBADMSG,      ERR_FILE_INVALID},
	{ENOEXEC,      ERR_FILE_INVALID},
	{ENOTSUP,      ERR_FILE_INVALID},
	{EBUSY,        ERR_CONFLICT},
	{ETXTBSY,      ERR_CONFLICT},
	{ENOSPC,       ERR_DISK_FULL},
	{EDQUOT,       ERR_DISK_FULL},
	{EFBIG,        ERR_TOO_LARGE},
	{E2BIG,        ERR_TOO_LARGE},
	{EAGAIN,       ERR_LIMIT},
	{ENOMEM,       ERR_LIMIT},
	{EMFILE,       ERR_LIMIT},
	{ENFILE,       ERR_LIMIT},
};
/* clang-format on */

/* The agent's words begin with the field of the request that they are about. */
static void find_field(const char *message, struct err *err)
{
	static const struct {
		const char *words, *field;
	} begins[] = {{"cwd: ", "cwd"}, {"user: ", "user"}, {"argv[0]: ", "argv"}};

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		if (strncmp(message, begins[i].words, strlen(begins[i].words)) == 0)
			(void)snprintf(err->field, sizeof(err->field), "%s", begins[i].field);
}

int guest_error(int errnum, const char *message, struct err *err)
{
	enum err_code code = ERR_GUEST;

	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++)
		if (meanings[i].errnum == errnum)
			code = meanings[i].code;
	(void)err_set(err, code, 0, "%s%s", code == ERR_DISK_FULL ? "inside the sandbox: " : "",
	              message[0] ? message : strerror(errnum));
	err->errnum = errnum;
	find_field(message, err);
	if (strncmp(message, AGENT_NO_PROGRAM, strlen(AGENT_NO_PROGRAM)) == 0)
		(void)err_hint(err, "%s", MISSING_PROGRAM_HINT);
	return -errnum;
}
