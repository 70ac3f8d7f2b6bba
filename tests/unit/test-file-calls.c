// SPDX-License-Identifier: Apache-2.0
/* File operations over the link. */
#include "exec-rig.h"

#include <fcntl.h>

struct call {
	struct file_call *c;
	struct buf data;
	unsigned records, rooms, ends;
	bool is_truncated, has_err;
	struct err err;
};

static void on_data(const char *data, size_t len, void *arg)
{
	struct call *call = arg;

	CHECK_INT(buf_append(&call->data, data, len), 0);
}

static void on_record(const struct record *r, void *arg)
{
	struct call *call = arg;

	CHECK_STR(r->path, "/a");
	call->records++;
}

static void on_room(void *arg)
{
	((struct call *)arg)->rooms++;
}

static void on_end(const struct err *err, void *arg)
{
	struct call *call = arg;

	call->ends++;
	call->is_truncated = file_call_is_truncated(call->c);
	call->has_err = err != NULL;
	if (err)
		call->err = *err;
}

static const struct file_call_ops all_ops = {
	.on_data = on_data,
	.on_record = on_record,
	.on_room = on_room,
	.on_end = on_end,
};

static void call_start(struct call *call, enum file_op op)
{
	char path[] = "/a";
	struct start file = {.kind = START_FILE, .op = op, .path = path};
	struct fake_channel *before = box_channel();
	struct err err = {0};

	*call = (struct call){.data = BUF_INIT(1 << 20)};
	if (file_call_start(box, &file, &all_ops, call, &call->c, &err) < 0)
		CHECK_STR(err.message, "");
	UNTIL(&rig.broker, box_channel() != before);
	CHECK_INT(box_channel()->start.op, op);
}

static void send_record(void)
{
	struct buf bytes = BUF_INIT(4096);
	char path[] = "/a";
	struct record r = {.kind = RECORD_ENTRY, .path = path, .size = 5};

	CHECK_INT(record_encode(&r, &bytes), 0);
	/* In two pieces, cut in the middle. */
	fake_output(agent, box_channel(), STREAM_RECORD, bytes.data, 7);
	fake_output(agent, box_channel(), STREAM_RECORD, bytes.data + 7, bytes.len - 7);
	buf_done(&bytes);
}

TEST(a_file_is_read_as_record_and_bytes_and_a_pause_holds_them_back)
{
	struct call call;

	box_start();
	call_start(&call, FILE_READ);
	send_record();
	box_say("first ");
	UNTIL(&rig.broker, call.data.len == 6);
	CHECK_INT(call.records, 1);
	file_call_pause(call.c, true);
	box_say("second");
	fake_exit(agent, box_channel(), EXIT_CODE, 0);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, box_channel()->is_forgotten);
	CHECK_INT(call.data.len, 6);
	CHECK_INT(call.ends, 0);
	file_call_pause(call.c, false);
	UNTIL(&rig.broker, call.ends == 1);
	CHECK_MEM(call.data.data, call.data.len, "first second", 12);
	CHECK(!call.has_err);
	buf_done(&call.data);
	rig_stop(&rig);
}

TEST(a_paused_reader_stops_the_agent_at_its_window)
{
	auto_free char *block = calloc(1, 60000);
	struct call call;

	box_start();
	call_start(&call, FILE_READ);
	file_call_pause(call.c, true);
	fake_output(agent, box_channel(), STREAM_STDOUT, block, 60000);
	fake_turn(&rig.broker);
	fake_turn(&rig.broker);
	CHECK_INT(box_channel()->acked, 0);
	file_call_cancel(call.c);
	UNTIL(&rig.broker, box_channel()->is_forgotten);
	CHECK_INT(call.ends, 0);
	CHECK_INT(call.data.len, 0);
	rig_stop(&rig);
}

TEST(a_file_is_written_within_the_window_and_its_end_is_told)
{
	auto_free char *block = calloc(1, FRAME_WINDOW);
	struct call call;

	box_start();
	call_start(&call, FILE_WRITE);
	CHECK_INT(file_call_write(call.c, block, FRAME_WINDOW), FRAME_WINDOW);
	CHECK_INT(file_call_write(call.c, block, 1), 0);
	UNTIL(&rig.broker, box_channel()->input.len == FRAME_WINDOW);
	fake_take_input(agent, box_channel());
	UNTIL(&rig.broker, call.rooms > 0);
	CHECK_INT(file_call_write(call.c, block, 1), 1);
	file_call_finish(call.c);
	UNTIL(&rig.broker, box_channel()->is_input_ended);
	CHECK_INT(box_channel()->input.len, FRAME_WINDOW + 1);
	box_channel()->exit.flags = EXIT_TRUNCATED;
	fake_exit(agent, box_channel(), EXIT_CODE, 0);
	fake_closed(agent, box_channel());
	UNTIL(&rig.broker, call.ends == 1);
	CHECK(call.is_truncated && !call.has_err);
	rig_stop(&rig);
}

static void write_all(struct call *call, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = file_call_write(call->c, data, len);

		CHECK(n >= 0);
		if (n == 0)
			fake_turn(&rig.broker);
		data += n;
		len -= (size_t)n;
	}
}

/* Much data goes to the socket from where it lies; what that has no room for is queued. */
TEST(a_large_write_is_byte_exact_over_a_lost_connection)
{
	enum { FIRST = 100001, ALL = FIRST + FRAME_WINDOW };
	auto_free char *block = malloc(ALL);
	struct call call;

	for (size_t i = 0; i < ALL; i++)
		block[i] = (char)(i * 7 + i / 251);
	box_start();
	call_start(&call, FILE_WRITE);
	write_all(&call, block, FIRST);
	UNTIL(&rig.broker, box_channel()->input.len == FIRST);
	fake_take_input(agent, box_channel());
	UNTIL(&rig.broker, call.rooms > 0);
	agent->is_deaf = true;
	write_all(&call, block + FIRST, ALL - FIRST);
	for (int i = 0; i < 3; i++)
		fake_turn(&rig.broker);
	CHECK(box_channel()->input.len < ALL);
	fake_agent_hang_up(agent);
	agent->is_deaf = false;
	UNTIL(&rig.broker, box_channel()->input.len == ALL);
	CHECK_MEM(box_channel()->input.data, box_channel()->input.len, block, ALL);
	file_call_cancel(call.c);
	rig_stop(&rig);
}

TEST(errors_inside_have_codes_of_the_api)
{
	static const struct {
		int errnum;
		enum err_code code;
	} errors[] = {
		{ENOENT, ERR_FILE_NOT_FOUND}, {EEXIST, ERR_FILE_EXISTS}, {EACCES, ERR_FILE_DENIED},
		{ENOTDIR, ERR_FILE_INVALID},  {ENOSPC, ERR_DISK_FULL},   {EDQUOT, ERR_DISK_FULL},
		{EAGAIN, ERR_LIMIT},          {EIO, ERR_GUEST},
	};

	box_start();
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		struct call call;

		call_start(&call, FILE_STAT);
		fake_exit(agent, box_channel(), EXIT_FAILED, (uint32_t)errors[i].errnum);
		fake_closed(agent, box_channel());
		UNTIL(&rig.broker, call.ends == 1);
		CHECK_INT(call.err.code, errors[i].code);
		CHECK_INT(call.err.errnum, errors[i].errnum);
	}
	rig_stop(&rig);
}

TEST(a_bad_record_fails_the_sandbox_and_the_call)
{
	struct call call;

	box_start();
	call_start(&call, FILE_LIST);
	fake_output(agent, box_channel(), STREAM_RECORD, "\xff\xff\xff\xff____", 8);
	UNTIL(&rig.broker, call.ends == 1);
	CHECK(call.has_err);
	UNTIL(&rig.broker, sandbox_state(box) == SANDBOX_FAILED);
	rig_stop(&rig);
}

TEST(a_file_call_ends_with_its_sandbox)
{
	struct call call;

	box_start();
	call_start(&call, FILE_WATCH);
	rig_delete(&rig, box);
	CHECK_INT(call.ends, 1);
	CHECK_INT(call.err.code, ERR_GONE);
	rig_stop(&rig);
}
