// SPDX-License-Identifier: Apache-2.0
#include "agent/archive/result.h"

#include "base/fd.h"

int result_send(const void *data, size_t len, struct err *err)
{
	int r = fd_write_all(RESULT_DATA_FD, data, len);

	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot pass the data on") : 0;
}

int result_error(struct err *err, int errnum, const char *what, const char *path)
{
	return err_set(err, ERR_FILE_INVALID, errnum, "%s '%s'", what, path);
}
