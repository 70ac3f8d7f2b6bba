// SPDX-License-Identifier: Apache-2.0
#include "vmm/card.h"

#include "vmm/asks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void finish(struct card *c, const struct err *err)
{
	if (!c->is_awaited)
		return;
	c->is_awaited = false;
	c->done(err, c->arg);
}

static void set_address(struct port_address *to, const unsigned char *bytes, size_t len)
{
	memcpy(to->bytes, bytes, len);
	to->is_set = true;
}

static int tell_guest(struct card *c)
{
	static const unsigned char ip4[] = CARD_GUEST4, gateway4[] = CARD_GATEWAY4,
				   ip6[16] = CARD_GUEST6, gateway6[16] = CARD_GATEWAY6;
	auto_call(buf_done) struct buf text = BUF_INIT(PORT_TEXT_MAX);
	struct port_setup s = {0};
	int r;

	set_address(&s.ip4, ip4, sizeof(ip4));
	set_address(&s.gateway4, gateway4, sizeof(gateway4));
	if (c->has_ip6) {
		set_address(&s.ip6, ip6, sizeof(ip6));
		set_address(&s.gateway6, gateway6, sizeof(gateway6));
	}
	r = port_setup_print(&s, &text);
	return r < 0 ? r : line_send_control(c->line, PORT_SETUP, text.data, text.len);
}

static void give_up(struct card *c, const struct err *err)
{
	struct err ignored;

	c->state = CARD_OUT;
	(void)!qmp_send(c->qmp, -1, NULL, NULL, &ignored,
	                "{\"execute\":\"netdev_del\",\"arguments\":{\"id\":\"tap\"}}");
	finish(c, err);
}

static void on_added(const struct err *failure, void *arg)
{
	struct card *c = arg;
	struct err err;

	if (failure) {
		give_up(c, failure);
	} else if (tell_guest(c) < 0) {
		(void)err_set(&err, ERR_UNAVAILABLE, 0, "its agent takes no more");
		finish(c, &err);
	}
}

static void add_device(struct card *c)
{
	struct err err;

	c->state = CARD_PLUGGING;
	if (qmp_send(c->qmp, -1, on_added, c, &err,
	             "{\"execute\":\"device_add\",\"arguments\":{\"driver\":\"virtio-net-pci\","
	             "\"id\":\"card\",\"bus\":\"" CARD_BUS
	             "\",\"netdev\":\"tap\",\"mac\":\"" CARD_MAC "\",\"romfile\":\"\"}}") < 0)
		give_up(c, &err);
}

static void on_net_added(const struct err *failure, void *arg)
{
	struct card *c = arg;

	if (failure)
		give_up(c, failure);
	else
		add_device(c);
}

void card_plug(struct card *c, int tap_fd, bool has_ip6)
{
	struct err err;
	int r;

	c->is_awaited = true;
	if (c->state != CARD_OUT || tap_fd < 0) {
		if (tap_fd >= 0)
			(void)close(tap_fd);
		(void)err_set(&err, ERR_CONFLICT, 0, "its card is %s",
		              c->state == CARD_PULLING ? "still being pulled out"
		              : c->state == CARD_OUT   ? "not there"
		                                       : "still being plugged in");
		finish(c, c->state == CARD_IN ? NULL : &err);
		return;
	}
	c->state = CARD_PLUGGING;
	c->has_ip6 = has_ip6;
	r = qmp_send(c->qmp, tap_fd, NULL, NULL, &err,
	             "{\"execute\":\"getfd\",\"arguments\":{\"fdname\":\"tap\"}}");
	if (r == 0)
		r = qmp_send(c->qmp, -1, on_net_added, c, &err,
		             "{\"execute\":\"netdev_add\",\"arguments\":{\"type\":\"tap\","
		             "\"id\":\"tap\",\"fd\":\"tap\",\"vhost\":false}}");
	if (r < 0)
		give_up(c, &err);
}

static int delete_device(struct card *c, struct err *err)
{
	return qmp_send(c->qmp, -1, NULL, NULL, err,
	                "{\"execute\":\"device_del\",\"arguments\":{\"id\":\"card\"}}");
}

void card_pull(struct card *c)
{
	struct err err;

	c->is_awaited = true;
	if (c->state == CARD_OUT) {
		finish(c, NULL);
		return;
	}
	c->state = CARD_PULLING;
	if (delete_device(c, &err) < 0)
		finish(c, &err);
}

static void tell_aside(struct card *c, const struct err *err)
{
	void (*fn)(const struct err *err, void *arg) = take_ptr(c->aside);

	if (fn)
		fn(err, c->arg);
}

void card_set_aside(struct card *c, void (*aside)(const struct err *err, void *arg))
{
	struct err err;

	c->aside = aside;
	if (c->state == CARD_OUT) {
		tell_aside(c, NULL);
	} else if (c->state != CARD_IN) {
		(void)err_set(&err, ERR_CONFLICT, 0,
		              "its network card is being plugged in or out: try again");
		tell_aside(c, &err);
	} else {
		c->state = CARD_LEAVING;
		if (delete_device(c, &err) < 0)
			tell_aside(c, &err);
	}
}

void card_put_back(struct card *c)
{
	c->aside = NULL;
	if (c->state == CARD_ASIDE)
		add_device(c);
}

void card_forget(struct card *c)
{
	c->is_awaited = false;
}

void card_on_event(struct card *c, const char *line)
{
	if (!strstr(line, "\"DEVICE_DELETED\"") || !strstr(line, "\"device\": \"card\""))
		return;
	if (c->state == CARD_PULLING) {
		give_up(c, NULL);
	} else if (c->state == CARD_LEAVING) {
		c->state = CARD_ASIDE;
		if (!c->aside) /* nobody waits any more */
			card_put_back(c);
		else
			tell_aside(c, NULL);
	}
}

void card_on_ready(struct card *c)
{
	if (c->state != CARD_PLUGGING)
		return;
	c->state = CARD_IN;
	finish(c, NULL);
}

/* The card stays plugged in, and the next ask finds it there. */
void card_on_failed(struct card *c, const char *text, size_t len)
{
	struct err err;

	if (c->state != CARD_PLUGGING)
		return;
	c->state = CARD_IN;
	(void)err_set(&err, ERR_GUEST, 0, "%.*s", (int)MIN(len, (size_t)200), text);
	finish(c, &err);
}

void card_init(struct card *c, struct qmp *qmp, struct line *line,
               void (*done)(const struct err *err, void *arg), void *arg)
{
	*c = (struct card){.qmp = qmp, .line = line, .done = done, .arg = arg};
}
