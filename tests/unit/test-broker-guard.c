// SPDX-License-Identifier: Apache-2.0
/* A gateway that somebody has taken over: what it sends, and how much of it. */
#include "base/fd.h"
#include "broker-rig.h"
#include "broker/check.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

/* Each row spoils a good create in one way. */
static void no_magic(struct msg_request *r)
{
	r->magic = 0;
}
static void op_zero(struct msg_request *r)
{
	r->op = 0;
}
static void op_past_the_last(struct msg_request *r)
{
	r->op = MSG_STOP + 1;
}
static void op_of_the_broker(struct msg_request *r)
{
	r->op = MSG_ENDED;
}
static void op_huge(struct msg_request *r)
{
	r->op = UINT32_MAX;
}
static void id_without_end(struct msg_request *r)
{
	memset(r->id, 'a', sizeof(r->id));
}
static void id_with_path(struct msg_request *r)
{
	(void)snprintf(r->id, sizeof(r->id), "sb_../../../../etc/shadow_______");
}
static void id_of_an_exec(struct msg_request *r)
{
	id_make(r->id, "ex");
}
static void id_empty(struct msg_request *r)
{
	r->id[0] = '\0';
}
static void hostname_without_end(struct msg_request *r)
{
	memset(r->create.hostname, 'a', sizeof(r->create.hostname));
}
static void hostname_with_newline(struct msg_request *r)
{
	(void)snprintf(r->create.hostname, sizeof(r->create.hostname), "a\nb");
}
static void hostname_with_slash(struct msg_request *r)
{
	(void)snprintf(r->create.hostname, sizeof(r->create.hostname), "../x");
}
static void hostname_empty(struct msg_request *r)
{
	r->create.hostname[0] = '\0';
}
static void unknown_engine(struct msg_request *r)
{
	r->create.engine = 9;
}
static void too_much_memory(struct msg_request *r)
{
	r->create.limits.memory_bytes = rig_most.memory_bytes + 1;
}
static void no_memory(struct msg_request *r)
{
	r->create.limits.memory_bytes = 0;
}
static void too_much_disk(struct msg_request *r)
{
	r->create.limits.disk_bytes = UINT64_MAX;
}
static void too_many_inodes(struct msg_request *r)
{
	r->create.limits.inodes = rig_most.inodes + 1;
}
static void too_many_cpus(struct msg_request *r)
{
	r->create.limits.cpu_milli = UINT32_MAX;
}
static void too_many_pids(struct msg_request *r)
{
	r->create.limits.pids = rig_most.pids + 1;
}
static void too_many_files(struct msg_request *r)
{
	r->create.limits.open_files = rig_most.open_files + 1;
}
static void resumed_without_keeper(struct msg_request *r)
{
	r->create.is_resumed = 1;
}
static void resumed_twice(struct msg_request *r)
{
	r->create.keeper = 7;
	r->create.is_resumed = 2;
}
static void shown_to_a_vm_without_an_image(struct msg_request *r)
{
	r->create.engine = FAKE_MACHINE;
	id_make(r->create.shown[0], "sn");
}
static void shown_to_one_that_is_kept(struct msg_request *r)
{
	r->create.keeper = 7;
	id_make(r->create.shown[0], "sn");
}
static void shown_with_a_gap(struct msg_request *r)
{
	id_make(r->create.shown[1], "sn");
}
static void shown_by_a_path(struct msg_request *r)
{
	(void)snprintf(r->create.shown[0], ID_SIZE, "sn_../../etc");
}
static void reserved_is_used(struct msg_request *r)
{
	r->create.limits.reserved = 1;
}

TEST(each_malformed_request_is_refused_and_starts_nothing)
{
	static void (*const spoils[])(struct msg_request * r) = {
		no_magic,
		op_zero,
		op_past_the_last,
		op_of_the_broker,
		op_huge,
		id_without_end,
		id_with_path,
		id_of_an_exec,
		id_empty,
		hostname_empty,
		hostname_without_end,
		hostname_with_newline,
		unknown_engine,
		hostname_with_slash,
		too_much_memory,
		no_memory,
		too_much_disk,
		too_many_inodes,
		too_many_cpus,
		too_many_pids,
		too_many_files,
		reserved_is_used,
		resumed_without_keeper,
		resumed_twice,
		shown_to_a_vm_without_an_image,
		shown_to_one_that_is_kept,
		shown_with_a_gap,
		shown_by_a_path,
	};
	struct msg_request req;
	char id[ID_SIZE];

	rig_begin();
	rig_make_id(id);
	for (size_t i = 0; i < ARRAY_SIZE(spoils); i++) {
		int code;

		req = rig_create(id);
		spoils[i](&req);
		code = rig_ask_code(&req);
		if (code != ERR_BAD_REQUEST && code != ERR_INVALID_FIELD)
			print_error("row %zu\n", i);
		CHECK(code == ERR_BAD_REQUEST || code == ERR_INVALID_FIELD);
	}
	CHECK_INT(fake.n_starts, 0);
	req = rig_create(id);
	CHECK_INT(rig_ask_code(&req), ERR_NONE);
	rig_end();
}

TEST(a_message_of_another_size_is_refused)
{
	static const size_t sizes[] = {
		1, 8, 16, sizeof(struct msg_request) - 1, sizeof(struct msg_request) + 1, 8192};
	struct msg_request req;
	struct msg_reply reply;
	char bytes[8192] = {0};
	char id[ID_SIZE];
	int fd;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	memcpy(bytes, &req, sizeof(req));
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		CHECK_INT(fd_send(rig.gateway_fd, bytes, sizes[i], NULL, 0), sizes[i]);
		CHECK(rig_next(&reply, &fd));
		CHECK_INT(reply.err.code, ERR_BAD_REQUEST);
	}
	CHECK_INT(fake.n_starts, 0);
	rig_end();
}

static struct msg_reply claim(uint32_t op, const struct image_claim *c)
{
	struct msg_request req = rig_request(op, "");
	struct msg_reply reply;
	int fd;

	req.claim = *c;
	rig_send(&req);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(fd, -1);
	return reply;
}

TEST(a_claim_about_an_image_is_whole_or_refused)
{
	static const struct image_claim good = {
		.image = {{1}}, .class = {{2}}, .bytes = 4096, .keeper = 7};
	static const uint32_t ops[] = {MSG_IMAGE_FETCH, MSG_IMAGE_TAKE};
	struct image_claim bad[6];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].image = (struct digest){{0}};
	bad[1].class = (struct digest){{0}};
	bad[2].bytes = 0;
	bad[3].bytes = UINT64_MAX;
	bad[4].keeper = 0;
	bad[5].is_base = 2;
	rig_begin();
	for (size_t k = 0; k < ARRAY_SIZE(ops); k++) {
		for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
			CHECK_INT(claim(ops[k], &bad[i]).err.code, ERR_INVALID_FIELD);
		CHECK_INT(claim(ops[k], &good).err.code, ERR_UNSUPPORTED); /* the fake has none */
	}
	CHECK_INT(claim(MSG_IMAGE_SHARE, &bad[0]).err.code, ERR_INVALID_FIELD);
	CHECK_INT(claim(MSG_IMAGE_SHARE, &bad[1]).err.code, ERR_INVALID_FIELD);
	CHECK_INT(claim(MSG_IMAGE_DROP, &bad[0]).err.code, ERR_INVALID_FIELD);
	CHECK_INT(claim(MSG_IMAGE_DROP, &good).err.code, ERR_NONE);
	rig_end();
}

static struct msg_reply sealed(uint32_t op, const struct sealed_file_spec *s)
{
	struct msg_request req = rig_request(op, "");
	struct msg_reply reply;
	int fd;

	req.sealed = *s;
	rig_send(&req);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(fd, -1);
	return reply;
}

TEST(a_file_of_a_snapshot_is_whole_or_refused)
{
	static const struct sealed_file_spec good = {
		.number = 1, .class = {{2}}, .bytes = 4096, .digest = {{3}}, .is_fetched = 1};
	struct sealed_file_spec bad[6];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = good;
	bad[0].number = 0;
	bad[1].class = (struct digest){{0}};
	bad[2].bytes = 0;
	bad[3].bytes = UINT64_MAX;
	bad[4].is_fetched = 2;
	bad[5].digest = (struct digest){{0}};
	rig_begin();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_INT(sealed(MSG_SEALED_OPEN, &bad[i]).err.code, ERR_INVALID_FIELD);
	CHECK_INT(sealed(MSG_SEALED_OPEN, &good).err.code, ERR_UNSUPPORTED); /* the fake has none */
	CHECK_INT(sealed(MSG_SEALED_CLOSE, &good).err.code, ERR_UNSUPPORTED);
	CHECK_INT(sealed(MSG_SEALED_CLOSE, &bad[0]).err.code, ERR_INVALID_FIELD);
	CHECK_INT(sealed(MSG_SEALED_DROP, &bad[0]).err.code, ERR_INVALID_FIELD);
	CHECK_INT(sealed(MSG_SEALED_DROP, &good).err.code, ERR_NONE);
	CHECK_INT(sealed(MSG_GATEWAY_KEY, &good).err.code, ERR_UNSUPPORTED);
	rig_end();
}

TEST(a_request_with_fds_is_refused_and_they_are_closed)
{
	struct msg_request req;
	struct msg_reply reply;
	char id[ID_SIZE];
	char byte;
	int pair[2];
	int fd;

	rig_begin();
	rig_make_id(id);
	req = rig_create(id);
	CHECK_INT(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
	CHECK_INT(fd_send(rig.gateway_fd, &req, sizeof(req), &pair[1], 1), sizeof(req));
	(void)close(pair[1]);
	CHECK(rig_next(&reply, &fd));
	CHECK_INT(reply.err.code, ERR_BAD_REQUEST);
	CHECK_INT(read(pair[0], &byte, 1), 0); /* the last writer is gone */
	(void)close(pair[0]);
	rig_end();
}

static void set_buffers(int fd)
{
	const int size = 4 << 20;

	CHECK_INT(setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)), 0);
}

TEST(a_flood_of_creates_stops_being_read_and_is_answered_in_the_end)
{
	enum { FLOOD = 200 };
	struct msg_request req;
	struct msg_reply reply;
	size_t n_starts;
	char id[ID_SIZE];
	int fd;

	fake_reset();
	(void)snprintf(rig.run_dir, sizeof(rig.run_dir), "/nonexistent");
	rig_begin_with(1000);
	if (geteuid() != 0)
		SKIP("a larger socket buffer needs root");
	set_buffers(rig.gateway_fd);
	fake.holds_starts = true;
	for (int i = 0; i < FLOOD; i++) {
		rig_make_id(id);
		req = rig_create(id);
		rig_send(&req);
	}
	for (int i = 0; i < 50; i++)
		rig_turn();
	n_starts = fake.n_starts;
	CHECK(n_starts > 0 && n_starts < FLOOD);
	fake_release();
	for (int i = 0; i < FLOOD; i++) {
		CHECK(rig_next(&reply, &fd));
		CHECK_INT(reply.err.code, ERR_NONE);
		(void)close(fd);
	}
	CHECK_INT(fake.n_starts, FLOOD);
	rig_end();
}

TEST(replies_wait_in_order_for_a_gateway_that_does_not_read)
{
	struct msg_request req = rig_request(MSG_PROBE, "");
	struct msg_reply reply;
	uint64_t sent = 0;
	int fd;

	rig_begin();
	for (int i = 0; i < 5000; i++) {
		req.tag = sent + 1;
		if (fd_send(rig.gateway_fd, &req, sizeof(req), NULL, 0) == sizeof(req))
			sent++;
		rig_turn();
	}
	CHECK(sent < 5000); /* the broker stopped reading */
	for (uint64_t tag = 1; tag <= sent; tag++) {
		CHECK(rig_next(&reply, &fd));
		CHECK_INT(reply.tag, tag);
	}
	rig_end();
}
