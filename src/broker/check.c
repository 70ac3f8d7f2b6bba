// SPDX-License-Identifier: Apache-2.0
/*
 * The gateway parses what strangers send, so assume that an attacker controls it: then these checks
 * are all that stands between the attacker and root. They list what is allowed. A field that an op
 * does not use is not read at all.
 */
#include "broker/check.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#define IMAGE_LEAST  4096
#define IMAGE_MOST   (UINT64_C(1) << 40)
#define VOLUME_LEAST (UINT64_C(1) << 20)
#define WEIGHT_MOST  10000
#define OWNER_MOST   ((UINT64_C(1) << 48) - 1)

static const struct {
	bool has_id;
	bool has_limits; /* limits alone: a create's are further in */
} ops[] = {
	[MSG_PROBE] = {.has_id = false},
	[MSG_CREATE] = {.has_id = true},
	[MSG_CONNECT] = {.has_id = true},
	[MSG_DELETE] = {.has_id = true},
	[MSG_LIMITS] = {.has_id = true, .has_limits = true},
	[MSG_USAGE] = {.has_id = true},
	[MSG_FREEZE] = {.has_id = true},
	[MSG_THAW] = {.has_id = true},
	[MSG_LIST] = {.has_id = false},
	[MSG_FORK] = {.has_id = true},
	[MSG_DOOR] = {.has_id = true},
	[MSG_DOOR_CLOSE] = {.has_id = true},
	[MSG_DIAL] = {.has_id = true},
	[MSG_STOP] = {.has_id = true},
	[MSG_SEAL] = {.has_id = true},
	[MSG_SEAL_CANCEL] = {.has_id = false},
	[MSG_IMAGES] = {.has_id = false},
	[MSG_IMAGE_REMOVE] = {.has_id = false},
	[MSG_SNAPSHOT] = {.has_id = true},
	[MSG_SNAPSHOTS] = {.has_id = false},
	[MSG_SNAPSHOT_REMOVE] = {.has_id = false},
	[MSG_KERNEL] = {.has_id = false},
	[MSG_VOLUME] = {.has_id = false},
	[MSG_VOLUMES] = {.has_id = false},
	[MSG_VOLUME_REMOVE] = {.has_id = false},
	[MSG_BACKUP] = {.has_id = false},
	[MSG_BACKUP_END] = {.has_id = false},
	[MSG_SYNC] = {.has_id = false},
	[MSG_OWNER] = {.has_id = false},
	[MSG_VOLUME_COPY] = {.has_id = false},
	[MSG_IMAGE_SHARE] = {.has_id = false},
	[MSG_IMAGE_FETCH] = {.has_id = false},
	[MSG_IMAGE_TAKE] = {.has_id = false},
	[MSG_IMAGE_DROP] = {.has_id = false},
	[MSG_SEALED_OPEN] = {.has_id = false},
	[MSG_SEALED_CLOSE] = {.has_id = false},
	[MSG_SEALED_DROP] = {.has_id = false},
	[MSG_GATEWAY_KEY] = {.has_id = false},
};

static bool ends(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static int check_id(const struct msg_request *req, struct err *err)
{
	if (!ends(req->id, sizeof(req->id)))
		return err_field(err, "id", "does not end");
	if (!ops[req->op].has_id)
		return req->id[0] == '\0' ? 0 : err_field(err, "id", "this request has none");
	if (!id_is_valid(req->id, "sb"))
		return err_field(err, "id", "not a sandbox's id");
	return 0;
}

/* One label of a DNS name, so it is also harmless in a shell prompt or a log line. */
static int check_hostname(const char *name, size_t size, struct err *err)
{
	if (!ends(name, size))
		return err_field(err, "hostname", "does not end");
	if (name[0] == '\0' || name[0] == '-')
		return err_field(err, "hostname", "empty, or begins with '-'");
	if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name))
		return err_field(err, "hostname", "only a-z, 0-9 and '-' are allowed");
	return 0;
}

static int check_range(const char *field, uint64_t value, uint64_t min, uint64_t max,
                       struct err *err)
{
	if (value >= min && value <= max)
		return 0;
	return err_field(err, field, "%" PRIu64 " is not between %" PRIu64 " and %" PRIu64, value,
	                 min, max);
}

/* With less than the minimum a sandbox cannot start its agent, and the failure would look like
 * ours. */
static int check_limits(const struct guest_limits *limits, const struct guest_limits *max,
                        struct err *err)
{
	int r = check_range("reserved", limits->reserved, 0, 0, err);

	for (size_t i = 0; r == 0 && i < GUEST_LIMITS_COUNT; i++) {
		const struct limit *l = &limit_table[i];

		r = check_range(l->row_name, limit_get(l, limits), l->least, limit_get(l, max),
		                err);
	}
	return r;
}

static int check_snapshot_id(const char *id, struct err *err)
{
	return ends(id, ID_SIZE) && id_is_valid(id, "sn")
	               ? 0
	               : err_field(err, "snapshot", "not a snapshot's id");
}

static int check_snapshot(const struct msg_request *req, struct err *err)
{
	const struct snapshot_spec *s = &req->snapshot.spec;
	int r = check_snapshot_id(s->id, err);

	if (r == 0)
		r = check_range("keeper", s->keeper, 1, UINT64_MAX - 1, err);
	if (r == 0)
		r = check_range("has_memory", s->has_memory, 0, 1, err);
	if (r == 0)
		r = check_range("closes_connections", s->closes_connections, 0, s->has_memory, err);
	if (r == 0)
		r = check_range("is_last", s->is_last, 0, s->has_memory, err);
	return r < 0 ? r : check_range("is_brief", s->is_brief, 0, 1, err);
}

/* Snapshots are shown only to a sandbox that cannot write below them and whose layer is not
 * kept. */
static int check_shown(const struct msg_request *req, struct err *err)
{
	const bool is_host = digest_is_zero(&req->create.image);
	const bool is_plain =
		!req->create.keeper && !req->create.snapshot[0] &&
		(engine_traits(req->create.engine)->has_own_disk ? !is_host && !req->create.shows
	                                                         : is_host || req->create.shows);
	bool is_over = false;

	for (size_t i = 0; i < SHOWN_MAX; i++) {
		const char *id = req->create.shown[i];
		int r = id[0] ? check_snapshot_id(id, err) : 0;

		if (r < 0)
			return r;
		if (id[0] && (is_over || !is_plain))
			return err_field(err, "shown", "cannot be shown to this sandbox");
		is_over = id[0] == '\0';
	}
	return 0;
}

static int check_volume_id(const char *id, struct err *err)
{
	return ends(id, ID_SIZE) && id_is_valid(id, "vo")
	               ? 0
	               : err_field(err, "volume", "not a volume's id");
}

static int check_volume(const struct volume_spec *v, struct err *err)
{
	int r = check_volume_id(v->id, err);

	if (r == 0)
		r = check_range("keeper", v->keeper, 1, UINT64_MAX - 1, err);
	return r < 0 ? r : check_range("bytes", v->bytes, VOLUME_LEAST, IMAGE_MOST, err);
}

static int check_volume_copy(const struct volume_copy_spec *v, struct err *err)
{
	int r = check_volume(&v->made, err);

	if (r == 0)
		r = check_volume_id(v->source, err);
	return r < 0 ? r : check_range("owner", v->owner, 0, OWNER_MOST, err);
}

static int check_place(const struct guest_volume *v, struct err *err)
{
	const char *why;
	int r = check_volume_id(v->id, err);

	if (r < 0)
		return r;
	if (!ends(v->path, sizeof(v->path)))
		return err_field(err, "path", "does not end");
	why = volume_check_path(v->path);
	if (why)
		return err_field(err, "path", "%s", why);
	return v->is_read_only > 1 || v->reserved ? err_field(err, "is_read_only", "is 0 or 1") : 0;
}

/* Not every engine has volumes, and a sandbox that starts with saved processes has none. */
static int check_volumes(const struct msg_request *req, struct err *err)
{
	const struct guest_volume *all = req->create.volumes;
	size_t n = 0;

	while (n < VOLUMES_MAX && all[n].id[0])
		n++;
	for (size_t i = n; i < VOLUMES_MAX; i++)
		if (all[i].id[0])
			return err_field(err, "volumes", "there is a gap");
	if (n > 0 && (!engine_traits(req->create.engine)->has_volumes || req->create.with_memory))
		return err_field(err, "volumes", "cannot be put into this sandbox");
	for (size_t i = 0; i < n; i++) {
		int r = check_place(&all[i], err);

		if (r < 0)
			return r;
		for (size_t k = 0; k < i; k++)
			if (volume_paths_overlap(all[i].path, all[k].path))
				return err_field(err, "path", "two volumes lie in one place");
	}
	return 0;
}

static int check_owner(uint64_t number, uint32_t weight, struct err *err)
{
	int r = check_range("number", number, 1, OWNER_MOST, err);

	return r < 0 ? r : check_range("weight", weight, 1, WEIGHT_MOST, err);
}

static int check_create(const struct msg_request *req, const struct guest_limits *max,
                        struct err *err)
{
	int r;

	if (!engine_find(req->create.engine))
		return err_field(err, "engine", "%u is not known", req->create.engine);
	if (req->create.is_resumed > (req->create.keeper != 0))
		return err_field(err, "is_resumed", "only what was kept can be resumed");
	if (req->create.snapshot[0] != '\0') {
		r = check_snapshot_id(req->create.snapshot, err);
		if (r < 0)
			return r;
	}
	r = check_range("shows", req->create.shows, SHOWS_NOTHING, SHOWS_IMAGE_TO_WRITE, err);
	if (r == 0 && req->create.shows &&
	    (digest_is_zero(&req->create.image) || req->create.keeper ||
	     (req->create.shows == SHOWS_IMAGE_TO_WRITE && req->create.snapshot[0] != '\0')))
		return err_field(err, "shows", "there is nothing to show, or it would be kept");
	if (r == 0)
		r = check_shown(req, err);
	if (r == 0)
		r = check_volumes(req, err);
	if (r < 0)
		return r;
	r = check_range("with_memory", req->create.with_memory, 0,
	                req->create.snapshot[0] != '\0' ? MEMORY_WARM : MEMORY_NONE, err);
	if (r == 0)
		r = check_hostname(req->create.hostname, sizeof(req->create.hostname), err);
	if (r == 0)
		r = check_range("is_ahead", req->create.is_ahead, 0, 1, err);
	if (r == 0 && req->create.owner > 0)
		r = check_owner(req->create.owner, req->create.weight, err);
	if (r < 0)
		return r;
	return check_limits(&req->create.limits, max, err);
}

static int check_fork(const struct msg_request *req, struct err *err)
{
	if (!ends(req->fork.tag, sizeof(req->fork.tag)) || !id_is_valid(req->fork.tag, "in"))
		return err_field(err, "tag", "not an interpreter's");
	return 0;
}

static int check_seal(const struct msg_request *req, struct err *err)
{
	const struct image_build_spec *s = &req->seal.spec;
	const struct {
		const char *name;
		uint64_t value, min, max;
	} rows[] = {
		{"epoch_s", s->epoch_s, 0, UINT32_MAX},
		{"bytes_max", s->bytes_max, IMAGE_LEAST, IMAGE_MOST},
		{"keeper", s->keeper, 1, UINT64_MAX - 1},
		{"is_tree", s->is_tree, 0, 1},
		{"is_over", s->is_over, 0, !s->is_tree},
		{"is_small", s->is_small, 0, 1},
		{"is_whole", s->is_whole, 0, 1},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int r = check_range(rows[i].name, rows[i].value, rows[i].min, rows[i].max, err);

		if (r < 0)
			return r;
	}
	return s->snapshot[0] ? check_snapshot_id(s->snapshot, err) : 0;
}

static int check_image(const struct msg_request *req, struct err *err)
{
	return digest_is_zero(&req->image) ? err_field(err, "image", "is missing") : 0;
}

static int check_claim(const struct msg_request *req, struct err *err)
{
	const struct image_claim *c = &req->claim;
	int r = digest_is_zero(&c->image) ? err_field(err, "image", "is missing") : 0;

	if (r < 0 || req->op == MSG_IMAGE_DROP)
		return r;
	if (digest_is_zero(&c->class))
		return err_field(err, "class", "is missing");
	if (req->op == MSG_IMAGE_SHARE)
		return 0;
	r = check_range("bytes", c->bytes, IMAGE_LEAST, IMAGE_MOST, err);
	if (r == 0)
		r = check_range("keeper", c->keeper, 1, UINT64_MAX - 1, err);
	if (r == 0)
		r = check_range("is_base", c->is_base, 0, 1, err);
	return r;
}

static int check_sealed(const struct msg_request *req, struct err *err)
{
	const struct sealed_file_spec *s = &req->sealed;
	int r = check_range("number", s->number, 1, UINT64_MAX, err);

	if (r < 0 || req->op != MSG_SEALED_OPEN)
		return r;
	if (digest_is_zero(&s->class))
		return err_field(err, "class", "is missing");
	r = check_range("bytes", s->bytes, 1, IMAGE_MOST, err);
	if (r == 0)
		r = check_range("is_fetched", s->is_fetched, 0, 1, err);
	if (r == 0 && s->is_fetched && digest_is_zero(&s->digest))
		r = err_field(err, "digest", "is missing");
	return r;
}

static int check_dial(const struct msg_request *req, struct err *err)
{
	if (req->dial.family != AF_INET && req->dial.family != AF_INET6)
		return err_field(err, "family", "%u is not known", req->dial.family);
	return check_range("port", req->dial.port, 1, UINT16_MAX, err);
}

static int check_ownership(const struct msg_request *req, struct err *err)
{
	const char *layer = req->owner.layer;

	if (!ends(layer, ID_SIZE) || (!id_is_valid(layer, "sb") && !id_is_valid(layer, "vo")))
		return err_field(err, "layer", "not a sandbox's or volume's id");
	return check_owner(req->owner.number, req->owner.weight, err);
}

int check_request(const struct msg_request *req, size_t len, size_t n_fds,
                  const struct guest_limits *max, struct err *err)
{
	int r;

	if (len != sizeof(*req))
		return err_set(err, ERR_BAD_REQUEST, 0, "a message of %zu bytes instead of %zu",
		               len, sizeof(*req));
	if (n_fds > 0)
		return err_set(err, ERR_BAD_REQUEST, 0, "a request brings no fds, this one %zu",
		               n_fds);
	if (req->magic != MSG_MAGIC)
		return err_set(err, ERR_BAD_REQUEST, 0, "wrong magic 0x%x", req->magic);
	if (req->op < MSG_PROBE || req->op >= ARRAY_SIZE(ops))
		return err_set(err, ERR_BAD_REQUEST, 0, "no such request: %u", req->op);
	r = check_id(req, err);
	if (r < 0)
		return r;
	if (req->op == MSG_CREATE)
		return check_create(req, max, err);
	if (req->op == MSG_FORK)
		return check_fork(req, err);
	if (req->op == MSG_DIAL)
		return check_dial(req, err);
	if (req->op == MSG_SEAL)
		return check_seal(req, err);
	if (req->op == MSG_IMAGE_REMOVE || req->op == MSG_KERNEL)
		return check_image(req, err);
	if (req->op >= MSG_IMAGE_SHARE && req->op <= MSG_IMAGE_DROP)
		return check_claim(req, err);
	if (req->op >= MSG_SEALED_OPEN && req->op <= MSG_SEALED_DROP)
		return check_sealed(req, err);
	if (req->op == MSG_SNAPSHOT)
		return check_snapshot(req, err);
	if (req->op == MSG_SNAPSHOT_REMOVE)
		return check_snapshot_id(req->snapshot_id, err);
	if (req->op == MSG_VOLUME)
		return check_volume(&req->volume, err);
	if (req->op == MSG_VOLUME_COPY)
		return check_volume_copy(&req->volume_copy, err);
	if (req->op == MSG_VOLUME_REMOVE)
		return check_volume_id(req->volume.id, err);
	if (req->op == MSG_OWNER)
		return check_ownership(req, err);
	return ops[req->op].has_limits ? check_limits(&req->limits, max, err) : 0;
}
