// SPDX-License-Identifier: Apache-2.0
/*
 *	dialling --> connected --> (TLS in the first writes) --> a batch --> a batch … --> broken
 *	   ^                                                                                |
 *	   '--------------------------------- after a while --------------------------------'
 *
 * Three places: `queued` is read into the buffer, `written` has left it, `settled` is written down.
 * With each tick of the timer, what was written at the tick before is settled.
 */
#include "audit/syslog_feed.h"

#include "base/log.h"
#include "base/units.h"
#include "http/tls.h"
#include "http/transport.h"
#include "store/places/audit.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#define SETTLE_US   (5 * SECOND_US)
#define STALL_TICKS 12 /* that nothing may leave the buffer */
#define BATCH_BYTES ((size_t)128 * 1024)
#define READ_SIZE   4096

struct syslog_feed {
	struct syslog_feed_config config;
	struct syslog_place place;
	struct store_audit *rows;
	struct event_watch watch;
	uint64_t dial_tag; /* 0: not dialling */
	struct transport transport;
	struct loop_io *io;
	struct loop_timer *timer; /* the next attempt, or the next tick */
	struct loop_job *job;
	struct buf out;
	uint64_t queued, written, at_tick, settled;
	uint64_t n_queued;           /* entries in the buffer */
	uint64_t lost_upto;          /* told up to here */
	unsigned stalled;            /* ticks */
	bool is_connected, is_known; /* is_known: there is a row */
	struct sink_status status;
};

static void save(struct syslog_feed *f)
{
	const struct audit_row row = {
		.sink = f->place.url, .chain = "", .seq = f->settled, .begin_hash = ""};
	struct err err;

	if (store_audit_put(f->rows, &row, &err) < 0)
		log_error("audit.not_saved", "sink=syslog error='%s'", err.message);
}

/* Some entries behind what was sent are gone. Told when it begins, and when the sending goes on. */
static void look_for_loss(struct syslog_feed *f, bool is_going_on)
{
	const struct event_filter all = {.is_both = true};
	const uint64_t removed = event_log_removed(f->config.events, &all);
	const bool is_known = f->lost_upto > f->settled;

	if (removed <= MAX(f->settled, f->lost_upto) || (is_known && !is_going_on))
		return;
	f->status.lost++;
	sink_tell_loss(&f->status, f->config.events,
	               &(struct sink_loss){.after = f->settled, .upto = removed});
	f->lost_upto = removed;
}

static void disconnect(struct syslog_feed *f)
{
	dialer_cancel(f->config.outgoing.dialer, f->dial_tag);
	f->dial_tag = 0;
	loop_io_removep(&f->io);
	transport_close(&f->transport);
	f->is_connected = false;
	f->stalled = 0;
	f->n_queued = 0;
	buf_truncate(&f->out, 0);
	f->queued = f->written = f->at_tick = f->settled;
}

static void broken(struct syslog_feed *f, const char *why)
{
	disconnect(f);
	loop_timer_set_in(f->timer, sink_failed(&f->status, why));
}

static void broken_by(struct syslog_feed *f, ssize_t n)
{
	char text[120] = "", why[200];

	if (f->transport.ssl)
		tls_last_error(text, sizeof(text));
	(void)snprintf(why, sizeof(why), "the connection broke: %s",
	               *text ? text : strerror(n < 0 ? (int)-n : ECONNRESET));
	broken(f, why);
}

static int take_line(const struct event_line *line, void *arg)
{
	struct syslog_feed *f = arg;
	int r = syslog_line_put(&f->out, f->config.host_name, line);

	if (r <
	    0) { /* the batch is full; one that does not fit alone was altered, and is left out */
		if (f->out.len > 0)
			return 1;
		log_error("audit.unreadable", "sink=syslog");
		f->queued = line->cursor;
		return 0;
	}
	f->queued = line->cursor;
	f->n_queued++;
	return 0;
}

static void await(struct syslog_feed *f)
{
	loop_io_set(f->io,
	            f->transport.read_wants | (f->out.len > 0 ? f->transport.write_wants : 0));
}

/* Returns < 0 if the connection is gone. */
static int write_some(struct syslog_feed *f)
{
	while (f->out.len > 0) {
		ssize_t n = transport_write(&f->transport, f->out.data, f->out.len);

		if (n == -EAGAIN)
			return 0;
		if (n < 0) {
			broken_by(f, n);
			return -1;
		}
		buf_consume(&f->out, (size_t)n);
		f->stalled = 0;
	}
	if (f->n_queued > 0) {
		f->written = f->queued;
		f->status.sent += f->n_queued;
		f->n_queued = 0;
		loop_job_start(f->job);
	}
	return 0;
}

/* A batch, while nothing waits in the buffer. */
static bool fill(struct loop *loop, void *arg)
{
	struct syslog_feed *f = arg;
	const struct event_filter all = {.is_both = true};
	uint64_t after = f->queued;
	struct err err;
	int r;

	(void)loop;
	if (!f->is_connected || f->out.len > 0)
		return true;
	r = event_log_read(f->config.events, &all, &after, take_line, f, &err);
	if (r < 0) {
		broken(f, err.message);
		return true;
	}
	if (f->n_queued > 0 && write_some(f) == 0)
		await(f);
	return true;
}

static void on_more(void *arg)
{
	struct syslog_feed *f = arg;

	if (f->is_connected)
		loop_job_start(f->job);
}

/* A receiver says nothing; what it sends all the same is thrown away, and its end is seen. */
static int read_some(struct syslog_feed *f)
{
	char room[READ_SIZE];

	do {
		ssize_t n = transport_read(&f->transport, room, sizeof(room));

		if (n == -EAGAIN)
			return 0;
		if (n <= 0) {
			broken_by(f, n);
			return -1;
		}
	} while (transport_has_pending(&f->transport));
	return 0;
}

static void on_io(struct loop *loop, uint32_t events, void *arg)
{
	struct syslog_feed *f = arg;

	(void)loop;
	(void)events;
	if (write_some(f) == 0 && read_some(f) == 0)
		await(f);
}

static void on_dialled(int fd, const char *why, void *arg)
{
	struct syslog_feed *f = arg;
	struct err err = {0};
	int r = 0;

	f->dial_tag = 0;
	if (fd < 0) {
		broken(f, why);
		return;
	}
	transport_init(&f->transport, fd);
	if (f->place.is_tls)
		r = transport_start_tls(&f->transport, f->config.outgoing.tls, f->place.host, &err);
	if (r == 0) {
		r = loop_io_add(f->config.outgoing.loop, fd, EPOLLIN, on_io, f, &f->io);
		if (r < 0)
			(void)err_set(&err, ERR_INTERNAL, -r, "cannot watch the connection");
	}
	if (r < 0) {
		broken(f, err.message);
		return;
	}
	f->is_connected = true;
	look_for_loss(f, /* is_going_on= */ true);
	loop_timer_set_in(f->timer, f->config.settle_us);
	loop_job_start(f->job);
	on_io(f->config.outgoing.loop, 0, f); /* TLS begins by itself */
}

static void connect_now(struct syslog_feed *f)
{
	if (f->place.is_tls && !f->config.outgoing.tls) {
		broken(f, "this host has no certificates to check a server with");
		return;
	}
	f->dial_tag = dialer_dial(f->config.outgoing.dialer, f->place.host, f->place.port,
	                          f->config.outgoing.is_tenants, on_dialled, f);
}

static void on_timer(struct loop *loop, void *arg)
{
	struct syslog_feed *f = arg;

	(void)loop;
	look_for_loss(f, /* is_going_on= */ false);
	if (!f->is_connected) {
		connect_now(f);
		return;
	}
	if (f->out.len > 0 && ++f->stalled > STALL_TICKS) {
		broken(f, "it takes nothing");
		return;
	}
	if (f->out.len == 0)
		sink_worked(&f->status);
	if (f->at_tick > f->settled) {
		f->settled = f->at_tick;
		save(f);
	}
	f->at_tick = f->written;
	loop_timer_set_in(f->timer, f->config.settle_us);
}

static int load_row(const struct audit_row *row, void *arg)
{
	struct syslog_feed *f = arg;

	f->settled = row->seq;
	f->is_known = true;
	return 0;
}

int syslog_feed_open(const struct syslog_feed_config *config, struct syslog_feed **ret,
                     struct err *err)
{
	struct syslog_feed *f = xnew0(struct syslog_feed);
	int r = syslog_place_parse(config->url, "audit.syslog_url", &f->place, err);

	f->config = *config;
	if (f->config.settle_us == 0)
		f->config.settle_us = SETTLE_US;
	f->status.name = "syslog";
	transport_init(&f->transport, -1);
	buf_init(&f->out, BATCH_BYTES);
	f->timer = loop_timer_new(config->outgoing.loop, on_timer, f);
	f->job = loop_job_new(config->outgoing.loop, fill, f);
	f->watch = (struct event_watch){.fn = on_more, .arg = f};
	event_watch_add(config->events, &f->watch);
	if (r == 0)
		r = store_audit_open(config->store, &f->rows, err);
	if (r == 0)
		r = store_audit_each(f->rows, f->place.url, load_row, f, err);
	if (r < 0) {
		syslog_feed_close(f);
		return r;
	}
	if (!f->is_known) { /* it begins with the oldest that there is */
		f->settled = event_log_removed(config->events, &(struct event_filter){0});
		save(f);
	}
	f->queued = f->written = f->at_tick = f->settled;
	loop_timer_set_in(f->timer, 0);
	*ret = f;
	return 0;
}

void syslog_feed_close(struct syslog_feed *f)
{
	if (!f)
		return;
	disconnect(f);
	event_watch_remove(&f->watch);
	loop_timer_free(f->timer);
	loop_job_free(f->job);
	store_audit_close(f->rows);
	buf_done(&f->out);
	free(f);
}

void syslog_feed_status(const struct syslog_feed *f, struct sink_status *ret)
{
	struct event_status log;

	event_log_status(f->config.events, &log);
	*ret = f->status;
	ret->waiting = log.place - MIN(log.place, f->settled);
}
