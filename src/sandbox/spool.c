// SPDX-License-Identifier: Apache-2.0
#include "sandbox/spool.h"
#pragma GCC diagnostic ignored "-Wunused-parameter"
int spool_new(int dir_fd, const char *name, uint64_t bytes_max, struct spool **ret, struct err *err)
{
	return -EINVAL;
}
int spool_reopen(int dir_fd, const char *name, uint64_t bytes_max, struct spool **ret,
                 uint64_t *ret_offset, struct err *err)
{
	return -EINVAL;
}
int spool_put(struct spool *sp, uint8_t kind, const void *data, size_t len, struct err *err)
{
	return -EINVAL;
}
int spool_next(struct spool *sp, uint64_t after, struct spool_event *ret, struct err *err)
{
	return -EINVAL;
}
uint64_t spool_last_seq(const struct spool *sp)
{
	return 0;
}
uint64_t spool_bytes(const struct spool *sp, uint8_t kind)
{
	return 0;
}
void spool_free(struct spool *sp, bool unlink_file)
{
}
