// SPDX-License-Identifier: Apache-2.0
/* Kernels as the host sees them: a small driver in shell stands in for an interpreter. */
#include "agent-host.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define CHANNEL 1

static struct start kernel(const char *script)
{
	struct start s = host_script(script);

	s.kind = START_KERNEL;
	return s;
}

/* Output frames in the order they came, each stretch with the letter of its stream before it. */
static void gather_in_order(struct buf *out, size_t bytes_max, enum frame_type until)
{
	static const char letters[] = "?oer";
	uint64_t end = 0;
	int last = 0;
	struct frame f;

	do {
		struct unpack u;
		uint8_t stream;

		CHECK(host_next(&f));
		if (f.type != FRAME_OUTPUT)
			continue;
		u = (struct unpack){.data = f.payload, .len = f.len};
		CHECK_INT(unpack_u64(&u), end);
		stream = unpack_u8(&u);
		end += u.len;
		if (stream != last)
			CHECK_INT(buf_printf(out, "%c:", letters[stream]), 0);
		last = stream;
		if (out->len + u.len < bytes_max)
			CHECK_INT(buf_append(out, u.data, u.len), 0);
		host_send_u64(FRAME_ACK, CHANNEL, end);
		if (stream == STREAM_RECORD) /* an answer lets the driver go on */
			host_send(FRAME_INPUT, CHANNEL, "\n", 1);
	} while (f.type != until);
}

TEST_FORKED(a_kernel_speaks_over_its_fd_3, 60)
{
	struct start s = kernel("read -r word <&3; echo \"heard $word\" >&3; "
	                        "cat; [ -e /proc/$$/fd/4 ] || echo no more");
	struct told t;

	host_start();
	host_call(&t, &s, "hello\n", 6);
	CHECK_STR(buf_str(&t.records), "heard hello\n");
	CHECK_STR(buf_str(&t.out), "no more\n"); /* its stdin is empty */
	CHECK_INT(t.exit.how, EXIT_CODE);
	CHECK_INT(t.exit.value, 0);
	told_done(&t);
}

TEST_FORKED(a_message_never_overtakes_the_output_before_it, 60)
{
	struct buf all = BUF_INIT(1 << 16);
	struct start s = kernel("for i in 1 2 3 4 5 6 7 8; do printf $i; printf $i >&2; "
	                        "printf $i >&3; read -r x <&3; done");
	struct buf wanted = BUF_INIT(1 << 10);

	host_start();
	host_run(CHANNEL, &s);
	for (int i = 1; i <= 8; i++)
		CHECK_INT(buf_printf(&wanted, "o:%de:%dr:%d", i, i, i), 0);
	gather_in_order(&all, 1 << 15, FRAME_EXIT);
	CHECK_STR(buf_str(&all), buf_str(&wanted));
	buf_done(&all);
	buf_done(&wanted);
}

TEST_FORKED(a_message_waits_for_more_output_than_a_window_holds, 60)
{
	struct buf all = BUF_INIT(1 << 10);
	struct start s = kernel("head -c 3000000 /dev/zero; printf done >&3; read -r x <&3");

	host_start();
	host_run(CHANNEL, &s);
	gather_in_order(&all, 100, FRAME_EXIT);
	CHECK_STR(buf_str(&all), "o:r:done"); /* the zeros are more than is kept here */
	buf_done(&all);
}

TEST_FORKED(a_child_that_writes_without_end_does_not_silence_the_socket, 60)
{
	struct start s = kernel("yes & sleep 0.05; printf done >&3; wait");
	struct told t = {0};
	struct frame f;
	bool is_heard = false;
	uint64_t end = 0;

	host_start();
	host_run(CHANNEL, &s);
	while (!is_heard) {
		struct unpack u;

		CHECK(host_next(&f));
		if (f.type != FRAME_OUTPUT)
			continue;
		u = (struct unpack){.data = f.payload, .len = f.len};
		end = unpack_u64(&u);
		is_heard = unpack_u8(&u) == STREAM_RECORD;
		end += u.len;
		host_send_u64(FRAME_ACK, CHANNEL, end);
	}
	host_send(FRAME_FORGET, CHANNEL, NULL, 0);
	told_done(&t);
}

TEST_FORKED(a_kernel_sees_the_end_of_its_input, 60)
{
	struct start s = kernel("cat <&3; exit 3");
	struct told t;

	host_start();
	host_call(&t, &s, "abc", 3);
	CHECK_STR(buf_str(&t.out), "abc");
	CHECK_INT(t.exit.value, 3);
	told_done(&t);
}

TEST_FORKED(a_long_message_passes_the_windows_both_ways, 60)
{
	struct start s = kernel("head -c 1000000 <&3 | wc -c; head -c 1000000 /dev/zero >&3");
	auto_free char *input = xcalloc(1, 1000000);
	struct told t;

	host_start();
	host_call(&t, &s, input, 1000000);
	CHECK_STR(buf_str(&t.out), "1000000\n");
	CHECK_INT(t.records.len, 1000000);
	told_done(&t);
}

TEST_FORKED(forgetting_a_kernel_takes_everything_that_it_started, 60)
{
	struct start s = kernel("sleep 1000 >/dev/null 2>&1 3>&- & echo $! >&2; exec >&- 2>&-; "
	                        "read -r x <&3");
	struct told t = {0};
	struct buf all = BUF_INIT(1 << 10);

	host_start();
	host_run(CHANNEL, &s);
	host_send(FRAME_INPUT, CHANNEL, "\n", 1);
	gather_in_order(&all, 1 << 9, FRAME_CLOSED);
	CHECK_MEM(buf_str(&all), 2, "e:", 2);
	host_send(FRAME_FORGET, CHANNEL, NULL, 0);
	host_await_death((pid_t)strtol(buf_str(&all) + 2, NULL, 10));
	buf_done(&all);
	told_done(&t);
}

TEST_FORKED(a_kernel_resumes_its_messages_where_the_host_was, 60)
{
	struct start s = kernel("printf one; printf two >&3; read -r x <&3; printf three >&3");
	struct told t = {0};
	struct buf all = BUF_INIT(1 << 10);

	host_start();
	host_run(CHANNEL, &s);
	host_gather(CHANNEL, &t, told_started);
	host_drop();
	host_connect(2);
	host_hello();
	host_send_u64(FRAME_RESUME, CHANNEL, 0);
	gather_in_order(&all, 1 << 9, FRAME_EXIT);
	CHECK_STR(buf_str(&all), "o:oner:twothree");
	buf_done(&all);
	told_done(&t);
}
