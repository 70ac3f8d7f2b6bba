// SPDX-License-Identifier: Apache-2.0
/*
 * The host's link takes the bytes of its records at once, and gives its own as long as OUT_LOW of
 * them are not reached; it is kicked when they have gone. So neither side holds much for the other.
 *
 * A copy of a machine says READY, and its agent answers, before its names are in its files and
 * before its execs go on. So whoever waits for it waits no longer than necessary. The rest is done
 * before anything is asked of it, and soon in any case.
 *
 * The port never ends. While nobody on the host has it open it says so on each poll, so it is
 * looked at now and then instead.
 */
#include "agent/vm/serial.h"

#include "agent/host/host_link.h"
#include "agent/process/channel.h"
#include "agent/process/standby.h"
#include "agent/vm/init.h"
#include "agent/vm/netif.h"
#include "agent/vm/setup.h"
#include "base/fd.h"
#include "base/log.h"

#include <string.h>
#include <sys/epoll.h>

#define READ_SIZE  (64 * 1024)
#define IN_MAX     (PORT_HEAD_SIZE + PORT_DATA_MAX + READ_SIZE)
#define OUT_LOW    (128 * 1024)
#define OUT_MAX    (2 * OUT_LOW)
#define NOBODY_US  20000
#define SETTLE_US  1000000 /* counted from before a setup that may take a tenth of it */
#define CARD_US    10000   /* between looks for a card that was plugged in */
#define CARD_LOOKS 5000
#define WRITE_SIZE (32 * 1024) /* the most that the kernel takes at once */

struct serial {
	struct agent *agent;
	struct transport transport;
	struct loop_io *io;
	struct loop_timer *nobody;
	struct buf in, out;
	uint32_t connection; /* the newest of the host's */
	bool is_begun;       /* it has not ended */
	bool is_full;        /* the host's link has more to say */
	bool is_ready;       /* SETUP was done once */
	bool is_quiet;       /* nothing of the host's link is sent on */
	bool is_unsettled;   /* READY was told of a copy, and there is more to do */
	struct loop_timer *settle;
	struct port_setup setup; /* that waits for the card */
	struct loop_timer *card;
	unsigned card_looks;
};

static void watch(struct serial *s)
{
	if (!loop_timer_is_set(s->nobody))
		loop_io_set(s->io, s->out.len > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void flush(struct serial *s)
{
	while (s->out.len > 0) {
		ssize_t n = write(s->agent->settings.port_fd, s->out.data,
		                  MIN(s->out.len, (size_t)WRITE_SIZE));

		if (n <= 0)
			break;
		buf_consume(&s->out, (size_t)n);
	}
	if (s->out.len == 0)
		buf_done(&s->out);
	if (s->is_full && s->out.len < OUT_LOW && !s->is_quiet) {
		s->is_full = false;
		host_link_kick(s->agent->host_link);
	}
}

/* There is always room: what the host's link has to say ends at OUT_LOW. */
static void tell(struct serial *s, enum port_kind kind, const char *text, size_t len)
{
	if (port_put_control(&s->out, kind, text, len) < 0)
		log_warn("serial.full", "kind=%d", (int)kind);
	flush(s);
}

static size_t serial_send(void *arg, const char *data, size_t len)
{
	struct serial *s = arg;
	const size_t n = s->out.len < OUT_LOW && !s->is_quiet ? MIN(len, (size_t)PORT_DATA_MAX) : 0;

	s->is_full = n < len;
	if (n == 0 || port_put(&s->out, s->connection, data, n) < 0)
		return 0;
	flush(s);
	watch(s);
	if (s->is_unsettled) /* whoever has come has his answer */
		loop_timer_set_in(s->settle, 0);
	return n;
}

static void serial_end(void *arg)
{
	struct serial *s = arg;

	if (!s->is_begun)
		return;
	s->is_begun = false;
	if (port_put_end(&s->out, s->connection) < 0)
		log_warn("serial.full", "connection=%u", s->connection);
	flush(s);
	watch(s);
}

static void hang_up(struct serial *s)
{
	s->is_begun = false;
	host_link_detach(s->agent->host_link);
}

static void begin(struct serial *s, uint32_t connection)
{
	hang_up(s);
	s->connection = connection;
	s->is_begun = s->is_ready;
	if (s->is_begun)
		host_link_attach_port(s->agent->host_link);
}

static void serial_settle(void *arg)
{
	struct serial *s = arg;
	struct err err;

	if (!s->is_unsettled)
		return;
	s->is_unsettled = false;
	loop_timer_set(s->settle, UINT64_MAX);
	if (!s->agent->settings.is_vm)
		return;
	/* Who has made them unwritable has other names there, and the kernel has these. */
	if (setup_write_names(&s->setup, &err) < 0)
		log_warn("serial.names_not_set", "error='%s'", err.message);
	setup_freeze(&s->agent->settings, false);
}

static void on_quiesce(struct serial *s)
{
	serial_settle(s);
	if (s->agent->settings.is_vm) {
		setup_freeze(&s->agent->settings, true);
		sync();
	}
	tell(s, PORT_QUIESCED, NULL, 0);
	s->is_quiet = true;
}

static void go_on(struct serial *s)
{
	if (s->is_quiet && s->agent->settings.is_vm)
		setup_freeze(&s->agent->settings, false);
	s->is_quiet = false;
	flush(s);
}

static void serial_on_settle(struct loop *loop, void *arg)
{
	(void)loop;
	serial_settle(arg);
}

static int set_up(struct serial *s, bool is_copy, struct err *err)
{
	int r;

	if (!s->agent->settings.is_vm)
		return 0;
	r = setup_apply(&s->agent->settings, &s->setup, err);
	return r == 0 && !is_copy ? setup_write_names(&s->setup, err) : r;
}

static void apply_setup(struct serial *s)
{
	const struct settings *now = &s->agent->settings, before = *now;
	const bool is_copy = s->is_quiet;
	struct err err;

	if (is_copy) { /* a copy: another host speaks, which counts its connections anew */
		hang_up(s);
		s->connection = 0;
	}
	if (set_up(s, is_copy, &err) < 0) {
		tell(s, PORT_FAILED, err.message, strlen(err.message));
		return;
	}
	s->is_ready = true;
	s->is_quiet = false;
	if (now->open_files != before.open_files || now->root_caps != before.root_caps)
		standby_renew(s->agent->standby);
	tell(s, PORT_READY, NULL, 0);
	s->is_unsettled = is_copy;
	if (is_copy)
		loop_timer_set_in(s->settle, SETTLE_US);
}

/* The kernel finds a card some moments after it was plugged in. */
static void serial_on_card(struct loop *loop, void *arg)
{
	struct serial *s = arg;

	(void)loop;
	if (netif_is_there() || s->card_looks++ >= CARD_LOOKS)
		apply_setup(s);
	else
		loop_timer_set_in(s->card, CARD_US);
	watch(s);
}

static void on_setup(struct serial *s, const char *text, size_t len)
{
	struct err err;

	loop_timer_set(s->card, UINT64_MAX);
	serial_settle(s);
	if (port_setup_parse(text, len, &s->setup, &err) < 0) {
		tell(s, PORT_FAILED, err.message, strlen(err.message));
		return;
	}
	s->card_looks = 0;
	if (s->agent->settings.is_vm && s->setup.ip4.is_set && !netif_is_there())
		loop_timer_set_in(s->card, CARD_US);
	else
		apply_setup(s);
}

static void on_usage(struct serial *s)
{
	auto_call(buf_done) struct buf text = BUF_INIT(PORT_TEXT_MAX - 1);
	struct port_usage usage;

	setup_measure(&s->agent->settings, &usage);
	if (port_usage_print(&usage, &text) == 0)
		tell(s, PORT_USED, text.data, text.len);
}

static void on_control(struct serial *s, const struct port_record *record)
{
	switch ((unsigned char)record->data[0]) {
	case PORT_SETUP:
		on_setup(s, record->data + 1, record->len - 1);
		break;
	case PORT_QUIESCE:
		on_quiesce(s);
		break;
	case PORT_GO_ON:
		go_on(s);
		break;
	case PORT_USAGE:
		on_usage(s);
		break;
	case PORT_POWEROFF:
		channel_kill_all(s->agent);
		loop_stop(s->agent->loop);
		break;
	default: /* of a newer host */
		break;
	}
}

static void on_data(struct serial *s, const struct port_record *record)
{
	if (record->connection > s->connection)
		begin(s, record->connection);
	if (record->connection != s->connection || !s->is_begun)
		return;
	if (record->len > 0)
		host_link_take(s->agent->host_link, record->data, record->len);
	else
		hang_up(s);
}

static void take_records(struct serial *s)
{
	struct port_record record;
	int r;

	while ((r = port_get(&s->in, &record)) > 0) {
		if (record.connection == 0)
			on_control(s, &record);
		else
			on_data(s, &record);
		port_consume(&s->in, &record);
	}
	/* Nobody but the host speaks here, and after such a head nothing can be understood. */
	if (r < 0)
		loop_stop(s->agent->loop);
	else if (s->in.len == 0)
		buf_done(&s->in);
}

static void nobody_is_there(struct serial *s)
{
	loop_io_set(s->io, 0);
	loop_timer_set_in(s->nobody, NOBODY_US);
}

static void serial_on_nobody(struct loop *loop, void *arg)
{
	(void)loop;
	watch(arg);
}

static void serial_on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct serial *s = arg;
	char *room;
	ssize_t n = 0;

	(void)loop;
	if (events & EPOLLOUT)
		flush(s);
	if (events & EPOLLIN) {
		if (buf_reserve(&s->in, READ_SIZE, &room) < 0)
			abort(); /* whole records were taken, and one fits */
		n = read(s->agent->settings.port_fd, room, READ_SIZE);
		if (n > 0) {
			buf_commit(&s->in, (size_t)n);
			take_records(s);
		}
	}
	if ((events & EPOLLHUP) && n <= 0)
		nobody_is_there(s);
	watch(s);
}

int serial_new(struct agent *a, struct err *err)
{
	struct serial *s = xnew0(struct serial);
	int r = fd_set_nonblock(a->settings.port_fd, true);

	s->agent = a;
	s->transport = (struct transport){s, serial_settle, serial_send, serial_end};
	s->nobody = loop_timer_new(a->loop, serial_on_nobody, s);
	s->card = loop_timer_new(a->loop, serial_on_card, s);
	s->settle = loop_timer_new(a->loop, serial_on_settle, s);
	buf_init(&s->in, IN_MAX);
	buf_init(&s->out, OUT_MAX);
	if (r >= 0)
		r = loop_io_add(a->loop, a->settings.port_fd, EPOLLIN, serial_on_io, s, &s->io);
	if (r < 0) {
		loop_timer_free(s->nobody);
		loop_timer_free(s->card);
		loop_timer_free(s->settle);
		free(s);
		return err_set(err, ERR_INTERNAL, -r, "cannot serve the port");
	}
	tell(s, PORT_HERE, NULL, 0);
	watch(s);
	a->transport = &s->transport;
	return 0;
}
