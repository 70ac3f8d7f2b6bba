// SPDX-License-Identifier: Apache-2.0
#include "engine/layer/owners.h"

#include "base/log.h"
#include "engine/linux/btrfs.h"

#include <fcntl.h>
#include <inttypes.h>

#define OWNERS_MAX 100000

static void add(struct owners *o, uint64_t owner)
{
	o->numbers = xrealloc(o->numbers, (o->n + 1) * sizeof(*o->numbers));
	o->numbers[o->n++] = owner;
}

static void find(uint64_t owner, void *arg)
{
	struct owners *o = arg;

	if (o->n < OWNERS_MAX)
		add(o, owner);
}

void owners_open(struct owners *o, const struct storage *s, uint32_t share)
{
	*o = (struct owners){0};
	if (!s->counts_once) {
		if (share < 100)
			log_warn("owners.no_quotas",
			         "message='a share of the disk needs simple quotas: Linux 6.7'");
		return;
	}
	btrfs_each_group(s->fd, find, o); /* an earlier start's; their limits come with the room */
	o->share = share < 100 ? share : 0;
	for (size_t i = 0; o->share == 0 && i < o->n; i++)
		btrfs_group_unlimit(s->fd, o->numbers[i]);
}

void owners_close(struct owners *o)
{
	free(o->numbers);
	*o = (struct owners){0};
}

void owners_set_room(struct owners *o, const struct storage *s, uint64_t bytes)
{
	uint64_t limit = bytes / 100 * o->share;

	if (o->share == 0 || limit == o->limit)
		return;
	o->limit = limit;
	for (size_t i = 0; i < o->n; i++)
		if (btrfs_group_limit(s->fd, o->numbers[i], limit) < 0)
			log_warn("owners.limit_not_set", "owner=%" PRIu64 " errno=%d",
			         o->numbers[i], errno);
}

static int know(struct owners *o, const struct storage *s, uint64_t owner)
{
	int r;

	for (size_t i = 0; i < o->n; i++)
		if (o->numbers[i] == owner)
			return 0;
	if (o->n >= OWNERS_MAX)
		return -ENOSPC;
	r = btrfs_group_make(s->fd, owner);
	if (r == 0)
		r = btrfs_group_limit(s->fd, owner, o->limit);
	if (r < 0)
		return r;
	add(o, owner);
	return 0;
}

int owners_assign(struct owners *o, const struct storage *s, const char *layer, uint64_t owner,
                  struct err *err)
{
	auto_fd int fd = -1;
	int r;

	if (o->share == 0)
		return 0;
	fd = openat(s->fd, layer, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return 0;
	r = know(o, s, owner);
	if (r == 0)
		r = btrfs_group_join(fd, owner);
	return r < 0 ? err_set(err, ERR_INTERNAL, -r, "cannot put '%s' to its owner", layer) : 0;
}
