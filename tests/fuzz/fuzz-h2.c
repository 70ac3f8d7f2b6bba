// SPDX-License-Identifier: Apache-2.0
/*
 * HTTP/2 through the wall, with a hostile guest at one side and a hostile server at the other. The
 * input is pieces: a byte that says whose they are, one for their length, and the frames. Whatever
 * they send, a server that reads what comes finds no request that the policy denies, each with the
 * one credential that the rule sets, and what is held back stays within the windows.
 */
#include "wall/h2/h2_private.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ID        "sb_aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define BYTES_MAX ((size_t)64 * 1024)
#define PREFACE   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS  "\0\0\0\x04\0\0\0\0\0"

static const char policy_text[] =
	("{\"rules\":[{\"match\":{\"domains\":[\"a.test\"],\"paths\":[{\"prefix\":\"/closed\"}]},"
         "\"action\":\"deny\"},{\"match\":{\"domains\":[\"a.test\"]},\"action\":{\"transform\":{"
         "\"headers\":{\"authorization\":\"Bearer "
         "0123456789\"},\"scrub\":[\"authorization\"]}}}]}");
static unsigned n_credentials, n_requests;

/* Nobody is dialled: these take the place of transport/reach.c. */
struct reach *reach_start(const struct reach_want *want)
{
	(void)want;
	return NULL;
}

void reach_cancel(struct reach *r)
{
	(void)r;
}

static int forget(const void *message, size_t len, void *arg)
{
	(void)message;
	(void)len;
	(void)arg;
	return 0;
}

static void on_done(struct loop *loop, void *arg)
{
	(void)loop;
	(void)arg;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
	const char *is = (const char *)name, *of = (const char *)value;

	(void)session;
	(void)flags;
	(void)arg;
	assert(strlen(is) == name_len && strlen(of) == value_len && !strpbrk(of, "\r\n"));
	if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
		assert(strcmp(is, "authorization") != 0);
		return 0;
	}
	n_requests += strcmp(is, ":method") == 0;
	if (strcmp(is, ":path") == 0)
		assert(strncmp(of, "/closed", 7) != 0 && of[0] == '/');
	if (strcmp(is, ":authority") == 0)
		assert(strcmp(of, "a.test") == 0 || strcmp(of, "a.test:443") == 0);
	if (strcmp(is, "authorization") == 0) {
		assert(strcmp(of, "Bearer 0123456789") == 0);
		n_credentials++;
	}
	return 0;
}

static nghttp2_session *new_reader(void)
{
	nghttp2_session_callbacks *calls;
	nghttp2_session *session;

	if (nghttp2_session_callbacks_new(&calls) != 0)
		abort();
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	if (nghttp2_session_server_new(&session, calls, NULL) != 0)
		abort();
	nghttp2_session_callbacks_del(calls);
	return session;
}

static void end_init(struct end *e, struct proxy *p)
{
	e->proxy = p;
	transport_init(&e->t, -1);
	buf_init(&e->in, IN_MAX);
	buf_init(&e->out, OUT_MAX);
	pace_turn_init(&e->turn, NULL, NULL);
}

static void open_up(struct h2 *h, nghttp2_session **reader)
{
	struct proxy *p = h->p;

	nghttp2_session_del(*reader);
	*reader = new_reader();
	end_init(&p->up, p);
	p->up_way = (struct proxy_way){
		.dial = DIAL_NAME, .host = p->tls_host, .port = 443, .is_tls = true};
	h->up = h2_session_new_up(h);
	h->up_state = H2_UP_READY;
	h->reaching = NULL;
	assert(h->up && buf_append(&p->up.in, SETTINGS, 9) == 0);
	list_for_each (&h->streams, struct h2_stream, s, link)
		if (s->place == H2_WAITING)
			h2_begin_exchange(s);
}

static void check_held(const struct h2 *h)
{
	size_t n = 0, to_up = 0, to_guest = 0;

	list_for_each (&h->streams, struct h2_stream, s, link) {
		n++;
		to_up += s->to_up.bytes.len;
		to_guest += s->to_guest.bytes.len;
	}
	assert(n <= H2_STREAMS_MAX && to_up <= (size_t)H2_WINDOW_WIDE &&
	       to_guest <= 2 * (size_t)H2_WINDOW_WIDE);
}

static void step(struct h2 *h, nghttp2_session **reader)
{
	struct proxy *p = h->p;

	for (int i = 0; i < 100 && p->state == STREAMING && h2_step(h); i++) {
		if (h->up && p->up.out.len > 0) { /* a session's own bytes are always readable */
			assert(nghttp2_session_mem_recv(*reader, (const uint8_t *)p->up.out.data,
			                                p->up.out.len) == (ssize_t)p->up.out.len);
			buf_consume(&p->up.out, p->up.out.len);
		}
		buf_consume(&p->guest.out, p->guest.out.len);
		check_held(h);
		assert(n_credentials == n_requests);
		if (p->state == STREAMING && h->up_state != H2_UP_READY)
			open_up(h, reader);
	}
}

static void play(struct h2 *h, const uint8_t *data, size_t size)
{
	nghttp2_session *reader = NULL;
	struct proxy *p = h->p;

	open_up(h, &reader);
	assert(buf_append(&p->guest.in, PREFACE SETTINGS, 24 + 9) == 0);
	while (size >= 2 && p->state == STREAMING) {
		size_t n = MIN((size_t)data[1], size - 2);
		struct end *e = data[0] % 2 == 0 ? &p->guest : &p->up;

		(void)!buf_append(&e->in, data + 2, n);
		data += 2 + n;
		size -= 2 + n;
		step(h, &reader);
	}
	nghttp2_session_del(reader);
}

static struct policy *make_policy(void)
{
	struct policy *policy;
	struct err err;
	json_t *text = json_loads(policy_text, 0, NULL);

	assert(text && policy_read(text, "policy", &policy, &err) == 0);
	json_decref(text);
	return policy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct doors doors = {.connections_max = 1, .conns_max = 1, .send = forget};
	int none[WALL_SOCKETS] = {-1, -1, -1, -1};
	struct proxy *p = xnew0(struct proxy);

	if (size > BYTES_MAX || loop_new(&doors.loop, NULL) < 0)
		abort();
	n_credentials = n_requests = 0;
	p->loop = doors.loop;
	p->state = STREAMING;
	p->is_tls = true;
	p->tls_host.is_name = true;
	assert(hostname_parse("a.test", 6, &p->tls_host.name, NULL) == 0);
	assert(address_parse("93.184.216.34", 13, &p->up_address, NULL) == 0);
	p->config = (struct proxy_config){.port = 443, .done = on_done, .dialled = p->up_address};
	assert(doors_open(&doors, ID, make_policy(), none, &p->config.door) == 0);
	p->timer = loop_timer_new(p->loop, on_done, p);
	end_init(&p->guest, p);
	end_init(&p->up, p);
	p->h2 = h2_new(p);
	play(p->h2, data, size);
	h2_end(p->h2);
	h2_free(p->h2);
	proxy_end_close(&p->guest);
	proxy_end_close(&p->up);
	policy_target_done(&p->up_target);
	loop_timer_free(p->timer);
	doors_close(p->config.door);
	loop_free(doors.loop);
	free(p);
	return 0;
}
